#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the PTX of the kernels: `ptx_test.py ROOT`. First the checks of `scripts/ptx` on text with a fault, then the checks themselves."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

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

    def test_refuse_a_version_that_need_not_be_so_high(self):
        ptxas = ptx_script.tool("ptxas")
        if not ptxas:
            self.skipTest("expected ptxas, found none")
        text = ptx_script.stored(ptx_script.newest())["memory"].read_text(encoding="utf-8")
        self.assertFalse(ptx_script.accepted(ptxas, ptx_script.with_version(text, ptx_script.version_below(text))))
        self.assertEqual(ptx_script.lowered(ptxas, ptx_script.with_version(text, "9.0")), text)


class AnotherNvcc(unittest.TestCase):
    """The nvcc of this machine, which says that it has a version that the repository does not have."""

    def setUp(self):
        nvcc = shutil.which("nvcc")
        if not nvcc:
            self.skipTest("expected nvcc, found none")
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        fake = self.folder / "bin" / "nvcc"
        fake.parent.mkdir()
        fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "release 98.7, V98.7.6" || exec {nvcc} "$@"\n', encoding="utf-8")
        fake.chmod(0o755)
        self.env = dict(os.environ, PATH=f"{fake.parent}:{os.environ['PATH']}")

    def chosen(self):
        """What a build says of the PTX that it uses."""
        done = subprocess.run(["cmake", f"-DPROJECT_SOURCE_DIR={ROOT}", f"-DPROJECT_BINARY_DIR={self.folder}", "-P",
                               str(ROOT / "cmake" / "WeirPtx.cmake")], env=self.env, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_has_its_own_ptx_made_and_a_build_says_so(self):
        self.assertIn("of nvcc 98.7.6, which the repository does not have: made here", self.chosen())
        made = {path.name: path for path in (self.folder / "ptx" / "98.7.6").glob("*/*.ptx")}
        self.assertEqual(sorted(made), ["conformance.ptx", "demo.ptx", "memory.ptx", "reductions.ptx"])
        for path in made.values():
            self.assertEqual(ptx_script.forbidden(path.name, path.read_text(encoding="utf-8")), [])
        before = made["demo.ptx"].stat().st_mtime_ns
        self.chosen()
        self.assertEqual(made["demo.ptx"].stat().st_mtime_ns, before, "PTX of unchanged sources is made once")

    def test_is_named_by_the_check(self):
        said = io.StringIO()
        one = {source: store for source, store in ptx_script.SOURCES.items() if source.stem == "memory"}
        with unittest.mock.patch.object(ptx_script, "SOURCES", one), contextlib.redirect_stdout(said):
            self.assertEqual(ptx_script.check_compiled(str(self.folder / "bin" / "nvcc"), ptx_script.tool("ptxas")), [])
        self.assertIn("nvcc 98.7.6: the repository has no PTX of this version", said.getvalue())


if __name__ == "__main__":
    unittest.main()
