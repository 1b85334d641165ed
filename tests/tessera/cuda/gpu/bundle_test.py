#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the bundle for owners of a GPU: `bundle_test.py ROOT BUILD`.

Makes it, runs it without a GPU, which it has to skip with one line, and over the stand-ins, where every test has to run and to pass.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = (pathlib.Path(p) for p in sys.argv[1:3])


def run(*command, **environment):
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=240, check=False, env=dict(os.environ, **environment))
    return done.returncode, done.stdout


class Bundle(unittest.TestCase):
    """One bundle in a folder of its own."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name) / "bundle"
        status, output = run(ROOT / "scripts/gpu-bundle", BUILD, cls.folder)
        if status != 0:
            raise AssertionError(output)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_has_at_most_sixty_mebibytes(self):
        size = sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file())
        self.assertGreater(size, 1 << 20)
        self.assertLessEqual(size, 60 << 20)

    def test_without_a_gpu_is_skipped_with_one_line(self):
        status, output = run("python3", "-B", self.folder / "test_gpu.py", CUDA_VISIBLE_DEVICES="")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"\Atest-gpu: gpu_tests: skipped: [^\n]+\n\Z")
        self.assertFalse((self.folder / "test_gpu.json").exists())

    def test_runs_everything_over_the_stand_ins(self):
        out = self.folder / "result.json"
        status, output = run("python3", "-B", self.folder / "test_gpu.py", "--stand-in", "--out", out)
        self.assertEqual(status, 0, output)
        result = json.loads(out.read_text(encoding="utf-8"))
        self.assertEqual(result["tests"]["outcome"], "passed", result)
        row = result["tests"]["rows"][0]
        self.assertEqual(row["failed"], 0)
        self.assertGreater(row["tests"], 200)
        self.assertEqual(row["devices"], 2)
        self.assertTrue(row["stand_in"])
        self.assertEqual(result["conformance"]["outcome"], "passed", result)
        self.assertRegex("\n".join(result["conformance"]["messages"]), r"PASSED  \] [2-9]\d tests")
        bars = result["bars"]["rows"]
        self.assertEqual(len(bars), 6, bars)
        for bar in bars:
            self.assertEqual(sorted(bar), ["bar", "ran"], "no time may come from the stand-ins")
        self.assertEqual(result["compute_sanitizer"]["outcome"], "skipped")

    def test_has_a_conformance_suite_for_one_gpu_too(self):
        status, output = run(self.folder / "bin/gpu_conformance", "1", "--gtest_brief=1", WEIR_GPU_STAND_IN="1",
                             LD_LIBRARY_PATH=str(self.folder / "lib"))
        self.assertEqual(status, 0, output)

    def test_a_result_that_is_wrong_fails(self):
        ptx = self.folder / "ptx" / "memory.ptx"
        text = ptx.read_text(encoding="utf-8")
        try:
            ptx.write_text(text.replace("weir_fill", "weir_full"), encoding="utf-8")
            status, output = run("python3", "-B", self.folder / "test_gpu.py", "--stand-in", "--out", self.folder / "wrong.json")
            self.assertEqual(status, 1, output)
            self.assertIn("tests failed", output)
        finally:
            ptx.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
