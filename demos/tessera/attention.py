#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fused attention on eight devices from Python: `attention.py kernels.fatbin`."""
import sys

import numpy as np
import tessera as ts

B, H, L, D = 2, 3, 70, 32
BOUND = 1e-5


def reference(q, k, v):
    scores = np.einsum("bhld,bhmd->bhlm", q.astype(np.float64), k)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhlm,bhmd->bhld", weights / weights.sum(axis=-1, keepdims=True), v)


def main():
    ctx = ts.init()
    mesh = ts.mesh(devices=range(8), axes=dict(tp=2, dp=4))

    rng = np.random.default_rng(5)
    q, k, v = rng.uniform(-1, 1, (3, B, H, L, D)).astype(np.float32)
    Q, K, V = ts.array(q), ts.array(k), ts.array(v)
    O = ts.empty(q.shape)
    grads = ts.array(np.arange(4.0, dtype=np.float32))

    mod = ts.module.load(open(sys.argv[1], "rb").read())
    kern = mod.kernel["flash_attention_fused"]

    argbuf = ts.pack_args(Q, K, V, O, B, H, L, D, scale=1.0)
    ts.launch(kern, mesh, grid=(256, 1, 1), block=(128, 1, 1), args=argbuf, stream=ts.default_stream())

    ts.collectives.all_reduce(mesh, grads, op="sum", axis="dp")

    worst = max(np.abs(O.to_numpy(rank) - reference(q, k, v)).max() for rank in range(8))
    print(f"attention: off by {worst:.2g}, bound {BOUND:g}; gradients of 4 ranks {grads.to_numpy()}")
    ctx.shutdown()
    return 0 if worst <= BOUND else 1


sys.exit(main())
