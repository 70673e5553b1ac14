"""The first minute with fastif: why is this digit misread, and which training labels are wrong?

    python examples/digits.py [--out DIR] [--seed N]

We plant wrong labels in scikit-learn's digits, train a small network on them, and let influence functions find out what
went wrong. Everything runs offline on a CPU in less than a minute. The story is told in `main`, at the end.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from html_page import Page, Table
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # and not pyplot, which may look for a screen
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

import fastif
from fastif import metrics
from fastif.explanation import QueryExplanation

PLANTED_SHARE = 0.05  # of the training labels
SHOWN = 8  # helpful and harmful images in the table and in the picture
SUSPECTS = 40  # images in the picture of suspects
REMOVED = 20  # harmful examples that the second training does without

ORANGE, BLUE, GREY = "#D55E00", "#0072B2", "#BBBBBB"  # colour-blind people can tell the first two apart


@dataclass
class Digits:
    """Images (n, 8, 8) with values from 0 to 1; `labels` is what the network is told, `truth` what the image shows."""

    images: Tensor
    labels: Tensor
    truth: Tensor

    @property
    def planted(self) -> Tensor:
        return self.labels != self.truth


def load(seed: int) -> tuple[Digits, Digits]:
    """Return training digits, some with a planted wrong label, and test digits with true labels."""
    images, truth = map(torch.tensor, load_digits(return_X_y=True))
    images = images.float().reshape(-1, 8, 8) / 16
    kept, held_out = train_test_split(range(len(truth)), test_size=0.4, stratify=truth, random_state=seed)
    labels = truth[kept].clone()
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(labels), generator=generator)[: round(PLANTED_SHARE * len(labels))]
    labels[chosen] += torch.randint(1, 10, chosen.shape, generator=generator)  # 1 to 9 on, so never the same digit
    return Digits(images[kept], labels % 10, truth[kept]), Digits(images[held_out], truth[held_out], truth[held_out])


def fit(train: Digits, seed: int, left_out: Sequence[int] = ()) -> nn.Module:
    """Train a small network, always from the same start and in the same order; only what is left out may differ."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01)
    keep = torch.ones(len(train.labels), dtype=torch.bool)
    keep[torch.tensor(left_out, dtype=torch.int64)] = False
    for _ in range(150):  # long enough to learn some of the wrong labels by heart, as large networks do
        for batch in torch.randperm(len(keep)).split(64):
            batch = batch[keep[batch]]
            optimizer.zero_grad()
            F.cross_entropy(network(train.images[batch]), train.labels[batch]).backward()
            optimizer.step()
    return network


@torch.no_grad()
def judge(network: nn.Module, digits: Digits) -> tuple[Tensor, Tensor]:
    """Return what the network reads in each image, and its loss for the label given."""
    outputs = network(digits.images)
    return outputs.argmax(dim=1), F.cross_entropy(outputs, digits.labels, reduction="none")


def compare(train: Digits, rankings: dict[str, Tensor]) -> Table:
    """Return how many planted labels are among the top of each ranking, beside chance."""
    planted, count = train.planted, int(train.planted.sum())
    table = [["ranked by", f"planted in top {count}", "precision", "AUC"]]
    for name, suspicion in rankings.items():
        found = int(planted[suspicion.topk(count).indices].sum())
        table.append([name, str(found), f"{found / count:.3f}", f"{metrics.auc(suspicion, planted):.3f}"])
    share = count / len(planted)
    return [*table, ["chance", f"{share * count:.1f}", f"{share:.3f}", "0.500"]]


def draw(axes: Axes, image: Tensor, above: str, below: str, colour: str) -> None:
    """Draw one digit in a coloured frame, with a line above and one or two below."""
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=colour, linewidth=1 if colour == GREY else 4)
    axes.set_title(above, fontsize=13)
    axes.set_xlabel(below, fontsize=12, color="black" if colour == GREY else colour)


