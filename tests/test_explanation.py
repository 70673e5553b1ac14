"""What a person reads: the table, the HTML, the objects behind them."""

import re

import torch
from torch import nn

import fastif
from fastif.explanation import Influence, QueryExplanation

HOSTILE = "<script>alert('x')</script> & more"


def explanation(**options: object) -> fastif.Explanation:
    torch.manual_seed(0)
    x, y = torch.randn(40, 3), torch.randint(0, 2, (40,))
    train = fastif.Examples((x, y), text=[f"{HOSTILE} {i}" for i in range(40)], label_names=["no", "<b>yes</b>"])
    model = fastif.TorchModel(nn.Linear(3, 2), loss="cross_entropy")
    queries = fastif.Examples((x[:2] + 0.1, y[:2]), label_names=["no", "<b>yes</b>"], source="queries")
    return fastif.Explainer(model, train, **options).explain(queries, top=4)  # type: ignore[arg-type]


def test_lists_hold_the_strongest_of_each_sign() -> None:
    result = explanation()
    assert len(result) == 2
    for row, query in enumerate(result):
        values = result.scores.values[row]
        assert [item.index for item in query.helpful] == values.argsort()[:4].tolist()
        assert [item.index for item in query.harmful] == values.argsort(descending=True)[:4].tolist()
        assert all(item.score == values[item.index].item() for item in (*query.helpful, *query.harmful))
        assert all(item.score < 0 for item in query.helpful)
        assert all(item.score > 0 for item in query.harmful)
        assert query.helpful[0].example[0].shape == (3,)
        assert query.helpful[0].error is None


def test_the_table_reads_well() -> None:
    text = str(explanation())
    assert re.search(r"Query 0: target .+, predicted .+, loss 0\.\d+", text)
    assert re.search(
        r"Helpful: pushed it towards the label \S+ \(training on them lowers the loss of this query\)", text
    )
    assert re.search(
        r"Harmful: pushed it away from the label \S+ \(training on them raises the loss of this query\)", text
    )
    assert len(re.findall(r"^ +1 +\d+ +[-+]\d", text, re.MULTILINE)) == 4
    summary = " ".join(text.split("\n\n")[-1].split())
    assert re.search(r"automatic \([\d.]+ % of the top eigenvalue", summary)
    assert "exact, 8 x 8 matrix" in summary
    assert max(map(len, text.splitlines())) < 120


def test_scores_line_up_and_keep_four_digits_of_the_strongest() -> None:
    def printed(*scores: float) -> list[str]:
        members = tuple(Influence(i, score, None, "a", "") for i, score in enumerate(scores))
        lines = str(QueryExplanation("title", "loss", (), members)).splitlines()
        return [line.split()[2] for line in lines if line.split()[0].isdigit()]

    assert printed(138.0, 2.46801) == ["+138.0", "+2.5"]
    assert printed(0.0123456, 0.001) == ["+0.01235", "+0.00100"]
    assert printed(3e-12) == ["+3.000e-12"]
    assert printed(123456.7, 5.0) == ["+1.235e+05", "+5.000e+00"]


def test_text_is_escaped_in_html() -> None:
    page = explanation()._repr_html_()
    assert "<script" not in page
    assert "<b>yes" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<tr>") == 2 * 2 * 5


def test_the_measure_is_named() -> None:
    assert "lowers the margin of this query" not in str(explanation())
    text = str(explanation(measure="margin"))
    assert "lowers the negative margin of this query" in text


def test_an_empty_list_says_none() -> None:
    torch.manual_seed(0)
    x = torch.rand(5, 2) + 1
    model = fastif.TorchModel(nn.Linear(2, 1, bias=False), loss="mse_loss")
    result = fastif.Explainer(model, (x, torch.full((5,), 9.0))).explain((x[:1], torch.full((1,), 9.0)))
    assert result[0].harmful == ()
    assert "none" in str(result)
    assert "predicted" not in str(result)
    assert "target 9" in str(result)
    assert repr(result).startswith("Explanation of 1 query")
