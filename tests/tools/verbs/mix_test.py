#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests mixtures of sources whose runs are killed and resumed: `mix_test.py WEIR SOURCE_DIR [unittest arguments]`."""
import json
import os
import signal
import sys
import time

from black_box_case import SOURCE, TOML, Case, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "formats", "tokens"))
from verbs import tokenizer  # noqa: E402

TOKENS = 16_000
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from weir import sources

class Pieces(sources.Source):
    dataset = "text"

    def documents(self, state):
        text = open(sys.argv[2], encoding="latin-1").read()
        for at in range(state or 0, len(text), 700):
            yield sources.doc(text[at:at + 700], state=at + 700, id=at)

sources.serve(Pieces())
"""


class Base(Case):
    """A run over a folder of documents in random order and a file of which runs of tokens are shuffled."""

    kills = 0  # how often the run was killed

    def mixed(self, **keys):
        """Returns the arguments of `weir run` behind the folder."""
        text = self.text.read_bytes()
        documents = self.folder / "documents"
        if not documents.exists():
            documents.mkdir()
            for i in range(12):
                (documents / f"{10 + i}").write_bytes(text[700 * i:700 * i + 300 + 25 * i])
            (self.folder / "file").write_bytes(text[10_000:16_000])
        values = {"stream__path": [], "stream__mix__sources": ["documents", "file"],
                  "stream__mix__weights": [3, 1], "stream__mix__unit": 64,
                  "source__documents__path": str(documents), "source__documents__shuffle__window": 5,
                  "source__file__path": str(self.folder / "file"), "source__file__shuffle__window": 16,
                  "source__file__shuffle__unit": 48, **keys}
        return self.sets(TOKENS, **values)

    def three_kinds(self, **keys):
        """The same for a shuffled set of token files, a folder with a tokenizer, and a child process."""
        text = self.text.read_bytes()
        if not (self.folder / "texts").exists():
            (self.folder / "texts").mkdir()
            (self.folder / "texts" / "a").write_bytes(text[:25_000])
            (self.folder / "texts" / "b").write_bytes(text[15_000:])
            (self.folder / "t.json").write_text(json.dumps(tokenizer()))
            for i in range(2):
                (self.folder / "part").write_bytes(text[9_000 * i:9_000 * i + 9_000])
                self.weir("tokens", "pack", "part", "--tokenizer", "t.json", "-o", f"shard-{i}.bin")
            (self.folder / "child.py").write_text(CHILD)
        command = json.dumps([sys.executable, str(self.folder / "child.py"), SOURCE + "/python", str(self.text)])
        values = {"stream__path": [], "stream__mix__sources": ["shards", "texts", "child"],
                  "stream__mix__weights": [3, 2, 1], "stream__mix__unit": 64,
                  "stream__mix__exhausted": ["loop", "drop", "drop"],
                  "source__shards__path": str(self.folder / "shard-*.bin"), "source__shards__format": "u16",
                  "source__shards__vocabulary": 260, "source__shards__eot_id": 259,
                  "source__shards__shuffle__window": 16, "source__shards__shuffle__unit": 64,
                  "source__texts__path": str(self.folder / "texts"),
                  "source__texts__tokenizer": str(self.folder / "t.json"),
                  "source__child__command": command, "source__child__vocabulary": 259, **keys}
        return self.sets(TOKENS, **values)

    def killed(self, out, kills, arguments):
        """Performs a run that is killed after a new checkpoint so many times, and returns its metrics."""
        command = ["run", TOML, "--out", out, *arguments]
        before = None
        done = 0
        while done < kills:
            child = self.start(*command)
            self.wait_for_checkpoint(out, child)
            while child.poll() is None and self.newest(out).name == before:
                time.sleep(0.002)
            child.send_signal(signal.SIGSTOP)  # a run that has not ended does not end now
            alive = child.poll() is None
            child.kill()
            child.communicate()
            if not alive:
                break
            done += 1
            before = self.newest(out).name
            command = ["resume", out]
        if done == 0:
            self.skipTest("the run ended before it could be killed")
        self.kills = done
        self.weir("resume", out)
        return self.metrics(out)

    def check(self, kills, arguments):
        """Compares a run that is killed with a run that is not."""
        self.weir("run", TOML, "--out", "whole", *arguments)
        whole = self.metrics("whole")
        killed = self.killed("killed", kills, arguments)
        for key in ("state_hash", "context_hash", "parameter_hash", "tokens", "pulses", "mix"):
            self.assertEqual(killed[key], whole[key], key)
        return whole

    def check_shares(self, metrics):
        """Compares the shares of three kinds of sources with their weights."""
        for line, name, percent in zip(metrics["mix"], ("shards", "texts", "child"), (50, 100 / 3, 100 / 6)):
            self.assertTrue(line.startswith(name + ": "), line)
            self.assertAlmostEqual(float(line.split()[1]), percent, delta=0.5)


class Mix(Base):
    """Four kills, and two of a run over three kinds of sources."""

    def test_the_shares_and_the_state_are_those_of_a_run_that_was_not_killed(self):
        self.check(4, self.mixed())

    def test_three_kinds_of_sources_have_the_shares_that_were_asked_for(self):
        self.check_shares(self.check(2, self.three_kinds()))


class MixSoak(Base):
    """Fifty kills, and random draws."""

    def test_fifty_kills(self):
        self.check(50, self.mixed(stream__mix__mode="random", checkpoint__every_tokens=256, phase__build__tokens=100_000))
        self.assertEqual(self.kills, 50)

    def test_fifty_kills_of_three_kinds_of_sources(self):
        self.check_shares(self.check(50, self.three_kinds(checkpoint__every_tokens=256, phase__build__tokens=90_000)))
        self.assertEqual(self.kills, 50)


if __name__ == "__main__":
    main()
