"""Labelled text from files and from the hub, for text classifiers and the command line.

    from fastif.integrations.tables import LabelMap, read_table

    table = read_table("train.csv")
    print(table.columns)  # premise + hypothesis -> label (guessed; set them with --text, --text-pair, --label)
    targets = LabelMap(model.config.id2label).encode(table)

jsonl, json, csv and tsv need nothing but Python; parquet and the hub need the extra `hf`, imported when they are used.
"""

from fastif.integrations.tables.columns import Columns
from fastif.integrations.tables.labels import LabelMap
from fastif.integrations.tables.read import read_table
from fastif.integrations.tables.table import TextTable

__all__ = ["Columns", "LabelMap", "TextTable", "read_table"]
