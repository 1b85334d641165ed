# SPDX-License-Identifier: Apache-2.0
"""Checks that every module and every README below it has the same five headings."""
import re

import tree

HEADINGS = ["Does", "Does not", "Read first", "Invariants", "Tests"]
FOLDERS = tree.LAYERS + ("bench", "tests", "docs")


def main():
    out = tree.Complaints("readmes")
    present = {str(p) for p in tree.files()}
    wanted = {f"{folder}/README.md" for folder in FOLDERS}
    wanted |= {p for p in present if p.endswith("/README.md") and not p.startswith("demos/")}
    for name in sorted(wanted):
        if name not in present:
            out.add(name, 0, "is missing")
            continue
        found = re.findall(r"^## (.*)$", tree.read(name), re.MULTILINE)
        if found != HEADINGS:
            out.add(name, 0, f"headings are {found}, expected {HEADINGS}")
    out.finish(len(wanted))


main()
