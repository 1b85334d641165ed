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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import virtual_environment  # noqa: E402

PACKAGES = ["tensogram==0.24.0", "tensogram-xarray==0.24.0", "numpy>=2.1"]
SKIPPED = 77
CASES = []  # objects of the messages that both sides have read alike


def interpreter(work):
    """An interpreter that can import the package, or None."""
    return virtual_environment.interpreter(
        os.environ.get("WEIR_TENSOGRAM_PYTHON"), os.path.join(work, "tensogram-venv"), PACKAGES,
        ["-c", "import tensogram, numpy"], seconds=100)


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def without_reserved(base):
    return {key: value for key, value in base.items() if key != "_reserved_"}


def same_as_we_read(peer, path, message):
    """Both sides decode every object of one message to the same bytes; ranges too where the reference has them."""
    import tensogram
    bare = "bare" in os.path.basename(path)
    done = subprocess.run([peer, "read-bare" if bare else "read", path], capture_output=True, text=True)
    check(done.returncode == 0, f"{path}: {done.stderr}")
    ours = json.loads(done.stdout)[0]["objects"]
    _, objects = tensogram.decode(message, verify_hash=not bare)
    check(len(ours) == len(objects), f"{path}: objects")
    for i, (mine, (descriptor, array)) in enumerate(zip(ours, objects)):
        what = f"{path}: object {i} {descriptor.dtype} {descriptor.encoding} {descriptor.filter} {descriptor.compression}"
        check(bytes.fromhex(mine["hex"]) == array.tobytes(), f"{what}: elements differ")
        ranged = descriptor.filter == "none" and descriptor.dtype != "bitmask"
        if ranged and descriptor.compression in ("none", "szip", "blosc2", "zfp") and len(array.shape) == 1:
            n = array.shape[0]
            part = tensogram.decode_range(message, i, [(n // 3, n // 2)], join=True)
            check(part.tobytes() == array[n // 3:n // 3 + n // 2].tobytes(), f"{what}: range differs")
    CASES.append(len(objects))
    print(f"both read {os.path.basename(path)}: {len(objects)} objects")


def xarray_sees_names(path):
    """The engine of xarray opens ours with names, dimensions and coordinates."""
    try:
        import tensogram_xarray  # noqa: F401
        import xarray
    except ImportError:
        print("SKIPPED: xarray with tensogram-xarray 0.24.0 is absent")
        return
    with xarray.open_dataset(path, engine="tensogram") as data:
        check(data["t2m"].dims == ("latitude", "longitude"), f"dimensions {data['t2m'].dims}")
        check(data["t2m"].attrs.get("units") == "K", f"attributes {data['t2m'].attrs}")
        check(list(data["latitude"].values) == [50, 51, 52], "latitude")
        check(list(data["longitude"].values) == [8, 9, 10, 11], "longitude")
        check(data["t2m"].values.shape == (3, 4), "shape")
    print("xarray opens ours with names, dimensions and coordinates")


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
        if name.startswith("field_"):
            xarray_sees_names(os.path.join(folder, name))
        if name.startswith(("staged_", "field_")):
            same_as_we_read(peer, os.path.join(folder, name), message)
            continue
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


def codecs(bits):
    yield "none", {}
    yield "lz4", {}
    yield "zstd", {"zstd_level": 3}
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        yield "blosc2", {"blosc2_codec": name, "blosc2_clevel": 5}
    if bits in (8, 16, 24, 32):
        for rsi, block, flags in ((128, 16, 8), (16, 8, 0), (7, 32, 9)):
            yield "szip", {"szip_rsi": rsi, "szip_block_size": block, "szip_flags": flags}


def their_objects():
    """Every type, encoding, filter and codec that the reference writes without harm."""
    import numpy
    rng = numpy.random.default_rng(7)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64"):
        array = numpy.repeat(rng.integers(0, 100, 400), 5).astype(name)
        width = array.dtype.itemsize
        for kind, parameters in codecs(8 * width):
            yield array, {"encoding": "none", "filter": "none", "compression": kind, **parameters}
        for kind, parameters in codecs(8):
            yield array, {"encoding": "none", "filter": "shuffle", "shuffle_element_size": width,
                          "compression": kind, **parameters}
    field = 250 + rng.standard_normal(2000)
    for bits in (0, 1, 8, 11, 16, 24, 32, 47, 64):
        for kind, parameters in codecs(bits):
            if kind == "blosc2" and (bits == 0 or 2000 * bits // 8 % ((bits + 7) // 8)):
                continue
            yield field, {"encoding": "simple_packing", "sp_bits_per_value": bits, "filter": "none",
                          "compression": kind, **parameters}
    for parameters in ({"zfp_mode": "fixed_rate", "zfp_rate": 16.0}, {"zfp_mode": "fixed_precision", "zfp_precision": 25},
                       {"zfp_mode": "fixed_accuracy", "zfp_tolerance": 0.01}):
        yield field, {"encoding": "none", "filter": "none", "compression": "zfp", **parameters}


def encode_in_parts(objects, **options):
    """Messages of the reference; some numbers of objects in one message it cannot write."""
    import tensogram
    try:
        return [tensogram.encode({}, objects, **options)]
    except ValueError as failure:
        if "third pass" not in str(failure) or len(objects) < 2:
            raise
    half = len(objects) // 2
    return encode_in_parts(objects[:half], **options) + encode_in_parts(objects[half:], **options)


def we_read_their_pipelines(peer, folder):
    """What the reference wrote with any pipeline or mask method decodes to the same bytes on both sides."""
    import numpy
    import tensogram
    objects = [({"type": "ntensor", "dtype": str(array.dtype), "shape": list(array.shape), "ndim": array.ndim,
                 "byte_order": "little", **stages}, array) for array, stages in their_objects()]
    written = {}
    for mode in ("auto", "none", "header", "footer", "both"):
        for k, message in enumerate(encode_in_parts(objects, aggregate_hash=mode)):
            written[f"{mode}_{k}"] = message
    for k, message in enumerate(encode_in_parts(objects, hash=None)):
        written[f"bare_{k}"] = message
    for k, message in enumerate(encode_in_parts(objects, threads=2)):
        written[f"threads_{k}"] = message
    for name, options in (("stream", {}), ("stream_none", {"aggregate_hash": "none"}), ("stream_bare", {"hash": None})):
        stream = tensogram.StreamingEncoder({}, **options)
        for descriptor, array in objects:
            stream.write_object(descriptor, array)
        written[name] = bytes(stream.finish())
    for method in ("none", "rle", "roaring", "lz4", "zstd"):
        for threshold in (0, 128):
            masked = []
            for name in ("float32", "float64"):
                array = numpy.arange(2000, dtype=name)
                array[5::11], array[6::13], array[7::17] = numpy.nan, numpy.inf, -numpy.inf
                masked.append(({"type": "ntensor", "dtype": name, "shape": [2000], "ndim": 1, "byte_order": "little",
                                "encoding": "none", "filter": "none", "compression": "zstd"}, array))
            options = {"allow_nan": True, "allow_inf": True, "nan_mask_method": method, "pos_inf_mask_method": method,
                       "neg_inf_mask_method": method, "small_mask_threshold_bytes": threshold}
            written[f"mask_{method}_{threshold}"] = tensogram.encode({}, masked, **options)
            stream = tensogram.StreamingEncoder({}, **options)
            for descriptor, array in masked:
                stream.write_object(descriptor, array)
            written[f"mask_stream_{method}_{threshold}"] = bytes(stream.finish())
    for mode, message in written.items():
        path = os.path.join(folder, f"their_pipelines_{mode}.tgm")
        with open(path, "wb") as f:
            f.write(message)
        same_as_we_read(peer, path, message)


def confirm_vectors():
    """The checked-in conformance suite says what the reference says."""
    suite = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "conformance")
    done = subprocess.run([sys.executable, os.path.join(suite, "confirm.py"), os.path.join(suite, "tensogram")],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"conformance: {done.stdout}{done.stderr}")
    print("conformance:", done.stdout.strip())


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
        we_read_their_pipelines(peer, folder)
    confirm_vectors()
    print(f"0 failures: {sum(CASES)} objects in {len(CASES)} messages read alike by both sides")


if __name__ == "__main__":
    main()
