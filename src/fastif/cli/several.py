"""Several processes of one command: started by torchrun, or by `--nproc`, which runs it.

Knows the command line and torchrun; what the processes do together is the business of fastif.distributed.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
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


def start_over(nproc: int | None) -> bool:
    """Start this command line in so many processes, if that was asked for and has not been done; wait for them."""
    if nproc is None or Team.is_started():
        return False
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the processes say what went wrong
    threads = max(1, (os.cpu_count() or 1) // nproc)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    program = ["--standalone", "--nproc-per-node", str(nproc), "-m", "fastif", *_without(sys.argv[1:])]
    try:
        run.run(run.parse_args(program))
    except ChildFailedError as error:
        raise typer.Exit(max(1, error.get_first_failure()[1].exitcode)) from None
    return True


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
    if device is not None and device not in ("cpu", "cuda"):
        raise ConfigurationError(f"--device {device} names one device; of several processes each takes its own: cuda.")
    chosen = pick_device(device)
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    if os.environ["RANK"] == "0":
        console.note(
            f"Waiting for all {os.environ['WORLD_SIZE']} processes (RANK and WORLD_SIZE in the environment say so)."
        )
    with Team.joined(chosen) as team:
        if not team.leads:
            console.be_quiet()
        yield team, chosen
