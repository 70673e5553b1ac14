"""Team: this process among others, and the few ways in which they talk.

A message is a line of JSON and some tensors, from the leader to all; sums go to all; a result goes to the leader.
Counted in `sent`, by kind: calls, bytes of the tensors as they are (what a link carries for one is a matter of the
algorithm: docs/scaling.md), and the seconds that the calls took, in which one waits for slower processes too. Knows
torch.distributed, and nothing of what is computed.
"""

import contextlib
import json
import os
import socket
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fastif.distributed.watch import Watch
from fastif.errors import ConfigurationError, RankError
from fastif.keeping import Tensors

LONGEST = timedelta(hours=24)  # a call may wait for a slow process; that one is alive is known from its watch
MESSAGES = "messages"  # lines of words, too short to be worth counting in bytes
END = "end"  # what is to be done when nothing is
PATIENCE = 30.0  # seconds in which the reason of a broken connection is looked for


@dataclass
class Traffic:
    """How often something was sent, how many bytes the tensors had, and how long the calls took."""

    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0


class Team:
    """This process and the others. Made by `joined`."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.device = device
        self.sent: dict[str, Traffic] = defaultdict(Traffic)
        self.watch = Watch(dist.distributed_c10d._get_default_store(), self.rank, self.ranks, _hosts(self.ranks))

    @classmethod
    def is_started(cls) -> bool:
        """Whether torchrun (or what sets the same variables) has started this process as one of several."""
        return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))

    @classmethod
    @contextlib.contextmanager
    def joined(cls, device: torch.device) -> Iterator["Team"]:
        """Join the others that torchrun has started, and leave them at the end."""
        if not cls.is_started():
            raise ConfigurationError("there are no processes to join: start this program with torchrun.")
        if device.type == "cuda":
            if device.index is None:
                device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=LONGEST)
        team = cls(device)
        team.watch.start()
        try:
            yield team
        except BaseException as error:
            team.watch.fail(error)
            raise
        finally:
            team.watch.stop()
        with contextlib.suppress(RuntimeError):  # the work is done, whoever may have gone since
            dist.destroy_process_group()

    @classmethod
    @contextlib.contextmanager
    def joined_if_started(cls, device: torch.device) -> Iterator["Team | None"]:
        """Join the others where torchrun has started some; None where this process is alone."""
        if not cls.is_started():
            yield None
            return
        with cls.joined(device) as team:
            yield team

    @property
    def leads(self) -> bool:
        """Whether this process is the one that asks."""
        return self.rank == 0

    def tell(self, what: dict[str, Any], tensors: Tensors | None = None) -> None:
        """Say something to all others."""
        self.watch.attend()
        tensors = tensors or {}
        line = _line({"what": what, "forms": _forms(tensors)})
        self._broadcast(torch.tensor([len(line)]), MESSAGES)
        self._broadcast(line, MESSAGES)
        for tensor in tensors.values():
            self._broadcast(tensor.contiguous(), str(what["do"]))

    def dismiss(self) -> None:
        """Say that there is nothing more to do. What is left to this process, it can do alone."""
        self.tell({"do": END})
        self.watch.rest()

    def hear(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Wait for what the leader says next."""
        self.watch.attend()
        length = torch.zeros(1, dtype=torch.int64)
        self._broadcast(length, MESSAGES)
        line = torch.zeros(int(length), dtype=torch.uint8)
        self._broadcast(line, MESSAGES)
        said = json.loads(line.numpy().tobytes())
        tensors = self._empty(said["forms"])
        for tensor in tensors.values():
            self._broadcast(tensor, str(said["what"]["do"]))
        if said["what"]["do"] == END:
            self.watch.rest()
        return said["what"], tensors

    def sum(self, tensor: Tensor, kind: str) -> None:
        """Make a tensor the sum of those of all processes, in place: one all-reduce."""
        with self._counted(f"{kind}: all-reduce", tensor):
            dist.all_reduce(tensor)

    def give(self, made: Tensors) -> list["_Sending"]:
        """Send a result to the leader, without waiting; return what can be waited for."""
        line = _line(_forms(made))
        with self._explained():
            parts = [torch.tensor([len(line)]), line, *(tensor.contiguous() for tensor in made.values())]
            sending = [_Sending(self, part, dist.isend(part, 0)) for part in parts]
        for tensor in made.values():
            self.sent["results"].calls += 1
            self.sent["results"].bytes += tensor.nbytes
        return sending

    def take(self, rank: int) -> Tensors:
        """Wait for a result of another process."""
        with self._counted(MESSAGES):
            length = torch.zeros(1, dtype=torch.int64)
            dist.recv(length, rank)
            line = torch.zeros(int(length), dtype=torch.uint8)
            dist.recv(line, rank)
        tensors = self._empty(json.loads(line.numpy().tobytes()))
        for tensor in tensors.values():
            with self._counted("results", tensor):
                dist.recv(tensor, rank)
        return tensors

    def _empty(self, forms: dict[str, Any]) -> Tensors:
        """Return memory for tensors of these forms."""
        return {
            name: torch.empty(shape, dtype=getattr(torch, dtype), device=self.device if on_gpu else "cpu")
            for name, (dtype, shape, on_gpu) in forms.items()
        }

    def _broadcast(self, tensor: Tensor, kind: str) -> None:
        with self._counted(MESSAGES) if kind == MESSAGES else self._counted(f"{kind}: broadcast", tensor):
            dist.broadcast(tensor, 0)

    @contextlib.contextmanager
    def _counted(self, kind: str, tensor: Tensor | None = None) -> Iterator[None]:
        """Within this context something is sent or waited for: count it, and explain a connection that breaks."""
        began = time.perf_counter()
        with self._explained():
            yield
        traffic = self.sent[kind]
        traffic.calls += 1
        traffic.bytes += 0 if tensor is None else tensor.nbytes
        traffic.seconds += time.perf_counter() - began

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Within this context, a broken connection becomes an error that says who is gone."""
        try:
            yield
        except RuntimeError as error:
            raise RankError(self.watch.reason(PATIENCE, str(error))) from error


@dataclass
class _Sending:
    """Something on its way, and the memory that it is read from."""

    team: Team
    tensor: Tensor
    handle: Any

    def wait(self) -> None:
        """Wait until it has been sent."""
        with self.team._explained():
            self.handle.wait()


def _forms(tensors: Tensors) -> dict[str, Any]:
    return {
        name: [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor.is_cuda]
        for name, tensor in tensors.items()
    }


def _line(words: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(words).encode()), dtype=torch.uint8)


def _hosts(ranks: int) -> list[str]:
    """Return the name of each process's machine."""
    name = socket.gethostname().encode()[:64].ljust(64, b"\0")
    found = [torch.zeros(64, dtype=torch.uint8) for _ in range(ranks)]
    dist.all_gather(found, torch.frombuffer(bytearray(name), dtype=torch.uint8))
    return [each.numpy().tobytes().rstrip(b"\0").decode(errors="replace") for each in found]
