"""The solvers of the paper as numbers: damp, scale, J, B and T, and which of them belong to which experiment."""

from dataclasses import asdict, dataclass

from fastif.solvers import LiSSA
from fastif.solvers.paper_lissa import PaperLiSSA


@dataclass(frozen=True)
class SolverSettings:
    """The paper's iteration: damp, scale, J = depth, B = batch_size, T = repeats; its damping is damp x scale."""

    damp: float = 5e-3
    scale: float = 1e4
    depth: int = 1000
    batch_size: int = 1
    repeats: int = 4

    @property
    def damping(self) -> float:
        """What this adds to the diagonal of H: lambda."""
        return self.damp * self.scale

    def solver(self, seed: int = 0) -> PaperLiSSA:
        """Return the solver."""
        return LiSSA.paper(**asdict(self), seed=seed)


# damp, scale and J by what the model was trained on and what it is asked about, as in the authors' release
NLI_ON_MNLI = SolverSettings(5e-3, 1e4, 1000)
NLI_ON_HANS = SolverSettings(5e-3, 1e6, 1000)
HANS_ON_ALL = SolverSettings(5e-3, 1e6, 2000)
NLI_ON_ANLI = SolverSettings(5e-3, 1e6, 1500)
SENTIMENT = SolverSettings(5e-3, 1e4, 1000)
ORIGINAL = SolverSettings(5e-3, 1e4, 1000, batch_size=128, repeats=1)  # what the paper calls Full
