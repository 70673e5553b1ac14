r"""Self-influence of every training example in one pass, from the eigenvectors of H.

$$g^\top (H + \lambda I)^{-1} g = \frac{\|g\|^2}{c + \lambda}
  - \sum_j (u_j \cdot g)^2 \Big(\frac{1}{c + \lambda} - \frac{1}{\Lambda_j + \lambda}\Big)$$

for eigenvectors $u_j$ with eigenvalues $\Lambda_j$ and c for all else. Exact with all eigenvectors. With the r
strongest, the part $\rho$ of $\|g\|^2$ outside of them meets eigenvalues between c and the smallest kept one,
$\Lambda_r$: the value is too large by at most $\rho\, (1/(c + \lambda) - 1/(\Lambda_r + \lambda))$, which is reported
beside it.
"""

import torch
from torch import Tensor

from fastif import vectors
from fastif.data import Examples
from fastif.errors import NonFiniteError
from fastif.jacobian import CHECKED_EXAMPLES, Jacobian
from fastif.model import Model
from fastif.progress import Progress, silent
from fastif.solvers.eigen import EigenSystem


def self_influence(
    model: Model,
    data: Examples,
    system: EigenSystem,
    damping: float,
    *,
    batch_size: int = 64,
    progress: Progress = silent,
) -> tuple[Tensor, Tensor]:
    """Return the self-influence of every example, and by how much each may be too large; both (n,), on the CPU."""
    system.check_definite(damping)
    values, errors = [], []
    outside = 1 / (system.rest + damping) if system.has_rest else 0.0
    weakest_kept = float(system.values.min()) if len(system.values) else system.rest
    slack = max(0.0, outside - 1 / (weakest_kept + damping)) if system.has_rest else 0.0
    jacobian = Jacobian(model, model.place(data.few(CHECKED_EXAMPLES)))
    for batch in data.batches(batch_size, most=batch_size):
        progress("self-influence", int(batch.ids[0]), len(data))
        rows = vectors.flatten(jacobian.gradients(model.place(batch))).to(system.basis)
        inside = (rows @ system.basis).square()
        rest = (rows.square().sum(dim=1) - inside.sum(dim=1)).clamp_min(0)
        values.append(((inside / (system.values + damping)).sum(dim=1) + rest * outside).cpu())
        errors.append((rest * slack).cpu())
    progress("self-influence", len(data), len(data))
    dtype = vectors.dtype(model.parameters)
    found = torch.cat(values).to(dtype)
    _check_finite(found)
    return found, torch.cat(errors).to(dtype)


def _check_finite(values: Tensor) -> None:
    if not torch.isfinite(values).all():
        index = int((~torch.isfinite(values)).nonzero()[0])
        raise NonFiniteError(
            f"the self-influence of training example {index} is {values[index].item()}. Its gradient is not finite: "
            "look at that example, or use float64."
        )
