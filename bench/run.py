#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every benchmark program, writes summary.json and prints a table.

bench/run.py [--programs DIR] [--only 'ID,PATTERN*'] [--out FILE] [--required FILE]
Ends with 0 if everything asked for could be measured, whether or not its bar holds.
$WEIR_BENCH_PEERS names a folder with further programs, which join as peers (see README.md), and $WEIR_BENCH_RAY a
Python with the package ray, which runs ray_peer.py.
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
FIELDS = ("id", "value", "unit", "bar", "sense", "holds", "peer", "elsewhere", "samples", "interval", "note")


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
        rows.append({**dict.fromkeys(FIELDS), "id": name, "unit": "", "holds": False})
    if process.returncode or missing:
        return f"{pathlib.Path(program[-1]).name} ended with {process.returncode}" + \
            (f", without a row for {', '.join(missing)}" if missing else "")
    return None


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.4g}"


def verdict_of(row):
    if row["value"] is None:
        return "no peer" if row["holds"] else "not measured"
    if row["bar"] is not None:
        return "holds" if row["holds"] else "FAILS"
    return "no verdict" if too_noisy(row) else ""


def too_noisy(row):
    return row.get("interval") is not None or (row["samples"] is not None and not row["samples"]["enough"])


def text_of(row):
    bar = f"{row['sense']} {number(row['bar'])}" if row["bar"] is not None else ""
    remarks = []
    if row["peer"] is not None:
        remarks.append(f"peer {number(row['peer'])}")
    if row["elsewhere"] is not None:
        remarks.append(f"elsewhere {number(row['elsewhere'])}")
    if row["samples"] is not None:
        remarks.append(f"median of {row['samples']['quiet']} quiet of {row['samples']['taken']}")
    if row.get("interval") is not None:
        remarks.append(f"all in turn: {number(row['interval'][0])} to {number(row['interval'][1])}")
    return f"{row['id']:<34} {number(row['value']):>14} {row['unit']:<10} {bar:<14} " \
           f"{verdict_of(row):<12} {', '.join(remarks)}".rstrip()


def missing_ids(path, programs):
    """Ids of a file, one in each line, that no program has."""
    listed = {i for p in programs for i in ids_of(p)}
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [i for i in lines if i and i not in listed]


def plan_of(programs, patterns):
    """[(program, ids to measure)]; ends if a pattern matches no id at all."""
    listed = [(p, ids_of(p)) for p in programs]
    everything = [i for _, ids in listed for i in ids]
    idle = [p for p in patterns if not fnmatch.filter(everything, p)]
    if idle:
        raise SystemExit(f"bench: no id matches {', '.join(repr(p) for p in idle)}; bench/run.py --list prints all ids")
    plan = [(p, wanted(ids, patterns)) for p, ids in listed]
    return [(p, ids) for p, ids in plan if ids]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", default="build/release/bench")
    parser.add_argument("--only", default="", help="ids or shell patterns, with commas between")
    parser.add_argument("--out", default="build/bench/summary.json")
    parser.add_argument("--required", help="a file of ids without which a run of all rows is an error")
    parser.add_argument("--no-prose", action="store_true", help="leave out the rows of prose.py")
    parser.add_argument("--list", action="store_true", help="print all ids and measure nothing")
    options = parser.parse_args()
    patterns = [p.strip() for p in options.only.split(",") if p.strip()]
    programs = programs_in(pathlib.Path(options.programs))
    if not options.no_prose:
        programs.append([sys.executable, str(ROOT / "bench" / "prose.py")])
    further = os.environ.get("WEIR_BENCH_PEERS")
    if further:
        found = programs_in(pathlib.Path(further))
        if not found:
            raise SystemExit(f"bench: WEIR_BENCH_PEERS names {further!r}: expected a folder with programs, found none")
        programs += found
    with_ray = os.environ.get("WEIR_BENCH_RAY")
    if with_ray:
        programs.append([with_ray, str(ROOT / "bench" / "ray_peer.py")])
    plan = plan_of(programs, patterns)
    if options.list:
        print("\n".join(i for _, ids in plan for i in ids))
        return 0
    rows, problems, start = [], [], time.monotonic()
    if options.required and not patterns:
        missing = missing_ids(pathlib.Path(options.required), programs)
        problems += [f"no program has the row {i}, which {options.required} requires" for i in missing]
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
    noisy = sum(1 for r in rows if verdict_of(r) == "no verdict")
    without = f", {noisy} without a verdict because the machine was busy" if noisy else ""
    print(f"\nweir: {len(rows)} rows, {failing} below their bar{without}, {out}, "
          f"{time.monotonic() - start:.0f} s")
    for problem in problems:
        print(f"bench: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
