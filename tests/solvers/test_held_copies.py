"""Nothing goes from the CPU to another device in a pass that is given what one before it noted."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fastif.solvers.held_copies import HeldCopies


def loss(weight: Tensor, inputs: Tensor) -> Tensor:
    """What models do: positions that are made on the CPU, a number to divide by, a number to multiply with."""
    positions = torch.arange(inputs.shape[-1])
    shifts = torch.log1p((positions - positions.flip(0)).abs().to(torch.get_default_dtype())).to(inputs.device)
    scores = (inputs + shifts) @ weight / math.sqrt(7)
    return (torch.tanh(scores) * 0.3).pow(2).sum()


def products(weight: Tensor, inputs: Tensor, directions: Tensor) -> Tensor:
    """The curvature of each example times some directions, in the way that a step takes them."""

    def of_example(one: Tensor) -> Tensor:
        product = vmap(lambda direction: jvp(grad(lambda point: loss(point, one)), (weight,), (direction,))[1])
        found: Tensor = product(directions)
        return found

    found: Tensor = vmap(of_example)(inputs)
    return found


class Crossings(TorchDispatchMode):
    """Counts the operations that see the CPU and another device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        devices = {each.device.type for each in tree_leaves((args, kwargs, result)) if isinstance(each, Tensor)}
        if len(devices) > 1:
            self.found.append(str(func))
        return result


@pytest.fixture
def given() -> Callable[[str], tuple[Tensor, Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(0)
    tensors = [torch.randn(*shape, generator=draw) for shape in ((5, 3), (4, 2, 5), (6, 5, 3))]
    return lambda device: tuple(tensor.to(device) for tensor in tensors)  # type: ignore[return-value]


def test_a_pass_that_is_given_copies_crosses_no_devices(
    given: Callable[[str], tuple[Tensor, Tensor, Tensor]],
) -> None:
    tensors, held = given("meta"), HeldCopies()
    with Crossings() as plain:
        products(*tensors)
    assert plain.found  # or there would be nothing to hold
    for _ in range(2):
        with held.noting():
            products(*tensors)
    with Crossings() as crossings, held.giving():
        products(*tensors)
    assert crossings.found == []


def test_what_is_computed_from_other_tensors_is_the_same_to_the_last_bit(
    given: Callable[[str], tuple[Tensor, Tensor, Tensor]],
) -> None:
    tensors, held = given("cpu"), HeldCopies()
    other: Any = tuple(tensor.flip(0) + 0.5 for tensor in tensors)
    for _ in range(2):
        with held.noting():
            noted = products(*tensors)
    with held.giving():
        again = products(*other)
    assert torch.equal(noted, products(*tensors))
    assert torch.equal(again, products(*other))


def test_what_is_wrapped_anew_is_made_anew() -> None:
    def wrapped(weight: Tensor) -> Tensor:
        return torch.as_tensor(weight).pow(3).sum()

    held, one, other = HeldCopies(), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0])
    for _ in range(2):
        with held.noting():
            grad(wrapped)(one)
    with held.giving():
        assert torch.equal(grad(wrapped)(other), 3 * other.square())


def test_a_pass_that_makes_more_than_was_noted_is_none_like_it() -> None:
    held = HeldCopies()
    for _ in range(2):
        with held.noting():
            torch.tensor(1.0)
    with held.giving():
        torch.tensor(1.0)
        with pytest.raises(RuntimeError, match="more tensors are made"):
            torch.tensor(2.0)
    with pytest.raises(RuntimeError, match="fewer tensors are made"), held.giving():
        pass


def test_only_what_two_passes_agree_on_is_given() -> None:
    held = HeldCopies()
    with held.noting():
        torch.tensor(1.0)
    with pytest.raises(RuntimeError, match="differs from pass to pass"), held.giving():
        pass
    with held.noting():
        torch.tensor(2.0)
    with pytest.raises(RuntimeError, match="differs from pass to pass"), held.giving():
        pass
    with held.noting():
        second = torch.tensor(2.0)
    with held.giving():
        assert torch.tensor(2.0) is second  # the first pass may make what later ones need no more


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_product_with_a_number_is_rounded_as_torch_does(dtype: torch.dtype) -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0)).to(dtype)
    plain = (values * 0.17677669, 0.3 * values, values / 2.6)
    with HeldCopies().noting():
        held = (values * 0.17677669, 0.3 * values, values / 2.6)
    for one, other in zip(plain, held, strict=True):
        assert torch.equal(one, other)


def test_what_depends_on_the_examples_is_not_held() -> None:
    held = HeldCopies()
    with pytest.raises(RuntimeError, match="depends on the examples"), held.noting():
        vmap(lambda one: one.to(torch.float64))(torch.ones(3))
