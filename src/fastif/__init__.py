"""fastif: which training examples made the model predict this, and how do I fix it?"""

from fastif.candidates import Nearest
from fastif.data import Examples
from fastif.errors import ConvergenceWarning, FastifError
from fastif.explainer import Explainer
from fastif.explanation import Explanation
from fastif.model import TorchModel
from fastif.scores import Scores
from fastif.showing import show
from fastif.solvers import ConjugateGradient, Exact, Identity, Lanczos, LiSSA, Woodbury
from fastif.version import __version__ as __version__

__all__ = [
    "ConjugateGradient",
    "ConvergenceWarning",
    "Exact",
    "Examples",
    "Explainer",
    "Explanation",
    "FastifError",
    "Identity",
    "Lanczos",
    "LiSSA",
    "Nearest",
    "Scores",
    "TorchModel",
    "Woodbury",
    "show",
]
