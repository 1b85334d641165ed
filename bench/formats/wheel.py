# SPDX-License-Identifier: Apache-2.0
"""Times the reference's Python package: wheel.py [REPEATS], run by a Python that has it. Prints one JSON object,
{case: [milliseconds to encode, to decode]}, of whole messages without digests, one thread, 1,000,000 doubles."""
import json
import sys
import time

import numpy as np
import tensogram

COUNT = 1_000_000
SZIP = {"compression": "szip", "szip_rsi": 128, "szip_block_size": 16, "szip_flags": 8}
CASES = {
    "none": {},
    "pack16": {"encoding": "simple_packing", "sp_bits_per_value": 16},
    "pack24": {"encoding": "simple_packing", "sp_bits_per_value": 24},
    "pack32": {"encoding": "simple_packing", "sp_bits_per_value": 32},
    "pack24_szip": {"encoding": "simple_packing", "sp_bits_per_value": 24, **SZIP},
}


def field(n):
    """The field of bench/formats/rows.hpp."""
    columns = int(np.ceil(np.sqrt(n)))
    rows = (n + columns - 1) // columns
    with np.errstate(over="ignore"):
        z = np.uint64(42) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z = z ^ z >> np.uint64(31)
    noise = (z >> np.uint64(11)).astype(np.float64) * 2.0 ** -52 - 1
    i = np.arange(n)
    waves = 2 * np.pi * 4
    return 280 + 30 * np.sin(waves * (i // columns) / rows) * np.cos(waves * (i % columns) / columns) + 0.1 * noise


def best(repeats, run):
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main():
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    data = field(COUNT).view(np.uint8)  # what the package takes soonest: other types go element by element
    out = {}
    for name, keys in CASES.items():
        descriptor = {"type": "ntensor", "shape": [COUNT], "dtype": "float64", "byte_order": "little", **keys}
        message = tensogram.encode({}, [(descriptor, data)], hash=None, threads=0)
        out[name] = [
            best(repeats, lambda d=descriptor: tensogram.encode({}, [(d, data)], hash=None, threads=0)),
            best(repeats, lambda m=message: tensogram.decode(m, threads=0)),
        ]
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
