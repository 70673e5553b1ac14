"""Many models trained at once, each on its own subset of the training data, from the same start in the same order.

Models are stacked along a first dimension and go through every minibatch together under `vmap`; an example that is not
in a model's subset has weight zero there. SGD and Adam act on each number alone, so that torch's own optimizers train
the stack just as they would train each model.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fastif.bench.lds.settings import Pair, Recipe, Setting

Stack = dict[str, Tensor]


def half_subsets(examples: int, count: int, *, seed: int = 0) -> Tensor:
    """Return `count` random halves of the examples as masks (count, examples)."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(count, examples, generator=generator).argsort(dim=1)
    return order < examples // 2  # the positions of a random permutation's lower half are a random half


def retrain(setting: Setting, train: Pair, masks: Tensor, *, seed: int) -> Stack:
    """Return the parameters of one model a mask, trained on the examples where its mask holds.

    The seed fixes the first weights and the order of examples, the same for all masks. A model steps along the mean
    gradient over those examples of a minibatch that are in its subset.
    """
    torch.manual_seed(seed)
    module = setting.module()
    inputs, targets = train
    if inputs.is_floating_point():
        module = module.to(inputs.dtype)
    stack = {
        name: tensor.detach().expand(len(masks), *tensor.shape).clone().requires_grad_()
        for name, tensor in module.named_parameters()
    }
    recipe = setting.recipe
    optimizer = make_optimizer(recipe, list(stack.values()))
    generator = torch.Generator().manual_seed(seed)
    steps = recipe.steps(len(targets))
    step = 0
    for _ in range(recipe.epochs):
        for rows in torch.randperm(len(targets), generator=generator).split(recipe.batch_size):
            optimizer.param_groups[0]["lr"] = recipe.lr * (1 - step / steps)
            weights = masks[:, rows].to(stack_dtype(stack))
            weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
            losses = stacked_losses(module, setting.loss, stack, (inputs[rows], targets[rows]))
            optimizer.zero_grad()
            (weights * losses).sum().backward()
            optimizer.step()
            step += 1
    return {name: tensor.detach() for name, tensor in stack.items()}


def stacked_losses(module: nn.Module, loss: str, stack: Stack, batch: Pair) -> Tensor:
    """Return the loss of every model on every example, (models, batch)."""
    inputs, targets = batch

    def losses(parameters: Stack) -> Tensor:
        outputs = functional_call(module, parameters, (inputs,))
        values: Tensor = getattr(nn.functional, loss)(outputs, targets, reduction="none")
        return values

    together: Tensor = vmap(losses)(stack)
    return together


def make_optimizer(recipe: Recipe, parameters: list[Tensor]) -> torch.optim.Optimizer:
    """Return torch's optimizer for a recipe."""
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.lr)
    return torch.optim.SGD(parameters, lr=recipe.lr, momentum=recipe.momentum)


def stack_dtype(stack: Stack) -> torch.dtype:
    """Return the dtype of the parameters."""
    return next(iter(stack.values())).dtype


def member(setting: Setting, stack: Stack, index: int) -> nn.Module:
    """Return one model of a stack as a module."""
    module = setting.module().to(stack_dtype(stack))
    module.load_state_dict({name: tensor[index] for name, tensor in stack.items()})
    return module.eval()
