# SPDX-License-Identifier: Apache-2.0
"""Streams a Hugging Face `datasets` data set into a context stream, as a child process of a run:

    python3 -m weir.hf_datasets PATH [--name NAME] [--split SPLIT] [--column COLUMN] [--data-files FILE ...]

PATH, NAME, SPLIT and the files are those of `datasets.load_dataset`, which is called with `streaming=True`, so that
nothing is downloaded ahead. COLUMN has the text of a document, or its ids. The state of the source is that of the
data set (`IterableDataset.state_dict`). The package `datasets` must be installed.
"""
import argparse
import os
import sys

from .sources import Source, doc, serve


class DatasetSource(Source):
    """An iterable data set as a source. Every row is one document."""

    def __init__(self, rows, column, dataset=None):
        self.rows, self.column, self.dataset = rows, column, dataset

    def documents(self, state):
        number = 0
        if state is not None:
            number = state["rows"]
            self.rows.load_state_dict(state["state"])
        for row in self.rows:
            number += 1
            if self.column not in row:
                raise SystemExit(f'cannot read row {number}: expected the column "{self.column}", found {sorted(row)}')
            yield doc(row[self.column], {"rows": number, "state": self.rows.state_dict()}, number)


def arguments():
    words = argparse.ArgumentParser(prog="weir.hf_datasets", description="Streams a data set into a context stream.")
    words.add_argument("path", help="data set: a name, a folder, or a format such as json, text or parquet")
    words.add_argument("--name", help="configuration of the data set")
    words.add_argument("--split", help="part of the data set; needed if it has several")
    words.add_argument("--column", default="text", help="column with texts or ids")
    words.add_argument("--data-files", nargs="*", help="files for a path that is a format")
    return words.parse_args()


def one_part(rows, split):
    """The rows of the only part, if no part was chosen."""
    if split is None:
        if len(rows) != 1:
            raise SystemExit(f"cannot stream a data set: expected --split with one of {sorted(rows)}, found none")
        (rows,) = rows.values()
    return rows


def main():
    # The package and what it uses may print; standard output belongs to the protocol alone.
    lines_out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)
    given = arguments()
    try:
        import datasets
    except ImportError:
        raise SystemExit("cannot stream a data set: expected the Python package datasets, found none") from None
    rows = datasets.load_dataset(given.path, given.name, split=given.split, streaming=True, data_files=given.data_files)
    named = {"path": given.path, "name": given.name, "split": given.split, "column": given.column}
    serve(DatasetSource(one_part(rows, given.split), given.column, named), sys.stdin, lines_out)


if __name__ == "__main__":
    main()
