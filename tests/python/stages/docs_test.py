# SPDX-License-Identifier: Apache-2.0
"""The examples of the section "Stages in Python" of docs/pipelines.md, word for word: `docs_test.py [unittest arguments]`."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
SECTION = re.search(r"\n## Stages in Python\n.*?(?=\n## )", (SOURCE / "docs" / "pipelines.md").read_text(), re.DOTALL)[0]
BLOCKS = re.findall(r"\n```(python|toml python)\n(.*?)```", SECTION, re.DOTALL)


class Section(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="weir-docs-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.programs = [text for kind, text in BLOCKS if kind == "python"]
        self.assertEqual([kind for kind, _ in BLOCKS], ["python", "toml python", "python", "python"])
        (self.folder / "unit_rows.py").write_text(self.programs[0])
        (self.folder / "unit.toml").write_text(BLOCKS[1][1])

    def call(self, *words):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE / "python"), str(self.folder)])}
        done = subprocess.run([str(w) for w in words], cwd=self.folder, capture_output=True, text=True, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_stage_can_be_tested_alone(self):
        self.call(sys.executable, "-B", "-c", self.programs[1])

    def test_the_program_writes_the_bytes_of_the_file(self):
        weir = os.environ["WEIR_PROGRAM"]
        self.assertIn("demo.unit_rows", self.call(weir, "inspect", "demo.unit_rows", "--plugin", "unit_rows.py"))
        self.call(weir, "run", "unit.toml", "--out", "run")
        written = (self.folder / "unit.tgm").read_bytes()
        (self.folder / "unit.tgm").unlink()
        (self.folder / "program.py").write_text(self.programs[2])
        self.call(sys.executable, "-B", "program.py")
        self.assertEqual((self.folder / "unit.tgm").read_bytes(), written)


if __name__ == "__main__":
    unittest.main()
