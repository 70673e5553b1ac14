"""Many models trained at once, each on its own subset of the training data, from the same start in the same order.

The loop is that of `fastif.apps.stack`; an example that is not in a model's subset has weight zero there.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

import fastif
from fastif.apps.stack import Stack, StackTraining
from fastif.apps.training_recipe import TrainingRecipe
from fastif.bench.lds.settings import Pair, Recipe, Setting


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
    model = fastif.TorchModel(module, loss=setting.loss)
    generator = torch.Generator().manual_seed(seed)

    def order(epoch: int) -> Iterable[Tensor]:
        batches: tuple[Tensor, ...] = torch.randperm(len(targets), generator=generator).split(setting.recipe.batch_size)
        return batches

    training = StackTraining(model, fastif.Examples(train), stack_recipe(setting.recipe), together=True, order=order)
    return training.fit(masks, model.parameters)


def stack_recipe(recipe: Recipe) -> TrainingRecipe:
    """Return the same recipe as that of a stack: the rate falls linearly to zero, nothing decays and nothing is cut."""
    return TrainingRecipe(
        epochs=recipe.epochs,
        batch_size=recipe.batch_size,
        learning_rate=recipe.lr,
        weight_decay=0.0,
        optimizer="adamw" if recipe.optimizer == "adam" else "sgd",  # without decay, Adam
        momentum=recipe.momentum,
        warm_up=0.0,
        clip=None,
    )


def stack_dtype(stack: Stack) -> torch.dtype:
    """Return the dtype of the parameters."""
    return next(iter(stack.values())).dtype


def member(setting: Setting, stack: Stack, index: int) -> nn.Module:
    """Return one model of a stack as a module."""
    module = setting.module().to(stack_dtype(stack))
    module.load_state_dict({name: tensor[index] for name, tensor in stack.items()})
    return module.eval()
