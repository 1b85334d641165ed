#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the dam break scales with ranks, over a world and by hand with MPI, and draws it.

scaling.py PROGRAMS OUT.svg [--ranks 1,2] [--size 512] [--steps 60] [--turns 5]
PROGRAMS is build/release/bench/ranks. Strong scaling: the same basin on more ranks. Weak scaling: as many cells for each rank.
The programs take turns, so that a slow spell of the machine affects all; a point is the median of all samples.
"""
import argparse
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

LAUNCHER = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated")
PROGRAMS = (("world_shallow_water", "Weir", "#225ea8"), ("mpi_shallow_water", "MPI, by hand", "#888888"))
SAMPLES = 3
WIDTH, HEIGHT, LEFT, TOP = 300, 200, 52, 34


def seconds_of(folder, program, ranks, size, steps):
    """Returns the seconds of the samples of one launch, each that of its slowest rank."""
    command = [*LAUNCHER, "-n", str(ranks), str(folder / program), str(size), str(steps), str(SAMPLES)]
    plugins = {"WEIR_MPI_FOLDER": str(folder.parents[1] / "lib" / "weir")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False,
                          env={**os.environ, **plugins})
    found = {}
    for sample, seconds in re.findall(r"^sample \d+ (\d+) (\S+)", done.stdout, re.M):
        found[sample] = max(found.get(sample, 0.0), float(seconds))
    if len(found) != SAMPLES:
        sys.exit(f"scaling: no samples from {' '.join(command)}: {done.stderr.strip()}")
    return list(found.values())


def measure(folder, ranks, size, steps, turns):
    """Returns {(program, kind, ranks): median of the seconds}; kind is "strong" or "weak"."""
    cases = {(program, kind, r): size if kind == "strong" else round(size * math.sqrt(r))
             for program, _, _ in PROGRAMS for kind in ("strong", "weak") for r in ranks}
    taken = {case: [] for case in cases}
    for _ in range(turns):
        for (program, kind, r), cells in cases.items():
            taken[program, kind, r] += seconds_of(folder, program, r, cells, steps)
    return {case: statistics.median(all_seconds) for case, all_seconds in taken.items()}


def place(value, lowest, highest, length):
    return (value - lowest) / (highest - lowest) * length


def panel(at, title, label, ranks, lines, highest):
    """Returns the SVG of one diagram. `lines` are (name, colour, values); the first one is the ideal."""
    left, last = at + LEFT, max(ranks)
    out = [f'<text x="{left}" y="{TOP - 14}" font-weight="bold">{title}</text>',
           f'<text x="{left + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">ranks</text>',
           f'<text transform="translate({left - 38},{TOP + HEIGHT / 2}) rotate(-90)" text-anchor="middle">{label}</text>',
           f'<path d="M{left},{TOP}v{HEIGHT}h{WIDTH}" fill="none" stroke="#333"/>']
    for r in ranks:
        x = left + place(r, 0, last, WIDTH)
        out.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{r}</text>')
    for tick in (highest / 4, highest / 2, 3 * highest / 4, highest):
        y = TOP + HEIGHT - place(tick, 0, highest, HEIGHT)
        out.append(f'<path d="M{left},{y:.1f}h{WIDTH}" stroke="#ddd"/><text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for number, (name, colour, values) in enumerate(lines):
        points = [(left + place(r, 0, last, WIDTH), TOP + HEIGHT - place(v, 0, highest, HEIGHT)) for r, v in zip(ranks, values)]
        dash = ' stroke-dasharray="4 3"' if number == 0 else ""
        out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="none" stroke="{colour}" '
                   f'stroke-width="2"{dash}/>')
        if number > 0:
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in points]
        y = TOP + HEIGHT - 12 - 16 * number
        figures = ", ".join(f"{v:.2f}" for v in values[1:]) if number > 0 else ""
        out.append(f'<text x="{left + WIDTH - 8}" y="{y}" text-anchor="end" fill="{colour}">{name} {figures}</text>')
    return "\n".join(out)


def drawing(seconds, ranks, size, steps):
    strong = [("ideal", "#444444", list(map(float, ranks)))]
    weak = [("ideal", "#444444", [1.0] * len(ranks))]
    for program, name, colour in PROGRAMS:
        strong.append((name, colour, [seconds[program, "strong", ranks[0]] * ranks[0] / seconds[program, "strong", r] for r in ranks]))
        weak.append((name, colour, [seconds[program, "weak", ranks[0]] / seconds[program, "weak", r] for r in ranks]))
    width = 2 * (LEFT + WIDTH) + 60
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{TOP + HEIGHT + 48}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{TOP + HEIGHT + 48}" fill="white"/>',
        panel(0, f"Strong scaling: {size} x {size} cells, {steps} steps", "speed-up", ranks, strong, max(ranks)),
        panel(LEFT + WIDTH + 30, f"Weak scaling: {size * size} cells for each rank", "time on 1 rank / time", ranks, weak, 1.2),
        "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    if shutil.which(LAUNCHER[0]) is None:
        sys.exit(f"scaling: {LAUNCHER[0]} is not installed")
    ranks = sorted(int(r) for r in options.ranks.split(","))
    seconds = measure(options.programs.resolve(), ranks, options.size, options.steps, options.turns)
    for (program, kind, r), value in seconds.items():
        print(f"{program} {kind} on {r}: {value * 1e3:.1f} ms")
    options.out.write_text(drawing(seconds, ranks, options.size, options.steps), encoding="utf-8")


if __name__ == "__main__":
    main()
