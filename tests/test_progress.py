"""The progress line: what appears, when, and that it never gets in the way of the work."""

import io
import os
import subprocess
import sys

import pytest

from fastif import progress
from fastif.errors import ConfigurationError
from fastif.progress import StderrProgress, resolve, silent


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def rows(stream):
    """What a person sees: the lines of the terminal, each as it was last rewritten."""
    return [line.split("\r")[-1].rstrip() for line in stream.getvalue().split("\n")]


def run(reports, stream=None, **options):
    """Play (seconds to wait before, stage, done, total) and give the stream."""
    stream, clock = Terminal() if stream is None else stream, Clock()
    report = StderrProgress(stream, clock=clock, **options)
    for wait, stage, done, total in reports:
        clock.now += wait
        report(stage, done, total)
    return stream


def test_shows_stage_percent_rate_and_time_left():
    stream = run([(0, "scoring", 0, 4000), (2, "scoring", 1000, 4000)])
    assert rows(stream) == ["scoring:  25% (1000/4000), 500/s, 0:06 left"]


def test_a_short_stage_never_appears():
    assert run([(0, "scoring", 0, 10), (0.9, "scoring", 5, 10), (0.05, "scoring", 10, 10)]).getvalue() == ""


def test_a_long_stage_ends_its_line_once():
    stream = run([(0, "scoring", 0, 10), (2, "scoring", 5, 10), (2, "scoring", 10, 10), (1, "scoring", 10, 10)])
    assert rows(stream) == ["scoring: 100% (10/10), 2.5/s, took 0:04", ""]


def test_a_new_stage_ends_the_line_of_the_one_before():
    stream = run(
        [(0, "solving", 0, 10), (2, "solving", 5, 10), (1, "scoring", 0, 10), (2, "scoring", 4, 10)],
    )
    assert rows(stream) == [
        "solving:  50% (5/10), 2.5/s, 0:02 left",
        "scoring:  40% (4/10), 2/s, 0:03 left",
    ]


def test_the_same_stage_again_is_a_new_line_with_its_own_clock():
    stream = run([(0, "solving", 0, 10), (2, "solving", 5, 10), (50, "solving", 0, 10), (2, "solving", 2, 10)])
    assert rows(stream) == [
        "solving:  50% (5/10), 2.5/s, 0:02 left",
        "solving:  20% (2/10), 1/s, 0:08 left",
    ]


def test_what_was_done_before_the_first_report_does_not_count_as_speed():
    stream = run([(0, "scoring", 900, 1000), (2, "scoring", 920, 1000)])
    assert rows(stream) == ["scoring:  92% (920/1000), 10/s, 0:08 left"]


def test_a_shorter_line_leaves_nothing_of_the_longer_one():
    stream = run([(0, "scoring", 0, 10), (7200, "scoring", 1, 10), (1e-3, "scoring", 10, 10)])
    drawn = stream.getvalue().rstrip("\n").split("\r")
    assert len(drawn[1]) > len(drawn[2].rstrip())
    assert len(drawn[2]) == len(drawn[1])


def test_is_not_redrawn_more_often_than_the_interval_except_at_the_end():
    reports = [(0, "s", 0, 1000), (2, "s", 1, 1000)] + [(0.01, "s", 2 + i, 1000) for i in range(25)]
    assert run(reports, interval=0.1).getvalue().count("\r") == 3  # at 2.00, and two more in the 0.25 s that follow
    stream = run([*reports, (0.001, "s", 1000, 1000)], interval=0.1)
    assert stream.getvalue().count("\r") == 4


def test_99_9_percent_is_not_called_100():
    assert "99%" in rows(run([(0, "s", 0, 1000), (2, "s", 999, 1000)]))[0]


def test_no_examples_and_no_speed_divide_by_nothing():
    assert rows(run([(0, "s", 0, 0), (5, "s", 0, 0)])) == [""]
    assert rows(run([(0, "s", 0, 10), (5, "s", 0, 10)])) == ["s:   0% (0/10)"]
    assert rows(run([(0, "s", 0, 10), (0, "s", 5, 10)], delay=-1.0)) == ["s:   0% (0/10)"]


def test_hours_are_written_as_hours():
    assert rows(run([(0, "s", 0, 10), (3725, "s", 5, 10)]))[0].endswith("1:02:05 left")


def test_a_line_never_wraps(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert rows(run([(0, "scoring", 0, 10), (2, "scoring", 5, 10)])) == ["scoring:  50% (5/10), 2.5"[:19]]


def test_close_ends_the_line_when_the_work_was_interrupted():
    stream, clock = Terminal(), Clock()
    report = StderrProgress(stream, clock=clock)
    report.close()
    assert stream.getvalue() == ""
    report("s", 0, 10)
    clock.now += 2
    report("s", 5, 10)
    report.close()
    assert stream.getvalue().endswith("left\n")


def test_a_stream_that_is_no_terminal_gets_nothing_unless_forced():
    reports = [(0, "s", 0, 10), (2, "s", 5, 10)]
    assert run(reports, stream=io.StringIO()).getvalue() == ""
    assert "50%" in run(reports, stream=io.StringIO(), force=True).getvalue()


def test_a_broken_pipe_ends_the_display_and_not_the_work():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", buffering=1) as stream:
        report = StderrProgress(stream, clock=(clock := Clock()), force=True)
        report("s", 0, 10)
        clock.now += 2
        report("s", 5, 10)
        assert report._stream is None
        report("s", 10, 10)
        with pytest.raises(BrokenPipeError):  # what could not be written is still in the buffer of this test's stream
            stream.flush()
        with open(os.devnull, "w") as nowhere:  # ... and closing it would fail once more
            os.dup2(nowhere.fileno(), writer)


def test_a_closed_stream_is_no_terminal():
    stream = io.StringIO()
    stream.close()
    StderrProgress(stream)("s", 0, 10)
    report = StderrProgress(stream, force=True, delay=-1.0)
    report("s", 0, 10)
    report("s", 10, 10)
    assert report._stream is None  # given up after the first write, and the work went on


def test_resolve(monkeypatch):
    def own(stage, done, total):
        pass

    assert resolve(own) is own
    assert resolve(False) is silent
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    assert isinstance(resolve(None), StderrProgress)
    monkeypatch.setattr(progress.sys, "stderr", io.StringIO())
    assert resolve(None) is silent
    assert isinstance(resolve(True), StderrProgress)
    monkeypatch.setattr(progress.sys, "stderr", None)  # a program without a console
    assert resolve(None) is silent
    resolve(True)("s", 0, 10)
    with pytest.raises(ConfigurationError, match="cannot be called"):
        resolve("yes")


PROGRAM = """
import time
from fastif.progress import resolve
report = resolve({argument})
report("work", 0, 2)
time.sleep(1.1)
report("work", 1, 2)
report("work", 2, 2)
"""


@pytest.mark.parametrize(("argument", "speaks"), [("None", False), ("False", False), ("True", True)])
def test_in_a_real_process_whose_stderr_is_a_pipe(argument, speaks):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(argument=argument)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == ""
    assert ("work: 100% (2/2)" in done.stderr) == speaks
    assert (done.stderr == "") == (not speaks)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_real_terminal_it_is_on_by_default():
    controller, terminal = os.openpty()
    subprocess.run(
        [sys.executable, "-c", PROGRAM.format(argument="None")],
        stderr=terminal,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(terminal)
    seen = os.read(controller, 4096).decode()
    os.close(controller)
    assert "work: 100% (2/2)" in seen
    assert seen.endswith("\n")
