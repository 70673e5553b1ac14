"""fastif: which training examples made the model predict this, and how do I fix it?

The public names are gathered here. They are loaded when the first of them is asked for, as loading torch takes seconds:
the command line has to be there before that, or Ctrl-C in those seconds shows a traceback of an import.
"""

from typing import TYPE_CHECKING

from fastif.version import __version__ as __version__

if TYPE_CHECKING:
    from fastif.candidates import Nearest
    from fastif.data import Examples
    from fastif.errors import ConvergenceWarning, FastifError
    from fastif.explainer import Explainer
    from fastif.explanation import Explanation
    from fastif.model import TorchModel
    from fastif.scores import Scores
    from fastif.showing import show
    from fastif.solvers import ConjugateGradient, Exact, Identity, Lanczos, LiSSA, Woodbury

_HOMES = {
    "candidates": ("Nearest",),
    "data": ("Examples",),
    "errors": ("ConvergenceWarning", "FastifError"),
    "explainer": ("Explainer",),
    "explanation": ("Explanation",),
    "model": ("TorchModel",),
    "scores": ("Scores",),
    "showing": ("show",),
    "solvers": ("ConjugateGradient", "Exact", "Identity", "Lanczos", "LiSSA", "Woodbury"),
}

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

if not TYPE_CHECKING:  # or a misspelt name would be any name to a type checker

    def __getattr__(name):
        """Load what a public name is in; a module of the package is loaded as well, so that `fastif.solvers` is one."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                globals()[name] = getattr(import_module(f"fastif.{home}"), name)
                return globals()[name]
        if not name.startswith("_"):
            try:
                return import_module(f"fastif.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"fastif.{name}":
                    raise
        raise AttributeError(f"module 'fastif' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__})
