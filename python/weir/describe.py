# SPDX-License-Identifier: Apache-2.0
"""Describes the stages of a file as JSON: `python3 -m weir.describe FILE`. What the file prints goes to standard error."""
import json
import os
import sys

from .errors import need_numpy
from . import loading


def facts_of(file):
    """Returns the description of a file, or what has failed, as values for JSON."""
    try:
        need_numpy()
        return {"weir_stages": 1, "stages": [about.facts() for about in loading.load(file)]}
    except KeyboardInterrupt:
        raise
    except BaseException as failed:  # of the file: it may also raise SystemExit
        return {"weir_stages": 1, "error": loading.failure(file, failed)}


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 -m weir.describe FILE")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    facts = facts_of(sys.argv[1])
    json.dump(facts, answer, indent=1, allow_nan=False)
    answer.write("\n")
    answer.close()
    sys.exit(0 if "stages" in facts else 1)


if __name__ == "__main__":
    main()
