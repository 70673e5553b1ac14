"""The directory of the demo: what of it may be replaced, and the list by which the next demo knows that.

    fastif-demo.json    the name of the format, and the files that the demo wrote with their hashes

A file is deleted only if the list names it and it still has the hash that stands there. Whatever else lies where the
demo writes is a person's, also if it was once the demo's: then nothing is deleted at all. Knows files, and no demo.
"""

import contextlib
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from fastif.errors import FastifError, StoredFileError
from fastif.files import replacing, sha256

LIST = "fastif-demo.json"
FORMAT, FORMAT_VERSION = "fastif.demo", 1


@dataclass(frozen=True)
class DemoPlace:
    """A directory that demos are written to.

    Args:
        path: the directory; other files in it are left alone.
        names: the files and directories in it that a demo writes.
    """

    path: Path
    names: Sequence[str]

    def make_room(self) -> None:
        """Remove what an earlier demo wrote; raise, and remove nothing, if anything else is in its place."""
        if self.path.exists() and not self.path.is_dir():
            raise StoredFileError(
                f"{self.path} is a file, and no directory to write a demo to. Choose another with -o."
            )
        there = self._there()
        listed = self._listed() if there or (self.path / LIST).exists() else {}
        for file in there:
            name = file.relative_to(self.path).as_posix()
            if name not in listed or file.is_symlink() or sha256(file) != listed[name]:
                raise StoredFileError(
                    f"{self.path} holds {name}, which was not made by fastif demo, or was changed since, so that "
                    "nothing there is replaced. Choose another directory with -o, or move that away."
                )
        self.path.mkdir(parents=True, exist_ok=True)
        for file in there:
            file.unlink()
        for directory in self._directories():
            directory.rmdir()
        self.write_list()  # from here on, what appears under these names is the demo's

    def write_list(self) -> None:
        """Write down which files are there now."""
        files = {file.relative_to(self.path).as_posix(): sha256(file) for file in self._there()}
        words = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, "files": files}, indent=1)
        with replacing(self.path / LIST) as temporary:
            temporary.write_text(words + "\n", encoding="utf-8")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """While a demo is written: keep the list also if it is stopped, and say what an error of the system means."""
        try:
            self.make_room()
            try:
                yield
            finally:
                self.write_list()
        except (OSError, SafetensorError) as error:
            if isinstance(error, FastifError | BrokenPipeError):  # a pipe that is closed has nothing to do with files
                raise
            raise StoredFileError(
                f"the demo could not be written to {self.path}: {error}. Make room there, or choose another directory "
                "with -o."
            ) from error

    def _there(self) -> list[Path]:
        """Return everything under the demo's names that is no directory; a link is looked at, not followed."""
        found = []
        for top in (self.path / name for name in self.names):
            if top.is_dir() and not top.is_symlink():
                inside = (Path(folder, name) for folder, *names in os.walk(top) for name in itertools.chain(*names))
                found += [each for each in inside if each.is_symlink() or not each.is_dir()]
            elif top.exists() or top.is_symlink():
                found.append(top)
        return sorted(found)

    def _directories(self) -> list[Path]:
        """Return the directories under the demo's names, the innermost first."""
        tops = [top for name in self.names if (top := self.path / name).is_dir()]
        return [Path(folder) for top in tops for folder, *_ in os.walk(top, topdown=False)]

    def _listed(self) -> dict[str, str]:
        """Return the hashes of what an earlier demo wrote, by the names of the files."""
        file = self.path / LIST
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            if content["format"] != FORMAT or content["format_version"] > FORMAT_VERSION:
                raise ValueError("it has another format")
            return dict(content["files"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            why = "is not there" if isinstance(error, FileNotFoundError) else f"could not be read: {error}"
            raise StoredFileError(
                f"{self.path} was not made by fastif demo, as far as can be told: a demo leaves a list of its files, "
                f"{LIST}, which {why}. Nothing is replaced. Choose another directory with -o, or "
                "delete that one yourself."
            ) from error
