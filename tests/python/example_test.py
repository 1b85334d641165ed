# SPDX-License-Identifier: Apache-2.0
"""The specification's example, word for word."""
import os
import pathlib
import re
import tempfile

from session import IMAGE, SOURCE, Session, np, ts, main

# Section 5 of the specification; the names that it takes for granted come in where it loads the module.
EXAMPLE = '''import tessera as ts

ctx = ts.init()
mesh = ts.mesh(devices=range(8), axes=dict(tp=2, dp=4))

mod  = ts.module.load(open("model.fatbin","rb").read())
kern = mod.kernel["flash_attention_fused"]

argbuf = ts.pack_args(Q, K, V, O, B, H, L, D, scale=1.0)
ts.launch(kern, mesh, grid=(256,1,1), block=(128,1,1), args=argbuf, stream=ts.default_stream())

ts.collectives.all_reduce(mesh, grads, op="sum", axis="dp")
'''
SPECIFICATION = SOURCE.parent / "shared" / "spec" / "tessera_runtime_abi.md"


class Example(Session):
    def test_runs_verbatim_and_agrees_with_double_on_every_rank(self):
        B, H, L, D = 2, 3, 40, 16
        rng = np.random.default_rng(1)
        q, k, v = rng.uniform(-1, 1, (3, B, H, L, D)).astype(np.float32)
        head, tail = EXAMPLE.split("mod  =")
        names = {}
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            (pathlib.Path(folder) / "model.fatbin").write_bytes(IMAGE)
            before = os.getcwd()
            os.chdir(folder)
            try:
                exec(head, names)  # what follows needs the mesh
                names.update(B=B, H=H, L=L, D=D, Q=ts.array(q), K=ts.array(k), V=ts.array(v), O=ts.empty(q.shape),
                             grads=ts.zeros(5))
                for rank in range(8):
                    names["grads"].copy_from(np.full(5, rank, np.float32), rank=rank)
                exec("mod  =" + tail, names)
            finally:
                os.chdir(before)
        scores = np.einsum("bhld,bhmd->bhlm", q.astype(np.float64), k)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        exact = np.einsum("bhlm,bhmd->bhld", weights / weights.sum(-1, keepdims=True), v)
        for rank in range(8):
            # Values are at most 1; a weight is off by 3e-7 and twice the error of a sum of 16 products.
            self.assertLess(np.abs(names["O"].to_numpy(rank) - exact).max(), 5e-6, f"rank {rank}")
            own = [r for r in range(8) if r % 2 == rank % 2]
            np.testing.assert_array_equal(names["grads"].to_numpy(rank), np.full(5, sum(own)))
        names["ctx"].shutdown()

    def test_is_the_specifications(self):
        if not SPECIFICATION.exists():
            self.skipTest(f"{SPECIFICATION} is not there")
        section = SPECIFICATION.read_text().split("\n## 5. ", 1)[1]
        self.assertEqual(re.search(r"```python\n(.*?)```", section, re.DOTALL).group(1), EXAMPLE)


if __name__ == "__main__":
    main()
