#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests mixtures of sources whose runs are killed and resumed: `mix_test.py WEIR SOURCE_DIR [unittest arguments]`."""
import signal
import time

from black_box_case import TOML, Case, main

TOKENS = 16_000


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

    def killed(self, out, kills, **keys):
        """Performs a run that is killed after a new checkpoint so many times, and returns its metrics."""
        command = ["run", TOML, "--out", out, *self.mixed(**keys)]
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

    def check(self, kills, **keys):
        """Compares a run that is killed with a run that is not."""
        self.weir("run", TOML, "--out", "whole", *self.mixed(**keys))
        whole = self.metrics("whole")
        killed = self.killed("killed", kills, **keys)
        for key in ("state_hash", "context_hash", "parameter_hash", "tokens", "pulses", "mix"):
            self.assertEqual(killed[key], whole[key], key)
        return whole


class Mix(Base):
    """Four kills."""

    def test_the_shares_and_the_state_are_those_of_a_run_that_was_not_killed(self):
        self.check(4)


class MixSoak(Base):
    """Fifty kills, and random draws."""

    def test_fifty_kills(self):
        self.check(50, stream__mix__mode="random", checkpoint__every_tokens=256, phase__build__tokens=100_000)
        self.assertEqual(self.kills, 50)


if __name__ == "__main__":
    main()
