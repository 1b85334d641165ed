# SPDX-License-Identifier: Apache-2.0
"""Decision records: valid heads and sections, replacements that both records name, an index with every record once.

`decisions.py --index` prints the rows of the index in docs/decisions/README.md.
"""
import collections
import datetime
import re
import sys

import tree

FOLDER = "docs/decisions"
INDEX = f"{FOLDER}/README.md"
# The first digit of a record's number is the position of its area in this list.
AREAS = ("project", "map", "engine", "replay", "model", "run", "bench", "tensogram", "hn4", "tessera")
HEAD = ("Date", "Status", "Area", "Supersedes")
SECTIONS = ("Context", "Decision", "Figures", "Tried and rejected", "What would change it")
OPTIONAL = ("Tried and rejected",)

NAME = re.compile(r"(\d{3})-[a-z0-9]+(-[a-z0-9]+)*\.md")
TITLE = re.compile(r"# (\d{3}): (\S.*)")
LINK = re.compile(r"\[(\d{3})\]\((\d{3}-[a-z0-9-]+\.md)\)")
TARGET = re.compile(r"\]\(([^)\s]+\.md)\)")

record = collections.namedtuple("record", "name number title date status area supersedes")


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def linked(text):
    """File names that `[102](102-x.md), [103](103-y.md)` links to; None if the text is anything else."""
    links = [LINK.fullmatch(part) for part in text.split(", ")]
    if not all(links) or any(link[1] != link[2][:3] for link in links):
        return None
    return [link[2] for link in links]


def successor(status):
    """File name of the record that replaces one of this status, or None."""
    files = linked(status.removeprefix("superseded by ")) if status.startswith("superseded by ") else None
    return files[0] if files and len(files) == 1 else None


def is_date(text):
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def check_head(r, complain):
    if r.number != r.name[:3]:
        complain(f"the title has the number {r.number}, expected {r.name[:3]}")
    if not is_date(r.date):
        complain(f'the date is "{r.date}", expected YEAR-MONTH-DAY')
    if r.status not in ("accepted", "rejected") and successor(r.status) is None:
        complain(f'the status is "{r.status}", expected accepted, rejected or superseded by [NNN](NNN-title.md)')
    if r.area not in AREAS:
        complain(f'the area is "{r.area}", expected one of {", ".join(AREAS)}')
    elif AREAS.index(r.area) != int(r.name[0]):
        complain(f'numbers of the area "{r.area}" begin with {AREAS.index(r.area)}')
    if r.supersedes != "none" and linked(r.supersedes) is None:
        complain(f'it supersedes "{r.supersedes}", expected none or links [NNN](NNN-title.md)')


def check_sections(text, complain):
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    found, bodies = parts[1::2], parts[2::2]
    expected = [s for s in SECTIONS if s in found or s not in OPTIONAL]
    if found != expected:
        complain(f"the sections are {found}, expected {expected}")
    for heading, body in zip(found, bodies):
        if not body.strip():
            complain(f'the section "{heading}" is empty')


def read_record(path, complain):
    """The record of a file, or None if its head cannot be read."""
    text = tree.read(path)
    lines = text.splitlines() + [""] * 5
    title = TITLE.fullmatch(lines[0])
    if not title or lines[1] or cells(lines[2]) != list(HEAD) or len(cells(lines[4])) != len(HEAD):
        complain(f"the head is not `# NNN: Title` and a table with the columns {', '.join(HEAD)}")
        return None
    r = record(path.name, title[1], title[2], *cells(lines[4]))
    check_head(r, complain)
    check_sections(text, complain)
    for target in TARGET.findall(text):
        if not (tree.ROOT / FOLDER / target).is_file():
            complain(f'the link to "{target}" leads nowhere')
    return r


def check_replacements(records, out):
    """Of two records, one of which replaces the other, both say so."""
    by_name = {r.name: r for r in records}
    for r in records:
        later = by_name.get(successor(r.status))
        if successor(r.status) and (later is None or r.name not in (linked(later.supersedes) or [])):
            out.add(f"{FOLDER}/{r.name}", 0, f"{successor(r.status)} does not say that it supersedes this record")
        for name in linked(r.supersedes) or []:
            earlier = by_name.get(name)
            if earlier is None or successor(earlier.status) != r.name:
                out.add(f"{FOLDER}/{r.name}", 0, f"the status of {name} is not superseded by this record")
            elif earlier.date > r.date:
                out.add(f"{FOLDER}/{r.name}", 0, f"it is older than {name}, which it supersedes")


def index_rows(records):
    return [f"| [{r.number}]({r.name}) | {r.title} | {r.date} | {r.status} | {r.area} |" for r in records]


def check_index(records, out):
    listed = [line for line in tree.read(INDEX).splitlines() if line.startswith("| [")]
    expected = index_rows(records)
    for row in expected:
        if listed.count(row) != 1:
            out.add(INDEX, 0, f"expected once, found {listed.count(row)} times: {row}")
    for row in listed:
        if row not in expected:
            out.add(INDEX, 0, f"is the row of no record: {row}")
    if sorted(listed) == sorted(expected) and listed != expected:
        out.add(INDEX, 0, "the rows are not in the order of the numbers")


def read_records(out):
    records = []
    for path in tree.files():
        if str(path.parent) != FOLDER or path.name == "README.md":
            continue
        if not NAME.fullmatch(path.name):
            out.add(path, 0, "expected a record with the name NNN-short-title.md")
            continue
        r = read_record(path, lambda text, path=path: out.add(path, 0, text))
        records += [r] if r else []
    return records


def main():
    out = tree.Complaints("decisions")
    records = read_records(out)
    if sys.argv[1:] == ["--index"]:
        print("\n".join(index_rows(records)))
        return
    for number, count in sorted(collections.Counter(r.name[:3] for r in records).items()):
        if count > 1:
            out.add(FOLDER, 0, f"{count} records have the number {number}")
    check_replacements(records, out)
    if (tree.ROOT / INDEX).is_file():
        check_index(records, out)
    else:
        out.add(INDEX, 0, "is missing")
    out.finish(len(records))


main()
