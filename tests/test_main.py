"""`python -m fastif` and `fastif` as processes: what Ctrl-C does while everything is still being imported."""

import os
import signal
import subprocess
import sys
import textwrap

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
