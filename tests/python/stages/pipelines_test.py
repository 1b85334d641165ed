# SPDX-License-Identifier: Apache-2.0
"""Pipelines that a Python program builds, checks, runs and resumes: `pipelines_test.py [unittest arguments]`. The environment variable
WEIR_PROGRAM names the program `weir`.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import weir
from example import Numbers, RawFile, UnitRows
from host_stages import Count, Double, Even, Odd, Wrong

HERE = pathlib.Path(__file__).resolve().parent
WEIR = os.environ["WEIR_PROGRAM"]


class Folder(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="weir-pipelines-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)

    def refused(self, call, *words, code=None):
        with self.assertRaises(weir.Error) as caught:
            call()
        for word in words:
            self.assertIn(word, str(caught.exception))
        if code is not None:
            self.assertEqual(caught.exception.code, code)
        return str(caught.exception)


class Building(Folder):
    def test_the_file_has_all_keys_and_edges(self):
        p = weir.pipeline("all keys")
        a = p.add("a", "generator", shape=[3], count=2, **{"kind.of": "x\ny\"\x7fü"})
        b = p.add("b", "zip", window="4 items", on_error="skip", max_failures=3)
        c = p.add("c", UnitRows, eps=1, host="process")
        a["x"] >> b["first"]
        c >> b["second"]
        b["a"] >> c
        b["b"].feed_back(b["token"], 2)
        self.assertEqual(p.toml(workers=2, every="3 items", seed=7), f'''name = "all keys"
files = "{os.getcwd()}"
plugins = ["{HERE / "example.py"}"]

[run]
workers = 2
seed = 7

[checkpoint]
every = "3 items"

[[stage]]
name = "a"
use = "generator"
shape = [3]
count = 2
kind.of = "x\\ny\\"\\u007fü"

[[stage]]
name = "b"
use = "zip"
window = "4 items"
on_error = "skip"
max_failures = 3
inlets = {{ first = "a.x", second = "c" }}
loop = {{ token = "b.b", delay = 2 }}

[[stage]]
name = "c"
use = "demo.unit_rows"
host = "process"
eps = 1.0
inlets = {{ x = "b.a" }}
''')

    def test_mistakes_are_told_at_once(self):
        p, other = weir.pipeline("p"), weir.pipeline("q")
        a, b = p.add("a", Numbers), p.add("b", UnitRows)
        self.refused(lambda: p.add("a", "null"), "found 'a' twice", code="already_exists")
        self.refused(lambda: p.add("c", UnitRows, esp=1), "did you mean 'eps'", code="unknown_key")
        self.refused(lambda: p.add("c", UnitRows, eps=-1), "setting 'eps': expected a number from 0, found -1")
        self.refused(lambda: p.add("c", "null", a=[{}]), "setting 'a'", "found dict")
        self.refused(lambda: p.add("c", "null", a=float("nan")), "finite")
        self.refused(lambda: p.add("c", Folder), "decorator weir.stage")
        self.refused(lambda: a["z"], "stage 'a': expected a port (y), found 'z'")
        self.refused(lambda: a >> other.add("a", "null"), "expected stages of this pipeline")
        a >> b
        a >> b
        self.refused(p.toml, "stage 'b': expected one edge for each inlet")

    def test_a_class_in_a_function_cannot_be_loaded_by_a_child(self):
        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            def on_item(self, x, y):
                pass
        p = weir.pipeline("p")
        p.add("a", Demo)
        self.refused(p.toml, "a class at the top of a file")

    def test_the_check_returns_the_plan_and_the_mistakes_of_the_graph(self):
        p = weir.pipeline("p")
        a = p.add("a", Numbers, count=3)
        a >> p.add("file", "tgm.write", path="out.tgm")
        plan = p.check()
        self.assertEqual(plan["pipeline"], "p")
        self.assertGreater(plan["memory_bound_bytes"], 0)
        b = p.add("b", UnitRows)
        a >> b
        self.refused(p.check, "f64[4]", "f32[n,k]", code="invalid_argument")

    def test_another_host_is_refused_with_the_file(self):
        p = weir.pipeline("p")
        p.add("a", "generator", shape=[2, 2]) >> p.add("b", UnitRows, host="own") >> p.add("c", "null")
        self.refused(p.check, "because it comes from", "example.py", "\"own\"", code="invalid_argument")

    def test_a_missing_program_is_told(self):
        before = os.environ.pop("WEIR_PROGRAM")
        self.addCleanup(os.environ.__setitem__, "WEIR_PROGRAM", before)
        os.environ["WEIR_PROGRAM"] = "/nonexistent/weir"
        p = weir.pipeline("p")
        p.add("a", "null")
        with self.assertRaises(FileNotFoundError):
            p.check()


def rows(count, path="out.bin", every=None):
    """Returns a pipeline of a source, a stage and a sink in Python, with a stage of Weir between them."""
    p = weir.pipeline("rows")
    numbers = p.add("numbers", Numbers, count=count)
    half = p.add("half", "elementwise", type="f64[4]", op="multiply", operand=0.5)
    single = p.add("file", RawFile, path=path)
    numbers >> half >> single
    return p


def lives(pid):
    """Returns whether a process has not ended. Nobody may have waited for it yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def expected(count):
    return np.repeat(np.arange(count) * 0.5, 4).tobytes()


