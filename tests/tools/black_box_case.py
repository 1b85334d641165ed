# SPDX-License-Identifier: Apache-2.0
"""The base of tests that call the program `weir` from outside. Such a test is a script with the arguments
`WEIR SOURCE_DIR [unittest arguments]`.
"""
import json
import os
import pty
import select
import shutil
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


class Shells:
    """A part of test cases that asks shells in the folder of the test how they complete a line. Without the shell, the test is skipped."""

    def script_for(self, shell):
        """Writes the output of `weir completion SHELL` to a file and returns its path."""
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        path = self.folder / f"completion.{shell}"
        with open(path, "wb") as script:
            subprocess.run([WEIR, "completion", shell], stdout=script, timeout=60, check=True)
        return path

    def fish_offers(self, script, line):
        """Returns the completions that fish offers behind a line."""
        done = subprocess.run(["fish", "--no-config", "-c", 'source $argv[1]; complete -C "$argv[2]"', script, line], cwd=self.folder,
                              capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return [entry.split("\t")[0] for entry in done.stdout.splitlines()]

    def zsh_line(self, script, typed):
        """Returns the line that zsh shows after a tab; control-X prints the line."""
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**os.environ, "TERM": "dumb"})

        def read_until(mark):
            seen = b""
            while mark not in seen:
                self.assertTrue(select.select([terminal], [], [], 60)[0], seen)
                seen += os.read(terminal, 4096)
            return seen.decode(errors="replace")

        os.write(terminal, f"autoload -Uz compinit; compinit -u -D; source {script}; show() {{ print -r -- \"<<$BUFFER>>\" }}; "
                           "zle -N show; bindkey '^X' show; echo rea''dy\n".encode())
        read_until(b"ready")
        os.write(terminal, typed.encode() + b"\t\x18")
        shown = read_until(b">>")
        os.close(terminal)
        os.waitpid(child, 0)
        return shown[shown.rindex("<<") + 2:shown.rindex(">>")]


def main():
    """Runs the tests of the script."""
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
