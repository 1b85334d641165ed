#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `weir prove`: `prove_test.py WEIR SOURCE_DIR [unittest arguments]`. The plug-in of the environment variable
WEIR_PLUGINS has stages with planted mistakes.
"""
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from black_box_case import SOURCE, WEIR, Case, main

BUILT = Path(os.environ["WEIR_PLUGINS"])


class Proofs(Case):
    """A test case with the demos and a folder for the variants."""

    def setUp(self):
        super().setUp()
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        self.own = {"TMPDIR": str(self.scratch)}

    def demo(self, name):
        """Copies a demo of pipelines into the folder and makes its inputs."""
        source = Path(SOURCE) / "demos" / ("plugin" if name == "plugin" else f"pipelines/{name}")
        for file in source.iterdir():
            shutil.copy(file, self.folder)
        if name == "plugin":
            shutil.copy(BUILT / "running_mean.so", self.folder)
        elif name == "archive":
            self.weir("run", "inputs.toml", "--set", "old_numbers.count=240", "--set", "new_numbers.count=250")
            for unit, archive in (("kelvin", "old"), ("celsius", "new")):
                self.weir("tgm", "set", "-s", f"extra.archive={archive}", f"{unit}.tgm", f"{archive}.tgm")
        elif name == "images":
            self.weir("run", "inputs.toml")

    def proved(self, file, runs):
        """Proves a file that must be sound."""
        before = sorted(self.folder.rglob("*"))
        text = self.weir("prove", file, "--runs", runs, environment=self.own).stdout.decode()
        self.assertRegex(text, r"proved: the outputs of \d+ variants are equal")
        self.assertEqual(sorted(self.folder.rglob("*")), before)


class ProveSoak(Proofs):
    """Proofs with many runs that are killed, for `make soak`."""

    def test_the_demos_are_proved_with_many_kills(self):
        # Each start of the demo in Python starts an interpreter for every stage in a child, so it has fewer runs.
        for demo, file, runs in (("plugin", "pipeline.toml", 50), ("archive", "archive.toml", 50),
                                 ("images", "images.toml", 50), ("python", "python.toml", 10)):
            self.demo(demo)
            self.proved(file, runs)


class Prove(Proofs):
    """Proofs of pipelines."""

    def write(self, use, more="", count=40):
        """Writes a pipeline in which the second of three stages may be a planted one."""
        (self.folder / "p.toml").write_text(f"""
plugins = ["{BUILT}/planted.so"]
[[stage]]
name = "numbers"
use = "generator"
count = {count}
shape = [64]
[[stage]]
name = "middle"
use = "{use}"
{more}
[[stage]]
name = "half"
use = "elementwise"
type = "f32[64]"
op = "multiply"
operand = 0.5
[[stage]]
name = "file"
use = "tgm.write"
path = "out.tgm"
""")

    def prove(self, *more, code):
        """Proves p.toml and returns the facts."""
        done = self.weir("prove", "p.toml", "--json", *more, code=code, environment=self.own)
        return json.loads(done.stdout)

    def test_an_honest_pipeline_is_proved_and_leaves_nothing(self):
        self.write("planted.none", count=2000)
        found = self.prove("--runs", 2, code=0)
        self.assertTrue(found["equal"])
        names = [v["variant"] for v in found["variants"]]
        self.assertEqual(names, ["1 worker", "2 workers", "window 1", "own hosts", "children", "killed 1", "killed 2"])
        self.assertGreater(sum(v["kills"] for v in found["variants"]), 0)
        self.assertEqual(list(self.scratch.iterdir()), [])
        self.assertFalse((self.folder / "out.tgm").exists())
        self.assertFalse((self.folder / "runs").exists())

    def test_an_interrupted_proof_leaves_nothing(self):
        (self.folder / "p.toml").write_text("""
