#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares names of functions with the libraries of NVIDIA: `names_test.py ROOT FOLDER`, where FOLDER has the libraries of the stand-in.

The toolkit has a stub of libcuda.so with the names of the driver, and NCCL is a library. A library that is not installed is skipped.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT, STAND_INS = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
NVCC = shutil.which("nvcc")
HOME = pathlib.Path(NVCC).resolve().parent.parent if NVCC else pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
DEVICE = ROOT / "tessera" / "device" / "cuda"


def exported(library):
    """Returns the names of the functions that a library exports."""
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" [TW] (\w+)", listed))


def declared(header, prefix):
    """Returns the names in the table of functions of a header."""
    return re.findall(rf"X\(\w+, ({prefix}\w+),", (DEVICE / header).read_text(encoding="utf-8"))


def first_of(*paths):
    return next((p for p in paths if p.exists()), None)


class Names(unittest.TestCase):
    def library(self, *paths):
        found = first_of(*paths)
        if found is None:
            self.skipTest(f"expected {paths[0]}, found none")
        return exported(found)

    def test_of_the_driver_are_those_that_the_toolkit_links_with(self):
        real = self.library(HOME / "lib64/stubs/libcuda.so", HOME / "lib/stubs/libcuda.so")
        names = declared("driver_api.hpp", "cu")
        self.assertGreaterEqual(len(names), 50)
        # cuGetProcAddress returns the form of a version, whose name in the library may have a suffix.
        missing = [n for n in names if not {n, n + "_v2", n + "_v3"} & real]
        self.assertEqual(missing, [])
        own = {n for n in exported(STAND_INS / "libcuda.so.1") if n.startswith("cu")}
        self.assertEqual(own, {"cuGetProcAddress_v2"})
        self.assertEqual(own - real, set())

    def test_of_nccl_are_those_of_its_library(self):
        real = self.library(HOME / "lib64/libnccl.so.2", HOME / "lib/libnccl.so.2", pathlib.Path("/usr/lib/x86_64-linux-gnu/libnccl.so.2"))
        names = set(declared("collectives/nccl_api.hpp", "nccl"))
        self.assertEqual(names - real, set())
        own = {n for n in exported(STAND_INS / "libnccl.so.2") if n.startswith("nccl")}
        self.assertEqual(names - own, set())
        self.assertEqual(own - real, set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
