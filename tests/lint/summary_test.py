# SPDX-License-Identifier: Apache-2.0
"""Tests of the summary of scripts/test: real runs of ctest, with made-up tests in place of those of the project."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "test"
# A program that answers as one of GoogleTest 1.12 does.
PROGRAM = """#!{python}
import sys
names = next(a for a in sys.argv if a.startswith("--gtest_filter=")).split("=", 1)[1].split(":")
cases = ""
for name in names:
    suite, test = name.split(".")
    skipped = '<skipped message="a_test.cpp:7&#x0A;AVX-512: not on this processor&#x0A;"></skipped>' if test == "Wide" else ""
    cases += f'<testcase name="{{test}}" status="run" classname="{{suite}}" time="{{70 + len(test)}}">{{skipped}}</testcase>'
out = next((a for a in sys.argv if a.startswith("--gtest_output=xml:")), None)
if out:
    open(out.split(":", 1)[1], "w").write(f"<testsuites><testsuite>{{cases}}</testsuite></testsuites>")
"""
TESTS = """add_test([=[a_tests.Kernels.Wide]=] "{program}" "--gtest_filter=Kernels.Wide")
add_test([=[a_tests.Kernels.Narrow]=] "{program}" "--gtest_filter=Kernels.Narrow")
set_tests_properties([=[a_tests.Kernels.Wide]=] [=[a_tests.Kernels.Narrow]=] PROPERTIES WORKING_DIRECTORY "{folder}")
add_test([=[weights]=] /bin/sh -c "echo begins; echo SKIPPED: no weights; echo ends; exit 77")
add_test([=[more_weights]=] /bin/sh -c "echo skipped: no weights; exit 77")
add_test([=[silent]=] /bin/sh -c "exit 77")
add_test([=[module]=] /bin/sh -c "echo No module named numpy; exit 77")
add_test([=[good]=] /bin/sh -c "exit 0")
set_tests_properties([=[weights]=] [=[more_weights]=] [=[silent]=] [=[module]=] PROPERTIES SKIP_RETURN_CODE 77)
"""


class Summary(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.root = pathlib.Path(self.temp.name)
        self.stage = self.root / "build" / "release"
        self.stage.mkdir(parents=True)
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPT, self.root / "scripts" / "test")
        self.program("scripts/build", "#!/bin/sh\n")
        self.program("a_tests", PROGRAM.format(python=sys.executable))

    def program(self, path, text):
        """Writes a program."""
        (self.root / path).write_text(text)
        (self.root / path).chmod(0o755)

    def run_tests(self, tests, stages=("release",), until=""):
        """Runs tests as the stage "release", if that is among the stages, and returns (exit code, lines)."""
        (self.stage / "CTestTestfile.cmake").write_text(tests.format(program=self.root / "a_tests", folder=self.root))
        done = subprocess.run([sys.executable, str(self.root / "scripts" / "test"), *stages], capture_output=True, text=True, check=False,
                              env={**os.environ, "WEIR_TEST_UNTIL": until})
        return done.returncode, done.stdout.splitlines()

    def test_each_reason_of_skipped_tests_stands_there_once_with_its_count(self):
        code, lines = self.run_tests(TESTS)
        self.assertEqual(code, 0, lines)
        said = [line for line in lines if line.startswith("== skipped")]
        self.assertEqual(said[0], "== skipped 2: no weights")
        self.assertEqual(sorted(said[1:]), ["== skipped 1: AVX-512: not on this processor", "== skipped 1: No module named numpy",
                                            "== skipped 1: no reason was given"])
        self.assertRegex(lines[-2], r"^weir: all tests passed: release 2; \d+ s$")
        self.assertEqual(lines[-1], "weir: 2 passed, 0 failed, 5 skipped")

    def test_the_longest_tests_are_printed(self):
        lines = self.run_tests(TESTS)[1]
        said = [line for line in lines if line.startswith("== release: longest: ")]
        self.assertEqual(len(said), 1, lines)
        self.assertTrue(said[0].startswith("== release: longest: a_tests.Kernels.Narrow 76 s, a_tests.Kernels.Wide 74 s, "), said)

    def test_a_stage_for_which_no_time_is_left_is_named(self):
        begun = time.time()
        code, lines = self.run_tests(TESTS, ("release", "asan"), str(begun + 0.001))
        self.assertEqual(code, 0, lines)
        self.assertRegex("\n".join(lines), r"\n== asan: left out: it would take about \d+ s, and 0 s are left\n")
        self.assertEqual(lines[-3], "weir: left out for lack of time: asan; scripts/test asan runs them")

    def test_without_skipped_tests_there_is_no_reason(self):
        code, lines = self.run_tests('add_test([=[good]=] /bin/sh -c "exit 0")\n')
        self.assertEqual(code, 0, lines)
        self.assertFalse([line for line in lines if line.startswith("== skipped")])

    def test_long_reasons_are_cut_and_failures_are_counted(self):
        code, lines = self.run_tests(TESTS + 'add_test([=[bad]=] /bin/sh -c "echo broken; exit 1")\n'
                                     + 'add_test([=[long]=] /bin/sh -c "echo skipped: ' + "x" * 300 + '; exit 77")\n'
                                     "set_tests_properties([=[long]=] PROPERTIES SKIP_RETURN_CODE 77)\n")
        self.assertEqual(code, 1)
        self.assertIn("== skipped 1: " + "x" * 140 + "...", lines)
        self.assertIn("broken", lines)
        self.assertEqual(lines[-1], "weir: 2 passed, 1 failed, 6 skipped")


if __name__ == "__main__":
    unittest.main()
