#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exchanges messages with the reference's Python package, both ways.

usage: tensogram_wheel.py PEER WORK_FOLDER

PEER is the program tensogram_peer. The package comes from $WEIR_TENSOGRAM_PYTHON (an interpreter that has it), or is
installed from PyPI into a virtual environment below WORK_FOLDER. Exit 77, which CTest counts as skipped, where it
cannot be had.
"""
import json
import os
import subprocess
import sys
import tempfile

PACKAGES = ["tensogram==0.24.0", "numpy>=2.1"]
SKIPPED = 77


def interpreter(work):
    """An interpreter that can import the package, or None."""
    given = os.environ.get("WEIR_TENSOGRAM_PYTHON")
    venv = os.path.join(work, "tensogram-venv")
    for python in filter(None, [given, os.path.join(venv, "bin", "python")]):
        if os.path.exists(python) and subprocess.run(
                [python, "-c", "import tensogram, numpy"], capture_output=True).returncode == 0:
            return python
    if given:
        return None
    steps = [[sys.executable, "-m", "venv", venv],
             [os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "--retries", "0",
              "--timeout", "10", "--disable-pip-version-check"] + PACKAGES]
    for step in steps:
        try:
            if subprocess.run(step, capture_output=True, timeout=100).returncode != 0:
                return None
        except (OSError, subprocess.TimeoutExpired):
            return None
    return os.path.join(venv, "bin", "python")


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def without_reserved(base):
    return {key: value for key, value in base.items() if key != "_reserved_"}


def reference_reads_ours(peer, folder):
    """Every message written by the peer opens, verifies and validates, with the elements it was given."""
    import tensogram
    subprocess.run([peer, "write", folder], check=True)
    with open(os.path.join(folder, "elements.bin"), "rb") as f:
        expected = f.read()
    names = sorted(n for n in os.listdir(folder) if n.endswith(".tgm"))
    for name in names:
        with open(os.path.join(folder, name), "rb") as f:
            message = f.read()
        report = tensogram.validate(message, level="full", check_canonical=True)
        errors = [i for i in report["issues"] if i["severity"] == "error"]
        odd = [i for i in report["issues"] if i["code"] not in ("flag_mismatch", "no_hash_available")]
        check(not errors and not odd, f"{name}: validation says {report['issues']}")
        check(tensogram.scan(message) == [(0, len(message))], f"{name}: scan")
        metadata, objects = tensogram.decode(message, verify_hash=name != "bare.tgm")
        if name in ("empty.tgm", "many.tgm"):
            check(len(objects) == (600 if name == "many.tgm" else 0), f"{name}: objects")
            continue
        elements = b"".join(array.tobytes() for _, array in objects)
        check(elements == expected, f"{name}: elements differ")
        for i, (descriptor, array) in enumerate(objects, start=1):
            base = without_reserved(dict(metadata.base[i - 1]))
            check(base == {"name": f"object{i}", "half": 0.5, "list": [1, -2, "three", None, True]},
                  f"{name}: metadata of object {i}: {base}")
            check(list(descriptor.shape) == [3, i % 7], f"{name}: shape of object {i}")
        print(f"reference reads {name}: {len(objects)} objects, {len(message)} bytes")


def we_read_theirs(peer, folder):
    """Messages of the reference, whole and streamed, come back with their elements and metadata."""
    import numpy
    import tensogram
    rng = numpy.random.default_rng(2024)
    arrays = [rng.standard_normal((4, 5)).astype(t) for t in ("float32", "float64")]
    arrays += [rng.integers(0, 100, 17).astype(t) for t in
               ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
    objects = []
    for i, array in enumerate(arrays):
        objects.append(({"type": "ntensor", "dtype": str(array.dtype), "shape": list(array.shape),
                         "ndim": array.ndim, "byte_order": "little", "encoding": "none", "filter": "none",
                         "compression": "zstd" if i % 2 else "none"}, array))
    base = [{"name": f"a{i}", "mars": {"step": i}, "levels": [1.5, -2, None]} for i in range(len(arrays))]
    written = {}
    for mode in ("auto", "none", "header", "footer", "both"):
        written[mode] = tensogram.encode({"base": base}, objects, aggregate_hash=mode)
    stream = tensogram.StreamingEncoder({"base": base})
    for descriptor, array in objects:
        stream.write_object(descriptor, array)
    written["stream"] = bytes(stream.finish())
    written["sequence"] = written["both"] + written["stream"] + written["auto"]
    for mode, message in written.items():
        path = os.path.join(folder, f"theirs_{mode}.tgm")
        with open(path, "wb") as f:
            f.write(message)
        done = subprocess.run([peer, "read", path], capture_output=True, text=True)
        check(done.returncode == 0, f"{mode}: {done.stderr}")
        messages = json.loads(done.stdout)
        check(len(messages) == (3 if mode == "sequence" else 1), f"{mode}: messages")
        for found in messages:
            check(len(found["objects"]) == len(arrays), f"{mode}: objects")
            for i, (ours, array) in enumerate(zip(found["objects"], arrays)):
                check(bytes.fromhex(ours["hex"]) == array.tobytes(), f"{mode}: elements of {i}")
                check(ours["dtype"] == str(array.dtype), f"{mode}: dtype of {i}")
                check(ours["shape"] == list(array.shape), f"{mode}: shape of {i}")
                check(without_reserved(ours["metadata"]) == base[i], f"{mode}: metadata of {i}")
        print(f"we read {mode}: {len(messages)} message(s), {len(message)} bytes")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    peer, work = sys.argv[1:]
    try:
        import tensogram  # noqa: F401
    except ImportError:
        python = interpreter(work)
        if python is None:
            print("SKIPPED: tensogram 0.24.0 cannot be had: set WEIR_TENSOGRAM_PYTHON to a Python that has it, "
                  "or let pip reach PyPI")
            sys.exit(SKIPPED)
        sys.exit(subprocess.run([python, __file__, peer, work]).returncode)
    with tempfile.TemporaryDirectory() as folder:
        reference_reads_ours(peer, folder)
        we_read_theirs(peer, folder)


if __name__ == "__main__":
    main()
