"""The console: never too narrow for a table, and no digit of a number lost in a narrow one."""

from typing import Any

import pytest
from rich.console import Console

from fastif.cli.console import LEAST_WIDTH, _Console
from fastif.cli.draw import _table
from fastif.cli.draw_audit import _table as audit_table

MEMBER: dict[str, Any] = {
    "text": "a film that was long and good and long again",
    "text_pair": None,
    "label": "entailment",
    "line": 123_456,
    "score": -0.12345,
    "error": 0.0012,
    "loss_change_without_it": 0.00068,
    "own_loss": 12.34,
    "near": True,
}
SUSPECT: dict[str, Any] = {
    **{name: MEMBER[name] for name in ("text", "text_pair", "label", "line")},
    "rank": 1,
    "suggested_label": "contradiction",
    "suggested_probability": 0.987,
    "loss": 2.51,
    "loss_without": 3.52,
    "self_influence": 123.0,
    "self_influence_error": 4.5,
}


@pytest.mark.parametrize("width", [0, 1, 20, 60, 200])
def test_it_is_never_too_narrow(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    console = _Console()
    assert console.width == console.size.width == max(width, LEAST_WIDTH)


@pytest.mark.parametrize("width", [LEAST_WIDTH, 79, 200])
def test_no_digit_is_lost(width: int) -> None:
    console = Console(width=width)
    with console.capture() as seen:
        console.print(_table([MEMBER], console))
        console.print(audit_table([SUSPECT], "line", wide=width >= 100))
    said = seen.get()
    assert "…" not in said
    for number in ("123456", "-0.1235 ± 0.0012", "+0.00068", "12.34", "2.51", "3.52", "123 -4.5"):
        assert number in said
    assert max(map(len, said.splitlines())) <= width
