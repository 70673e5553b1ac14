"""Snapshots: what the tensors of a module are known by, cheap enough to be looked at again before each piece of work.

How often a tensor was written to does not tell all: writing to `.data` is not counted, and a parameter can be replaced.
So that its numbers are read too, as whole numbers that are summed: exact, whatever the order. What outputs depend on
besides is which adapters of a module are in use, where it has such. This file knows modules by their parts, and nothing
of models.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from fastif.errors import ModelError

Snapshot = dict[str, tuple[int, ...] | str]

WORD = 8  # bytes that are read as one whole number
PARTS = 64  # each weighs another odd number, so that numbers that changed places are seen
ADAPTERS = "active_adapters"  # the layers of PEFT, and what is made as they are, have it and these:
SWITCHES = (ADAPTERS, "disable_adapters", "merged_adapters", "scaling")
WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def snapshot(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> Snapshot:
    """Return what each tensor is known by; a buffer is known by its numbers alone, and counters are left out.

    >>> weight, steps = torch.tensor([1.0, 2.0]), torch.tensor(3)
    >>> before = snapshot({"weight": weight}, {"steps": steps})
    >>> weight.data[0], _ = 5.0, steps.add_(1)
    >>> changed(before, snapshot({"weight": weight}, {"steps": steps}))
    ['weight']
    """
    chosen = {**parameters, **{name: buffer for name, buffer in buffers.items() if not is_counter(buffer)}}
    sums = [_sum_of(tensor) for tensor in chosen.values()]
    numbers = torch.stack([each.to(sums[0].device) for each in sums]).tolist() if sums else []  # one wait for all
    versions = [_version(tensor) if name in parameters else 0 for name, tensor in chosen.items()]
    return dict(zip(chosen, zip(versions, numbers, strict=True), strict=True))


def switches(module: nn.Module) -> dict[str, str]:
    """Return in words which adapters each part of a module uses, and how; nothing of parts without adapters."""
    return {
        f"{name}.{switch}".lstrip("."): repr(value)
        for name, part in module.named_modules()
        if not callable(getattr(part, ADAPTERS, callable))
        for switch in SWITCHES
        if not callable(value := getattr(part, switch, None))
    }


def changed(before: Snapshot, now: Snapshot) -> list[str]:
    """Return the names of the tensors that are not what they were, or are not there at one of the two times."""
    odd = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return sorted(odd, key=lambda name: not isinstance({**before, **now}[name], str))


def require_unchanged(before: Snapshot, now: Snapshot) -> None:
    """Raise if the tensors of a model are not those that work was prepared with."""
    odd = changed(before, now)
    if odd and odd[0].rpartition(".")[2] in SWITCHES:
        raise ModelError(
            "the model uses other adapters than when this explainer was made, so that the curvature it holds belongs "
            f"to another model; seen in {odd[0]}, which was {before.get(odd[0])} and is {now.get(odd[0])}. Make a new "
            "fastif.Explainer (and TorchModel) for other adapters, or set them as they were."
        )
    if odd:
        raise ModelError(
            "the weights of the model have changed since this explainer was made, so that the curvature it holds "
            f"belongs to other weights; seen in {odd[0]}. Make a new fastif.Explainer (and TorchModel) after further "
            "training."
        )


def differing(held: Mapping[str, Tensor], live: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors that hold other numbers than those that were taken from them."""
    return [
        name
        for name in {**held, **live}
        if name not in held or name not in live or not (is_counter(live[name]) or _alike(held[name], live[name]))
    ]


def is_counter(tensor: Tensor) -> bool:
    """Return whether this is a single whole number, as of the batches that a layer has seen."""
    return tensor.ndim == 0 and not (tensor.is_floating_point() or tensor.is_complex())


def _alike(held: Tensor, live: Tensor) -> bool:
    if held.layout != torch.strided or live.layout != torch.strided:
        return held.layout == live.layout and held.shape == live.shape and bool(_sum_of(held) == _sum_of(live))
    if held.data_ptr() == live.data_ptr() and held.dtype == live.dtype and held.shape == live.shape:
        return True
    return held.shape == live.shape and torch.equal(held, live.detach().to(held))


def _parts(tensor: Tensor) -> list[Tensor]:
    """Return what a sparse tensor, or one in a kernel's own layout, is made of."""
    if tensor.layout == torch.sparse_coo:
        whole = tensor.detach().coalesce()
        return [whole.indices(), whole.values()]
    return [tensor.detach().to_dense()]


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _sum_of(tensor: Tensor) -> Tensor:
    """Return a sum over all bytes, on the tensor's device."""
    if tensor.layout != torch.strided:
        return torch.stack([_sum_of(part) for part in _parts(tensor)]).sum()
    flat = tensor.detach().reshape(-1)
    flat = torch.view_as_real(flat).flatten() if flat.is_complex() else flat
    each = WORD // flat.element_size()
    if flat.storage_offset() % each or flat.stride(0) != 1:
        flat = flat.clone()
    many = len(flat) // (each * PARTS)
    words = flat[: many * PARTS * each].view(torch.int64).view(PARTS, many).sum(dim=1)
    rest = flat[many * PARTS * each :].view(WHOLE[flat.element_size()]).long()
    odd = torch.arange(1, 2 * (PARTS + len(rest)), 2, device=flat.device)
    return (torch.cat([words, rest]) * odd).sum()
