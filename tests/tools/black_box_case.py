# SPDX-License-Identifier: Apache-2.0
"""The base of tests that call the program `weir` from outside. Such a test is a script with the arguments
`WEIR SOURCE_DIR [unittest arguments]`.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

WEIR = os.path.abspath(sys.argv[1])
SOURCE = os.path.abspath(sys.argv[2])
TOML = SOURCE + "/demos/prose/prose.toml"
LICENCE = SOURCE + "/LICENSE"


class Case(unittest.TestCase):
    """A test case with a temporary working folder, and helpers that call `weir` in it."""

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="weir-black-box-")
        self.folder = Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        # 40 KB of generated text, the same on every machine.
        licence = Path(LICENCE).read_bytes()
        self.text = self.folder / "text"
        self.text.write_bytes((licence * 4)[:40_000])

    def weir(self, *args, code=0, stdin=b"", environment=None):
        """Runs `weir`, checks its exit code, and returns the completed process."""
        done = subprocess.run([WEIR, *map(str, args)], cwd=self.folder, input=stdin, capture_output=True,
                              timeout=120, check=False, env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, code, done.stdout.decode(errors="replace")
                         + done.stderr.decode(errors="replace"))
        return done

    def error(self, *args, code):
        """Runs a command that must fail with an exit code and returns its message."""
        done = self.weir(*args, code=code)
        warnings, found, message = done.stderr.decode().partition("weir: ")
        self.assertTrue(found, warnings)
        return message.rstrip("\n")

    def sets(self, tokens=4096, **keys):
        """Returns the --set arguments of a short run over the text. Double underscores stand for dots."""
        values = {"stream__path": str(self.text), "phase__build__tokens": tokens, "run__trace": "off",
                  "checkpoint__every_tokens": 1024, **keys}
        return [a for k, v in values.items() for a in ("--set", f"{k.replace('__', '.')}={v}")]

    def run_it(self, out, tokens=4096, **keys):
        """Performs a whole run in the folder `out` and returns its metrics."""
        self.weir("run", TOML, "--out", out, *self.sets(tokens, **keys))
        return self.metrics(out)

    def metrics(self, out):
        """Returns the metrics of a run folder."""
        return json.loads((self.folder / out / "metrics.json").read_text())

    def start(self, *args):
        """Starts `weir` without waiting for it."""
        return subprocess.Popen([WEIR, *map(str, args)], cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def wait_for_checkpoint(self, out, child):
        """Waits until a run folder has a checkpoint or the process has ended."""
        folder = self.folder / out / "checkpoint"
        while child.poll() is None and not list(folder.glob("ck-*.weir")):
            time.sleep(0.002)

    def kill_after_checkpoint(self, out, *args):
        """Starts a command and kills it once the folder `out` has a checkpoint."""
        child = self.start(*args)
        self.wait_for_checkpoint(out, child)
        child.kill()
        child.communicate()

    def newest(self, out):
        """Returns the path of the newest checkpoint of a run folder."""
        return max((self.folder / out / "checkpoint").glob("ck-*.weir"),
                   key=lambda p: int(p.stem.split("-")[1]))


def main():
    """Runs the tests of the script."""
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
