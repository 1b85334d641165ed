# SPDX-License-Identifier: Apache-2.0
"""bench/run.py with made-up programs: patterns, table, summary, exit code."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = """#!/bin/sh
if [ "$1" = --list ]; then echo {prefix}_good; echo {prefix}_bad; exit 0; fi
for id in "$@"; do case $id in
  *_good) echo '{{"id": "'$id'", "value": 2, "unit": "ns", "bar": 3, "sense": "<=", "holds": true, "peer": 4}}' ;;
  *_bad) echo '{{"id": "'$id'", "value": 5, "unit": "ns", "bar": 3, "sense": "<=", "holds": false, "peer": null}}' ;;
esac; done
exit {code}
"""


class BenchRun(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temp.name)
        (self.folder / "bin").mkdir()
        self.program("alpha", 0)
        self.program("beta", 0)

    def tearDown(self):
        self.temp.cleanup()

    def program(self, prefix, code):
        path = self.folder / "bin" / prefix
        path.write_text(FAKE.format(prefix=prefix, code=code))
        path.chmod(0o755)

    def run_bench(self, only):
        self.done = subprocess.run(
            [sys.executable, str(ROOT / "bench" / "run.py"), "--no-prose", "--programs",
             str(self.folder / "bin"), "--only", only, "--out", str(self.folder / "s" / "summary.json")],
            capture_output=True, text=True, check=False, env=os.environ)
        summary = self.folder / "s" / "summary.json"
        return json.loads(summary.read_text()) if summary.exists() else None

    def test_writes_every_row_with_all_fields(self):
        rows = self.run_bench("")
        self.assertEqual([r["id"] for r in rows], ["alpha_good", "alpha_bad", "beta_good", "beta_bad"])
        for row in rows:
            self.assertLessEqual({"id", "value", "unit", "bar", "holds", "peer"}, set(row))

    def test_patterns_choose_rows(self):
        self.assertEqual([r["id"] for r in self.run_bench("beta_*,alpha_good")],
                         ["alpha_good", "beta_good", "beta_bad"])

    def test_a_bar_that_fails_is_printed_and_does_not_change_the_exit_code(self):
        self.run_bench("alpha_*")
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertRegex(self.done.stdout, r"alpha_bad .* <= 3 +FAILS")
        self.assertIn("2 rows, 1 below their bar", self.done.stdout)

    def test_a_program_that_fails_changes_the_exit_code(self):
        self.program("gamma", 3)
        self.run_bench("gamma_*")
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("gamma ended with 3", self.done.stderr)

    def test_a_pattern_without_a_row_is_an_error(self):
        self.assertIsNone(self.run_bench("delta_*"))
        self.assertNotEqual(self.done.returncode, 0)
        self.assertIn("no id matches 'delta_*'", self.done.stderr)


if __name__ == "__main__":
    unittest.main()
