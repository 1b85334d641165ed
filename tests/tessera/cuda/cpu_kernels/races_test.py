#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that ThreadSanitizer finds the planted races of kernels, and none without them: `races_test.py PROGRAM`.

PROGRAM is `kernel_races` of a build with ThreadSanitizer.
"""
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]
REPORT = "WARNING: ThreadSanitizer: data race"
REPORTED = 66  # exit status of a program with a report
SECONDS = 300


def run(*arguments, options=""):
    """Returns the status of the program and all that it prints."""
    options = ":".join(filter(None, [os.environ.get("TSAN_OPTIONS", ""), options]))
    done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS, check=False, env=dict(os.environ, TSAN_OPTIONS=options))
    return done.returncode, done.stdout


class Races(unittest.TestCase):
    def test_no_kernel_has_one(self):
        status, output = run()
        self.assertEqual((status, output), (0, ""))

    def test_no_kernel_has_one_among_4096_threads_that_are_alive(self):
        status, output = run("many")
        self.assertEqual((status, output), (0, ""))

    def test_that_are_planted_are_reported(self):
        status, output = run("list")
        self.assertEqual(status, 0, output)
        faults = dict(line.split(" ", 1) for line in output.splitlines())
        self.assertGreaterEqual(len(faults), 10)
        found = 0
        for number, name in faults.items():
            with self.subTest(name):
                # The first report is enough, and without names of functions it takes less time.
                status, output = run(number, options="halt_on_error=1:symbolize=0")
                self.assertEqual(status, REPORTED, output)
                self.assertIn(REPORT, output)
                # Both accesses are those of threads of a kernel, or one stands for undefined content of shared memory.
                self.assertRegex(output, r"'thread [0-9]+ of block [0-9]+'")
                found += 1
        print(f"planted races of kernels: {found} of {len(faults)} found by ThreadSanitizer")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
