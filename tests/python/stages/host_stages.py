# SPDX-License-Identifier: Apache-2.0
"""Stages that the tests of child processes use."""
import os
import sys
import time

import numpy as np

import weir


@weir.stage("test.double", x="f32[n]", y="f32[n]")
class Double:
    """Doubles; does something else for the numbers that its settings name."""
    at: int = weir.setting(-1)
    act: str = weir.setting("raise")
    mark: str = weir.setting("mark", path="output", doc="file of a process that has killed itself once")
    seen: int = weir.state(0)
    sums: np.ndarray = weir.state(np.zeros(2))

    def on_item(self, x, y):
        np.add(x, x, out=y)
        self.seen += 1
        self.sums += [x.sum(), 1]
        if self.item.seq == self.at:
            self.misbehave(x)

    def misbehave(self, x):
        if self.act == "raise":
            raise ValueError(f"bad item of {len(x)} elements")
        if self.act == "exit":
            sys.exit(3)
        if self.act == "_exit":
            print("last words", flush=True)
            os._exit(3)
        if self.act == "kill":
            os.kill(os.getpid(), 9)
        while self.act == "hang":
            pass
        if self.act == "once" and not os.path.exists(self.mark):
            open(self.mark, "x").close()
            os.kill(os.getpid(), 9)
        while self.act == "wait":
            time.sleep(1)
        if self.act == "sleep":
            time.sleep(0.05)


@weir.stage("test.repeat", x="f32[n]", y="f32[m]")
class Repeat:
    """Returns an item of n * (seen + 1) elements."""
    seen: int = weir.state(0)

    def on_item(self, x):
        self.seen += 1
        return np.tile(x, self.seen)


@weir.stage("test.note", x="any", y="u8[1]")
class Note:
    """Writes the rank of the item, and changes attributes of odd items."""
    def on_item(self, x, y):
        y[0] = x.ndim
        if self.item.seq % 2:
            self.item.attributes["rank"] = x.ndim
        else:
            len(self.item.attributes)


@weir.stage("test.sometimes", x="i64[]", y="i64[]")
class Sometimes:
    """Copies items with their numbers; skips item 13, changes the attributes of item 16 and fails at item 27."""
    def on_item(self, x, y):
        if self.item.seq == 13:
            return weir.skip
        if self.item.seq == 16:
            self.item.attributes["changed"] = 1
        if self.item.seq == 27:
            raise ValueError("item 27")
        y[...] = 100 * self.item.seq + x


@weir.stage("test.odd", x="i64[]", y="i64[]")
class Odd:
    """Skips even items."""
    def on_item(self, x, y):
        if x % 2 == 0:
            return weir.skip
        y[...] = x


@weir.stage("test.wrong", x="f32[n]", y="f32[n]")
class Wrong:
    """Returns what it should not."""
    act: str = weir.setting("dtype")

    def on_item(self, x):
        return {"dtype": x.astype(np.float64), "shape": np.zeros(len(x) + 1, np.float32), "none": None}[self.act]


@weir.stage("test.count", y="f64[?]")
class Count:
    """Item n has n + 1 elements. It has nothing at the number `quiet`, once."""
    count: int = weir.setting(5)
    quiet: int = weir.setting(-1)
    at: int = weir.state(0)
    half: float = weir.state(0.0)

    def open(self):
        self.was_quiet = False

    def next(self):
        if self.at == self.count:
            return None
        if self.at == self.quiet and not self.was_quiet:
            self.was_quiet = True
            return weir.nothing_yet
        self.at += 1
        self.half = self.at / 2
        self.item.attributes["n"] = self.at
        return np.full(self.at, self.half)


@weir.stage("test.keep", x="f32[n]", y="f32[n]")
class Keep:
    """Keeps a view, which is a mistake."""
    def on_item(self, x, y):
        y[:] = x
        y[0] = getattr(self, "kept", x)[-1]
        self.kept = x


@weir.stage("test.both", x="f32[n]", y=weir.out("f32[n]"), z=weir.out("f32[n]"))
class Both:
    """Gives two items."""
    def on_item(self, x, z):
        z[:] = x
        return -x


@weir.stage("test.even", x="f32[n]", y="f32[n]", stateless=True)
class Even:
    """Refuses odd items."""
    def on_item(self, x, y):
        if self.item.seq % 2:
            raise ValueError("odd")
        y[:] = x
