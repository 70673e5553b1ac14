"""RunStore: a run as a directory that survives being killed, and can be gone on with, replayed and read.

    run.json             what was asked for, versions, hashes of what was read; the state; the hashes of finished files
    parts/*.safetensors  what is finished of an unfinished run, each piece with the hash of its own content
    .lock                held by the process that writes, or that has others make pieces for it

Every file is written whole or not at all, and a piece of work is looked up by the name of what it is: a run that was
killed and is started again with the same request does the rest, and ends with the same bytes. Nothing here depends on
the clock. Knows files and tensors, and neither models nor what a run computes.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from fastif.errors import ConfigurationError, StoredFileError
from fastif.files import json_sha256, remove_left_behind, replacing, sha256
from fastif.keeping import Tensors, content_sha256
from fastif.locks import take_lock
from fastif.origin import located, seen_from
from fastif.version import __version__

FORMAT = "fastif.run"
FORMAT_VERSION = 1
RUNNING, COMPLETE = "running", "complete"
DESCRIPTION = "run.json"
PARTS = "parts"
LOCK = ".lock"
ORIGIN = "origin"  # where relative names in the request begin, as seen from the run; the result does not depend on it
DIFFERENCES = 5  # between two requests, that a message lists


class RunStore:
    """A run directory, open for writing by this process alone or for reading.

    Make one with `begin`, which goes on with an unfinished run of the same request, or `read`; or, in a process that
    the writing one started, with `joined`.
    """

    def __init__(self, path: Path, description: dict[str, Any]) -> None:
        self.path = path
        self._description = description

    @classmethod
    @contextlib.contextmanager
    def begin(
        cls, path: str | os.PathLike[str], request: Mapping[str, Any], *, origin: Path | None = None
    ) -> Iterator["RunStore"]:
        """Open a run for writing: a new one, or one that has the same request and may be unfinished.

        Args:
            path: the directory; it may be there if it is empty or such a run.
            request: everything that the result depends on, as JSON can hold it.
            origin: the directory where relative names in the request begin; None if there are none.
        """
        directory = Path(path)
        with _writing(directory):
            _check_free(directory)
        with _locked(directory):
            if (directory / DESCRIPTION).exists():
                description = _read(directory)
                if _holds_nothing(directory, description):  # such as a start that failed at its data
                    description = _new(request)
                _check_same(directory, description["request"], request)
            else:
                description = _new(request)
            description[ORIGIN] = None if origin is None else seen_from(directory, origin)
            with _writing(directory):
                for place in (directory, directory / PARTS):  # the lock says that nobody is at work there
                    remove_left_behind(place)
            store = cls(directory, description)
            store._write_description()
            yield store

    @classmethod
    def joined(cls, path: str | os.PathLike[str]) -> "RunStore":
        """Open a run that the process which started this one has begun, to make pieces of it and nothing else."""
        return cls(Path(path), _read(Path(path)))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "RunStore":
        """Open a finished run for reading."""
        directory = Path(path)
        description = _read(directory)
        if description["state"] != COMPLETE:
            raise StoredFileError(
                f"the run {directory} is not finished. Give the command that made it once more, and it goes on."
            )
        return cls(directory, description)

    @property
    def request(self) -> dict[str, Any]:
        """What the run was asked to do."""
        return dict(self._description["request"])

    @property
    def origin(self) -> Path | None:
        """The directory where relative names in the request begin; None where that is not known."""
        noted = self._description.get(ORIGIN)
        return None if noted is None else (self.path.resolve() / noted).resolve()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the command that made the run, with names of files as they are in the present directory."""
        return located(self._description["request"].get("arguments") or {}, self.origin)

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to do."""
        return bool(self._description["state"] == COMPLETE)

    def piece(self, name: str, make: Callable[[], Tensors]) -> Tensors:
        """Return a piece of the work: from the file of it if it was done before, else made now and kept.

        The request and the name say what it is. A piece whose file is damaged is made again.
        """
        file = self.path / PARTS / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.safetensors"
        found = _load_piece(file, name)
        if found is not None:
            return found
        made = {key: tensor.detach().cpu().contiguous() for key, tensor in make().items()}
        with _writing(file.parent), replacing(file) as temporary:
            save_file(made, temporary, metadata={"name": name, "sha256": content_sha256(made)})
        return made

    def add(self, name: str, write: Callable[[Path], None]) -> None:
        """Write one of the files of the result, whole or not at all, and note its hash."""
        with _writing(self.path), replacing(self.path / name) as temporary:
            write(temporary)
        self.note(name)

    def note(self, name: str) -> None:
        """Take a file that was written here whole, by something that knows its own format, into the result."""
        self._description["files"][name] = sha256(self.path / name)

    def add_json(self, name: str, content: Any) -> None:
        """Write a result that JSON can hold."""
        words = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        self.add(name, lambda path: _write_text(path, words))

    def add_rows(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows as JSON, one a line."""

        def write(path: Path) -> None:
            with open(path, "w", encoding="utf-8") as stream:
                for row in rows:
                    stream.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

        self.add(name, write)

    def add_tensors(self, name: str, tensors: Tensors) -> None:
        """Write a result that is tensors."""
        plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        self.add(name, lambda path: save_file(plain, path))

    def finish(self) -> None:
        """Call the run complete, and throw its parts away."""
        self._description["state"] = COMPLETE
        self._write_description()
        shutil.rmtree(self.path / PARTS, ignore_errors=True)

    def file(self, name: str) -> Path:
        """Return the path of a file of the result, checked against its hash."""
        noted = self._description["files"].get(name)
        path = self.path / name
        if noted is None:
            raise StoredFileError(f"the run {self.path} has no {name}; it has {', '.join(self._description['files'])}.")
        try:
            seen = sha256(path)
        except OSError as error:
            raise StoredFileError(f"{path} cannot be read, though the run says it has it: {error}") from error
        if seen != noted:
            raise StoredFileError(f"{path} is damaged: it does not have the sha256 that {DESCRIPTION} notes of it.")
        return path

    def json(self, name: str) -> Any:
        """Return a result that is JSON."""
        return json.loads(self.file(name).read_text(encoding="utf-8"))

    def tensors(self, name: str) -> Tensors:
        """Return a result that is tensors."""
        return load_file(self.file(name))

    def _write_description(self) -> None:
        words = json.dumps(self._description, indent=1, sort_keys=True, allow_nan=False) + "\n"
        with _writing(self.path), replacing(self.path / DESCRIPTION) as temporary:
            _write_text(temporary, words)


