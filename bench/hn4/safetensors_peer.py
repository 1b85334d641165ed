#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads all tensors of a file with the package `safetensors` and prints the median seconds as JSON.

usage: safetensors_peer.py FILE WORK_FOLDER

`load` is what the package does, without any check; `checked` adds a CRC-32 of every tensor. The package comes from
$WEIR_SAFETENSORS_PYTHON (an interpreter that has it), or is installed from PyPI into a virtual environment below
WORK_FOLDER. Exit 77 where it cannot be had.
"""
import json
import os
import statistics
import subprocess
import sys
import time

PACKAGES = ["safetensors==0.8.0", "numpy>=1.24"]
ABSENT = 77
REPEATS = 7


def has_package(python):
    return os.path.exists(python) and subprocess.run(
        [python, "-c", "import safetensors.numpy"], capture_output=True, check=False).returncode == 0


def interpreter(work):
    """An interpreter that can import the package, or None."""
    given = os.environ.get("WEIR_SAFETENSORS_PYTHON")
    if given:
        return given if has_package(given) else None
    venv = os.path.join(work, "safetensors-venv")
    python = os.path.join(venv, "bin", "python")
    if has_package(python):
        return python
    install = [python, "-m", "pip", "install", "--quiet", "--retries", "0", "--timeout", "10",
               "--disable-pip-version-check", *PACKAGES]
    for step in ([sys.executable, "-m", "venv", venv], install):
        try:
            if subprocess.run(step, capture_output=True, timeout=200, check=False).returncode:
                return None
        except (OSError, subprocess.TimeoutExpired):
            return None
    return python if has_package(python) else None


def measure(path):
    import zlib

    from safetensors.numpy import load_file

    def load():
        return load_file(path)

    def checked():
        return [zlib.crc32(tensor) for tensor in load_file(path).values()]

    seconds = {}
    for name, run in (("load", load), ("checked", checked)):
        run()
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        seconds[name] = statistics.median(times)
    print(json.dumps(seconds))


def main():
    path, work = sys.argv[1:3]
    if sys.argv[3:] == ["measure"]:
        measure(path)
        return 0
    python = interpreter(work)
    if python is None:
        print("safetensors cannot be had: set WEIR_SAFETENSORS_PYTHON, or let pip reach PyPI", file=sys.stderr)
        return ABSENT
    return subprocess.run([python, __file__, path, work, "measure"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
