# SPDX-License-Identifier: Apache-2.0
"""Two stages in Python for python.toml: one with state, and one that skips items."""
import numpy as np

import weir


@weir.stage("demo.unit_rows", x="f32[n,k]", y="f32[n,k]")
class UnitRows:
    """Scales each row to the length 1."""
    eps: float = weir.setting(1e-6, low=0, doc="added to the length")
    seen: int = weir.state(0)

    def on_item(self, x, y):
        np.divide(x, np.linalg.norm(x, axis=1, keepdims=True) + self.eps, out=y)
        self.seen += len(x)
        self.item.attributes["rows"] = self.seen


@weir.stage("demo.peaks", x="f32[n,k]", y="f32[m,k]")
class Peaks:
    """Keeps the rows whose largest element is far above the mean of such elements so far, and skips items without such a row."""
    margin: float = weir.setting(0.3, low=0, doc="smallest distance above the mean")
    count: int = weir.state(0)
    total: float = weir.state(0.0)

    def on_item(self, x):
        largest = x.max(axis=1)
        self.count += len(x)
        self.total += float(largest.sum(dtype=np.float64))
        kept = x[largest > self.total / self.count + self.margin]
        return kept if len(kept) else weir.skip
