# SPDX-License-Identifier: Apache-2.0
"""Prints a table of the tree: share of comments, public declarations without a comment, includes against the layers.

tests/lint/headers/report.py [TREE]     TREE: the root of another tree, such as a checkout of an older commit

A line counts as a comment if it holds nothing but a comment, and blank lines do not count at all. "Upward" counts includes of
another module that the layers of TREE itself do not allow.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

if len(sys.argv) > 1:
    os.environ["WEIR_LINT_ROOT"] = str(pathlib.Path(sys.argv[1]).resolve())

import declarations  # noqa: E402
from declarations import tree  # noqa: E402

HEADERS = (".h", ".hpp")
UPWARD = re.compile(r"^(?P<module>\w+)/\S*: (?P=module) includes ", re.MULTILINE)


class Lines:
    """Numbers of lines with nothing but a comment, and with code."""

    def __init__(self):
        self.comments = self.code = 0

    def add(self, text):
        bare = tree.without_comments(text).splitlines()
        for line, rest in zip(text.splitlines(), bare):
            self.code += bool(rest.strip())
            self.comments += bool(line.strip()) and not rest.strip()

    def __str__(self):
        total = self.comments + self.code
        return f"{100 * self.comments / total:.1f} %" if total else "-"


def modules():
    """Folders at the top that hold installed headers or sources beside them, the lowest layer first."""
    found = {p.parts[0] for p in tree.code_files()} - {"tests", "bench", "demos"}
    return sorted(found, key=lambda m: (tree.LAYERS.index(m) if m in tree.LAYERS else len(tree.LAYERS), m))


def shares():
    """Lines by (module, kind of file). The kinds are source, header, and public header, which is a header too."""
    found = collections.defaultdict(Lines)
    public = set(declarations.paths())
    for path in tree.code_files():
        kinds = ["header" if path.suffix in HEADERS else "source"] + ["public"] * (path in public)
        for kind in kinds:
            for module in (path.parts[0], "all" if path.parts[0] in modules() else "tests and benches"):
                found[module, kind].add(tree.read(path))
    return found


def upward():
    """Numbers of includes against the layers, by module, as the check of that tree finds them."""
    script = tree.ROOT / "tests" / "lint" / "layers.py"
    if not script.exists():
        script = declarations.HERE.parent / "layers.py"
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    return collections.Counter(m["module"] for m in UPWARD.finditer(run.stdout))


def main():
    lines, above = shares(), upward()
    found, _ = declarations.scan()
    total, bare = collections.Counter(), collections.Counter()
    for declaration in found:
        for module in (declaration.module, "all"):
            for kind in ("function" if declaration.kind == "function" else "other", "any"):
                total[module, kind] += 1
                bare[module, kind] += not declaration.documented
    above["all"] = sum(above.values())
    print("| module | sources | headers | public headers | public functions without comment | other declarations | upward |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for module in (*modules(), "all"):
        cells = [module, *(lines[module, kind] for kind in ("source", "header", "public"))]
        cells += [f"{bare[module, kind]} of {total[module, kind]}" for kind in ("function", "other")]
        print("| " + " | ".join(map(str, (*cells, above[module]))) + " |")


main()
