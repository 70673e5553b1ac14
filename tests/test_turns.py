"""Several threads get the scores that one gets, and nothing hangs or is left changed."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fastif
from fastif.ahead import placed_ahead
from fastif.batch import Batch
from fastif.turns import in_turn, one_call
from tests.test_model import State

pytestmark = pytest.mark.timeout(30)
DATA = (torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3)
QUERY = (DATA[0][:1], DATA[1][:1])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def everything(module: nn.Module, solver: Any) -> tuple[Tensor, ...]:
    model = fastif.TorchModel(module, loss="cross_entropy")
    damping: Any = "auto" if isinstance(solver, fastif.Identity) else 0.05
    explainer = fastif.Explainer(model, DATA, solver=solver, damping=damping, batch_size=16, progress=False)
    return explainer.explain(QUERY, top=2).scores.values, explainer.train_losses(torch.arange(40))


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Do all of this in threads that begin together, and return what each gives."""
    begin = threading.Barrier(len(works))

    def one(work: Callable[[], Any]) -> Any:
        begin.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(one, works))


@pytest.mark.parametrize(
    "solver", [fastif.Identity(), fastif.ConjugateGradient(max_iterations=20)], ids=["identity", "cg"]
)
@pytest.mark.parametrize("shared", [True, False])
def test_threads_get_what_one_thread_gets(solver: Any, shared: bool) -> None:
    torch.manual_seed(0)
    modules = [network()] * 2 if shared else [network() for _ in range(2)]
    expected = [everything(module, solver) for module in modules]
    before = [State(module) for module in modules]

    def several(module: nn.Module) -> Callable[[], list[tuple[Tensor, ...]]]:
        return lambda: [everything(module, solver) for _ in range(2)]

    for found, right in zip(at_once([several(module) for module in modules]), expected, strict=True):
        for seen in found:
            torch.testing.assert_close(seen, right)
    for state in before:
        state.assert_unchanged()


def test_turns_do_not_overlap_and_one_may_be_taken_within_another() -> None:
    inside: list[int] = []

    def work() -> None:
        for _ in range(50):
            with in_turn(), one_call(), in_turn():
                inside.append(1)
                time.sleep(1e-4)  # others may go on
                assert len(inside) == 1
                inside.pop()

    at_once([work] * 4)


def test_a_turn_ends_with_an_error() -> None:
    def take() -> bool:
        with one_call():
            return True

    with pytest.raises(ValueError, match="no"), one_call():
        raise ValueError("no")
    assert at_once([take, take]) == [True, True]


def test_a_thread_that_lays_out_batches_works_in_the_turn_of_the_one_that_waits_for_it() -> None:
    class Elsewhere:
        def place(self, batch: Batch) -> Batch:
            return batch.map(lambda tensor: tensor.to("meta"))

    threads = set()

    def encoded_when_asked_for() -> Iterator[Batch]:
        for number in range(4):
            with one_call():
                threads.add(threading.current_thread())
            yield Batch((torch.zeros(1),), torch.zeros(1), torch.tensor([number]))

    model: Any = Elsewhere()
    with in_turn():
        found = [int(batch.ids[0]) for batch in placed_ahead(model, encoded_when_asked_for())]
    assert found == [0, 1, 2, 3]
    assert len(threads) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("own", [True, False])
def test_a_process_that_was_forked_in_a_turn_may_work(own: bool) -> None:
    taken, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with one_call():
            taken.set()
            forked.wait()

    def child() -> int:
        process = os.fork()
        if process == 0:
            with one_call(), in_turn():
                os._exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    if own:
        with one_call():
            assert child() == 7
        return
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        assert child() == 7
    finally:
        forked.set()
        thread.join()
