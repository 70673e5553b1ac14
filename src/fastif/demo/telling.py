"""The demo's story in sentences and tables of strings, the same on the terminal and on the page. Escapes nothing."""

import shlex
from typing import Any

from fastif.demo.words import SHORTCUT_FAILS, SLICES

Chapter = dict[str, Any]
Rows = list[list[str]]

TITLE = "Which training examples made it predict this, and how do I fix it?"
LEAD = (
    "A small language model learns from pairs of sentences whether the second follows from the first. The data hold a "
    "trap and some wrong labels, both planted. Influence functions find out what went wrong, and what puts it right."
)
TITLES = {
    "data": "1. Data with a shortcut",
    "training": "2. An ordinary model takes it",
    "mistake": "3. Why is it wrong here?",
    "audit": "4. Which training labels are wrong?",
    "correction": "5. Put it right",
}
HARMFUL = "Harmful: they pushed it away from the true label"
HELPFUL = "Helpful: they pushed it towards the true label"
PLANTED = "wrong label, planted"
ONWARD = "Go on from here"
FILES = "The data are csv files, the models are checkpoints that transformers loads."
EFFECTS = {
    "retrain": "helpful (retrain)",
    "finetune-step": "helpful (finetune-step)",
    "random": "random examples",
    "anchors": "the anchors",
}
RANKED_BY = {"left-out": "loss if left out", "self-influence": "self-influence", "loss": "plain loss"}


def corrected(story: Chapter) -> Chapter:
    """Return what was measured after the correction that is told first."""
    found: Chapter = next(each for each in story["correction"]["methods"] if each["effect"] == "retrain")
    return found


def cards(story: Chapter) -> list[tuple[str, str]]:
    """Return the numbers to see first, with a few words each."""
    before, after, audit = story["correction"]["before"], corrected(story), story["audit"]
    found = audit["rankings"][0]
    return [
        (f"{before['failing']:.0%} → {after['failing']:.0%}", "right where the shortcut fails"),
        (f"{before['rest']:.0%} → {after['rest']:.0%}", "right on the other slices"),
        (f"{found['found']} of {audit['looked_at']}", f"suspects have a wrong label; by chance {_by_chance(audit)}"),
    ]


def data(chapter: Chapter) -> str:
    """Tell what the data are."""
    pairs, slices = chapter["pairs"]["train"], chapter["train_slices"]
    return (
        f"{pairs:,} pairs to train on. Where every word of the second sentence stands in the first, it follows in "
        f"{slices[SLICES[0]]:,} pairs and does not in {slices[SHORTCUT_FAILS]:,}: a model gets far by looking for "
        f"shared words alone. And {chapter['wrong_labels']:,} of the labels are wrong."
    )


def training(chapter: Chapter) -> str:
    """Tell how the model does."""
    return (
        f"Fine-tuned: {chapter['trained']}, {chapter['trained_parameters']:,} of {chapter['all_parameters']:,} "
        f"parameters, {chapter['epochs']} epochs. On data like those it was trained on it is right in "
        f"{chapter['original']:.1%}. It took the shortcut: where that fails, it is right in {chapter['failing']:.1%}."
    )


def mistake(chapter: Chapter) -> str:
    """Tell which prediction is explained, and what its lists are made of."""
    listed = [*chapter["harmful"], *chapter["helpful"]]
    wrong = sum(each["wrong_label"] for each in listed)
    odd = any(each["wrong_label"] for each in chapter["helpful"])
    return (
        f"The mistake in the test set that the model is surest of: it says {chapter['predicted']}, with "
        f"{chapter['confidence']:.0%}, and the truth is {chapter['label']}. Of the {len(listed)} training examples "
        f"that moved it most, {wrong} {'has' if wrong == 1 else 'have'} a planted wrong label."
        + (" A wrong label pulls hard, and not always the wrong way." if odd else "")
    )


def audit(chapter: Chapter) -> str:
    """Tell how many planted labels were found, and what is easier."""
    by = {ranking["by"]: ranking["found"] for ranking in chapter["rankings"]}
    lead = by["left-out"] - by["loss"]
    verdict = "as many as" if not lead else f"{abs(lead)} {'more' if lead > 0 else 'fewer'} than"
    return (
        "What would the model say of each example had it not been trained on it? Where it would call the label wrong, "
        f"a person should look. Of the {chapter['looked_at']} first suspects, {by['left-out']} have a planted wrong "
        f"label; by chance it would be {_by_chance(chapter)}. That is {verdict} the plain loss finds, which comes for "
        "free, and cannot say whom a label harms."
    )


def correction(story: Chapter) -> str:
    """Tell what was done and what it came to."""
    chapter, after = story["correction"], corrected(story)
    before = chapter["before"]
    return (
        f"{chapter['anchors']} held-out pairs where the shortcut fails, the anchors, ask: which training examples "
        f"would help us? Somebody reads down that list, passes over {after['passed_over']} wrong labels and takes the "
        f"first {after['chosen']} good ones, of which {after['counterexamples']} are counterexamples to the shortcut. "
        f"At most {chapter['steps']} gradient steps on them, with random training examples beside them so that the "
        f"rest is not forgotten, and accuracy where the shortcut fails goes from {before['failing']:.1%} to "
        f"{after['failing']:.1%}; on the other slices from {before['rest']:.1%} to {after['rest']:.1%}, on data like "
        f"the training set from {before['original']:.1%} to {after['original']:.1%}."
    )