class Running(Folder):
    def test_a_pipeline_in_python_writes_the_bytes_of_numpy(self):
        figures = rows(300).run("runs/r", every="50 items")
        self.assertEqual((figures["items"], figures["ended"]), (300, "finished"))
        self.assertEqual((self.folder / "out.bin").read_bytes(), expected(300))
        self.assertEqual(rows(300).resume("runs/r")["ended"], "finished")  # compares the file
        os.truncate("out.bin", 5)
        self.refused(lambda: rows(300).resume("runs/r"), "expected 9600 bytes, found 5", code="corrupt")

    def test_workers_and_windows_change_no_byte(self):
        for n, (workers, window) in enumerate(((1, "1 items"), (2, "64 items"))):
            p = weir.pipeline("random")
            items = p.add("items", "generator", shape=[5, 3], count=200, kind="philox")
            unit = p.add("unit", UnitRows, window=window)
            items >> unit >> p.add("file", RawFile, path=f"{n}.bin", window=window)
            p.run(f"runs/{n}", workers=workers, every="64 items")
        self.assertEqual((self.folder / "0.bin").read_bytes(), (self.folder / "1.bin").read_bytes())
        values = np.frombuffer((self.folder / "0.bin").read_bytes(), np.float32).reshape(-1, 3)
        np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, rtol=1e-4)
        self.assertEqual(len(values), 1000)

    def test_a_killed_run_continues_with_state_and_the_same_bytes(self):
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import pipelines_test as t\n"
                   "t.rows(20000).run('runs/r', every='100 items')")
        child = subprocess.Popen([sys.executable, "-B", "-c", program, str(HERE)], start_new_session=True)
        checkpoints = self.folder / "runs" / "r" / "checkpoint"
        while child.poll() is None and len(list(checkpoints.glob("ck-*.weir"))) < 2:
            time.sleep(0.005)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        figures = rows(20000).resume("runs/r", every="5000 items")
        self.assertEqual(figures["ended"], "finished")
        self.assertEqual((self.folder / "out.bin").read_bytes(), expected(20000))

    def test_an_exception_names_stage_item_file_and_line(self):
        message = self.doubling(at=7)
        self.assertNotIn("`restarts`", message)
        for words in ("\"double\"", "item 7", "ValueError: bad item of 4 elements (host_stages.py:", ", in misbehave: raise ValueError"):
            self.assertIn(words, message)

    def double(self, **settings):
        p = weir.pipeline("double")
        items = p.add("items", "generator", shape=[4], count=40)
        items >> p.add("double", Double, **settings) >> p.add("file", RawFile, path="double.bin")
        return p

    def doubling(self, deadline=None, **settings):
        return self.refused(lambda: self.double(**settings).run("runs/r", deadline=deadline), "\"double\"", code="failed")

    def test_a_child_that_ends_is_named_with_its_last_words(self):
        message = self.doubling(at=7, act="_exit")
        self.assertIn("item 7 in stage", message)
        self.assertIn("ended with status 3; its last words: last words", message)
        self.assertIn("`restarts`", message)

    def test_a_child_that_is_killed_is_named_with_the_signal(self):
        self.assertIn("signal 9", self.doubling(at=7, act="kill"))

    def test_a_child_that_hangs_is_ended_after_the_deadline(self):
        # The start of an interpreter must take less, also beside other work.
        self.assertIn("none for 6 s", self.doubling(at=7, act="wait", deadline="6 s"))

    def test_a_child_that_hangs_ends_with_a_run_that_is_killed(self):
        (self.folder / "hang.toml").write_text(self.double(at=7, act="hang").toml())
        run = subprocess.Popen([WEIR, "run", "hang.toml", "--out", "r"], stdout=subprocess.DEVNULL)
        children = []
        while run.poll() is None and len(children) < 2:
            children = [int(pid) for task in pathlib.Path(f"/proc/{run.pid}/task").iterdir() for pid in (task / "children").read_text().split()]
            time.sleep(0.01)
        self.assertTrue(children, "the run has ended early")
        run.kill()
        run.wait()
        deadline = time.monotonic() + 20
        while any(map(lives, children)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(list(filter(lives, children)), [])

    def test_a_run_goes_back_when_a_child_has_died(self):
        figures = self.double(at=25, act="once").run("runs/r", restarts=1, every="10 items")
        self.assertEqual((figures["ended"], figures["restarts"]), ("finished", 1))
        self.assertTrue((self.folder / "mark").exists())
        self.assertEqual((self.folder / "double.bin").read_bytes(), (np.arange(160, dtype=np.float32) * 2).tobytes())

    def test_failed_items_of_a_stage_without_state_are_skipped_or_kept(self):
        for policy in ("skip", "dead_letter"):
            p = weir.pipeline(policy)
            items = p.add("items", "generator", shape=[4], count=10)
            even = p.add("even", Even, on_error=policy)
            items >> even
            even["y"] >> p.add("file", RawFile, path=f"{policy}.bin")
            p.run(f"runs/{policy}")
            found = np.fromfile(f"{policy}.bin", np.float32).reshape(-1, 4)[:, 0]
            self.assertEqual(found.tolist(), [0, 8, 16, 24, 32])
        dump = subprocess.run([WEIR, "tgm", "dump", "--limit", "0", "even.failed_x.tgm"], capture_output=True, text=True, check=True)
        self.assertEqual(dump.stdout.count("ValueError: odd (host_stages.py:"), 5)

    def test_a_skipped_number_has_no_item_behind_the_stage(self):
        p = weir.pipeline("odd")
        items = p.add("items", "generator", shape=[], count=100, element="i64")
        items >> p.add("odd", Odd) >> p.add("file", RawFile, path="odd.bin")
        p.run("runs/r")
        found = np.frombuffer((self.folder / "odd.bin").read_bytes(), np.int64)
        self.assertEqual(found.tolist(), list(range(1, 100, 2)))

    def test_wrong_results_name_outlet_expected_and_found(self):
        p = weir.pipeline("wrong")
        p.add("items", "generator", shape=[4], count=40) >> p.add("wrong", Wrong) >> p.add("null", "null")
        self.refused(lambda: p.run("runs/r"), "\"wrong\"", "outlet 'y': expected f32[n], found f64[4]")

    def test_items_of_any_shape_pass(self):
        p = weir.pipeline("count")
        p.add("count", Count, count=20) >> p.add("file", RawFile, path="count.bin")
        p.run("runs/r", every="3 items")
        wanted = b"".join(np.full(n, n / 2).tobytes() for n in range(1, 21))
        self.assertEqual((self.folder / "count.bin").read_bytes(), wanted)


if __name__ == "__main__":
    unittest.main()
