#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the pipelines of the program `weir` from outside: `black_box_pipelines.py WEIR SOURCE_DIR [unittest arguments]`."""
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from black_box_case import WEIR, Case, main


class Pipelines(Case):
    FILE = """
[checkpoint]
every = "200 items"
[[stage]]
name = "numbers"
use = "generator"
count = 60000
shape = [64]
[[stage]]
name = "half"
use = "elementwise"
type = "f32[64]"
op = "multiply"
operand = 0.5
[[stage]]
name = "write"
use = "tgm.write"
path = "out.tgm"
"""

    def write(self):
        (self.folder / "half.toml").write_text(self.FILE)

    def test_kill_and_resume_give_the_same_bytes(self):
        self.write()
        self.weir("run", "half.toml", "--out", "whole", "--set", "write.path=whole.tgm")
        whole = (self.folder / "whole.tgm").read_bytes()
        self.kill_after_checkpoint("r", "run", "half.toml", "--out", "r")
        with open(self.folder / "out.tgm", "ab") as file:
            file.write(b"more")
        said = self.weir("resume", "r", "--set", "run.workers=2").stdout.decode()
        self.assertRegex(said, r"cut        \d+ bytes of .*out\.tgm behind the checkpoint\n")
        self.assertEqual((self.folder / "out.tgm").read_bytes(), whole)
        self.assertEqual(self.metrics("r")["ended"], "finished")
        self.assertIn("had finished before", self.weir("resume", "r").stdout.decode())
        self.assertIn("twice", self.error("resume", "r", "--set", "twice.operand=2", code=2))
        self.assertIn("another pipeline", self.error("resume", "r", "--set", "half.operand=2", code=2))
        self.assertIn("generation 9999", self.error("resume", "r", "--generation", 9999, code=3))
        self.assertRegex((self.folder / "r" / "log").read_text(), r"resumes: at item \d+, from generation \d+\n")
        os.truncate(self.folder / "out.tgm", len(whole) - 1)
        self.assertIn("expected at least", self.error("resume", "r", code=4))
        (self.folder / "out.tgm").unlink()
        self.assertIn("out.tgm", self.error("resume", "r", code=4))

    def test_a_killed_run_leaves_the_figures_so_far(self):
        self.write()
        child = self.start("run", "half.toml", "--out", "r", "--set", "numbers.count=100000000")
        metrics = self.folder / "r" / "metrics.json"
        while child.poll() is None and not (metrics.exists() and self.metrics("r")["checkpoints"] > 0):
            time.sleep(0.01)
        child.kill()
        child.communicate()
        found = self.metrics("r")
        self.assertEqual(found["ended"], "running")
        self.assertGreater(found["items"], 0)
        self.assertGreater(found["edges"][0]["items"], 0)
        (self.folder / "r" / "metrics.json.123-4.tmp").touch()  # of a process that was killed while it wrote
        self.weir("report", "r")
        self.assertIn("while the run was going on", (self.folder / "r" / "report.html").read_text())
        self.assertIn("items/s", self.weir("graph", "--run", "r").stdout.decode())
        child = self.start("resume", "r")
        self.assertIn(b"run folder", child.stdout.readline())
        child.send_signal(signal.SIGINT)
        child.communicate()
        self.assertEqual(child.returncode, 0)
        self.assertEqual([f.name for f in (self.folder / "r").glob("*.tmp")], [])

    def test_a_closed_output_does_not_fail_a_run(self):
        self.write()
        for count in (50, 60000):
            child = subprocess.Popen([WEIR, "run", "half.toml", "--set", f"numbers.count={count}"], cwd=self.folder,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            child.stdout.readline()
            child.stdout.close()
            messages = child.stderr.read().decode()
            child.stderr.close()
            self.assertEqual(child.wait(), 0, messages)
        self.assertTrue("interrupted" in messages or "finished" in messages, messages)
        if self.metrics("runs/half-2")["ended"] == "interrupted":
            self.assertIn("stops: asked by", (self.folder / "runs" / "half-2" / "log").read_text())

    def test_exit_codes_are_those_of_the_document(self):
        self.write()
        (self.folder / "twice.toml").write_text(self.FILE + self.FILE.replace("[checkpoint]\nevery = \"200 items\"\n", ""))
        self.assertIn("unique name", self.error("check", "twice.toml", code=2))
        self.weir("run", "half.toml", "--out", "r", "--set", "numbers.count=3")
        (self.folder / "other.toml").write_text("""
[[stage]]
name = "read"
use = "tgm.read"
path = "out.tgm"
type = "f64[64]"
[[stage]]
name = "null"
use = "null"
""")
        self.assertIn("expected a tensor of type f64[64], found f32[64]", self.error("run", "other.toml", code=4))
        self.assertIn("warning: cannot read", self.weir("check", "other.toml", "--set", "read.path=no").stdout.decode())
        self.assertIn("cannot read", self.error("run", "other.toml", "--set", "read.path=no", code=3))
        self.assertEqual([f.name for f in (self.folder / "runs").iterdir()], ["other-1"])

    def test_an_interrupted_run_continues(self):
        self.write()
        child = self.start("run", "half.toml", "--out", "r", "--json")
        self.wait_for_checkpoint("r", child)
        child.send_signal(signal.SIGINT)
        out, messages = child.communicate()
        self.assertEqual(child.returncode, 0, messages)
        if json.loads(out)["ended"] == "interrupted":
            self.assertIn("weir resume r", messages.decode())
            self.assertIn("stops: asked by a signal", (self.folder / "r" / "log").read_text())
            self.weir("resume", "r")
        self.assertEqual(self.metrics("r")["ended"], "finished")

    def test_a_run_goes_back_and_skips_items(self):
        self.write()
        self.weir("run", "half.toml", "--out", "r", "--set", "numbers.count=1000", "--set", "checkpoint.keep=10")
        listed = json.loads(self.weir("checkpoint", "ls", "r", "--json").stdout)["checkpoints"]
        self.assertEqual([one["item"] for one in listed], [1000, 1000, 800, 600, 400, 200])
        self.assertIn("item 400", self.weir("checkpoint", "ls", "r").stdout.decode())
        size = (self.folder / "out.tgm").stat().st_size
        generation = listed[4]["generation"]
        for wrong in ("7", "7:", "9:9", "9:8", "a:b", "-1:3", "1:2x"):
            self.assertIn("FROM:TO", self.error("resume", "r", "--skip", wrong, code=2))
        self.assertIn("older generation", self.error("resume", "r", "--generation", generation, "--skip", "399:401", code=2))
        self.weir("resume", "r", "--generation", generation, "--skip", "400:450", "--skip", "999:2000")
        self.assertEqual(self.metrics("r")["items"], 1000 - 400 - 51)
        self.assertEqual(self.metrics("r")["stages"][0]["skipped"], 51)
        self.assertLess((self.folder / "out.tgm").stat().st_size, size)
        self.assertEqual((self.folder / "out.tgm").stat().st_size % (1000 - 51), 0)

    def test_a_trace_shows_stages_and_items(self):
        self.write()
        self.weir("run", "half.toml", "--out", "r", "--set", "numbers.count=300")
        events = json.loads((self.folder / "r" / "trace.json").read_text())["traceEvents"]
        lines = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        for stage in ("numbers", "half", "write"):
            self.assertIn(f"stage {stage}", lines.values())
        items = [e for e in events if e["ph"] == "X" and lines[e["tid"]].startswith("stage half")]
        self.assertEqual({e["name"] for e in items}, {f"item {n}" for n in range(300)})
        ends = {}
        for e in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
            self.assertGreaterEqual(e["ts"] + 0.001, ends.get(e["tid"], e["ts"]), "two spans of one line overlap")
            ends[e["tid"]] = e["ts"] + e["dur"]
        heads = [e for e in events if e["ph"] == "f"]
        self.assertEqual(len(heads), 600)  # from the source to the middle, and from there to the sink
        self.weir("run", "half.toml", "--out", "s", "--set", "numbers.count=30", "--set", "run.trace=off")
        self.assertFalse((self.folder / "s" / "trace.json").exists())
        self.assertIn("until a checkpoint held them", (self.folder / "r" / "report.html").read_text())

    def test_files_are_checked_and_drawn(self):
        self.write()
        facts = json.loads(self.weir("check", "half.toml", "--json").stdout)
        self.assertEqual([e["type"] for e in facts["edges"]], ["f32[64]", "f32[64]"])
        self.assertIn("exactly once", self.weir("check", "half.toml").stdout.decode())
        self.weir("graph", "half.toml", "-o", "g.svg")
        self.assertIn("generator", (self.folder / "g.svg").read_text())
        self.assertIn("digraph", self.weir("graph", "half.toml", "--dot").stdout.decode())
        self.assertIn("tgm.write", self.weir("stages").stdout.decode())
        self.assertIn("count", self.weir("inspect", "generator").stdout.decode())
        self.error("run", "half.toml", "--out", "r", "--set", "numbers.count=-1", code=2)
        self.assertFalse((self.folder / "r").exists())


class Children(Case):
    """Runs whose stages work in child processes."""

    FILE = """
[checkpoint]
every = "5 items"
[[stage]]
name = "numbers"
use = "generator"
count = 300
shape = [64]
host = "process"
[[stage]]
name = "slow"
use = "rate"
type = "f32[64]"
items_per_second = 20.0
host = "process"
[[stage]]
name = "write"
use = "tgm.write"
path = "out.tgm"
host = "process"
"""
    FAST = ("--set", "slow.items_per_second=1e9")

    def setUp(self):
        super().setUp()
        (self.folder / "slow.toml").write_text(self.FILE)

    @staticmethod
    def children_of(process):
        """Returns the children of a process that work, also those of its threads."""
        found = []
        for task in Path(f"/proc/{process}/task").glob("*/children"):
            try:
                found += task.read_text().split()
            except OSError:  # the thread has ended
                pass
        return found

    @staticmethod
    def works(process):
        """Returns whether a process has not ended. One that nobody has waited for yet is shown, but has ended."""
        try:
            return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def wait_until(self, condition, message):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, message)
            time.sleep(0.002)

    def test_a_second_interrupt_ends_the_run_and_its_children_at_once(self):
        self.weir("run", "slow.toml", "--out", "whole", "--set", "write.path=whole.tgm", *self.FAST)
        whole = (self.folder / "whole.tgm").read_bytes()
        shared = set(os.listdir("/dev/shm"))
        seed = random.randrange(1 << 32)
        moments = random.Random(seed)
        at_once = 0
        rounds = 8
        for number in range(rounds):
            out = f"r{number}"
            child = self.start("run", "slow.toml", "--out", out, "--set", f"write.path={out}.tgm")
            self.wait_until(lambda: len(self.children_of(child.pid)) == 3 or child.poll() is not None, "there are no children")
            children = self.children_of(child.pid)
            if number % 2:  # one half of the runs is interrupted while its stages open, the other behind a checkpoint
                self.wait_for_checkpoint(out, child)
            time.sleep(moments.uniform(0, 0.2))
            child.send_signal(signal.SIGINT)
            if number % 4 == 3:
                log = self.folder / out / "log"
                self.wait_until(lambda: "stops: asked by a signal" in log.read_text(), "the run has not seen the first signal")
            else:  # two signals at once may be one
                time.sleep(moments.uniform(0.001, 0.3))
            child.send_signal(signal.SIGINT)
            begin = time.monotonic()
            _, messages = child.communicate(timeout=60)
            place = f"seed {seed}, round {number}: {messages.decode()}"
            # Without the second signal the status would be 0, since the first one lets the slow stage work on.
            self.assertLess(time.monotonic() - begin, 20, place)
            self.assertIn(child.returncode, (130, 0), place)
            at_once += number % 2 and child.returncode == 130
            self.assertTrue(number % 4 != 3 or child.returncode == 130, place)
            self.assertEqual(len(children), 3, place)
            self.wait_until(lambda: not any(map(self.works, children)), f"a child goes on, {place}")
            self.weir("resume", out, *self.FAST)
            self.assertEqual((self.folder / f"{out}.tgm").read_bytes(), whole, place)
        # A run that is asked while its stages open may end by itself before the second signal.
        self.assertGreater(at_once, 0, f"seed {seed}")
        self.assertEqual({name for name in os.listdir("/dev/shm") if "weir" in name} - shared, set())

    def test_memory_that_a_child_cannot_have_is_an_error_with_its_stage_and_bytes(self):
        limited = subprocess.run(["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", WEIR, "run", "slow.toml", "--out", "r", *self.FAST],
                                 cwd=self.folder, capture_output=True, timeout=60, check=False)
        self.assertEqual(limited.returncode, 5, limited.stderr)
        self.assertRegex(limited.stderr.decode(), "cannot make the memory that the run shares with the child process of stage "
                         r'"\w+": expected \d{6,} bytes, found the error "File too large" of ftruncate; give the edges')
        # The refused run has left nothing, so its folder can be used again.
        self.assertFalse((self.folder / "r").exists())
        self.weir("run", "slow.toml", "--out", "r", *self.FAST)

    def test_a_full_dev_shm_does_not_concern_a_run(self):
        full = 'mount -t tmpfs -o size=64k none /dev/shm && (yes > /dev/shm/full; ! echo more > /dev/shm/more) 2>/dev/null && exec "$@"'
        alone = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
        if subprocess.run([*alone, full, "sh", "true"], capture_output=True, timeout=60, check=False).returncode != 0:
            self.skipTest("a mount namespace with a /dev/shm of its own is not allowed here")
        done = subprocess.run([*alone, full, "sh", WEIR, "run", "slow.toml", "--out", "r", *self.FAST], cwd=self.folder,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(self.metrics("r")["ended"], "finished")


if __name__ == "__main__":
    main()
