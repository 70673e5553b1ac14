"""A data set of the Hugging Face hub, by its name: `owner/name`, `owner/name:split`, `owner/name:configuration:split`.

Knows: `datasets`, imported when it is needed. The network is used by `datasets.load_dataset` alone, which keeps what it
has fetched; without a network, sets fetched before still load.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fastif.errors import ConfigurationError, DataError, EmptyDataError
from fastif.integrations.tables.arrow import raw_of
from fastif.integrations.tables.raw import RawTable

PART = r"[\w.+-]+(?:\[[^\]]*\])?"  # of a split, datasets takes a range: train[:100]
NAME = re.compile(rf"(\w[\w.-]*(?:/\w[\w.-]*)?)(?::({PART}))?(?::({PART}))?")


@dataclass(frozen=True)
class HubName:
    """What a name of the hub asks for.

    >>> HubName.parsed("nyu-mll/glue:mnli:train")
    HubName(name='nyu-mll/glue', configuration='mnli', split='train')
    """

    name: str
    configuration: str | None = None
    split: str | None = None

    @classmethod
    def parsed(cls, source: str, split: str | None = None) -> HubName:
        """Take a name apart; `split` may be given beside it."""
        match = NAME.fullmatch(source)
        if match is None:
            raise ConfigurationError(f"{source!r} is no name of a data set: it is owner/name:configuration:split.")
        name, *parts = match.groups()
        rest = [part for part in parts if part is not None]
        inside = rest[-1] if rest else None
        if inside is not None and split is not None and inside != split:
            if len(rest) == 1:  # owner/name:configuration, with the split given beside it
                return cls(name, inside, split)
            raise ConfigurationError(f"{source} names the split {inside!r}, and split={split!r} another: give one.")
        return cls(name, rest[0] if len(rest) == 2 else None, inside or split)


def is_hub_name(source: str) -> bool:
    """Whether a string could be the name of a data set on the hub.

    >>> is_hub_name("stanfordnlp/sst2:train"), is_hub_name("a/b/c"), is_hub_name("../data")
    (True, False, False)
    """
    return NAME.fullmatch(source) is not None


def read_hub(wanted: HubName, where: str, *, default: str) -> RawTable:
    """Fetch a data set; `default` is the split that is taken where none is named and there are several."""
    try:
        import datasets
    except ImportError as error:
        raise ConfigurationError(
            f"{where} is no file here. To look for it on the hub needs datasets, which is not installed: pip install "
            "'fastif[hf]'. Without it, fastif reads jsonl, csv and tsv files."
        ) from error
    try:
        loaded = datasets.load_dataset(wanted.name, wanted.configuration, split=wanted.split)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{where}: there is no such file, and datasets.load_dataset({wanted.name!r}, {wanted.configuration!r}, "
            f"split={wanted.split!r}) failed: {reason} Check the name (owner/name:split, or "
            "owner/name:configuration:split) and the network, or give a .jsonl, .csv, .tsv or .parquet file."
        ) from error
    if isinstance(loaded, dict):
        splits = list(loaded)
        if len(splits) > 1 and default not in splits:
            raise DataError(
                f"{where} has the splits {', '.join(splits)}: say which, as in {wanted.name}:{splits[0]}, or with "
                "--split (in Python: split=)."
            )
        if not splits:
            raise EmptyDataError(f"{where} has no split and so no row.")
        loaded = loaded[splits[0] if len(splits) == 1 else default]
    return raw_of(loaded.with_format("arrow")[:], where)
