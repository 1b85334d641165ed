#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark program, writes summary.json and prints a table.

bench/run.py [--programs DIR] [--only 'ID,PATTERN*'] [--out FILE]
Ends with 0 if everything asked for could be measured, whether or not its bar holds.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import time

import peers

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIELDS = ("id", "value", "unit", "bar", "sense", "holds", "peer")


def programs_in(folder):
    """Executables of the folder and the script beside this file, sorted by name."""
    found = [p for p in sorted(folder.iterdir()) if p.is_file() and os.access(p, os.X_OK)] \
        if folder.is_dir() else []
    return [[str(p)] for p in found]


def ids_of(program):
    listed = subprocess.run([*program, "--list"], capture_output=True, text=True, check=False)
    if listed.returncode:
        raise SystemExit(f"bench: {program[-1]} --list ended with {listed.returncode}: "
                         f"{listed.stderr.strip()}")
    return listed.stdout.split()


def wanted(ids, patterns):
    return [i for i in ids if not patterns or any(fnmatch.fnmatchcase(i, p) for p in patterns)]


def measure(program, ids, rows):
    """Runs a program for some ids and appends its rows as they come. Returns what went wrong, or None."""
    with subprocess.Popen([*program, *ids], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            row = json.loads(line)
            rows.append({field: row.get(field) for field in FIELDS})
            print("  " + text_of(rows[-1]), flush=True)
    missing = sorted(set(ids) - {r["id"] for r in rows})
    for name in missing:
        rows.append({"id": name, "value": None, "unit": "", "bar": None, "sense": None,
                     "holds": False, "peer": None})
    if process.returncode or missing:
        return f"{pathlib.Path(program[-1]).name} ended with {process.returncode}" + \
            (f", without a row for {', '.join(missing)}" if missing else "")
    return None


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.4g}"


def text_of(row):
    bar = f"{row['sense']} {number(row['bar'])}" if row["bar"] is not None else ""
    verdict = "" if row["bar"] is None else "holds" if row["holds"] else "FAILS"
    if row["value"] is None:
        verdict = "not measured"
    peer = f"peer {number(row['peer'])}" if row["peer"] is not None else ""
    return f"{row['id']:<34} {number(row['value']):>14} {row['unit']:<10} {bar:<14} " \
           f"{verdict:<12} {peer}".rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="build/release/bench")
    parser.add_argument("--only", default="", help="ids or shell patterns, with commas between")
    parser.add_argument("--out", default="build/bench/summary.json")
    parser.add_argument("--no-prose", action="store_true", help="leave out the rows of prose.py")
    options = parser.parse_args()
    patterns = [p.strip() for p in options.only.split(",") if p.strip()]
    programs = programs_in(pathlib.Path(options.programs))
    if not options.no_prose:
        programs.append([sys.executable, str(ROOT / "bench" / "prose.py")])
    plan = [(p, wanted(ids_of(p), patterns)) for p in programs]
    plan = [(p, ids) for p, ids in plan if ids]
    if not plan:
        raise SystemExit(f"bench: no id matches {options.only!r}")
    rows, problems, start = [], [], time.monotonic()
    for program, ids in plan:
        print(f"{pathlib.Path(program[-1]).name}: {len(ids)} rows", flush=True)
        problem = measure(program, ids, rows)
        problems += [problem] if problem else []
    rows += peers.ratio_rows(rows)
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("[\n" + ",\n".join("  " + json.dumps(r) for r in rows) + "\n]\n",
                   encoding="utf-8")
    print(f"\n{'id':<34} {'value':>14} {'unit':<10} {'bar':<14} verdict")
    for row in rows:
        print(text_of(row))
    failing = sum(1 for r in rows if not r["holds"])
    print(f"\nweir: {len(rows)} rows, {failing} below their bar, {out}, "
          f"{time.monotonic() - start:.0f} s")
    for problem in problems:
        print(f"bench: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
