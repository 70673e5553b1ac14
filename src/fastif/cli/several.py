"""Several processes of one command: started by torchrun, or by `--nproc`, which runs it.

Knows the command line and torchrun; what the processes do together is the business of fastif.distributed.
"""

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated

import torch
import typer

from fastif.cli import console
from fastif.cli.loading import pick_device
from fastif.cli.options import RUN
from fastif.distributed import Team
from fastif.errors import ConfigurationError

Nproc = Annotated[
    int | None,
    typer.Option(
        "--nproc", min=1, help="Processes on this machine that share the work: one a GPU.", rich_help_panel=RUN
    ),
]
LINE: ContextVar[list[str] | None] = ContextVar("LINE", default=None)  # what the program was asked, word by word
TOLD = "FASTIF_ERRORS_TOLD"  # in the environment: a directory of the processes of one --nproc, a file for each error


def start_over(nproc: int | None, device: str | None) -> bool:
    """Start this command line in so many processes, if that was asked for and has not been done; wait for them."""
    if nproc is None or Team.is_started():
        return False
    line = LINE.get()
    if line is None:
        raise ConfigurationError(
            "nproc starts a command line once more, and there is none here: call fastif.cli.app.run with it."
        )
    _kind(device, nproc)
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes say what went wrong
    threads = max(1, (os.cpu_count() or 1) // nproc)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    program = ["--standalone", "--nproc-per-node", str(nproc), "-m", "fastif", *_without(line)]
    try:
        with tempfile.TemporaryDirectory(prefix="fastif-told-") as told:
            os.environ[TOLD] = told
            run.run(run.parse_args(program))
    except ChildFailedError as error:
        raise typer.Exit(max(1, error.get_first_failure()[1].exitcode)) from None
    finally:
        os.environ.pop(TOLD, None)
    return True


def is_told(words: str) -> bool:
    """Say whether another process of the same --nproc has told this error; note that this one tells it where not."""
    place = os.environ.get(TOLD)
    if place is None:
        return False
    try:
        (Path(place) / hashlib.sha256(words.encode()).hexdigest()).touch(exist_ok=False)
    except OSError as error:
        return isinstance(error, FileExistsError)
    return False


def _kind(device: str | None, processes: int) -> str:
    """Return the kind of device that each of so many processes on this machine has one of; takes none of them."""
    if device is not None and device not in ("cpu", "cuda"):
        raise ConfigurationError(f"--device {device} names one device; of several processes each takes its own: cuda.")
    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    there = torch.cuda.device_count()
    if kind == "cuda" and processes > there:
        raise ConfigurationError(
            f"{processes} processes on this machine need as many GPUs, and it has {there}. Start no more than that, or "
            "give --device cpu."
        )
    return kind


def _without(line: list[str]) -> list[str]:
    """Return a command line without its --nproc."""
    kept, skip = [], False
    for word in line:
        if skip or word == "--nproc":
            skip = not skip
        elif not word.startswith("--nproc="):
            kept.append(word)
    return kept


@contextlib.contextmanager
def team_for(device: str | None) -> Iterator[tuple[Team | None, torch.device]]:
    """Join the other processes, if there are any; yield the team and this process's device."""
    if not Team.is_started():
        yield None, pick_device(device)
        return
    place = int(os.environ.get("LOCAL_RANK", "0"))
    chosen = torch.device("cpu") if _kind(device, place + 1) == "cpu" else torch.device("cuda", place)
    if os.environ["RANK"] == "0":
        console.note(
            f"Waiting for all {os.environ['WORLD_SIZE']} processes (RANK and WORLD_SIZE in the environment say so)."
        )
    with Team.joined(chosen) as team:
        if not team.leads:
            console.be_quiet()
        yield team, chosen
