"""Bytes of a file to text: UTF-8, with or without its mark; anything else is named, with the way to convert it.

Knows: encodings, and the first bytes of files that are no text at all. Does not know: what the text says.
"""

from __future__ import annotations

import codecs
import shlex
from pathlib import Path

from fastif.errors import StoredFileError

# the first bytes of files that people rename, or take for a table
SIGNATURES = (
    (b"PAR1", "a parquet file", "rename it to end in .parquet"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook", "unzip it, or save the sheet as csv"),
    (b"\x1f\x8b", "gzip-compressed", "unpack it with gunzip"),
    (b"BZh", "bzip2-compressed", "unpack it with bunzip2"),
    (b"\xfd7zXZ\x00", "xz-compressed", "unpack it with unxz"),
    (b"\x28\xb5\x2f\xfd", "zstandard-compressed", "unpack it with unzstd"),
    (b"ARROW1", "an Arrow file", "save it as parquet"),
    (b"SQLite format 3", "an SQLite database", "export a table from it as csv"),
    (b"%PDF", "a PDF document", "give a table"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook", "save the sheet as csv"),
)
# the longer marks first: that of UTF-32 begins with that of UTF-16
MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
HEAD = 4096  # bytes from which the encoding of a file without a mark is guessed


def binary_kind(content: bytes) -> tuple[str, str] | None:
    """Return what kind of binary file this is and what to do about it, or None if its first bytes are of none known."""
    for signature, kind, advice in SIGNATURES:
        # "BZh" may begin a text as well; what is compressed is no UTF-8
        if content.startswith(signature) and not (signature == b"BZh" and content[:HEAD].isascii()):
            return kind, advice
    return None


def decode(content: bytes, where: str, path: Path) -> str:
    """Return the text of a file, or say what the file is instead and how to convert it."""
    kind = binary_kind(content)
    if kind is not None:
        raise StoredFileError(f"{where} is {kind[0]}, whatever its name says: {kind[1]}.")
    for mark, encoding in MARKS:
        if content.startswith(mark):
            raise StoredFileError(f"{where} is {encoding}, and fastif reads UTF-8. {_convert(path, encoding)}")
    nul = content.find(b"\0")
    if nul >= 0:
        raise StoredFileError(_about_nul(content, nul, where, path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # "utf-8-sig" counts from behind the mark
        at = error.start + (len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0)
        raise StoredFileError(
            f"{where} is not UTF-8: byte {content[at]:#04x} in line {_line(content, at)} (byte {at + 1} of the file). "
            f"Files like this are often {_western(content)}. {_convert(path, _western(content))}"
        ) from error


def _about_nul(content: bytes, nul: int, where: str, path: Path) -> str:
    if not content[nul:].strip(b"\0"):
        begins = (
            f"ends in {len(content) - nul:,} NUL bytes, from line {_line(content, nul)} on" if nul else "is all NUL"
        )
        return (
            f"{where} {begins}: it was not written to the end, as when a machine or its disk fails. Write or fetch it "
            "again."
        )
    head = content[:HEAD]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    # in letters of two bytes the NULs are in one half of them, and of what is damaged in both
    if max(even, odd) > len(head) // 4 > 0 and max(even, odd) > 4 * min(even, odd):
        encoding = "UTF-16LE" if odd > even else "UTF-16BE"
        return f"{where} is not UTF-8 but looks like {encoding} without its mark. {_convert(path, encoding)}"
    return (
        f"{where} has a NUL byte in line {_line(content, nul)} (byte {nul + 1} of the file), so it is damaged or no "
        "text. If it is text, remove them: tr -d '\\000' < "
        f"{shlex.quote(str(path))} > {shlex.quote(str(path.with_stem(path.stem + '.clean')))}"
    )


def _western(content: bytes) -> str:
    # the bytes 0x80 to 0x9f are letters and quotation marks on Windows, and control characters in Latin-1
    return "WINDOWS-1252" if any(0x80 <= byte <= 0x9F for byte in content[: 1 << 20]) else "ISO-8859-1"


def _convert(path: Path, encoding: str) -> str:
    target = path.with_stem(path.stem + ".utf8")
    return f"Convert it: iconv -f {encoding} -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(str(target))}"


def _line(content: bytes, at: int) -> int:
    return content.count(b"\n", 0, at) + 1
