"""The public face: the names, the version, and a core that stays light."""

import os
import subprocess
import sys
from pathlib import Path

import fastif

PUBLIC = [
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


def test_the_public_names_are_these_and_each_is_documented() -> None:
    assert fastif.__all__ == PUBLIC
    assert all(getattr(fastif, name).__doc__ for name in PUBLIC)


def test_importing_the_package_loads_nothing_but_the_core() -> None:
    source = Path(fastif.__file__).parents[1]
    heavy = (
        "('transformers', 'datasets', 'faiss', 'fastapi', 'uvicorn', 'typer', 'rich', 'matplotlib', 'sklearn', "
        "'scipy', 'pandas')"
    )
    check = f"import sys, fastif; fastif.Explainer; print([name for name in {heavy} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    run = subprocess.run([sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_what_the_public_names_are_in_is_there_with_them_and_nothing_else() -> None:
    check = (
        "import sys, fastif; assert 'torch' not in sys.modules; assert set(fastif.__all__) <= set(dir(fastif));"
        "fastif.solvers.Exact; fastif.spectrum.Spectrum; import fastif.cli; hasattr(fastif, 'Nothing') and 1 / 0;"
        "from fastif import *; assert Exact is fastif.Exact"
    )
    source = Path(fastif.__file__).parents[1]
    subprocess.run([sys.executable, "-c", check], env={**os.environ, "PYTHONPATH": str(source)}, check=True)
