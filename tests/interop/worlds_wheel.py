#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the messages of worlds with the reference's Python package.

usage: worlds_wheel.py PEER SHALLOW_WATER WORK_FOLDER

PEER is the program worlds_peer, SHALLOW_WATER the demo. tensogram_wheel.py says where the package comes from.
"""
import os
import subprocess
import sys
import tempfile

from tensogram_wheel import SKIPPED, check, interpreter

SIZE, STEPS, EVERY = 48, 20, 10


def decoded(path, name):
    """The only object of a message, which verifies and validates and has a name."""
    import tensogram
    with open(path, "rb") as f:
        message = f.read()
    report = tensogram.validate(message, level="full", check_canonical=True)
    check(not report["issues"], f"{path}: validation says {report['issues']}")
    metadata, objects = tensogram.decode(message, verify_hash=True)
    check(len(objects) == 1, f"{path}: {len(objects)} objects")
    check(metadata.base[0]["name"] == name, f"{path}: metadata {metadata.base[0]}")
    return objects[0][1]


def reference_reads_messages(peer, folder):
    """What worlds of three ranks write has the type, the shape and the elements of their tensors."""
    import numpy
    subprocess.run([peer, "write", folder], check=True)
    for name, of_object, kind, shape in (("line", "line", "int32", (11,)), ("plate", "plate", "float64", (10, 7)),
                                         ("box", "tensor", "float32", (5, 3, 4))):
        found = decoded(os.path.join(folder, f"{name}.tgm"), of_object)
        numbers = numpy.arange(numpy.prod(shape)) / 2 - 3
        expected = numpy.trunc(numbers) if kind == "int32" else numbers
        check(str(found.dtype) == kind and found.shape == shape, f"{name}: {found.dtype} {found.shape}")
        check((found == expected.astype(kind).reshape(shape)).all(), f"{name}: elements differ")
        print(f"reference reads {name}.tgm of a world: {found.dtype} {found.shape}")


def worlds_read_messages(peer, folder):
    """What the reference writes fills world tensors, compressed or not, in both orders of bytes."""
    import numpy
    import tensogram
    plate = numpy.random.default_rng(27).standard_normal((10, 7))
    other = numpy.zeros(3, dtype="float32")
    for compression in ("none", "zstd"):
        for order in ("little", "big"):
            objects = [({"type": "ntensor", "dtype": str(array.dtype), "shape": list(array.shape), "ndim": array.ndim, "byte_order": order,
                         "encoding": "none", "filter": "none", "compression": compression},
                        array if order == "little" else array.astype(array.dtype.newbyteorder(">")).tobytes()) for array in (other, plate)]
            path = os.path.join(folder, f"theirs_{compression}_{order}.tgm")
            with open(path, "wb") as f:
                f.write(tensogram.encode({"base": [{"name": "other"}, {"name": "depth"}]}, objects))
            copy = path.replace("theirs", "copy")
            done = subprocess.run([peer, "copy", path, "depth", copy], capture_output=True, text=True)
            check(done.returncode == 0, f"{path}: {done.stderr}")
            check((decoded(copy, "copy") == plate).all(), f"{path}: elements differ")
            print(f"a world reads {os.path.basename(path)}")


def reference_reads_frames(demo, folder):
    """The depths that the dam break leaves: those of its beginning, the same mass, and the same bytes on all numbers of ranks."""
    import numpy
    at = (numpy.arange(SIZE) + 0.5) / SIZE - 0.5
    begin = numpy.where(at[:, None] ** 2 + at[None, :] ** 2 < 0.04, 2.0, 1.0)
    files = {}
    for ranks in (1, 3):
        frames = os.path.join(folder, f"frames-{ranks}")
        os.mkdir(frames)
        subprocess.run([demo, "--ranks", str(ranks), "--size", str(SIZE), "--tile", "16", "--steps", str(STEPS), "--frames", frames,
                        "--frame-every", str(EVERY)], check=True, stdout=subprocess.DEVNULL)
        files[ranks] = {}
        for step in range(0, STEPS + 1, EVERY):
            path = os.path.join(frames, f"depth-{step}.tgm")
            depth = decoded(path, "depth")
            check(str(depth.dtype) == "float64" and depth.shape == (SIZE, SIZE), f"{path}: {depth.dtype} {depth.shape}")
            check(abs(depth.sum() / begin.sum() - 1) < 1e-12, f"{path}: the mass is {depth.sum()}, not {begin.sum()}")
            check((depth == begin).all() == (step == 0), f"{path}: step {step} against the beginning")
            with open(path, "rb") as f:
                files[ranks][step] = f.read()
        check(len(os.listdir(frames)) == STEPS // EVERY + 1, f"files: {os.listdir(frames)}")
    check(files[1] == files[3], "frames of 1 and of 3 ranks differ")
    print(f"reference reads {STEPS // EVERY + 1} frames of the dam break")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    peer, demo, work = sys.argv[1:]
    try:
        import tensogram  # noqa: F401
    except ImportError:
        python = interpreter(work)
        if python is None:
            print("SKIPPED: tensogram 0.24.0 cannot be had: set WEIR_TENSOGRAM_PYTHON to a Python that has it, "
                  "or let pip reach PyPI")
            sys.exit(SKIPPED)
        sys.exit(subprocess.run([python, "-B", __file__, peer, demo, work]).returncode)
    with tempfile.TemporaryDirectory() as folder:
        reference_reads_messages(peer, folder)
        worlds_read_messages(peer, folder)
        reference_reads_frames(demo, folder)


if __name__ == "__main__":
    main()
