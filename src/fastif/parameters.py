"""Which parameters of a module influence is taken through, and which modules cannot be used at all."""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from fastif.errors import ConfigurationError, ModelError, NonFiniteError, NoTrainableParametersError

Choice = str | Callable[[str, nn.Parameter], bool] | None


def unwrap(module: nn.Module) -> nn.Module:
    """Return the module inside torch.compile, DataParallel or DistributedDataParallel, and refuse what cannot work."""
    if not isinstance(module, nn.Module):
        raise ModelError(f"needed is a torch.nn.Module, not a {type(module).__name__}.")
    while (inside := _inside(module)) is not None:
        module = inside
    if isinstance(module, torch.jit.ScriptModule):
        raise ModelError(
            "a scripted module cannot be called with other parameters. Pass the Python module it was made from."
        )
    mixing = [name for name, part in module.named_modules() if _uses_batch_statistics(part)]
    if mixing:
        raise ModelError(
            f"the batch-norm {mixing[0]} keeps no running statistics, so that the outputs for one example depend on "
            "the others in its batch, and no influence of a single example is defined. Train with "
            "track_running_stats=True."
        )
    lazy = [name for name, parameter in module.named_parameters() if nn.parameter.is_lazy(parameter)]
    if lazy:
        raise ModelError(f"the parameter {lazy[0]} has no shape yet. Run the module once on a batch, then train it.")
    return module


def _inside(module: nn.Module) -> nn.Module | None:
    """Return the module that this one is only around, if it is."""
    is_parallel = isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel)
    inside: object = getattr(module, "module" if is_parallel else "_orig_mod", None)
    return inside if isinstance(inside, nn.Module) else None


def split_parameters(module: nn.Module, trainable: Choice) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return chosen and frozen parameters, each tied group under its first name, in one dtype of at least float32."""
    is_chosen = _predicate(trainable)
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    dtype = torch.float32
    for parameter in filter(torch.is_floating_point, names):
        dtype = torch.promote_types(dtype, parameter.dtype)
    chosen: dict[str, Tensor] = {}
    frozen: dict[str, Tensor] = {}
    for parameter, aliases in names.items():
        take = any(is_chosen(alias, parameter) for alias in aliases)
        (chosen if take else frozen)[aliases[0]] = _checked(parameter, aliases[0], dtype, take)
    if not chosen:
        every = [alias for aliases in names.values() for alias in aliases]
        shown = ", ".join(every[:6]) + (" ..." if len(every) > 6 else "")
        wanted = "requires a gradient" if trainable is None else f"is chosen by trainable={trainable!r}"
        raise NoTrainableParametersError(
            f"no parameter {wanted}, so there is nothing to take influence through. The module has: "
            f"{shown or 'none at all'}. Set trainable= to a regular expression that finds some of these names."
        )
    return chosen, frozen


def _predicate(trainable: Choice) -> Callable[[str, nn.Parameter], bool]:
    if trainable is None:
        return lambda name, parameter: parameter.requires_grad
    if isinstance(trainable, str):
        try:
            pattern = re.compile(trainable)
        except re.error as error:
            raise ConfigurationError(f"trainable={trainable!r} is not a regular expression: {error}.") from error
        return lambda name, parameter: pattern.search(name) is not None
    if not callable(trainable):
        raise ConfigurationError(
            f"trainable must be None, a regular expression or a function (name, parameter) -> bool, not {trainable!r}. "
            "For several names write one expression, such as 'weight|bias'."
        )
    return trainable


def _checked(parameter: nn.Parameter, name: str, dtype: torch.dtype, chosen: bool) -> Tensor:
    """Return the detached tensor, cast if it is real; refuse what is not finite, or chosen and not real."""
    if parameter.is_meta:
        raise ModelError(
            f"the parameter {name} is on the meta device, which holds no numbers. Load the weights, as with "
            "module.to_empty(device='cpu') and load_state_dict, before the module is explained."
        )
    tensor = parameter.detach()
    if tensor.is_inference():  # it would refuse to take part in a derivative
        tensor = tensor.clone()
    if parameter.is_floating_point():
        tensor = tensor.to(dtype)
    elif chosen:
        raise ModelError(
            f"the parameter {name} is of type {parameter.dtype}; influence is taken through real numbers only. Leave "
            "it out with trainable=."
        )
    if not torch.isfinite(tensor).all():
        raise NonFiniteError(
            f"the parameter {name} holds a NaN or an infinity. The training diverged or the checkpoint is damaged; no "
            "influence can be taken through such weights."
        )
    return tensor


def _uses_batch_statistics(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None
