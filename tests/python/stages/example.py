# SPDX-License-Identifier: Apache-2.0
"""Stages of the tests: one with state, a source and a sink."""
import os

import numpy as np

import weir


@weir.stage("demo.unit_rows", x="f32[n,k]", y="f32[n,k]")
class UnitRows:
    """Scales each row to the length 1.

    Rows of zeros stay zeros."""
    eps: float = weir.setting(1e-6, low=0, doc="added to the length")
    seen: int = weir.state(0)

    def on_item(self, x, y):
        np.divide(x, np.linalg.norm(x, axis=1, keepdims=True) + self.eps, out=y)
        self.seen += len(x)


@weir.stage("demo.numbers", y="f64[4]")
class Numbers:
    """Makes 4 times n."""
    count: int = weir.setting(10, low=1, high=1000000, doc="number of items", may_change=True)
    at: int = weir.state(0)

    def next(self, y):
        if self.at == self.count:
            return False
        y[:] = self.at
        self.at += 1
        return True


@weir.stage("demo.raw_file", x="any")
class RawFile:
    """Writes the bytes of all items into a file."""
    path: str = weir.setting(doc="the file", path="output")
    mode: str = weir.setting("plain", choices=["plain", "reversed"])

    def open(self):
        self.file = open(self.path, "ab")

    def put(self, x):
        self.file.write(x.tobytes() if self.mode == "plain" else x[::-1].tobytes())

    def settle(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        return self.file.tell()

    def rewind(self, offset):
        self.file.truncate(offset)
        self.file.seek(offset)

    def verify(self, offset):
        size = os.path.getsize(self.path)
        if size < offset:
            raise weir.Error("torn", f"cannot compare {self.path!r}: expected {offset} bytes, found {size}")
        return True
