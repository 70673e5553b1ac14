"""fastif on the shared problem, with its solvers, in float32."""

from functools import partial

import fastif

PACKAGES = ["fastif"]
NOTES = {}


def explain(given, solver, trainable=None, **options):
    """Return the scores from an `Explainer`."""
    options.setdefault("damping", given.damping)
    model = fastif.TorchModel(given.module, loss="cross_entropy", trainable=trainable)
    explainer = fastif.Explainer(model, given.train, solver=solver, progress=False, **options)
    scores = explainer.scores(given.queries)
    NOTES["method"] = scores.provenance["method"]
    return scores.values


METHODS = {
    "auto": partial(explain, solver="auto"),
    "ConjugateGradient, preconditioned": partial(explain, solver=fastif.ConjugateGradient(preconditioner_rank=100)),
    "ConjugateGradient, preconditioned, loose": partial(
        explain, solver=fastif.ConjugateGradient(preconditioner_rank=100, tolerance=0.1)
    ),
    "ConjugateGradient, Hessian": partial(
        explain, solver=fastif.ConjugateGradient(preconditioner_rows=400), curvature="hessian"
    ),
    "ConjugateGradient, Hessian, loose": partial(
        explain, solver=fastif.ConjugateGradient(preconditioner_rows=400, tolerance=0.1), curvature="hessian"
    ),
    **{
        f"Woodbury, {rows} longest rows": partial(explain, solver=fastif.Woodbury(rows=rows))
        for rows in (20, 50, 200, 800)
    },
    "Lanczos, rank 100": partial(explain, solver=fastif.Lanczos(rank=100)),
    "Identity": partial(explain, solver=fastif.Identity()),
    "Identity, last layer": partial(explain, solver=fastif.Identity(), trainable=r"^4\.weight"),
}
