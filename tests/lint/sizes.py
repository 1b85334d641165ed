# SPDX-License-Identifier: Apache-2.0
"""Checks the limits of size: of files, functions, lines and folders."""
import collections
import re

import tree

LINE = 90
FUNCTION = 60
# A header and its source count as one concept; the files that every folder has do not count.
CONCEPTS_PER_FOLDER = 15
NO_CONCEPT = ("README.md", "CMakeLists.txt")
# Decision records are found by an index and are never removed, so their number and the rows of the index have no limit.
RECORDS = "docs/decisions"
INDEX_ROW = "| ["
README_LINES = 60
# Test cases have a wider limit than functions.
TEST_CASE = 80
OPENER = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|using|typedef)\b")
JUSTIFIED = re.compile(r"//.*\blong:\s*\S")


# Files that may be longer than others of their kind, with the reason.
EXEMPT = {
    # Programs that were written for the reference include this one header for the whole interface. Parts of it would
    # be files that no program includes.
    "formats/capi/include/tensogram/tensogram.h": 600,
}


def file_limit(path):
    if str(path) in EXEMPT:
        return EXEMPT[str(path)]
    if path.parts[0] == "tests":
        return 800
    return 400 if "include" in path.parts else 600


def functions(text):
    """Returns (first line, last line) of every function: an outermost body in braces behind a list of parameters."""
    lines = tree.only_code(text)
    stack, head_start, found = [], 0, []
    inside = 0
    for i, c in enumerate(lines):
        if c == "{":
            head = lines[head_start:i].strip()
            scope = bool(OPENER.match(head)) and "(" not in head.split(":")[0].split("template")[-1]
            is_function = inside == 0 and not scope and head.endswith(FUNCTION_ENDS) and "(" in head
            first = lines.count("\n", 0, head_start + len(lines[head_start:i]) - len(lines[head_start:i].lstrip())) + 1
            stack.append((is_function, first))
            inside += is_function
            head_start = i + 1
        elif c == "}":
            if stack:
                is_function, first = stack.pop()
                if is_function:
                    inside -= 1
                    found.append((first, lines.count("\n", 0, i) + 1))
            head_start = i + 1
        elif c == ";" and inside == 0:
            head_start = i + 1
    return found


FUNCTION_ENDS = (")", "const", "noexcept", "override", "final", "mutable", "&&", "&", "}", "*", ">",
                 "try") + tuple("abcdefghijklmnopqrstuvwxyz_0123456789")


def check_code(path, text, out):
    lines = text.splitlines()
    if len(lines) > file_limit(path):
        out.add(path, 0, f"{len(lines)} lines, limit {file_limit(path)}")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE:
            out.add(path, number, f"{len(line)} columns, limit {LINE}")
    for first, last in functions(text):
        limit = TEST_CASE if path.parts[0] == "tests" else FUNCTION
        justified = any(JUSTIFIED.search(l) for l in lines[max(0, first - 3):first + 1])
        if last - first + 1 > limit and not (justified and last - first < 80):
            out.add(path, first, f"function of {last - first + 1} lines, limit {limit}")
    heads = [("// SPDX-License-Identifier: Apache-2.0\n", "/// @file")]
    if path.suffix == ".h":  # C headers, whose comments are those of C89
        heads.append(("/* SPDX-License-Identifier: Apache-2.0 */\n", "/** @file"))
    found = [about for first, about in heads if text.startswith(first)]
    if not found:
        out.add(path, 1, "the first line is not the SPDX line")
    elif path.parts[0] != "tests" and found[0] not in "\n".join(lines[:3]):
        out.add(path, 2, f"no {found[0]} with a sentence or two")
    if path.suffix == ".hpp" and "#pragma once" not in text:
        out.add(path, 0, "a header without #pragma once")


def main():
    out = tree.Complaints("sizes")
    everything = tree.files()
    concepts = {(str(p.parent), p.stem) for p in everything if p.name not in NO_CONCEPT}
    folders = collections.Counter(folder for folder, _ in concepts)
    for folder, count in sorted(folders.items()):
        if count > CONCEPTS_PER_FOLDER and folder != RECORDS:
            out.add(folder, 0, f"{count} concepts, limit {CONCEPTS_PER_FOLDER}")
    for path in tree.code_files():
        check_code(path, tree.read(path), out)
    for path in everything:
        if path.name == "README.md" and str(path.parent) != ".":
            count = sum(not line.startswith(INDEX_ROW) for line in tree.read(path).splitlines())
            if count > README_LINES:
                out.add(path, 0, f"{count} lines, limit {README_LINES}")
    out.finish(len(everything))


main()
