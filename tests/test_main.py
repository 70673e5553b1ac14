"""`python -m fastif` and `fastif` as processes: Ctrl-C while everything is still being imported, and missing extras."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from fastif.__main__ import INTERRUPTED

# the interrupt comes while torch is looked for, and whoever looks takes it for a package that is not there
PROGRAM = textwrap.dedent("""
    import os, runpy, signal, sys

    class Interrupting:
        def find_spec(self, name, path=None, target=None):
            if name != "torch":
                return None
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                if SWALLOWED:
                    raise ModuleNotFoundError("No module named 'rich'", name="rich") from None
                raise
            raise AssertionError("no interrupt came")

    sys.meta_path.insert(0, Interrupting())
    sys.argv = ["fastif", "--version"]
""")
STARTS = {
    "the module": 'runpy.run_module("fastif", run_name="__main__", alter_sys=True)',
    "the script": "from fastif.__main__ import main; sys.exit(main())",
}


@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.parametrize("start", STARTS)
def test_an_interrupt_during_the_imports_ends_the_program_in_a_word(start: str, swallowed: bool) -> None:
    program = f"SWALLOWED = {swallowed}\n{PROGRAM}\n{STARTS[start]}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == "\nInterrupted.\n"
    assert done.returncode == INTERRUPTED


def test_what_a_shell_has_said_of_ctrl_c_is_left_alone() -> None:
    program = f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{PROGRAM}\n{STARTS['the script']}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "no interrupt came" in done.stderr


ABORTS = """
import atexit, ctypes, sys
library = ctypes.CDLL(None)
library.__cxa_atexit(library.abort, None, None)  # as torch's threads do, in what C++ does last
atexit.register(lambda: print("cleared"))
sys.argv = ["fastif", "--version"]
from fastif.__main__ import main
sys.exit(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="registers with the C library of Linux")
@pytest.mark.parametrize("started", [True, False])
def test_a_process_of_torchrun_ends_before_what_may_abort(started: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    environment |= {"RANK": "0"} if started else {}
    line = [sys.executable, "-c", ABORTS]
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == (0 if started else -signal.SIGABRT), ended.stderr
    assert ended.stdout.startswith("fastif ")
    assert ended.stdout.endswith("cleared\n")


BARE = """
import json, sys
from pathlib import Path

for name in ("transformers", "tokenizers", "datasets", "pyarrow", "pandas", "matplotlib", "sklearn", "fastapi"):
    sys.modules[name] = None  # what importing finds of a package that is not there
from fastif.cli.app import run
from tests.cli.stored import store_run

place = Path(sys.argv[1])
store_run(place / "run", ["a", "b", "a"])
line = {"index": 0, "line": 2, "action": "remove", "label": "a", "text": "text 0"}
(place / "marks.jsonl").write_text(json.dumps(line))
(place / "train.csv").write_text("text,label,part\\n" + "".join(f"text {n},{'ab'[n % 2]},x\\n" for n in range(30)))
for words in json.loads(sys.argv[2]):
    print(f"== {run([word.replace('PLACE', str(place)) for word in words])}", file=sys.stderr, flush=True)
"""
WORKS_BARE = (
    ["--help"],
    ["explain", "--help"],
    ["export", "PLACE/run", "PLACE/page.html"],
    ["apply", "PLACE/run", "PLACE/marks.jsonl", "-o", "PLACE/marked.csv"],
    ["slices", "PLACE/run", "--no-pictures"],
    ["bench", "scan", "--case", "mlp", "--examples", "8", "--queries", "1", "--sample", "2", "--out", "PLACE/b.json"],
)
NEEDS_MORE = (
    ["explain", "PLACE/model", "--train", "PLACE/train.csv", "--query-text", "a"],
    ["audit", "PLACE/model", "--train", "PLACE/train.csv"],
    ["train", "minilm", "--train", "PLACE/train.csv", "-o", "PLACE/made"],
    ["doctor", "PLACE/model"],
    ["demo", "-o", "PLACE/demo"],
    ["recall", "PLACE/run"],
    ["correct", "PLACE/run", "--anchors", "PLACE/train.csv", "--test", "PLACE/train.csv"],
    ["bench", "scan", "--case", "tiny", "--out", "PLACE/b.json"],
)


def bare(place: Path, lines: Sequence[list[str]]) -> list[str]:
    """Run command lines where no extra but [cli] is installed; return what each told on stderr, its status last."""
    root = Path(__file__).parents[1]
    program = [sys.executable, "-c", BARE, str(place), json.dumps(lines)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=environment, cwd=place)
    assert done.returncode == 0, done.stderr
    return re.split(r"(?<=== \d)\n", done.stderr)[:-1]


def test_what_loads_no_model_needs_no_extra_but_the_command_line(tmp_path: Path) -> None:
    for line, told in zip(WORKS_BARE, bare(tmp_path, WORKS_BARE), strict=True):
        assert told.endswith("== 0"), (line, told)
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_parquet_file_names_the_extra_before_any_work(tmp_path: Path) -> None:
    (told,) = bare(tmp_path, [["apply", "PLACE/run", "PLACE/marks.jsonl", "-o", "PLACE/marked.parquet"]])
    assert "is parquet, which needs pyarrow, and that is not installed: pip install 'fastif[hf]'." in told
    assert told.endswith("== 2")


def test_what_loads_a_model_names_the_extra(tmp_path: Path) -> None:
    for line, told in zip(NEEDS_MORE, bare(tmp_path, NEEDS_MORE), strict=True):
        words = f"Error: fastif {line[0]} needs transformers, which is not installed: pip install 'fastif[hf]'\n== 2"
        assert told == words, line


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("matplotlib", "fastif.integrations.plots.style", "plots"),
        ("transformers", "fastif.integrations.huggingface", "hf"),
    ],
)
def test_what_is_missing_in_python_names_the_extra(package: str, module: str, extra: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"not installed: pip install 'fastif[{extra}]'" in done.stderr.splitlines()[-1]
