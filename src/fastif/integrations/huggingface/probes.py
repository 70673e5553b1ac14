"""What a way to run a model is tried with: rows of random tokens, and weights near by.

A mask or a row too few need not show in two short texts, nor at weights of which some are zero. So the rows are short
and long, alone and padded, with special tokens in their midst, and each weight is moved. Knows tokens and tensors.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from fastif.batch import STATES
from fastif.integrations.huggingface.texts import padding_of

IDS, MASK = "input_ids", "attention_mask"
SHORT = (3, 5, 9, 14, 23)  # tokens of the rows of the first batch
LONG = 160  # tokens of the longest row; of the user's texts the longest is looked at too
NEAR = 0.05  # of the mean size of a tensor, to move it by
Result = TypeVar("Result")


def attempted(work: Callable[[], Result]) -> Result | Exception:
    """Return what `work` gives, or the error with which the model refuses it: any, but for a lack of memory."""
    try:
        return work()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - modules raise anything where they are run in another way than theirs
        return error


def same(seen: Tensor, expected: Tensor) -> bool:
    """Return whether two results are one but for rounding."""
    if seen.shape != expected.shape:
        return False
    rounding = 10 * torch.finfo(expected.dtype).eps ** 0.75 * (1 + float(expected.abs().max()))
    return bool(float((seen - expected).abs().max()) <= rounding)  # false for what is no number


def probes_of(few: dict[str, Tensor], tokenizer: Any, max_length: int, *, special: bool) -> list[dict[str, Tensor]]:
    """Return inputs of random tokens: rows of few tokens, one of many beside a short one, and one without padding.

    Args:
        few: inputs as the tokenizer makes them, whose names, ends and device these have.
        tokenizer: it knows the tokens.
        max_length: the most tokens that a row may have.
        special: whether special tokens stand inside of rows too, as where a text has them.
    """
    generator = torch.Generator("cpu").manual_seed(0)
    known = set(tokenizer.get_vocab().values())
    reserved = set(tokenizer.all_special_ids) & known
    words = torch.tensor(sorted(known - reserved) or sorted(known))
    ends = few[IDS][0, 0].cpu(), few[IDS][0, int(_lengths(few)[0]) - 1].cpu()

    def row(length: int) -> Tensor:
        ids = words[torch.randint(len(words), (length,), generator=generator)]
        if special and length > 5:
            places = torch.randperm(length - 2, generator=generator)[: len(reserved)] + 1
            ids[places[: length // 3]] = torch.tensor(sorted(reserved))[: min(len(places), length // 3)]
        ids[0], ids[-1] = ends
        return ids

    short, long = [min(length, max_length) for length in SHORT], min(LONG, max_length)
    batches = [[row(length) for length in lengths] for lengths in (short, [long, short[1]], short[-1:])]
    return [_padded(rows, few, tokenizer) for rows in batches]


def moved(parameters: dict[str, Tensor], others: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return parameters near by; those that are zero, as of a fresh adapter, at the size of a usual one."""
    sizes = [float(each.abs().mean()) for each in (*others.values(), *parameters.values()) if _is_matrix(each)]
    usual = torch.tensor([size for size in sizes if size > 0] or [1.0]).median()
    generator = torch.Generator("cpu").manual_seed(0)

    def beside(tensor: Tensor) -> Tensor:
        size = float(tensor.abs().mean()) if tensor.numel() else 0.0
        step = NEAR * size if size > NEAR * usual else float(usual)
        return tensor + step * torch.randn(tensor.shape, generator=generator).to(tensor)

    return {name: beside(tensor) for name, tensor in parameters.items()}


def _is_matrix(tensor: Tensor) -> bool:
    return tensor.ndim > 1 and tensor.is_floating_point() and tensor.numel() > 0


def _padded(rows: list[Tensor], few: dict[str, Tensor], tokenizer: Any) -> dict[str, Tensor]:
    """Return rows of tokens with all inputs that the few texts have."""
    device, width = few[IDS].device, max(map(len, rows))
    made: dict[str, Tensor] = {}
    for name, tensor in few.items():
        batch = torch.full((len(rows), width), padding_of(tokenizer, name))
        for number, ids in enumerate(rows):
            batch[number, : len(ids)] = ids if name == IDS else tensor[0, 0].cpu()
        made[name] = batch.to(device=device, dtype=tensor.dtype)
    return made


def _lengths(inputs: dict[str, Tensor]) -> Tensor:
    """Return how many tokens each row has, without its padding."""
    if MASK in inputs:
        counts: Tensor = inputs[MASK].sum(dim=1)
        return counts
    tokens = next(tensor for name, tensor in inputs.items() if name != STATES)
    return torch.full((tokens.shape[0],), tokens.shape[1])


def ends_of(inputs: dict[str, Tensor], count: int) -> Tensor:
    """Return the numbers of so many rows at most, half of them those with the fewest tokens, half with the most."""
    order = _lengths(inputs).argsort()
    ends: Tensor = torch.cat([order[: count // 2], order[-(count // 2) :]]).unique()
    return ends


def span_of(inputs: dict[str, Tensor]) -> tuple[int, int]:
    """Return the fewest and the most tokens that a row has."""
    lengths = _lengths(inputs)
    return int(lengths.min()), int(lengths.max())