def draw_misread(query: Digits, read: int, explained: QueryExplanation, train: Digits) -> Figure:
    """Draw the test image, and beside it the training images that helped and harmed."""
    figure = Figure(figsize=(15, 6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)
    left, right = figure.subfigures(1, 2, width_ratios=[1, 4])
    left.suptitle(f"A test image of {query.labels.item()},\nread as {read}", fontsize=15, weight="bold")
    draw(left.subplots(), query.images[0], "", "", GREY)
    headings = (
        f"HELPFUL: training on these made the network see the {query.labels.item()} more clearly",
        f"HARMFUL: training on these turned the network away from the {query.labels.item()}",
    )
    lists = (explained.helpful, explained.harmful)
    for row, heading, members in zip(right.subfigures(2, 1), headings, lists, strict=True):
        row.suptitle(heading, fontsize=15, weight="bold", x=0.01, ha="left")
        for axes, member in zip(row.subplots(1, SHOWN), members, strict=True):
            planted = train.planted[member.index]
            note = f"planted: truly {train.truth[member.index]}" if planted else ""
            below = f"{member.score:+.0f}\n{note}"
            draw(axes, train.images[member.index], f"labelled {member.label}", below, ORANGE if planted else GREY)
    figure.supxlabel(
        "Below each image: its influence on the loss of the test image (minus lowers the loss, plus raises it).\n"
        "Orange frame: we planted a wrong label here. Wrong labels pull hardest, and not always the wrong way.",
        fontsize=13,
    )
    return figure


def draw_suspects(suspects: Tensor, train: Digits) -> Figure:
    """Draw the training images whose labels look most like errors."""
    found = int(train.planted[suspects].sum())
    figure = Figure(figsize=(14, 8.6), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)
    figure.suptitle(
        f"The {len(suspects)} labels that look most wrong: {found} were planted (orange), "
        f"{len(suspects) - found} are right after all (blue)",
        fontsize=15,
        weight="bold",
    )
    for axes, index in zip(figure.subplots(4, SUSPECTS // 4).flat, suspects.tolist(), strict=True):
        planted = train.planted[index]
        below = f"truly {train.truth[index]}" if planted else "label is right"
        draw(axes, train.images[index], f"labelled {train.labels[index]}", below, ORANGE if planted else BLUE)
    return figure


def main(folder: Path, seed: int) -> None:
    torch.set_num_threads(1)  # enough for a network this small, and the numbers do not depend on how many there are
    page = Page("Why is this digit misread?", folder)

    page.heading("1. Data with a secret")
    train, test = load(seed)
    page.say(
        f"{len(train.labels)} training images, {int(train.planted.sum())} of them with a wrong label that we planted; "
        f"{len(test.labels)} test images."
    )

    page.heading("2. An ordinary network")
    network = fit(train, seed)
    train_read, train_loss = judge(network, train)
    test_read, test_loss = judge(network, test)
    agrees = (train_read == train.labels).float()
    page.say(
        f"It reads {(test_read == test.labels).float().mean():.1%} of the test images correctly. In training it agrees "
        f"with {agrees.mean():.1%} of the labels, and with {agrees[train.planted].mean():.0%} of the wrong ones."
    )

    page.heading("3. Why is this image misread?")
    worst = int(test_loss.argmax())  # the mistake that the network is surest of: no close call, and not picked by hand
    query = Digits(test.images[[worst]], test.labels[[worst]], test.truth[[worst]])
    read = int(test_read[worst])
    page.say(f"Test image {worst} has the highest loss of all: it shows {query.labels.item()} and is read as {read}.")

    # This is all that fastif needs: the network with its loss, and the training data. The notes are for the reader of
    # the table; they have no part in the scores.
    notes = [f"planted, truly {t}" if t != label else "" for t, label in zip(train.truth, train.labels, strict=True)]
    model = fastif.TorchModel(network, loss="cross_entropy")
    explainer = fastif.Explainer(model, fastif.Examples((train.images, train.labels), text=notes))
    explanation = explainer.explain((query.images, query.labels), top=SHOWN)
    page.verbatim(str(explanation))
    page.picture("misread.png", draw_misread(query, read, explanation[0], train), "helpful and harmful images")

    page.heading("4. Which training labels are wrong?")
    page.say(
        "Self-influence says how far an example bends the network towards its own label. A label that contradicts its "
        "neighbours bends it far."
    )
    self_influence = explainer.self_influence()
    table = compare(train, {"self-influence": self_influence, "plain loss": train_loss})
    page.table(table)
    lead = int(table[1][1]) - int(table[2][1])
    verdict = f"finds {abs(lead)} {'more' if lead > 0 else 'fewer'} than" if lead else "finds as many as"
    page.say(f"Self-influence {verdict} the plain loss, which comes for free but cannot say whom a label harms.")
    page.picture("suspects.png", draw_suspects(self_influence.topk(SUSPECTS).indices, train), "the top suspects")

    page.heading("5. Is it true? Train again without the culprits")
    harmful = explainer.explain((query.images, query.labels), top=REMOVED)[0].harmful
    culprits = [member.index for member in harmful]
    generator = torch.Generator().manual_seed(seed)
    strangers = torch.randperm(len(train.labels), generator=generator)[: len(culprits)].tolist()
    table = [["trained on", "image read as", "its loss"], ["everything", str(read), f"{test_loss[worst]:.2f}"]]
    for name, left_out in (("the most harmful", culprits), ("random ones (control)", strangers)):
        read_now, loss_now = judge(fit(train, seed, left_out), query)
        table.append([f"all but {len(culprits)}: {name}", str(read_now.item()), f"{loss_now.item():.2f}"])
    page.say(
        f"The image shows {query.labels.item()}. Of the {len(culprits)} examples most harmful to it, "
        f"{int(train.planted[culprits].sum())} have a planted label."
    )
    page.table(table)
    expected = sum(member.score for member in harmful) / len(train.labels)
    page.say(
        f"Influence, which assumes small changes, foresaw that the loss falls by {expected:.2f} without them; it fell "
        f"by {float(table[1][2]) - float(table[2][2]):.2f}."
    )
    page.write()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Explain a misread digit, and find planted wrong labels.")
    parser.add_argument("--out", type=Path, default=Path("out/digits"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    arguments = parser.parse_args()
    main(arguments.out, arguments.seed)
