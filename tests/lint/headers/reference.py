# SPDX-License-Identifier: Apache-2.0
"""Installed headers: every public declaration has a comment, functions that can fail say how, no name is on the glossary's list,
Doxygen warns of nothing.

Exit code 77 where Doxygen is not installed. Prints the counts of each module.
"""
import collections
import re

import declarations
from declarations import tree

# Names that hide what they stand for, and a hint for each (docs/style.md, glossary).
NAMES = {
    "of": "name what is returned: context(), mesh(), file()",
    "on": "name what is returned: mesh(), stream()",
    "what": "name the thing: kind(), text(), tensor",
    "who": "name the thing: owner, caller",
    "whose": "name the thing: owner",
    "at": "name the place: address, offset, position",
    "where": "name the place: address, offset, path",
    "most": "max_...",
    "tell": "name the action: report, notify",
}
# Parts of names, between underscores or humps.
PARTS = {
    "bell": "notifier",
    "doorbell": "notifier",
    "janitor": "reaper, or name its duty",
    "most": "max_...",
    "room": "capacity, or free bytes",
    "told": "name the state: notified, reported",
}
# Neighbouring parts that have a word of their own.
PAIRS = {("memory", "source"): "allocator, byte source or token source"}
# Parts that mean another thing everywhere else: a session is a conversation, a port is an inlet or an outlet of a stage.
PARTS_OF_MODULES = {module: {"session": "guard, or name what is locked", "port": "lock, or name what is locked"}
                    for module in ("runtime", "tessera")}
# A function of this type can fail. Its comment has @error, or it says otherwise which errors the function returns.
RESULT = re.compile(r"\bresult\s*<")
# Kinds of declarations whose header says which threads may use them. A C interface says so once, at its top.
THREADED = ("function", "class", "struct")
OTHER_ERRORS = re.compile(r"\breturns the errors? of\b|\berror[^.]* may have any code\b|\bnever fails\b")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def complaints_about_name(name, module):
    """Returns the hint for a name that is on the list, or None."""
    plain = name.rstrip("_")
    parts = [p.lower() for p in PART.findall(plain)]
    known = {**PARTS, **PARTS_OF_MODULES.get(module, {})}
    return (NAMES.get(plain) or next((known[p] for p in parts if p in known), None)
            or next((PAIRS[p] for p in zip(parts, parts[1:]) if p in PAIRS), None))


def can_fail(declaration):
    return declaration.kind == "function" and RESULT.search(declaration.type)


def check(declaration, add):
    if not declaration.documented:
        add("undocumented", declaration, f'{declaration.kind} "{declaration.name}" has no comment')
    elif can_fail(declaration) and "Error" not in declaration.entries and not OTHER_ERRORS.search(declaration.comment):
        add("silent about errors", declaration, f'the function "{declaration.name}" returns a result: expected @error{{CODE, ...}}, '
            'or "Also returns the errors of ...", or "The error may have any code"')
    if "@par" in declaration.comment:
        add("unrendered", declaration, f'an entry in the comment of "{declaration.name}" is shown as text (scripts/Doxyfile, ALIASES)')
    # Other languages and programs call C functions by name, so these names stay. Their parameters have no such users.
    names = declaration.parameters
    if not declaration.path.endswith(".h"):
        names = (declaration.name, *names)
    for name in names:
        hint = complaints_about_name(name, declaration.module)
        if hint:
            add("name", declaration, f'the name "{name}" (in "{declaration.name}"): {hint}')


def main():
    declarations.skip_without_doxygen("reference")
    out = tree.Complaints("reference")
    counts = collections.defaultdict(collections.Counter)

    def add(kind, declaration, text):
        counts[declaration.module][f"{kind} {declaration.kind}" if kind == "undocumented" else kind] += 1
        out.add(declaration.path, declaration.line, text)

    found, warnings = declarations.scan()
    for declaration in found:
        counts[declaration.module]["declarations"] += 1
        check(declaration, add)
    for path in sorted({d.path for d in found if d.kind in THREADED and d.path.endswith(".hpp")}):
        if "@threads{" not in tree.read(path):
            out.add(path, 1, "no comment has @threads{...}: say at @file or at each type which threads may call what")
    for path, line, text in warnings:
        counts[path.split("/")[0]]["warnings"] += 1
        out.add(path, line, f"doxygen: {text}")
    for module, kinds in sorted(counts.items()):
        print(f"reference: {module}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    out.finish(len(found))


main()