def is_begun(path: str | os.PathLike[str]) -> bool:
    """Return whether a run is there that is not finished, so that the same request goes on with it."""
    try:
        return bool(_read(Path(path))["state"] == RUNNING)
    except StoredFileError:
        return False


def _check_free(directory: Path) -> None:
    """Raise for a directory that holds something and is no run."""
    others = sorted(each.name for each in directory.iterdir() if each.name != LOCK)
    if others and DESCRIPTION not in others:
        raise StoredFileError(
            f"{directory} holds {others[0]} and is no run, so that nothing is written there. Choose another directory."
        )


def _new(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain = json.loads(json.dumps(dict(request), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"the request of a run must be what JSON can hold: {error}.") from error
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fastif": __version__,
        "torch": torch.__version__,
        "request": plain,
        "state": RUNNING,
        "files": {},
    }


def _read(directory: Path) -> dict[str, Any]:
    file = directory / DESCRIPTION
    try:
        description: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        what = "is not a run: it has no run.json" if directory.is_dir() else "is not there"
        raise StoredFileError(f"{directory} {what}. Give a directory that fastif explain -o wrote.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise StoredFileError(f"{file} cannot be read: {error}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise StoredFileError(f"{file} does not describe a run of fastif.")
    version = description.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise StoredFileError(
            f"{directory} was written by fastif {description.get('fastif')} in format {version}, and this is fastif "
            f"{__version__}, which reads up to {FORMAT_VERSION}. Install the newer one."
        )
    odd = _odd(description)
    if odd is not None:
        raise StoredFileError(f"{file} is damaged: {odd}. Copy the run again from where it was made, or make it again.")
    return description


def _odd(description: Mapping[str, Any]) -> str | None:
    """Say what a description of this format lacks, if anything; what is asked for is another's business."""
    if description.get("state") not in (RUNNING, COMPLETE):
        return f"its state is {description.get('state')!r}, and neither {RUNNING} nor {COMPLETE}"
    for name in ("files", "request"):
        if not isinstance(description.get(name), dict):
            return f"{name!r} is not there, or no object"
    if not all(isinstance(noted, str) for noted in description["files"].values()):
        return "'files' has something that is no hash"
    request = description["request"]
    asked = ("arguments", "read")  # of a command, which has both of them or, as fastif reproduce, neither
    for name in asked if any(name in request for name in asked) else ():
        if not isinstance(request.get(name), dict):
            return f"{name!r} of its request is not there, or no object"
    if not isinstance(description.get(ORIGIN), str | None):
        return f"{ORIGIN!r} is no directory"
    return None


def _holds_nothing(directory: Path, description: Mapping[str, Any]) -> bool:
    """Whether a run was begun, and neither a piece of it nor a file of its result was ever kept."""
    others = {each.name for each in directory.iterdir()} - {DESCRIPTION, LOCK, PARTS}
    return description["state"] == RUNNING and not others and not any((directory / PARTS).glob("*"))


def _check_same(directory: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    plain = json.loads(json.dumps(dict(now)))
    if json_sha256(before) == json_sha256(plain):
        return
    changed = _differences(before, plain)
    more = f"; and {len(changed) - DIFFERENCES} more" if len(changed) > DIFFERENCES else ""
    raise StoredFileError(
        f"{directory} is a run of another request: {'; '.join(changed[:DIFFERENCES])}{more}. Choose another directory "
        "for this one, or delete that one."
    )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say what differs between two requests, those of their members that are objects member by member."""
    words = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True):
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            where = "" if name in ("arguments", "read") else f"{name} "  # of a command, whose options have no two names
            words += [f"{where}{each}" for each in _differences(old, new)]
        elif _is_hash(old) and _is_hash(new):
            words.append(f"{name} has another content")
        else:
            words.append(f"{name} was {_short(old)} and is {_short(new)}")
    return words


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _short(value: Any, width: int = 60) -> str:
    words = json.dumps(value, ensure_ascii=False)
    return words if len(words) <= width else words[: width - 1] + "…"


def _load_piece(file: Path, name: str) -> Tensors | None:
    """Return what a piece's file holds, None if it is not there, damaged or of another piece."""
    try:
        tensors = load_file(file)
        with safe_open(file, "pt") as opened:
            noted = opened.metadata() or {}
    except (OSError, SafetensorError):
        return None
    whole = noted.get("name") == name and noted.get("sha256") == content_sha256(tensors)
    return tensors if whole else None


def _write_text(path: Path, words: str) -> None:
    path.write_text(words, encoding="utf-8")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep other writers out while this one works; the system lets go of the lock however the process ends."""
    with _writing(directory):
        # closed below, and the lock with it; without a buffer, which a full disk would have it write once more then
        file = open(directory / LOCK, "ab+", buffering=0)  # noqa: SIM115
    try:
        take_lock(file.fileno())
    except OSError as error:
        file.seek(0)
        holder = file.read().decode(errors="replace").strip()
        file.close()
        raise StoredFileError(
            f"{directory} is open in another process{f' (number {holder})' if holder else ''}. Wait for it, or choose "
            "another directory."
        ) from error
    try:
        with _writing(directory):
            file.seek(0)
            file.truncate()
            file.write(f"{os.getpid()}\n".encode())
        yield
    finally:
        file.close()


@contextlib.contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Make a directory to write in, and say what an error of the system means."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except (OSError, SafetensorError) as error:
        if isinstance(error, StoredFileError):
            raise
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        advice = "Make room and give the command once more: it goes on where it was." if full else "Nothing is lost."
        raise StoredFileError(f"{directory} could not be written to: {error}. {advice}") from error
