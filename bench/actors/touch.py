# SPDX-License-Identifier: Apache-2.0
"""The stage of the row pipe_python_us: touches one word of each item."""
import weir


@weir.stage("bench.touch", x="u64[n]", y="u64[n]")
class Touch:
    """Copies the first word of an item."""
    def on_item(self, x, y):
        y[0] = x[0]
