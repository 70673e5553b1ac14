"""How a module is called so that every kind of derivative works, and that it and torch are afterwards as before.

Eval mode without calling `.eval()`, kernels that can be differentiated twice and forwards, no autocast, nothing
compiled, one thread at a time; attributes, tensors, modes, random state and torch's switches are put back, also after
an error. This file knows modules, and nothing of losses.
"""

import contextlib
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fastif.embedding import PlainEmbedding
from fastif.turns import one_call

COMPILER = "torch._dynamo"
# not cuDNN's, which compiles itself anew for every length
ONCE = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
_ONCE: ContextVar[bool] = ContextVar("fastif_differentiated_once", default=False)


@contextlib.contextmanager
def differentiated_once() -> Iterator[None]:
    """Within this context, what a module gives is differentiated at most once, and backwards: any kernel will do."""
    token = _ONCE.set(True)
    try:
        yield
    finally:
        _ONCE.reset(token)


class Evaluation:
    """The context in which one module is called."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._has_recurrent_layer = any(isinstance(part, nn.RNNBase) for part in module.modules())

    @contextlib.contextmanager
    def on(self, device: torch.device) -> Iterator[None]:
        """Set everything up for a call with tensors on this device, and put it back."""
        with one_call(), contextlib.ExitStack() as stack:
            # while a CUDA graph is recorded, the state of its generator cannot be read; nothing draws in eval mode
            keeps_state = device.type == "cuda" and not torch.cuda.is_current_stream_capturing()
            stack.enter_context(torch.random.fork_rng(devices=[device] if keeps_state else []))
            stack.enter_context(torch.autocast(device.type, enabled=False))
            # the fused kernels of attention and of recurrent layers have no forward mode and no second derivative
            stack.enter_context(sdpa_kernel(ONCE if _ONCE.get() else SDPBackend.MATH))
            stack.enter_context(_without_fused_attention_layer())
            if self._has_recurrent_layer:
                stack.enter_context(_without_fused_recurrence())
            stack.enter_context(PlainEmbedding())
            if COMPILER in sys.modules:  # otherwise nothing can be compiled, and to load it takes long
                # it would look into the hooks and transforms around a part that is compiled, and fail
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(_in_eval_mode(self._module))
            yield


@contextlib.contextmanager
def _in_eval_mode(module: nn.Module) -> Iterator[None]:
    """Evaluate, and take back all that the modules and `functional_call` set meanwhile, the mode among it."""
    before = [_Before(part) for part in module.modules()]
    try:
        for each in before:
            each.part.training = False  # not .eval(): a module may override it with effects of its own
        yield
    finally:
        for each in before:
            each.put_back()


class _Before:
    """The attributes of a module as they were, its tensors, its parts and its mode."""

    def __init__(self, part: nn.Module) -> None:
        self.part, self._mode = part, part.training
        self._attributes = dict(part.__dict__)
        kept: tuple[Any, ...] = (part._parameters, part._buffers)
        self._tensors = [(members, dict(members)) for members in kept]
        self._parts = dict(part._modules)

    def put_back(self) -> None:
        """Make the module as it was."""
        self.part.__dict__.clear()
        self.part.__dict__.update(self._attributes)
        # torch's functional_call leaves its own tensors in a module that stands at two places
        for members, tensors in self._tensors:
            if isinstance(members, dict):
                members.clear()
                members.update(tensors)
            else:  # of a scripted module, which keeps its names
                for name, tensor in tensors.items():
                    members[name] = tensor
        # a module may put another in the place of one of its parts, as BigBird does for short texts
        if isinstance(self.part._modules, dict) and self.part._modules != self._parts:
            self.part._modules.clear()
            self.part._modules.update(self._parts)
        if self.part.training != self._mode:  # of a scripted module it is none of the attributes
            self.part.training = self._mode


@contextlib.contextmanager
def _without_fused_attention_layer() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def _without_fused_recurrence() -> Iterator[None]:
    before = torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled
    try:
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
        torch.backends.cudnn.enabled = False
        yield
    finally:
        torch.backends.mkldnn.enabled, torch.backends.cudnn.enabled = before
