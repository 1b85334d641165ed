#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the PTX of the kernels: `ptx_test.py ROOT`. First the checks of `scripts/ptx` on text with a fault, then the checks themselves."""
import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
LOADER = importlib.machinery.SourceFileLoader("ptx_script", str(ROOT / "scripts" / "ptx"))
SPEC = importlib.util.spec_from_loader("ptx_script", LOADER)
ptx_script = importlib.util.module_from_spec(SPEC)
sys.dont_write_bytecode = True
LOADER.exec_module(ptx_script)


class Checks(unittest.TestCase):
    def test_refuse_instructions_that_round_in_another_way(self):
        for form in ("ex2.approx.f32", "add.ftz.f32", "div.approx.ftz.f32"):
            self.assertEqual(len(ptx_script.forbidden("k", f"\tmov.u32 %r1, 0;\n\t{form} %f1, %f2;\n")), 1, form)
        self.assertEqual(ptx_script.forbidden("k", "\tadd.rn.f32 %f1, %f2, %f3;\n"), [])

    def test_refuse_a_fused_product_that_no_source_line_spells(self):
        with tempfile.NamedTemporaryFile("w", suffix=".cu", encoding="utf-8") as source:
            source.write("y = a * x + y;\ny = __fmaf_rn(a, x, y);\n")
            source.flush()
            head = f'\t.file 1 "{source.name}"\n'
            fma = "\tfma.rn.f32 %f1, %f2, %f3, %f4;\n"
            self.assertEqual(ptx_script.unspelled("k", head + "\t.loc 1 2 3\n" + fma), [])
            self.assertEqual(len(ptx_script.unspelled("k", head + "\t.loc 1 1 3\n" + fma)), 1)

    def test_leave_only_the_code(self):
        text = "// a comment\n.version 9.0\n\n\t.loc 1 2 3\n\tret;\n"
        self.assertEqual(ptx_script.bare(text), ".version 9.0\n\tret;\n")

    def test_accept_the_kernels(self):
        done = subprocess.run([sys.executable, "-B", str(ROOT / "scripts" / "ptx"), "check"], capture_output=True, text=True, check=False)
        print(done.stdout.splitlines()[0])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
