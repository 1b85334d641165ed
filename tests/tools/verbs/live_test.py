#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests runs over live sources from outside: `live_test.py WEIR SOURCE_DIR [unittest arguments]`."""
import json
import signal
import sys
import time

from black_box_case import SOURCE, TOML, Case, main

# Sends a text in pieces. Behind the byte GATE it is quiet until the file "open" exists.
CHILD = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from weir import sources

class Pieces(sources.Source):
    dataset = "text"

    def documents(self, state):
        text = open(sys.argv[2], encoding="latin-1").read()
        for at in range(state or 0, len(text), 700):
            while at > 2500 and not os.path.exists("open"):
                time.sleep(0.01)
            yield sources.doc(text[at:at + 700], state=at + 700, id=at)

print("a line for people", file=sys.stderr)
sources.serve(Pieces())
"""


class Live(Case):
    """Tests of sources whose tokens arrive while the run goes on."""

    def child(self, tokens, **keys):
        """The arguments of a run over the child."""
        (self.folder / "child.py").write_text(CHILD)
        command = json.dumps([sys.executable, str(self.folder / "child.py"), SOURCE + "/python", str(self.text)])
        return self.sets(tokens, stream__path="[]", stream__command=command, stream__eot="false",
                         stream__vocabulary="256", **keys)

    def wait_for(self, child, condition):
        while child.poll() is None and not condition():
            time.sleep(0.01)
        self.assertIsNone(child.poll(), child.poll() is not None and child.communicate())

    def test_a_quiet_child_delays_neither_checkpoint_nor_stop_and_a_resume_equals_a_file(self):
        whole = self.run_it("whole", 6000, stream__eot="false")
        run = self.start("run", TOML, "--out", "r", *self.child(6000))
        checkpoints = self.folder / "r" / "checkpoint"
        self.wait_for(run, lambda: len(list(checkpoints.glob("ck-*.weir"))) >= 2)
        run.send_signal(signal.SIGINT)
        stdout, stderr = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, stderr.decode())
        self.assertIn("a line for people", stderr.decode())
        self.assertEqual(self.metrics("r")["ended"], "interrupted")
        (self.folder / "open").touch()
        self.weir("resume", "r")
        for key in ("parameter_hash", "context_hash", "tokens"):
            self.assertEqual(self.metrics("r")[key], whole[key], key)
        self.weir("run", TOML, "--out", "again", *self.child(6000))
        self.assertEqual(self.metrics("r")["state_hash"], self.metrics("again")["state_hash"])

    def test_turns_of_standard_input_are_pulses_of_their_own(self):
        sets = self.sets(1000, stream__path="-", stream__turns="true", checkpoint__every_tokens="0")
        done = self.weir("run", TOML, "--out", "r", *sets, stdin=b"one\ntwo\n/reset\nthree\n")
        metrics = self.metrics("r")
        self.assertEqual((metrics["tokens"], metrics["pulses"]), (14, 3), done.stderr)

    def test_a_child_that_fails_is_named_and_the_checkpoint_stays(self):
        sets = self.sets(6000, stream__path="[]", stream__command='["/bin/sh", "-c", "echo no JSON"]')
        self.assertIn("expected a JSON object in UTF-8, found \"no JSON\"", self.error("run", TOML, "--out", "r", *sets, code=4))

    def test_settings_exclude_each_other(self):
        for keys, expected in (({"stream__command": '["x"]'}, "expected one of"),
                               ({"stream__turns": "true"}, "found files"),
                               ({"stream__token_file": "t"}, "stream.listen"),
                               ({"stream__path": "[]", "stream__listen": "tcp:0.0.0.0:0"}, "expected a token file")):
            self.assertIn(expected, self.error("run", TOML, "--out", "r", *self.sets(64, **keys), code=2))


if __name__ == "__main__":
    main()
