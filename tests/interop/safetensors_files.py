#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads exports of models with the package safetensors: safetensors_files.py WEIR WORK_FOLDER.

Tiny models are imported by the program WEIR and exported again. The package must read the tensors of the source from
the export, and must write the bytes of the export itself, with every tensor at its place. The package comes from
$WEIR_SAFETENSORS_PYTHON (an interpreter that has it), or is installed from PyPI into a virtual environment below
WORK_FOLDER. Exit 77, which CTest counts as skipped, where it cannot be had.
"""
import ctypes
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "tools", "verbs")]
import tiny_models  # noqa: E402  (the folders are known only now)
import virtual_environment  # noqa: E402

PACKAGES = ["safetensors==0.8.0"]
SKIPPED = 77
# Names of types: those of files, and those of the function that writes files.
TYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


def converted(data, kind):
    """Returns the bytes of fp32 numbers in a type. BF16 has the upper half of each number."""
    if kind == "F32":
        return data
    if kind == "BF16":
        return b"".join(data[at + 2:at + 4] for at in range(0, len(data), 4))
    return struct.pack(f"<{len(data) // 4}e", *struct.unpack(f"<{len(data) // 4}f", data))


def file_of(tensors, order):
    """Returns the file that the package writes for {name: (type, shape, bytes)}, given in some order."""
    import safetensors
    buffers = {name: ctypes.create_string_buffer(tensors[name][2], len(tensors[name][2])) for name in order}
    specs = {name: safetensors.TensorSpec(dtype=TYPES[tensors[name][0]], shape=tensors[name][1],
                                          data_ptr=ctypes.addressof(buffers[name]), data_len=len(tensors[name][2]))
             for name in order}
    return bytes(safetensors.serialize(specs, {"format": "pt"}))


def tensors_of(file):
    """Returns {name: (type, shape, bytes)} of a file, as the package reads it."""
    import safetensors
    return {name: (tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"]))
            for name, tensor in safetensors.deserialize(file)}


def run(*words):
    """Runs a program."""
    done = subprocess.run([str(w) for w in words], capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: {words[:3]} ended with {done.returncode}: {done.stderr.decode()}")


def compare(weir, folder, write, kinds):
    """Imports and exports a model whose tensors have the types `kinds` in turn, and compares the files."""
    source, out, volume = (os.path.join(folder, name) for name in ("source", "out", "v.hn4"))
    write(pathlib.Path(source))
    path = os.path.join(source, "model.safetensors")
    with open(path, "rb") as file:
        found = tensors_of(file.read())
    tensors = {}
    for number, (name, (_, shape, data)) in enumerate(sorted(found.items())):
        kind = kinds[number % len(kinds)]
        tensors[name] = (kind, shape, converted(data, kind))
    names = sorted(tensors)
    random.Random(14).shuffle(names)
    with open(path, "wb") as file:
        file.write(file_of(tensors, names))
    run(weir, "model", "import", source, volume, "--tag", "m")
    run(weir, "model", "export", volume, out, "--to", "safetensors")
    with open(os.path.join(out, "model.safetensors"), "rb") as file:
        exported = file.read()
    if tensors_of(exported) != tensors:
        sys.exit(f"FAILED: expected the export of {write.__name__}, {kinds}, to hold the tensors of its source, found others")
    if exported != file_of(tensors, names[::-1]):
        sys.exit(f"FAILED: expected the export of {write.__name__}, {kinds}, to be the file that the package writes, found "
                 "another order or another header")
    print(f"{write.__name__} {kinds}: {len(tensors)} tensors")


def main():
    """Starts itself with an interpreter that has the package, and compares there."""
    weir, work = (os.path.abspath(word) for word in sys.argv[1:3])
    if len(sys.argv) == 3:
        python = virtual_environment.interpreter(
            os.environ.get("WEIR_SAFETENSORS_PYTHON"), os.path.join(work, "safetensors-venv"), PACKAGES,
            ["-c", "import safetensors; safetensors.TensorSpec"], seconds=100)
        if python is None:
            print("SKIPPED: safetensors is absent and cannot be installed")
            sys.exit(SKIPPED)
        sys.exit(subprocess.run([python, "-B", os.path.abspath(__file__), weir, work, "inside"], check=False).returncode)
    for write in (tiny_models.write_decoder, tiny_models.write_encoder):
        for kinds in (["F32"], ["F32", "BF16", "F16"], ["F16"]):
            with tempfile.TemporaryDirectory(prefix="weir-safetensors-") as folder:
                compare(weir, folder, write, kinds)


main()
