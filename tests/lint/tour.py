# SPDX-License-Identifier: Apache-2.0
"""Checks that the names in Markdown files exist: `file` as a file, and `file · symbol` as a word in that file."""
import os
import re

import tree

CODE_SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"^[\w.-]+(/[\w.-]+)+$")
TOUR = "docs/tour.md"


def symbol_in(symbol, text):
    """Returns whether every part of `a::b` occurs as a word in the code, comments excluded."""
    code = tree.without_comments(text)
    return all(re.search(rf"\b{re.escape(part)}\b", code) for part in symbol.split("::"))


def check(path, number, span, out):
    file, _, symbol = (part.strip() for part in span.partition("·"))
    if not PATH.match(file):
        if symbol:
            out.add(path, number, f'"{file}" is no path of the project')
        return 0
    if file.startswith("."):
        file = os.path.normpath(path.parent / file)
    top = file.split("/")[0]
    if not symbol and not (tree.ROOT / top).is_dir():
        return 0  # a path inside another place, such as a run folder
    if top in ("build", "runs"):
        return 0
    if not (tree.ROOT / file).exists():
        out.add(path, number, f'"{file}" does not exist')
    elif symbol and not symbol_in(symbol, tree.read(file)):
        out.add(path, number, f'"{symbol}" does not stand in {file}')
    return 1


def main():
    out = tree.Complaints("tour")
    checked = 0
    names = [p for p in tree.files() if p.suffix == ".md" and p.parts[0] != "demos"]
    for path in names:
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            for span in CODE_SPAN.findall(line):
                checked += check(path, number, span, out)
    if not any(str(p) == TOUR for p in names):
        out.add(TOUR, 0, "is missing")
    out.finish(checked)


main()
