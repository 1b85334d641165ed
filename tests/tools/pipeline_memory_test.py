#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose sink is 100 times slower than its source stays within the bound of `weir check`.

pipeline_memory_test.py WEIR SECONDS      runs on each kind of host for about that long

The sink writes into a pipe that this program reads slowly. The resident memory of `weir run` and of its child processes is
sampled from /proc, with the stages on the usual hosts, each on a host of its own, and each in a child process. The bound is about
items: the peak of the same pipeline with items of one number, which has as many processes, is subtracted, and the sink may hold
eight encoded messages besides: a buffer that grows while it is filled, and what the allocator keeps of earlier ones.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

WEIR = os.path.abspath(sys.argv[1])
SECONDS = float(sys.argv[2])
SLOWER = 100
NUMBERS = 1 << 18  # 1 MiB as f32
WINDOW = 16
STAGES = 5
ITEM = 4 * NUMBERS
HOSTS = {"usual": "", "own": 'host = "own"', "process": 'host = "process"'}
SOURCE = """
[[stage]]
name = "numbers"
use = "generator"
shape = [{numbers}]
{host}
"""
MIDDLE = """
[[stage]]
name = "negative{n}"
use = "elementwise"
type = "f32[{numbers}]"
op = "negate"
window = "{window} items"
{host}
"""
SINK = """
[[stage]]
name = "write"
use = "tgm.write"
path = "{pipe}"
hold = 0
window = "{window} items"
{host}
"""


def text_of(numbers, pipe, host):
    stages = [SOURCE, *[MIDDLE] * STAGES, SINK]
    return "".join(s.format(n=n, numbers=numbers, pipe=pipe, window=WINDOW, host=HOSTS[host]) for n, s in enumerate(stages))


def line_bytes(file, key):
    """Returns a line of a file of a process in bytes, or 0 if the process has ended."""
    try:
        for line in Path(file).read_text(encoding="ascii").splitlines():
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def children_of(pid):
    """Returns the child processes of all threads of a process."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += (thread / "children").read_text(encoding="ascii").split()
        except OSError:  # the thread has ended
            pass
    return found


def memory_bytes(pid, host):
    """Returns the resident memory of a run. Memory that the run shares with its child processes counts once, which the lines Pss
    achieve: each process has its share of each page."""
    if host == "process":
        return sum(line_bytes(f"/proc/{p}/smaps_rollup", "Pss:") for p in [pid, *children_of(pid)])
    return line_bytes(f"/proc/{pid}/status", "VmHWM:")


class Run:
    """One run with a reader that for `slow_s` seconds reads `bytes_per_s` from the pipe, and then as fast as it can."""

    def __init__(self, folder, host, name, numbers, items, bytes_per_s=0.0, slow_s=0.0):
        pipe = folder / f"{name}.pipe"
        os.mkfifo(pipe)
        self.file = folder / f"{name}.toml"
        self.file.write_text(text_of(numbers, pipe, host), encoding="utf-8")
        self.read = 0
        reader = threading.Thread(target=self.drain, args=(pipe, bytes_per_s, slow_s))
        reader.start()
        begin = time.monotonic()
        child = subprocess.Popen([WEIR, "run", str(self.file), "--out", str(folder / name), "--set",
                                  f"numbers.count={items}", "--set", "run.trace=off", "--set", "run.deadline=1 h", "--set",
                                  "run.stall=1 h"], stdout=subprocess.DEVNULL)
        self.peak = 0
        self.processes = 0
        while child.poll() is None:
            self.peak = max(self.peak, memory_bytes(child.pid, host))
            self.processes = max(self.processes, len(children_of(child.pid)))
            time.sleep(0.02)
        self.seconds = time.monotonic() - begin
        reader.join()
        assert child.returncode == 0, f"weir run ended with {child.returncode}"

    def drain(self, pipe, bytes_per_s, slow_s):
        with open(pipe, "rb", buffering=0) as stream:
            begin = time.monotonic()
            while piece := stream.read(1 << 16):
                self.read += len(piece)
                passed = time.monotonic() - begin
                if passed < slow_s:
                    time.sleep(min(max(0.0, self.read / bytes_per_s - passed), slow_s - passed))

    def bound(self):
        done = subprocess.run([WEIR, "check", "--json", str(self.file)], capture_output=True, check=True)
        return json.loads(done.stdout)["memory_bound_bytes"]


def compare(folder, host):
    """Compares the memory of a run on one kind of host with its bound."""
    folder.mkdir()
    small = Run(folder, host, "small", 1, 100)
    count = 50
    fast = Run(folder, host, "fast", NUMBERS, count)
    item_s = max(fast.seconds - small.seconds, 1e-3 * count) / count
    pause = SLOWER * item_s
    bound = fast.bound()
    items = int(SECONDS / pause) + bound // ITEM + 1  # more items than can be alive
    slow = Run(folder, host, "slow", NUMBERS, items, ITEM / pause, SECONDS)
    assert slow.bound() == bound
    bound += 8 * ITEM
    growth = slow.peak - small.peak
    print(f"{host}: {item_s * 1e3:.1f} ms per item of the source, {pause:.2f} s of the sink, {slow.seconds:.0f} s; "
          f"memory grew by {growth / 2**20:.1f} MiB, the bound with eight messages is {bound / 2**20:.1f} MiB", flush=True)
    assert slow.read >= items * ITEM, f"the sink wrote {slow.read} bytes"
    expected = STAGES + 2 if host == "process" else 0
    assert slow.processes == expected, f"expected {expected} child processes, found {slow.processes}"
    assert growth >= WINDOW * ITEM, f"memory grew by {growth} bytes, expected the items of a window or more"
    assert growth <= bound, f"memory grew by {growth} bytes, expected at most {bound}"


def main():
    with tempfile.TemporaryDirectory(prefix="weir-memory-") as name:
        for host in HOSTS:
            compare(Path(name) / host, host)
    return 0


sys.exit(main())