[[stage]]
name = "numbers"
use = "generator"
count = 2000
[[stage]]
name = "slow"
use = "rate"
type = "f32[1]"
items_per_second = 1000
[[stage]]
name = "file"
use = "tgm.write"
path = "out.tgm"
""")
        with subprocess.Popen([WEIR, "prove", "p.toml"], cwd=self.folder, env={**os.environ, **self.own}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, start_new_session=True) as child:
            end = time.monotonic() + 60
            while not list(self.scratch.glob("*/*")) and time.monotonic() < end:
                time.sleep(0.01)
            os.killpg(child.pid, signal.SIGINT)
            said = child.communicate(timeout=60)[1]
        self.assertIn(b"a request to stop", said)
        self.assertEqual(list(self.scratch.iterdir()), [])

    def test_a_planted_clock_is_found_at_its_stage_and_item(self):
        self.write("planted.clock")
        found = self.prove("--runs", 0, code=1)
        self.assertFalse(found["equal"])
        difference = found["difference"]
        self.assertEqual((difference["stage"], difference["use"], difference["outlet"], difference["item"]),
                         ("middle", "planted.clock", "y", 7))
        self.assertEqual(difference["variants"], ["1 worker", "2 workers"])
        self.assertTrue(Path(found["folder"]).is_dir())
        text = self.weir("prove", "p.toml", code=1, environment=self.own).stdout.decode()
        self.assertIn('the first stage that differs is "middle" (planted.clock): item 7 at its outlet "y"', text)

    def test_a_planted_random_device_is_found_at_its_stage_and_item(self):
        self.write("planted.device")
        difference = self.prove("--runs", 0, code=1)["difference"]
        self.assertEqual((difference["stage"], difference["item"]), ("middle", 7))

    def test_an_element_that_no_stage_writes_is_found(self):
        self.write("planted.slot")
        difference = self.prove("--runs", 0, code=1)["difference"]
        self.assertEqual((difference["stage"], difference["item"]), ("middle", 0))

    def test_state_that_no_checkpoint_holds_is_found_by_kills(self):
        self.write("planted.state", count=5000)
        found = self.prove("--runs", 20, code=1)
        self.assertTrue(found["difference"]["variants"][1].startswith("killed"), found)
        self.assertTrue(found["difference"].get("stage", "middle") == "middle", found)

    def test_the_demos_are_proved(self):
        for demo, file in (("plugin", "pipeline.toml"), ("archive", "archive.toml"), ("images", "images.toml")):
            self.demo(demo)
            self.proved(file, 1)

    def test_a_demo_with_a_stage_in_python_is_proved(self):
        self.demo("python")
        self.proved("python.toml", 0)

    def test_failed_items_and_existing_files_stay_in_the_folder_of_the_variant(self):
        (self.folder / "p.toml").write_text("""
[[stage]]
name = "numbers"
use = "generator"
count = 20
shape = [64]
[[stage]]
name = "mean"
use = "elementwise"
type = "f32[64]"
op = "multiply"
operand = 2
on_error = "dead_letter"
[[stage]]
name = "file"
use = "tgm.write"
mode = "append"
path = "out.tgm"
""")
        self.weir("pipe", "generator count=3 shape=[64] ! tgm.write path=out.tgm")
        before = (self.folder / "out.tgm").read_bytes()
        self.weir("prove", "p.toml", "--runs", 1, "--folder", "kept", environment=self.own)
        self.assertEqual((self.folder / "out.tgm").read_bytes(), before)
        self.assertEqual(list(self.folder.glob("*failed*")), [])
        first = self.folder / "kept" / "1" / "outputs"
        self.assertTrue((first / "file" / "out.tgm").read_bytes().startswith(before))
        self.assertTrue((first / "mean-failed_x.tgm").exists())

    def test_paths_that_differ_in_steps_upwards_have_files_of_their_own(self):
        (self.folder / "two.py").write_text("""
import weir

@weir.stage("test.two_files", x="any")
class TwoFiles:
    above: str = weir.setting(path="output")
    beside: str = weir.setting(path="output")

    def open(self):
        self.files = [open(path, "w") for path in (self.above, self.beside)]

    def put(self, x):
        for name, file in zip(("above", "beside"), self.files):
            file.write(name)
            file.flush()

    def settle(self):
        return 0

    def rewind(self, stored):
        pass
""")
        (self.folder / "inner").mkdir()
        (self.folder / "inner" / "p.toml").write_text("""
plugins = ["../two.py"]
[[stage]]
name = "numbers"
use = "generator"
count = 1
shape = [1]
[[stage]]
name = "file"
use = "test.two_files"
above = "../x"
beside = "x"
""")
        self.weir("prove", "inner/p.toml", "--runs", 0, "--folder", "kept", environment=self.own)
        files = self.folder / "kept" / "1" / "outputs" / "file"
        self.assertEqual([(files / name).read_text() for name in ("x", "2/x")], ["above", "beside"])

    def test_a_pipeline_of_pipes_is_refused(self):
        self.write("planted.none")
        self.assertIn("cannot be redirected", self.error("prove", "p.toml", "--set", "file.path=-", code=2))
        os.mkfifo(self.folder / "pipe")
        self.assertIn("override it with --set file.path=PATH", self.error("prove", "p.toml", "--set", "file.path=pipe", code=2))
        self.assertIn("expected a pipeline with [[stage]]", self.error("prove", SOURCE + "/demos/prose/prose.toml", code=2))

    def test_a_variant_that_fails_tells_its_message(self):
        shutil.copy(SOURCE + "/demos/plugin/pipeline.toml", self.folder / "p.toml")
        shutil.copy(BUILT / "running_mean.so", self.folder)
        done = self.weir("prove", "p.toml", "--set", "mean.length=63", code=6, environment=self.own)
        self.assertIn('the variant "1 worker" succeeds', done.stderr.decode())
        self.assertIn("expected items of the length in the settings", done.stderr.decode())


main()
