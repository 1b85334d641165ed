# SPDX-License-Identifier: Apache-2.0
"""Kills every verb of `weir hn4` that writes at each of its calls: kill_every_call.py WEIR SHIM [soak]

A killed verb must leave the state before it or the state after it, in which a check finds nothing. The next verb that writes must
continue and remove what was left behind."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

WEIR, SHIM = sys.argv[1:3]
SOAK = sys.argv[3:] == ["soak"]
STRIDE = 1 if SOAK else 7
LONG = "model:a name that is longer than twenty-four bytes"
OLD, NEW, SMALL = (random.Random(i).randbytes(n) for i, n in ((1, 60_000), (2, 45_001), (3, 9000)))
BEFORE = {"keep": SMALL, "model:a": OLD, LONG: OLD}


class Killed(unittest.TestCase):
    """Tests one verb each. STRIDE skips calls in the short form; the long form tries every call, also with torn
    writes."""
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-hn4-"))
        (self.folder / "in").mkdir()
        for name, content in (("old", OLD), ("new", NEW), ("small", SMALL)):
            (self.folder / "in" / name).write_bytes(content)
        self.base = self.folder / "base"
        self.base.mkdir()
        self.work = self.base
        self.must("mkfs", "v", "--profile", "pico", "--size", "4MiB")
        for tag, file, shards in (("gap", "small", 1), ("keep", "small", 2), ("model:a", "old", 3), (LONG, "old", 2)):
            self.must("put", "v", tag, "../in/" + file, "--shards", shards)
        self.must("rm", "v", "gap")

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_weir(self, *args, **env):
        """Runs a verb in the present folder."""
        return subprocess.run([WEIR, "hn4", *map(str, args)], cwd=self.work, env={**os.environ, **env},
                              capture_output=True, timeout=100, check=False)

    def must(self, *args, codes=(0,)):
        """Runs a verb that must end with one of these codes, and returns its output."""
        done = self.run_weir(*args)
        self.assertIn(done.returncode, codes, (args, done.stderr.decode()))
        return done.stdout

    def fresh(self):
        """Makes a copy of the prepared volume and works on it."""
        self.work = self.folder / "work"
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.base, self.work)

    def content(self):
        """Returns the streams of all tags."""
        names = [row["tag"] for row in json.loads(self.must("ls", "v", "--json"))]
        return {name: self.must("cat", "v", name) for name in names}

    def expect_sound(self, *allowed):
        """Checks that the volume holds one of the allowed contents and that a check finds nothing."""
        found = self.content()
        self.assertIn(found, allowed, [(k, len(v)) for k, v in found.items()])
        report = json.loads(self.must("check", "v", "--json"))
        self.assertEqual((report["findings"], report["lost"], report["tags"]), ([], [], len(found)))
        return found

    def kill(self, after, *args, again=None, codes=(0,), files=()):
        """Kills a verb at its calls. The volume must then hold the content before or `after`. `again` is the verb that
        continues and ends with one of `codes`; of other files only `files` may remain."""
        self.fresh()
        count = self.folder / "count"
        done = self.run_weir(*args, LD_PRELOAD=SHIM, WEIR_KILL_COUNT=str(count))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        total = int(count.read_text())
        self.assertGreater(total, 3)
        self.expect_sound(after)
        for torn in ({}, {"WEIR_KILL_TORN": "1"}) if SOAK else ({},):
            for call in range(1 + len(args[0]) % STRIDE, total + 1, STRIDE):
                with self.subTest(verb=args, call=call, **torn):
                    self.fresh()
                    done = self.run_weir(*args, LD_PRELOAD=SHIM, WEIR_KILL_AT=str(call), **torn)
                    self.assertEqual(done.returncode, -9)
                    self.expect_sound(BEFORE, after)
                    self.must(*(again or args), codes=codes)
                    self.expect_sound(after)
                    self.assertLessEqual({p.name for p in self.work.iterdir()}, {"v", "v.index", *files})

    def test_a_put_of_a_new_tag(self):
        for tag in ("model:n", "a new name that is longer than twenty-four bytes"):
            put = ("put", "v", tag, "../in/new", "--shards", 3)
            self.kill({**BEFORE, tag: NEW}, *put, again=(*put, "--replace"))

    def test_a_put_that_replaces(self):
        for tag in ("model:a", LONG):
            self.kill({**BEFORE, tag: NEW}, "put", "v", tag, "../in/new", "--shards", 2, "--replace", "--compress")

    def test_a_put_that_appends(self):
        (self.folder / "in" / "both").write_bytes(OLD + NEW)
        self.kill({**BEFORE, "model:a": OLD + NEW}, "put", "v", "model:a", "../in/new", "--shards", 2, "--append",
                  again=("put", "v", "model:a", "../in/both", "--replace"))

    def test_a_removal(self):
        for tag in ("keep", LONG):
            self.kill({k: v for k, v in BEFORE.items() if k != tag}, "rm", "v", tag, codes=(0, 3))

    def test_a_compaction(self):
        self.kill(BEFORE, "compact", "v")

    def test_a_format_of_an_existing_volume(self):
        self.kill({}, "mkfs", "v", "--profile", "pico", "--size", "4MiB", "--force")

    def test_a_repair(self):
        self.kill(BEFORE, "check", "v", "--repair", "w", codes=(0, 3), files=("w",))
        self.assertEqual(len(json.loads(self.must("ls", "w", "--json"))), 3)

    def test_a_get(self):
        self.kill(BEFORE, "get", "v", LONG, "out", "--force", files=("out",))
        self.assertEqual((self.work / "out").read_bytes(), OLD)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
