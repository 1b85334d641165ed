#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that ThreadSanitizer finds the planted races of kernels, and none without them: `races_test.py PROGRAM`.

PROGRAM is `kernel_races` of a build with ThreadSanitizer.
"""
import os
import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]
SECONDS = 300
REPORTED = 66  # exit status of a program with a report
REPORT = "WARNING: ThreadSanitizer: data race"
ACCESS = re.compile(r"^  (?:Previous )?(?:atomic )?(?:read|write) of size \d+ at \S+ by thread (T\d+)", re.MULTILINE | re.IGNORECASE)
NAME = re.compile(r"^  Thread (T\d+) '([^']*)'", re.MULTILINE)
THREAD = re.compile(r"thread \d+ of block \d+")
UNDEFINED = "undefined content of shared memory"
# The races of other faults are between two threads of a kernel.
READS_UNDEFINED = "shared memory is read before it is written"
FOUND_AMONG_MANY = ("a barrier is left out", "the barrier of the grid does not wait for the block")


def run(*arguments):
    """Returns the status of the program and all that it prints. It shows every race of an address, and no names of functions, which
    take long to find."""
    options = ":".join(filter(None, [os.environ.get("TSAN_OPTIONS", ""), "symbolize=0:suppress_equal_addresses=0"]))
    done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS, check=False, env=dict(os.environ, TSAN_OPTIONS=options))
    return done.returncode, done.stdout


def planted():
    """Returns {name: number} of the planted races."""
    status, output = run("list")
    if status != 0:
        raise AssertionError(output)
    return {name: number for number, name in (line.split(" ", 1) for line in output.splitlines())}


def races_of(output):
    """Returns the names of the two threads of each race that the program printed."""
    reports = [text for text in output.split("==================") if REPORT in text]
    return [tuple(dict(NAME.findall(text)).get(number, number) for number in ACCESS.findall(text)) for text in reports]


class Races(unittest.TestCase):
    def expect_race(self, name, *arguments):
        status, output = run(*arguments)
        self.assertEqual(status, REPORTED, output)
        expected = ["kernel", UNDEFINED if name == READS_UNDEFINED else "kernel"]
        found = [sorted(THREAD.sub("kernel", thread) for thread in race) for race in races_of(output)]
        self.assertIn(expected, found, output)

    def test_no_kernel_has_one(self):
        self.assertEqual(run(), (0, ""))

    def test_no_kernel_has_one_among_4096_threads(self):
        self.assertEqual(run("many"), (0, ""))

    def test_that_are_planted_are_reported(self):
        faults, found = planted(), 0
        self.assertGreaterEqual(len(faults), 10)
        for name, number in faults.items():
            with self.subTest(name):
                self.expect_race(name, "few", number)
                found += 1
        print(f"planted races of kernels: {found} of {len(faults)} found by ThreadSanitizer")

    def test_that_are_planted_among_4096_threads_are_reported(self):
        for name in FOUND_AMONG_MANY:
            with self.subTest(name):
                self.expect_race(name, "many", planted()[name])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
