#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows about the whole job: runs `weir run demos/prose/prose.toml` on a fixed text and reads metrics.json.

bench/prose.py --list | [PATTERN...]       WEIR names another program than build/weir
The text is what every Debian system has: the files of /usr/share/common-licenses in byte order of their names, links
followed, one after another, the first 300,000 bytes. $WEIR_TORCH_PYTHON, a Python with PyTorch, brings in the peer.
"""
import fnmatch
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEIR = os.environ.get("WEIR", str(ROOT / "build" / "weir"))
PEER = ROOT.parent / "shared" / "peers" / "torch_prose.py"
TEXT_BYTES = 300_000
# Tokens per second of the peer's best graph on the machine where it was first measured. They are shown where PyTorch
# is absent, and nothing is judged by them.
PEER_FIGURES = {1: 22_400, 2: 26_700}


def text_d():
    folder = b"/usr/share/common-licenses"
    whole = b"".join(open(os.path.join(folder, n), "rb").read() for n in sorted(os.listdir(folder)))
    if len(whole) < TEXT_BYTES:
        raise RuntimeError(f"text D has {len(whole)} bytes, expected at least {TEXT_BYTES}")
    return whole[:TEXT_BYTES]


def lookup(metrics, key):
    """metrics["a.b"] or metrics["a"]["b"]."""
    if key in metrics:
        return metrics[key]
    for part in key.split("."):
        metrics = metrics[part]
    return metrics


class Neighbour:
    """One process that keeps a core busy while the block runs."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class Job:
    """Runs of the job, each kept under its arguments so that rows share them."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.text = self.folder / "text-d"
        self.text.write_bytes(text_d())
        self.kept = {}
        self.count = 0

    def run(self, **settings):
        """One run with `run.workers=1` unless set; returns its metrics plus `seconds`, start to end."""
        self.count += 1
        out = self.folder / f"run-{self.count}"
        settings = {"run_workers": 1, **settings}
        command = [WEIR, "run", str(ROOT / "demos" / "prose" / "prose.toml"), "--out", str(out),
                   "--set", f"stream.path={self.text}"]
        for key, value in settings.items():
            command += ["--set", f"{key.replace('_', '.', 1)}={value}"]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - start
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: "
                               f"{(done.stderr or done.stdout).strip()[-400:]}")
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
        subprocess.run(["rm", "-rf", str(out)], check=True)
        return {**metrics, "seconds": seconds}

    def runs(self, count, **settings):
        """`count` runs, at least; earlier ones with the same settings count."""
        have = self.kept.setdefault(tuple(sorted(settings.items())), [])
        while len(have) < count:
            have.append(self.run(**settings))
        return have

    def pairs(self, count):
        """`count` runs with 1 and 2 workers, taken in turn so that a slow minute meets both."""
        for i in range(1, count + 1):
            self.runs(i, run_workers=1)
            self.runs(i, run_workers=2)
        return [[m["tokens_per_second"] for m in self.runs(count, run_workers=w)] for w in (1, 2)]


def row(value, unit, sense=None, bar=None, peer=None):
    holds = bar is None or (value <= bar if sense == "<=" else value >= bar)
    return {"value": float(f"{value:.6g}"), "unit": unit, "bar": bar, "sense": sense, "holds": holds,
            "peer": peer}


def median_of(job, key, count=3, **settings):
    return statistics.median(lookup(m, key) for m in job.runs(count, **{"run_workers": 1, **settings}))


def tokens_per_s(job):
    return row(median_of(job, "tokens_per_second"), "tokens/s", ">=", 28_000)


def engine_overhead(job):
    return row(median_of(job, "engine_overhead"), "", "<=", 0.05)


def speedup_2(job):
    one, two = job.pairs(5)
    return row(max(two) / max(one), "x", ">=", 1.6)


def neighbour_ratio(job):
    with Neighbour():
        pairs = [[job.run(run_workers=w)["tokens_per_second"] for w in (1, 2)] for _ in range(3)]
    return row(statistics.median(two / one for one, two in pairs), "x", ">=", 0.9)


def learned_s(job):
    """Start to end of the process, with as many workers as the demo takes."""
    return row(median_of(job, "seconds", run_workers=min(2, os.cpu_count() or 1)), "s", "<=", 12)


def stall_s(job):
    runs = job.runs(3, run_workers=1)
    worst = max(runs, key=lambda m: m["stall_seconds"] * m["tokens_per_second"])
    build_s = worst["tokens"] / worst["tokens_per_second"]
    return row(worst["stall_seconds"], "s", "<=", float(f"{0.001 * build_s:.6g}"))


def peak_rss_mb(job):
    return row(max(m["peak_rss_bytes"] for m in job.runs(3, run_workers=1)) / 1e6, "MB", "<=", 200)


def bits_cumulative(job):
    return row(lookup(job.runs(1, run_workers=1)[0], "bits_per_byte.cumulative"), "bits/byte", "<=", 2.23)


def bits_last_quarter(job):
    return row(lookup(job.runs(1, run_workers=1)[0], "bits_per_byte.last_quarter"), "bits/byte", "<=", 1.96)


def checkpoint_stall_ms(job):
    """Longest pause for a snapshot, median of three runs that write a checkpoint every 20,000 tokens."""
    return row(median_of(job, "checkpoint_stall_ms", checkpoint_every_tokens=20_000), "ms", "<=", 1)


def torch_tokens_per_s(job, workers):
    """Median rate of the peer's best graph on the same text, or None without PyTorch."""
    python = os.environ.get("WEIR_TORCH_PYTHON")
    if not python or not PEER.exists():
        return None
    done = subprocess.run([python, str(PEER), "--mode", "step", "--cpp", "--threads", str(workers),
                           "--corpus", str(job.text)], capture_output=True, text=True, check=False)
    rate = re.search(r"tok/s median=(\d+)", done.stdout)
    if done.returncode or not rate:
        raise RuntimeError(f"the peer {PEER} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return float(rate.group(1))


def torch_ratio(workers, bar):
    def measure(job):
        mine = median_of(job, "tokens_per_second", run_workers=workers)
        peer = torch_tokens_per_s(job, workers)
        if peer is None:
            print(f"prose_torch_ratio_{workers}: PyTorch is absent, so the row has no verdict", file=sys.stderr)
            return {**row(mine / PEER_FIGURES[workers], "x"), "elsewhere": PEER_FIGURES[workers]}
        return row(mine / peer, "x", ">=", bar, peer)
    return measure


ROWS = {
    "prose_tokens_per_s": tokens_per_s,
    "prose_engine_overhead": engine_overhead,
    "prose_speedup_2": speedup_2,
    "prose_neighbour_ratio": neighbour_ratio,
    "prose_learned_s": learned_s,
    "prose_stall_s": stall_s,
    "prose_peak_rss_mb": peak_rss_mb,
    "prose_bits_cumulative": bits_cumulative,
    "prose_bits_last_quarter": bits_last_quarter,
    "checkpoint_stall_ms": checkpoint_stall_ms,
    "prose_torch_ratio_1": torch_ratio(1, 1.25),
    "prose_torch_ratio_2": torch_ratio(2, 1.6),
}


def main():
    patterns = sys.argv[1:]
    if "--list" in patterns:
        print("\n".join(ROWS))
        return 0
    chosen = [i for i in ROWS if not patterns or any(fnmatch.fnmatchcase(i, p) for p in patterns)]
    failed = False
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        job = Job(folder)
        for name in chosen:
            try:
                measured = ROWS[name](job)
            except (RuntimeError, OSError, KeyError, ValueError) as problem:
                print(f'cannot measure "{name}": {problem!r}', file=sys.stderr)
                measured = {"value": None, "unit": "", "bar": None, "sense": None, "holds": False, "peer": None}
                failed = True
            print(json.dumps({"id": name, **measured}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
