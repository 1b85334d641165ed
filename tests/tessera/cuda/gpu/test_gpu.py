#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the GPUs of this machine with the programs of the bundle: `test_gpu.py [--stand-in] [--out FILE]`.

Writes one JSON file, test_gpu.json beside this file if no other is given: the tests, the same under compute-sanitizer where that is
installed, and the bars. Without a GPU it prints one line and ends with 0. With --stand-in the stand-ins for the driver and for NCCL take
the place of a GPU; nothing is measured then.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
LIMIT_S = 480
SKIPPED = 77


class Run:
    """Runs programs until the time is over."""

    def __init__(self, stand_in):
        self.end = time.monotonic() + LIMIT_S
        self.environment = dict(os.environ, WEIR_GPU_STAND_IN="1" if stand_in else "0")
        old = self.environment.get("LD_LIBRARY_PATH")
        self.environment["LD_LIBRARY_PATH"] = str(FOLDER / "lib") + (":" + old if old else "")

    def __call__(self, *command):
        """Returns the exit status, None if the time was over, and the output."""
        try:
            done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env=self.environment, timeout=max(self.end - time.monotonic(), 1), check=False)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            return None, (late.stdout or b"").decode() if isinstance(late.stdout, bytes) else late.stdout or ""


def rows(output):
    """Returns the lines of JSON in an output."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def outcome(status, output):
    """Returns what became of a program: "passed", "failed" or "timeout", with its lines."""
    word = "timeout" if status is None else "passed" if status == 0 else "failed"
    failures = [line for line in output.splitlines() if not line.startswith("{")]
    return {"outcome": word, "rows": rows(output), "messages": failures[-50:]}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--stand-in", action="store_true")
    arguments.add_argument("--out", default=str(FOLDER / "test_gpu.json"))
    options = arguments.parse_args()
    run = Run(options.stand_in)
    begin = time.monotonic()
    status, output = run(FOLDER / "bin/gpu_tests", "--large")
    if status == SKIPPED:
        print("test-gpu: " + output.strip().splitlines()[-1])
        return 0
    result = {"stand_in": options.stand_in, "tests": outcome(status, output)}
    result["conformance"] = outcome(*run(FOLDER / "bin/gpu_conformance", "--gtest_brief=1"))
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer and not options.stand_in:
        result["compute_sanitizer"] = outcome(*run(sanitizer, "--error-exitcode", "1", FOLDER / "bin/gpu_tests"))
    else:
        result["compute_sanitizer"] = {"outcome": "skipped", "messages": ["expected compute-sanitizer on PATH and a physical GPU"]}
    result["bars"] = outcome(*run(FOLDER / "bin/gpu_bars"))
    result["seconds"] = round(time.monotonic() - begin, 1)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    words = {name: part["outcome"] for name, part in result.items() if isinstance(part, dict)}
    print("test-gpu: " + ", ".join(f"{name} {word}" for name, word in words.items()) + f"; {options.out}")
    return 0 if all(word in ("passed", "skipped") for word in words.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
