"""Each way to go wrong has an error of its own, which says what was seen and what to change."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import fastif
from fastif import errors, vectors


def data(examples: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(examples, 4, generator=generator, dtype=torch.float64),
        torch.randint(0, 3, (examples,), generator=generator),
    )


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


def explainer(train: Any = None, loss: Any = "cross_entropy", **options: Any) -> fastif.Explainer:
    return fastif.Explainer(fastif.TorchModel(module(), loss=loss), data() if train is None else train, **options)


def test_every_error_is_of_one_family() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    family = [kind for kind in kinds if not issubclass(kind, Warning)]
    assert len(family) > 10
    assert all(issubclass(kind, fastif.FastifError) for kind in family)
    assert all(kind.__doc__ for kind in kinds)


def test_nan_in_the_training_data_names_the_example() -> None:
    x, y = data(600)
    x[431, 2] = float("nan")
    it = explainer((x, y))  # only the first examples are looked at when it is made
    with pytest.raises(errors.NonFiniteError, match=r"example 431 of train has a NaN or an infinity in input 0"):
        it.scores(data(2))


def test_nan_in_a_query_names_the_query() -> None:
    x, y = data(3)
    x[1, 0] = float("inf")
    with pytest.raises(errors.NonFiniteError, match="example 1 of queries"):
        explainer().scores((x, y))


def test_nan_in_the_weights_names_the_parameter() -> None:
    broken = module()
    with torch.no_grad():
        broken[2].bias[1] = float("nan")
    with pytest.raises(errors.NonFiniteError, match=r"parameter 2\.bias"):
        fastif.TorchModel(broken, loss="cross_entropy")


def test_nan_from_the_model_names_the_example() -> None:
    class Root(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).sqrt()

    model = fastif.TorchModel(Root(4, 3).double(), loss="cross_entropy")
    with pytest.raises(errors.NonFiniteError, match=r"loss of example \d+ of train is nan"):
        fastif.Explainer(model, data())


@pytest.mark.parametrize("label", [3, -1])
def test_labels_out_of_range_name_the_example_and_the_range(label: int) -> None:
    x, y = data(600)
    y[520] = label
    with pytest.raises(
        errors.LabelError, match=rf"example 520 of train has the label {label}, outside the range 0 to 2"
    ):
        explainer((x, y)).scores(data(2))
    x, y = data(2)
    y[1] = label
    with pytest.raises(errors.LabelError, match="example 1 of queries"):
        explainer().scores((x, y))


def test_labels_of_the_wrong_type() -> None:
    x, y = data()
    with pytest.raises(errors.LabelError, match="needs the number of a class"):
        explainer((x, y.double()))
    with pytest.raises(errors.LabelError, match="0 to 1"):
        explainer((x, torch.full((12, 3), 2.0)), loss="binary_cross_entropy_with_logits")


def test_an_empty_set() -> None:
    x, y = data()
    with pytest.raises(errors.EmptyDataError, match="train is empty"):
        explainer((x[:0], y[:0]))
    with pytest.raises(errors.EmptyDataError, match="queries is empty"):
        explainer().scores((x[:0], y[:0]))
    with pytest.raises(errors.EmptyDataError, match="hessian_data is empty"):
        explainer(hessian_data=[])
    with pytest.raises(errors.EmptyDataError, match="candidates"):
        explainer(candidates=[])


def test_no_trainable_parameter() -> None:
    frozen = module().requires_grad_(False)
    with pytest.raises(errors.NoTrainableParametersError, match=r"requires a gradient.*0\.weight"):
        fastif.TorchModel(frozen, loss="cross_entropy")
    with pytest.raises(errors.NoTrainableParametersError, match="classifier"):
        fastif.TorchModel(frozen, loss="cross_entropy", trainable="classifier")
    with pytest.raises(errors.NoTrainableParametersError, match="none at all"):
        fastif.TorchModel(nn.Tanh(), loss="cross_entropy")


def test_a_loss_that_is_already_averaged() -> None:
    for loss in (F.cross_entropy, nn.CrossEntropyLoss()):
        with pytest.raises(errors.LossError, match=r"already averaged: use reduction='none'"):
            explainer(loss=loss)
    with pytest.raises(errors.LossError, match=r"Average over the other dimensions"):
        explainer(loss=lambda outputs, targets: outputs)


def test_a_query_of_another_shape() -> None:
    x, y = data(3)
    with pytest.raises(errors.ShapeError, match=r"does not take a batch of queries with input 0 \(3, 2\)"):
        explainer().scores((x[:, :2], y))
    with pytest.raises(errors.ShapeError, match=r"x\[None\]"):
        explainer().scores((x[0], y[:4]))
    with pytest.raises(errors.ShapeError, match="input 1"):
        explainer().scores((x, x, y))
    with pytest.raises(errors.ShapeError, match="different lengths"):
        explainer().scores((x, y[:2]))
    with pytest.raises(errors.ShapeError, match="without dimensions"):
        explainer().scores((x, y[0]))


def test_a_module_whose_first_dimension_is_not_the_batch() -> None:
    class Flat(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).T

    model = fastif.TorchModel(Flat(4, 3).double(), loss="mse_loss")
    with pytest.raises(errors.ShapeError, match="batch_first"):
        fastif.Explainer(model, (data()[0], data()[0][:, :3]))


@pytest.mark.parametrize("solver", [fastif.ConjugateGradient(), fastif.Exact()])
def test_negative_curvature_names_the_damping_that_would_do(solver: Any) -> None:
    it = explainer(curvature="hessian", damping=1e-9, solver=solver)
    with pytest.raises(errors.NegativeCurvatureError, match="damping of at least") as caught:
        it.scores(data(6))
    needed = float(str(caught.value).split("damping of at least ")[1].split(";")[0])
    explainer(curvature="hessian", damping=needed, solver=solver).scores(data(6))


def test_negative_curvature_in_a_sweep() -> None:
    from fastif.curvature import CurvatureOperator
    from fastif.derivatives import gradients

    model = fastif.TorchModel(module(), loss="cross_entropy")
    examples = fastif.Examples(data())
    operator = CurvatureOperator(model, examples, kind="hessian")
    block = gradients(model, model.place(examples.batch(range(6))))
    with pytest.raises(errors.NegativeCurvatureError, match="damping of at least"):
        fastif.ConjugateGradient().prepare(operator).sweep(block, [1.0, 1e-9])


SINGULAR = [
    (fastif.Exact("primal"), 6),  # too few examples leave directions flat
    (fastif.Exact("dual"), 6),
    (fastif.ConjugateGradient(), 6),
    (fastif.Exact("primal"), 200),  # with many, adding a constant to all logits still changes nothing
    (fastif.Exact("dual"), 200),
]


@pytest.mark.parametrize(("solver", "examples"), SINGULAR)
def test_zero_damping_on_a_singular_matrix_names_one_that_would_do(solver: Any, examples: int) -> None:
    it = explainer(data(examples), damping=0.0, solver=solver)
    with pytest.raises(errors.SingularMatrixError, match="a number such as") as caught:
        it.scores(data(3))
    wanted = float(str(caught.value).split("such as ")[1].rstrip("."))
    explainer(data(examples), damping=wanted, solver=solver).scores(data(3))


def test_conjugate_gradients_notice_a_singular_matrix_on_their_way() -> None:
    """The gradient of a query lies where the matrix is regular; a vector that does not has no solution."""
    operator = explainer(data(200))._operator
    block = vectors.random(operator.model.parameters, 2, seed=0)
    with pytest.raises(errors.SingularMatrixError, match="a number such as"):
        fastif.ConjugateGradient().prepare(operator).solve(block, 0.0)


@pytest.mark.parametrize("wanted", [1e308, 10**400, 1e155])
def test_a_damping_that_drowns_everything_is_refused(wanted: float) -> None:
    with pytest.raises(
        errors.ConfigurationError, match=r"damping .* is too large for the float64 .* from 1\.3e\+154 on"
    ):
        explainer(damping=wanted)
    module = torch.nn.Linear(4, 3)
    narrow = (torch.randn(9, 4), torch.arange(9) % 3)
    with pytest.raises(errors.ConfigurationError, match="damping 1e\\+20 is too large for the float32"):
        fastif.Explainer(fastif.TorchModel(module, loss="cross_entropy"), narrow, damping=1e20)


def test_negative_damping_is_refused_before_any_work() -> None:
    with pytest.raises(errors.ConfigurationError, match=r"damping must be zero or positive, not -0\.1"):
        explainer(damping=-0.1)
    it = explainer()
    for solver in (fastif.Exact(), fastif.ConjugateGradient()):
        prepared = solver.prepare(it._operator)
        with pytest.raises(errors.ConfigurationError, match="zero or positive"):
            prepared.solve(vectors.random(it.model.parameters, 1, seed=0), -1.0)


def test_a_loss_that_does_not_bend_has_no_curvature() -> None:
    x, _ = data()
    for solver in (fastif.Exact("primal"), fastif.Exact("dual"), fastif.ConjugateGradient()):
        it = explainer((x, x[:, :3]), loss="l1_loss", solver=solver)
        with pytest.raises(errors.SingularMatrixError, match=r"curvature is zero.*Identity"):
            it.scores((x, x[:, :3]))


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize(
    "solver", ["auto", fastif.Exact("primal"), fastif.Exact("dual"), fastif.ConjugateGradient()], ids=str
)
def test_a_number_for_damping_does_not_hide_that_nothing_bends(solver: Any, weight_decay: float) -> None:
    """The likelihood of log-probabilities is linear in them: Gauss-Newton sees no curvature at all."""
    x, y = data()
    wrapped = fastif.TorchModel(nn.Sequential(module(), nn.LogSoftmax(dim=1)), loss="nll_loss")
    with pytest.raises(errors.SingularMatrixError, match="cross_entropy on the logits"):
        fastif.Explainer(wrapped, (x, y), solver=fastif.Exact()).scores((x, y))
    it = fastif.Explainer(wrapped, (x, y), solver=solver, damping=0.5, weight_decay=weight_decay)
    with pytest.warns(errors.FastifWarning, match="cross_entropy on the logits"):
        seen = it.scores((x, y)).values
    plain = fastif.Explainer(wrapped, (x, y), solver=fastif.Identity()).scores((x, y)).values
    assert torch.allclose(seen, plain / (0.5 + weight_decay))


def test_a_label_that_is_no_class_has_no_margin() -> None:
    x, y = data()
    y[2] = -100
    it = explainer(measure="margin", damping=0.1)
    with pytest.raises(errors.LabelError, match=r"example 2 of queries has the label -100.*margin"):
        it.scores((x, y))


@pytest.mark.parametrize("candidates", [None, {1, 2}, ["a"], [[1], [2, 3]]], ids=str)
def test_candidates_that_are_no_numbers(candidates: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="candidates must be"):
        explainer(candidates=candidates)


def test_data_that_cannot_be_indexed() -> None:
    x, y = data()
    with pytest.raises(errors.DataError, match="cannot be indexed"):
        explainer(iter([(x, y)]))
    with pytest.raises(errors.DataError, match="'labels'"):
        explainer({"inputs": x, "targets": y})
    with pytest.raises(errors.DataError, match="not a tensor"):
        explainer([("a text", 0)] * 3)
    with pytest.raises(errors.DataError, match="names example 12"):
        explainer(candidates=[0, 12])
    with pytest.raises(errors.DataError, match="twice"):
        explainer(candidates=[1, 1])
    with pytest.raises(errors.ConfigurationError, match="whole numbers"):
        explainer(candidates=[0.5])


def test_a_loss_that_mixes_the_examples() -> None:
    x, y = data()
    with pytest.raises(errors.ModelError, match=r"the loss for an example changes .* broadcast"):
        fastif.Explainer(
            fastif.TorchModel(
                nn.Linear(4, 1).double(), loss=lambda outputs, targets: (outputs - targets).abs().mean(1)
            ),
            (x, y.double()),
        )
    with pytest.raises(errors.LossError, match="one shape"):
        explainer((x, torch.zeros(12, 1, 4)), loss="mse_loss")


def test_a_loss_that_fails_says_what_it_was_given() -> None:
    def own(outputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(outputs, targets, reduction="none")

    x, y = data(600)
    with pytest.raises(
        errors.LossError, match=r"loss own does not take outputs \(8, 3\) .* targets \(8,\) of torch.int32"
    ):
        explainer((x, y.int()), loss=own)
    y[520] = 3
    with pytest.raises(errors.ModelError, match=r"on examples 512 to 599 of train.*Target 3 is out of bounds"):
        explainer((x, y), loss=own).scores(data(2))


def test_weights_that_changed_since() -> None:
    trained = module()
    it = fastif.Explainer(fastif.TorchModel(trained, loss="cross_entropy"), data())
    it.scores(data(2))
    with torch.no_grad():
        trained[0].weight.add_(0.1)
    for ask in (lambda: it.scores(data(2)), it.self_influence):
        with pytest.raises(errors.ModelError, match="have changed since"):
            ask()


def test_modules_that_lose_the_batch_or_write_to_their_inputs() -> None:
    class Squeezing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).squeeze()

    class Writing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            x -= 1
            return super().forward(x)

    x, y = data()
    with pytest.raises(errors.ShapeError, match=r"squeeze\(-1\)"):
        fastif.Explainer(fastif.TorchModel(Squeezing(4, 1).double(), loss="mse_loss"), (x, y.double()))
    with pytest.raises(errors.ModelError, match="writes to its inputs"):
        fastif.Explainer(fastif.TorchModel(Writing(4, 3).double(), loss="cross_entropy"), (x, y))


def test_a_measure_that_is_not_one_number_each() -> None:
    def mean_output(outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.mean()

    with pytest.raises(errors.LossError, match=r"measure mean_output returned \(\)"):
        explainer(measure=mean_output).scores(data(2))


def test_arguments_of_the_wrong_kind_are_named() -> None:
    with pytest.raises(errors.ConfigurationError, match="regular expression"):
        fastif.TorchModel(module(), loss="cross_entropy", trainable=["0.weight"])  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError, match="not a regular expression"):
        fastif.TorchModel(module(), loss="cross_entropy", trainable="(")
    with pytest.raises(errors.ConfigurationError, match="solver"):
        explainer(solver=fastif.Exact)
    with pytest.raises(errors.ConfigurationError, match="top"):
        explainer().explain(data(2), top=0)
    explainer(damping=np.float32(0.1)).explain(data(2), top=np.int64(2))
    x, y = data()
    for odd in ([x, y], (x, list(y)), (x[0], 3)):
        with pytest.raises(errors.DataError, match="tuple of tensors"):
            explainer(odd)
    with pytest.raises(errors.DataError, match="into one batch"):
        explainer([(torch.zeros(4), 0), (torch.zeros(5), 0)])
    complex_module = nn.Linear(2, 2, dtype=torch.complex64)
    with pytest.raises(errors.ModelError, match="real numbers only"):
        fastif.TorchModel(complex_module, loss="mse_loss")


@pytest.mark.parametrize(
    "solver", [fastif.Exact("primal"), fastif.Exact("dual"), fastif.ConjugateGradient(), fastif.Lanczos(rank=3)]
)
def test_a_loss_without_a_finite_second_derivative(solver: Any) -> None:
    flat = nn.Linear(4, 3).double()
    nn.init.zeros_(flat.weight)
    nn.init.zeros_(flat.bias)

    def root(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs.clamp_min(0) ** 1.5).sum(dim=1)

    it = fastif.Explainer(fastif.TorchModel(flat, loss=root), data(), solver=solver, damping=0.1)
    with pytest.raises(errors.NonFiniteError, match="no finite second derivative"):
        it.scores(data(2))
