#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose sink is 100 times slower than its source stays within the bound of `weir check`.

pipeline_memory_test.py WEIR SECONDS      runs for about that long

The sink writes into a pipe that this program reads slowly. The resident memory of `weir run` is sampled from
/proc/PID/status. The bound is about items: the peak of the same pipeline with items of one number is subtracted, and the sink may
hold eight encoded messages besides: a buffer that grows while it is filled, and what the allocator keeps of earlier ones.
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
# More items than can be alive.
ALIVE = (STAGES + 1) * (WINDOW + 1)
SOURCE = """
[[stage]]
name = "numbers"
use = "generator"
shape = [{numbers}]
"""
MIDDLE = """
[[stage]]
name = "negative{n}"
use = "elementwise"
type = "f32[{numbers}]"
op = "negate"
window = "{window} items"
"""
SINK = """
[[stage]]
name = "write"
use = "tgm.write"
path = "{pipe}"
hold = 0
window = "{window} items"
"""


def text_of(numbers, pipe):
    stages = [SOURCE, *[MIDDLE] * STAGES, SINK]
    return "".join(s.format(n=n, numbers=numbers, pipe=pipe, window=WINDOW) for n, s in enumerate(stages))


def peak_bytes(pid):
    """Returns the line VmHWM of a process in bytes, or 0 if the process has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Run:
    """One run with a reader that for `slow_s` seconds reads `bytes_per_s` from the pipe, and then as fast as it can."""

    def __init__(self, folder, name, numbers, items, bytes_per_s=0.0, slow_s=0.0):
        pipe = folder / f"{name}.pipe"
        os.mkfifo(pipe)
        self.file = folder / f"{name}.toml"
        self.file.write_text(text_of(numbers, pipe), encoding="utf-8")
        self.read = 0
        reader = threading.Thread(target=self.drain, args=(pipe, bytes_per_s, slow_s))
        reader.start()
        begin = time.monotonic()
        child = subprocess.Popen([WEIR, "run", str(self.file), "--out", str(folder / name), "--set",
                                  f"numbers.count={items}", "--set", "run.trace=off"], stdout=subprocess.DEVNULL)
        self.peak = 0
        while child.poll() is None:
            self.peak = max(self.peak, peak_bytes(child.pid))
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


def main():
    with tempfile.TemporaryDirectory(prefix="weir-memory-") as name:
        folder = Path(name)
        small = Run(folder, "small", 1, 100)
        count = 50
        fast = Run(folder, "fast", NUMBERS, count)
        item_s = max(fast.seconds - small.seconds, 1e-3 * count) / count
        pause = SLOWER * item_s
        items = int(SECONDS / pause) + ALIVE
        slow = Run(folder, "slow", NUMBERS, items, 4 * NUMBERS / pause, SECONDS)
        bound = slow.bound()
        bound += 8 * 4 * NUMBERS
        growth = slow.peak - small.peak
        print(f"{item_s * 1e3:.1f} ms per item of the source, {pause:.2f} s of the sink, {slow.seconds:.0f} s; "
              f"memory grew by {growth / 2**20:.1f} MiB, the bound with eight messages is {bound / 2**20:.1f} MiB")
        assert slow.read >= items * 4 * NUMBERS, f"the sink wrote {slow.read} bytes"
        assert growth <= bound, f"memory grew by {growth} bytes, expected at most {bound}"
        return 0


sys.exit(main())