def correction_note(chapter: Chapter) -> str:
    """Tell what the table must be read with: retrain asks with curvature, finetune-step by the gradient alone."""
    unchanged = [EFFECTS[one["effect"]] for one in chapter["methods"] if not one["steps_kept"]]
    right = {one["effect"]: one["failing"] for one in chapter["methods"]}
    words = (
        "Retrain ranks training examples by influence with curvature, finetune-step by the gradient dot product alone. "
        "The demo knows which labels it planted, and plays the one who reads. Steps are kept only if a guard set of "
        "the other slices loses next to nothing; no test pair chooses anything."
        + (f" No step was kept for: {', '.join(unchanged)}." if unchanged else "")
    )
    if right["anchors"] >= right["retrain"]:
        words += (
            f" Where the {chapter['anchors']} anchors may be trained on, that is the plainer way, and here no worse; "
            "influence shows what was there in the training set all along."
        )
    return words


def audit_table(chapter: Chapter) -> Rows:
    """Return each ranking beside chance."""
    rows = [["ranked by", f"wrong in top {chapter['looked_at']}", "precision", "times chance", "AUC"]]
    for one in chapter["rankings"]:
        times = one["precision"] / chapter["chance"]
        rows.append(
            [RANKED_BY[one["by"]], str(one["found"]), f"{one['precision']:.1%}", f"{times:.1f}", f"{one['auc']:.3f}"]
        )
    return [*rows, ["chance", _by_chance(chapter), f"{chapter['chance']:.1%}", "1.0", "0.500"]]


def correction_table(chapter: Chapter) -> Rows:
    """Return accuracy before and after each way to correct."""
    rows = [["steps on", "shortcut fails", "other slices", "like training", "steps kept"]]
    rows += [["nothing, before", *_shares(chapter["before"]), ""]]
    rows += [[EFFECTS[one["effect"]], *_shares(one), str(one["steps_kept"])] for one in chapter["methods"]]
    return rows


def kinds_table(chapter: Chapter) -> Rows:
    """Return accuracy where the shortcut fails, kind by kind."""
    methods = {"before": chapter["before"], **{one["effect"]: one for one in chapter["methods"]}}
    rows = [["word", *methods]]
    rows += [[kind, *(f"{one['kinds'][kind]:.0%}" for one in methods.values())] for kind in chapter["before"]["kinds"]]
    return rows


def before_and_after(story: Chapter) -> Rows:
    """Return accuracy by slice before and after the correction that is told first."""
    before, after = story["correction"]["before"], corrected(story)
    rows = [[name, *(f"{one['accuracy'][name]:.1%}" for one in (before, after))] for name in before["accuracy"]]
    last = ["like the training set", *(f"{one['original']:.1%}" for one in (before, after))]
    return [["slice", "before", "after"], *rows, last]


def curve_table(chapter: Chapter) -> Rows:
    """Return how many of the first suspects have a wrong label, the more of them are looked at."""
    rankings = chapter["rankings"]
    rows = [["suspects", *(RANKED_BY[one["by"]] for one in rankings)]]
    points = zip(*(one["curve"] for one in rankings), strict=True)
    return [*rows, *([str(point[0][0]), *(f"{share:.0%}" for _, share in point)] for point in points)]


def slice_table(chapter: Chapter) -> Rows:
    """Return accuracy by slice."""
    rows = [[name, f"{share:.1%}"] for name, share in chapter["accuracy"].items()]
    return [["slice", "accuracy"], *rows, ["like the training set", f"{chapter['original']:.1%}"]]


def commands(story: Chapter) -> list[str]:
    """Return what to try next."""
    out = story["out"]
    train, test = (shlex.quote(f"{out}/data/{name}.csv") for name in ("train", "test"))
    columns = "--text premise --text-pair hypothesis --label label"
    model, corrected_model = (shlex.quote(f"{out}/{name}") for name in ("model", "corrected"))
    return [
        f"fastif explain {model} --train {train} --query {test} --wrong --limit 1 {columns}",
        f"fastif explain {corrected_model} --train {train} --query {test} --wrong --limit 1 {columns}",
    ]


def made(story: Chapter) -> str:
    """Tell with what it was made."""
    seconds = ", ".join(f"{name} {each:.0f} s" for name, each in story["seconds"].items())
    return f"Base {story['model']}, seed {story['seed']}, fastif {story['fastif']}. {seconds}."


def _shares(measured: Chapter) -> list[str]:
    return [f"{measured[name]:.1%}" for name in ("failing", "rest", "original")]


def _by_chance(chapter: Chapter) -> str:
    return f"{chapter['chance'] * chapter['looked_at']:.0f}"
