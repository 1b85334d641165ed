# SPDX-License-Identifier: Apache-2.0
"""The demo demos/pipelines/python: its output is that of NumPy, also if it is killed: `demo_test.py [unittest arguments]`."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[3]
DEMO = SOURCE / "demos" / "pipelines" / "python"
sys.path.insert(0, str(DEMO))
from unit_rows import Peaks, UnitRows  # noqa: E402  (the folder is known only now)

import weir  # noqa: E402
from example import RawFile  # noqa: E402
from weir.testing import feed  # noqa: E402

WEIR, COUNT = os.environ["WEIR_PROGRAM"], 5000
RATE = re.compile(r"in [0-9.]+ m?s, [0-9,]+ items/s")  # differs from run to run


def call(*words, cwd):
    done = subprocess.run([WEIR, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="weir-demo-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name)
        for name in ("python.toml", "unit_rows.py"):
            shutil.copy(DEMO / name, cls.folder)
        call("run", "python.toml", "--out", "whole", cwd=cls.folder)
        cls.whole = (cls.folder / "peaks.tgm").read_bytes()

    def test_the_output_equals_the_stages_alone(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        p = weir.pipeline("input")
        numbers = p.add("numbers", "generator", count=COUNT, shape=[16, 8], kind="philox")
        centred = p.add("centred", "elementwise", type="f32[16,8]", op="subtract", operand=0.5)
        numbers >> centred >> p.add("file", RawFile, path="input.bin")
        p.run("input")
        items = np.fromfile("input.bin", np.float32).reshape(COUNT, 16, 8)
        unit = feed(UnitRows, x=list(items), eps=0.0)
        peaks = [a for a in feed(Peaks, x=unit) if a is not None]
        lines = [json.loads(line) for line in call("tgm", "dump", "--limit", 0, "peaks.tgm", cwd=self.folder).splitlines()]
        found = [np.array(line["values"], np.float32) for line in lines if line.get("object") == 0]
        self.assertEqual(len(found), len(peaks))
        for one, two in zip(found, peaks):
            np.testing.assert_array_equal(one.reshape(two.shape), two)

    def test_the_picture_is_that_of_the_graph(self):
        call("graph", "python.toml", "-o", "python.svg", cwd=self.folder)
        self.assertEqual((self.folder / "python.svg").read_text(), (DEMO / "python.svg").read_text())

    def test_the_commands_of_the_readme_print_what_it_shows(self):
        text = (DEMO / "README.md").read_text().replace("/tmp/", f"{self.folder}/")
        for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            for command in re.findall(r"^\$ (.*)\n((?:[^$\n].*\n)*)", block, re.MULTILINE):
                words = command[0].replace("build/weir", WEIR)
                done = subprocess.run(words, shell=True, cwd=SOURCE, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(RATE.sub("", done.stdout), RATE.sub("", command[1]))

    def test_a_killed_run_ends_with_the_same_bytes(self):
        for kill in range(3):
            out = f"killed-{kill}"
            child = subprocess.Popen([WEIR, "run", "python.toml", "--out", out], cwd=self.folder, stdout=subprocess.DEVNULL)
            while child.poll() is None and not list((self.folder / out / "checkpoint").glob("ck-*.weir")):
                time.sleep(0.002)
            time.sleep(random.random() * 0.05)
            child.kill()
            child.wait()
            call("resume", out, cwd=self.folder)
            self.assertEqual((self.folder / "peaks.tgm").read_bytes(), self.whole)


if __name__ == "__main__":
    unittest.main()
