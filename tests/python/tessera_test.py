# SPDX-License-Identifier: Apache-2.0
"""`tessera_test.py SOURCE_DIR KERNELS_FATBIN [SUITE]`: the Python package over the library that TESSERA_LIBRARY names."""
import ctypes
import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)

import tessera as ts
from tessera import _library, dtypes

SOURCE, FATBIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
IMAGE = FATBIN.read_bytes()
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


class Session(unittest.TestCase):
    """A context, and on demand a mesh and a module."""

    def setUp(self):
        self.context = ts.init()
        self.addCleanup(self.context.shutdown)

    def mesh(self, devices=4, **axes):
        return ts.mesh(range(devices), axes or None)

    def kernel(self, name):
        return ts.module.load(IMAGE).kernel[name]

    def says(self, kind, *words):
        return self.assertRaisesRegex(kind, ".*".join(re.escape(w) for w in words))


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


class Arguments(Session):
    def test_have_the_layout_of_the_parameters(self):
        mesh = self.mesh(1)
        kernel = self.kernel("flash_attention_fused")
        arrays = [ts.empty(8, mesh=mesh) for _ in range(4)]
        packed = ts.pack_args(*arrays, 1, 2, 3, 4, scale=0.5).pack(kernel)
        self.assertEqual(len(packed), 0x38)
        self.assertEqual([p.offset for p in kernel.parameters], [0, 8, 0x10, 0x18, 0x20, 0x24, 0x28, 0x2C, 0x30])
        words = np.frombuffer(packed, np.uint64, 4)
        self.assertEqual(list(words), [a.address for a in arrays])
        self.assertEqual(list(np.frombuffer(packed, np.int32, 4, 0x20)), [1, 2, 3, 4])
        self.assertEqual(np.frombuffer(packed, np.float32, 1, 0x30)[0], 0.5)

    def test_are_whole_numbers_of_the_declared_width(self):
        saxpy, matmul = self.kernel("saxpy"), self.kernel("matmul")
        self.assertEqual(np.frombuffer(ts.pack_args(0, 0, 1 << 40, 1).pack(saxpy), np.int64)[2], 1 << 40)
        with self.says(ts.InvalidValue, "argument m of matmul", "int32", str(1 << 31)):
            ts.pack_args(0, 0, 0, 1 << 31, 1, 1).pack(matmul)
        ts.pack_args(0, 0, 0, -(1 << 31), np.int64(1), 1).pack(matmul)
        with self.says(ts.InvalidValue, "argument n of saxpy", "int64", "1.5"):
            ts.pack_args(0, 0, 1.5, 1).pack(saxpy)

    def test_that_do_not_fit_the_kernel_name_it_and_themselves(self):
        mesh = self.mesh(1)
        saxpy = self.kernel("saxpy")
        x = ts.empty(4, mesh=mesh)
        cases = (((x, x, 4), {}, "arguments of saxpy: expected 4, found none for a"),
                 ((x, x, 4, 1, 1), {}, "expected 4, found 5"),
                 ((x, x, 4, 1), {"a": 2}, "expected a once"),
                 ((x, x, 4), {"alpha": 2}, "expected alpha among x, y, n, a"),
                 ((x, "y", 4, 1), {}, "argument y of saxpy: expected an array, an address or None, found 'y'"),
                 ((x, True, 4, 1), {}, "argument y of saxpy"),
                 ((x, ts.empty(4, "fp64", mesh), 4, 1), {}, "expected elements of fp32, found fp64"),
                 ((x, x, 4, b"12345"), {}, "argument a of saxpy: expected 4 bytes, found 5"),
                 ((x, x, 4, x), {}, "argument a of saxpy: expected a value of fp32, found tessera.Array"))
        for values, named, text in cases:
            with self.subTest(text), self.says(ts.InvalidValue, text):
                ts.pack_args(*values, **named).pack(saxpy)

    def test_of_every_type_are_its_bytes(self):
        rng = np.random.default_rng(2)
        for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "complex64", "complex128",
                     "uint8", "uint64", "bool"):
            kind = np.dtype(name)
            for value in rng.integers(0, 100, 20):
                expected = np.array(value, kind).tobytes()
                given = value if kind.kind in "iub" else float(value) / 7
                if kind.kind in "fc":
                    expected = np.array(given, kind).tobytes()
                self.assertEqual(ts.dtype(name).to_bytes(given, "it"), expected, (name, value))

    def test_of_bf16_round_to_nearest_even(self):
        for bits, expected in ((0x3F800000, 0x3F80), (0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x3F808001, 0x3F81),
                               (0x7F7FFFFF, 0x7F80), (0xBF808000, 0xBF80), (0x7F800000, 0x7F80)):
            value = float(np.array(bits, np.uint32).view(np.float32))
            self.assertEqual(int.from_bytes(ts.dtype("bf16").to_bytes(value, "it"), "little"), expected, hex(bits))
        self.assertEqual(ts.dtype("bf16").to_bytes(float("nan"), "it"), b"\xc0\x7f")


class Memory(Session):
    def test_views_share_what_kernels_write(self):
        mesh = self.mesh(4)
        x, y = ts.array(np.arange(10, dtype=np.float32)), ts.zeros(10)
        views = [y.view(rank) for rank in range(4)]
        ts.default_stream().synchronize()
        for rank, view in enumerate(views):
            view[:] = rank
        ts.launch(self.kernel("saxpy"), mesh, grid=2, args=ts.pack_args(x, y, 10, 3.0))
        ts.default_stream().synchronize()
        for rank, view in enumerate(views):
            np.testing.assert_array_equal(view, 3 * np.arange(10) + rank)
            self.assertEqual(view.ctypes.data, y.on(rank).address)
        self.assertEqual(len({v.ctypes.data for v in views}), 4)

    def test_views_outlive_array_mesh_and_context(self):
        with ts.init():
            with ts.mesh(range(2)) as mesh:
                x = ts.array(np.arange(1 << 16, dtype=np.int64), mesh=mesh)
                kept = x.view(1)[10:20]
                x.free()
            gc.collect()
        del mesh, x
        gc.collect()
        np.testing.assert_array_equal(kept, np.arange(10, 20))
        kept[:] = 7
        self.assertEqual(kept.sum(), 70)

    def test_goes_back_when_arrays_and_views_go(self):
        mesh = self.mesh(2)
        before = mesh.memory(1)[0]
        x = ts.zeros((1 << 20), "int8")
        self.assertLessEqual(mesh.memory(1)[0], before - (1 << 20))
        view = x.view(1)
        del x
        ts.default_stream().synchronize()
        self.assertLess(mesh.memory(1)[0], before)
        del view
        gc.collect()
        ts.default_stream().synchronize()
        self.assertEqual(mesh.memory(1)[0], before)

    def test_of_every_type_comes_back_bit_for_bit(self):
        mesh = self.mesh(2)
        rng = np.random.default_rng(3)
        for kind in dtypes.ALL:
            for shape in ((), (1,), (3, 5), (2, 0, 4)):
                bits = rng.integers(0, 2 if kind.name == "bool" else 256, shape + (kind.size,)).astype(np.uint8)
                values = bits.view(kind.numpy_name).reshape(shape)
                x = ts.Array(shape, kind, mesh)
                x.copy_from(values, rank=1)
                self.assertEqual(x.to_numpy(1).tobytes(), values.tobytes(), (kind.name, shape))
                self.assertEqual(x.view(1).tobytes(), values.tobytes(), (kind.name, shape))
                self.assertEqual(x.view(1).shape, shape)

    def test_copies_between_arrays_stay_on_each_rank(self):
        self.mesh(3)
        x, y = ts.zeros(4, "int32"), ts.zeros(4, "int32")
        for rank in range(3):
            x.copy_from(np.full(4, rank), rank=rank, wait=False)
        y.copy_array(x)
        for rank in range(3):
            np.testing.assert_array_equal(y.to_numpy(rank), np.full(4, rank))

    def test_of_the_wrong_shape_or_type_is_refused(self):
        self.mesh(1)
        with self.says(ts.InvalidValue, "expected values of shape (4,), found (3,)"):
            ts.zeros(4).copy_from(np.zeros(3, np.float32))
        with self.says(ts.InvalidValue, "type of elements not known", "'fp7'"):
            ts.zeros(4, "fp7")
        for foreign in (">f4", "datetime64[s]", "U4", object):
            with self.assertRaises(ts.InvalidValue):
                ts.dtype(foreign)
        with self.says(ts.InvalidValue, "expected bf16 as bits in uint16"):
            ts.zeros(4, "bf16").copy_from(np.zeros(4, np.float32))
        with self.says(ts.InvalidValue, "extents of at least 0"):
            ts.zeros((2, -1))

    def test_too_much_is_a_memory_error(self):
        self.mesh(1)
        with self.assertRaises(MemoryError) as caught:
            ts.zeros(1 << 60)
        self.assertIsInstance(caught.exception, ts.OutOfMemory)
        self.assertEqual(caught.exception.status, 2)


class Dlpack(Session):
    def test_exports_share_memory(self):
        self.mesh(2)
        x = ts.array(np.arange(12, dtype=np.float64).reshape(3, 4))
        for rank in range(2):
            other = np.from_dlpack(x.on(rank))
            np.testing.assert_array_equal(other, np.arange(12).reshape(3, 4))
            self.assertEqual(other.ctypes.data, x.on(rank).address)
        x.view(0)[1, 1] = 99
        self.assertEqual(np.from_dlpack(x)[1, 1], 99)
        self.assertEqual(x.__dlpack_device__(), (1, 0))

    def test_capsules_that_nobody_takes_let_go(self):
        mesh = self.mesh(1)
        before = mesh.memory()[0]
        for version in (None, (1, 0), (0, 8), (2, 0)):
            x = ts.zeros(1 << 16)
            capsule = x.__dlpack__(max_version=version)
            wanted = "dltensor_versioned" if version and version[0] >= 1 else "dltensor"
            self.assertIn(f'"{wanted}"', repr(capsule))
            x.free()
            ts.default_stream().synchronize()
            self.assertLess(mesh.memory()[0], before)
            del capsule
            gc.collect()
            self.assertEqual(mesh.memory()[0], before)

    def test_exports_refuse_what_they_cannot_do(self):
        self.mesh(1)
        x = ts.zeros(4)
        for how in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 1}):
            with self.assertRaises(BufferError):
                x.__dlpack__(**how)

    def test_imports_share_memory_with_kernels(self):
        mesh = self.mesh(1)
        ours = np.arange(8, dtype=np.float32)
        taken = ts.from_dlpack(ours, device=0)
        self.assertEqual((taken.shape, taken.dtype, taken.address), ((8,), ts.dtype("fp32"), ours.ctypes.data))
        self.assertEqual(ts.pointer_attributes(taken.address + 4)["offset"], 4)
        ts.launch(self.kernel("saxpy"), mesh, args=ts.pack_args(taken, taken, 8, 1.0))
        ts.default_stream().synchronize()
        np.testing.assert_array_equal(ours, 2 * np.arange(8))
        taken.release()
        self.assertEqual(ts.pointer_attributes(ours.ctypes.data)["kind"], 0)

    def test_imports_keep_their_source_until_they_are_released(self):
        class Source(np.ndarray):
            pass

        ours = np.arange(16, dtype=np.int32).view(Source)
        gone = weakref.ref(ours)
        taken = ts.from_dlpack(ours)
        del ours
        gc.collect()
        self.assertIsNotNone(gone())
        taken.release()
        gc.collect()
        self.assertIsNone(gone())

    def test_the_context_releases_what_is_left(self):
        class Source(np.ndarray):
            pass

        with ts.init():
            ours = np.arange(16, dtype=np.int32).view(Source)
            gone = weakref.ref(ours)
            taken = ts.from_dlpack(ours)
            del ours
        gc.collect()
        self.assertIsNone(gone())
        taken.release()

    def test_tensors_with_gaps_are_imported_and_refused_as_arguments(self):
        mesh = self.mesh(1)
        ours = np.arange(20, dtype=np.float32).reshape(4, 5)[:, 1:3]
        taken = ts.from_dlpack(ours, device=0)
        self.assertEqual((taken.shape, taken.strides, taken.contiguous), ((4, 2), (5, 1), False))
        with self.says(ts.InvalidValue, "argument x of saxpy: expected a row-major tensor"):
            ts.launch(self.kernel("saxpy"), mesh, args=ts.pack_args(taken, taken, 8, 1.0))

    def test_what_is_no_tensor_is_refused(self):
        with self.says(ts.InvalidValue, "expected an object with __dlpack__, found list"):
            ts.from_dlpack([1, 2])
        with self.says(ts.InvalidValue, "import a tensor", "[0, 8) or -1, found 8"):
            ts.from_dlpack(np.zeros(3), device=8)
        self.mesh(1)
        x = ts.zeros(3)

        class Used:
            def __dlpack__(self, **_):
                return capsule

        capsule = x.__dlpack__()
        np.from_dlpack(type("Once", (), {"__dlpack__": lambda self: capsule,
                                         "__dlpack_device__": lambda self: (1, 0)})())
        with self.says(ts.InvalidValue, "capsule of DLPack that nobody has used"):
            ts.from_dlpack(Used())


class Streams(Session):
    def test_events_order_streams_and_tell_time(self):
        mesh = self.mesh(2)
        first, second = ts.Stream(mesh), ts.Stream(mesh, priority=-1)
        x = ts.zeros(4, "int32")
        ts.default_stream().synchronize()
        start = first.record()
        x.copy_from(np.full(4, 5), stream=first, wait=False)
        done = first.record()
        second.wait(done)
        np.testing.assert_array_equal(x.to_numpy(1, second), np.full(4, 5))
        done.synchronize()
        self.assertTrue(done.query())
        deadline = time.monotonic() + 10
        while not first.query():  # a stream may need a moment to know
            self.assertLess(time.monotonic(), deadline)
        self.assertGreaterEqual(start.elapsed_ms(done), 0)

    def test_functions_run_in_order_and_raise_at_the_synchronization(self):
        stream = ts.Stream(self.mesh(2))
        seen = []
        stream.call(lambda: seen.append(1))
        stream.call(lambda: seen.append(2))
        stream.call(lambda: 1 / 0)
        stream.call(lambda: seen.append(3))
        with self.assertRaises(ZeroDivisionError):
            stream.synchronize()
        self.assertEqual(seen, [1, 2, 3])
        stream.synchronize()

    def test_a_function_may_not_enqueue(self):
        stream = ts.Stream(self.mesh(1))
        stream.call(stream.record)
        with self.says(ts.InvalidValue, "tessEventRecord failed", "function in a stream"):
            stream.synchronize()

    def test_failures_carry_the_runtimes_text_and_pass(self):
        mesh = self.mesh(2)
        stream = ts.Stream(mesh)
        ts.launch(self.kernel("flash_attention_fused"), mesh, args=ts.pack_args(0, 0, 0, 0, -1, 1, 1, 1, 1.0),
                  stream=stream)
        with self.assertRaises(ts.LaunchFailed) as caught:
            stream.synchronize()
        self.assertIn("flash_attention_fused", str(caught.exception))
        self.assertEqual(stream.last_message(), caught.exception.message)
        self.assertEqual(caught.exception.name, "TESS_ERR_LAUNCH_FAILED")
        stream.synchronize()

    def test_of_ranks_disagree_on_all_of_them(self):
        mesh = self.mesh(2)
        x = ts.zeros(8)
        ts.default_stream().synchronize()
        streams = [ts.Stream(mesh, rank=r) for r in range(2)]
        for rank, stream in enumerate(streams):
            ts.collectives.all_reduce(mesh, x, stream=stream, count=8 - rank)
        for stream in streams:
            with self.assertRaises(ts.CollectiveMismatch):
                stream.synchronize()

    def test_of_ranks_meet_from_threads(self):
        mesh = self.mesh(3)
        x = ts.zeros(100, "int64")
        for rank in range(3):
            x.copy_from(np.arange(100) * (rank + 1), rank=rank)
        raised = []

        def share(rank):
            try:
                stream = ts.Stream(mesh, rank=rank)
                ts.collectives.all_reduce(mesh, x, stream=stream)
                stream.synchronize()
            except ts.Error as e:
                raised.append(e)

        threads = [threading.Thread(target=share, args=(r,)) for r in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(raised, [])
        for rank in range(3):
            np.testing.assert_array_equal(x.to_numpy(rank), np.arange(100) * 6)

    def test_a_persistent_kernel_runs_until_it_is_asked_to_stop(self):
        mesh = self.mesh(1)
        stream = ts.Stream(mesh)
        a, b, done = ts.array(np.ones(64, np.float32)), ts.zeros(64), ts.zeros(1, "int64")
        ts.default_stream().synchronize()
        ts.launch(self.kernel("persistent_heat"), mesh, grid=2, stream=stream, flags=ts.PERSISTENT,
                  args=ts.pack_args(a, b, done, 64, -1))
        self.assertFalse(stream.query())
        stream.request_stop()
        stream.synchronize()
        self.assertGreaterEqual(int(done.to_numpy()[0]), 0)


class Collectives(Session):
    def setUp(self):
        super().setUp()
        self.ranks = self.mesh(6, tp=2, dp=3)
        self.n = 12
        self.inputs = np.random.default_rng(4).integers(-5, 6, (6, self.n)).astype(np.float32)
        self.x = ts.empty(self.n)
        for rank in range(6):
            self.x.copy_from(self.inputs[rank], rank=rank)

    def groups(self, axis):
        return {tuple(self.ranks.group(axis, r)) for r in range(6)}

    def results(self, array):
        return [array.to_numpy(rank) for rank in range(6)]

    def test_reduce_by_every_operation_along_every_axis_by_every_algorithm(self):
        by = {"sum": np.sum, "max": np.max, "min": np.min, "product": np.prod, "average": np.mean}
        for op, function in by.items():
            for axis in (None, "tp", "dp", "tp+dp", "ep"):
                for algorithm in (None, "ring", "tree", "direct"):
                    out = ts.zeros(self.n)
                    # Small whole numbers: sums and products are exact in any order.
                    if op == "product":
                        self.context.policy = self.context.policy._replace(stable_reductions=False)
                    ts.collectives.all_reduce(self.ranks, self.x, op, axis, out=out, algorithm=algorithm)
                    got = self.results(out)
                    for group in self.groups(axis):
                        exact = function(self.inputs[list(group)].astype(np.float64), axis=0).astype(np.float32)
                        for rank in group:
                            np.testing.assert_array_equal(got[rank], exact, f"{op} {axis} {algorithm} rank {rank}")

    def test_scatter_then_gather_is_all_reduce(self):
        ts.collectives.reduce_scatter(self.ranks, self.x, axis="dp")
        ts.collectives.all_gather(self.ranks, self.x, axis="dp")
        for group in self.groups("dp"):
            for rank in group:
                np.testing.assert_array_equal(self.x.to_numpy(rank), self.inputs[list(group)].sum(axis=0))

    def test_move_shards_where_they_belong(self):
        part = self.n // 6
        shards = self.inputs.reshape(6, 6, part)
        out = ts.zeros(self.n)
        ts.collectives.all_to_all(self.ranks, self.x, out=out)
        got = self.results(out)
        for rank in range(6):
            np.testing.assert_array_equal(got[rank].reshape(6, part), shards[:, rank])
        ts.collectives.gather(self.ranks, self.x, root=2, out=out)
        np.testing.assert_array_equal(out.to_numpy(2).reshape(6, part), [shards[r, r] for r in range(6)])
        ts.collectives.scatter(self.ranks, self.x, root=1, out=out)
        for rank in range(6):
            np.testing.assert_array_equal(out.to_numpy(rank).reshape(6, part)[rank], shards[1, rank])

    def test_roots_give_and_get(self):
        out = ts.zeros(self.n)
        ts.collectives.reduce(self.ranks, self.x, root=3, out=out)
        np.testing.assert_array_equal(out.to_numpy(3), self.inputs.sum(axis=0))
        ts.collectives.send_recv(self.ranks, self.x, source=5, target=0, out=out)
        np.testing.assert_array_equal(out.to_numpy(0), self.inputs[5])
        ts.collectives.barrier(self.ranks, axis="tp")
        ts.collectives.broadcast(self.ranks, self.x, root=4)
        for got in self.results(self.x):
            np.testing.assert_array_equal(got, self.inputs[4])

    def test_refuse_what_is_not_there(self):
        with self.says(ts.InvalidValue, "expected one of sum, max", "'sun'"):
            ts.collectives.all_reduce(self.ranks, self.x, op="sun")
        with self.assertRaises(ts.InvalidValue):
            ts.collectives.all_reduce(self.ranks, self.x, axis="xp")
        with self.assertRaises(ts.Unsupported):
            ts.collectives.all_reduce(self.ranks, ts.zeros(4, "complex64"), op="max")
        with self.says(ts.InvalidValue, "expected results of fp32, found fp64"):
            ts.collectives.all_reduce(self.ranks, self.x, out=ts.zeros(self.n, "fp64"))


class Graphs(Session):
    def test_replay_as_often_as_they_are_launched(self):
        mesh = self.mesh(2)
        saxpy = self.kernel("saxpy")
        x, y = ts.array(np.ones(6, np.float32)), ts.zeros(6)
        stream = ts.default_stream()
        stream.synchronize()
        with stream.capture() as capture:
            ts.launch(saxpy, mesh, args=ts.pack_args(x, y, 6, 2.0))
            ts.collectives.all_reduce(mesh, y)
        self.assertEqual(y.view().sum(), 0)  # nothing ran
        self.assertEqual(len(capture.graph), 2)
        self.assertIn("saxpy", capture.graph.to_dot())
        json.loads(capture.graph.to_json())
        ready = capture.graph.instantiate()
        expected = 0
        for _ in range(5):
            ready.launch(stream)
            expected = 2 * (expected + 2)
        np.testing.assert_array_equal(y.to_numpy(1), np.full(6, expected))
        ready.update(0, saxpy, 1, 0, ts.pack_args(x, y, 6, -1.0), stream)
        ready.launch(stream)
        np.testing.assert_array_equal(y.to_numpy(0), np.full(6, 2 * (expected - 1)))

    def test_flags_record_what_also_runs(self):
        mesh = self.mesh(1)
        x, y = ts.array(np.ones(6, np.float32)), ts.zeros(6)
        stream = ts.default_stream()
        stream.synchronize()
        ts.launch(self.kernel("saxpy"), mesh, args=ts.pack_args(x, y, 6, 2.0), flags=ts.CAPTURE)
        stream.synchronize()
        np.testing.assert_array_equal(y.view(), np.full(6, 2))
        stream.take_graph().instantiate().launch(stream)
        np.testing.assert_array_equal(y.to_numpy(), np.full(6, 4))

    def test_a_capture_that_raises_leaves_the_stream_usable(self):
        self.mesh(1)
        stream = ts.default_stream()
        x = ts.zeros(4, "int32")
        with self.assertRaises(KeyError):
            with stream.capture():
                x.fill(1)
                raise KeyError
        np.testing.assert_array_equal(x.to_numpy(), np.zeros(4))


class Contexts(Session):
    def test_describe_their_devices_and_meshes(self):
        self.assertEqual(self.context.device_count(), 8)
        self.assertEqual(self.context.device(3).ordinal, 3)
        self.assertEqual(self.context.device(3).backend, "cpu")
        mesh = self.mesh(8, tp=2, dp=4)
        self.assertEqual(mesh.axes, dict(tp=2, pp=1, dp=4, ep=1))
        self.assertEqual(mesh.coords(5), dict(tp=1, pp=0, dp=2, ep=0))
        self.assertEqual(mesh.group("dp", 1), [1, 3, 5, 7])
        self.assertEqual(mesh.group(), list(range(8)))
        self.assertEqual(ts.version()[:2], (1, 0))
        with self.says(ts.InvalidValue, "expected axes of tp, pp, dp, ep, found xp"):
            ts.mesh(range(2), dict(xp=2))
        with self.assertRaises(ts.InvalidValue):
            ts.mesh([0, 0])

    def test_keep_their_policy(self):
        before = self.context.policy
        self.assertEqual(before, ts.Policy(True, True, True, False))
        self.context.policy = before._replace(stable_reductions=False)
        self.assertEqual(self.context.policy, ts.Policy(False, True, True, False))
        self.assertEqual(ts.init().policy, before)

    def test_write_profiles(self):
        mesh = self.mesh(2)
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            path = os.path.join(folder, "trace.json")
            with ts.Profiler(path):
                ts.launch(self.kernel("empty"), mesh)
                ts.default_stream().synchronize()
            events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
        self.assertTrue(any(e.get("name") == "empty" and e["ph"] == "X" for e in events))
        with self.assertRaises(ts.InvalidValue):
            ts.Profiler(os.path.join(folder, "gone", "trace.json")).stop()

    def test_explain_modules(self):
        module = ts.module.load(IMAGE)
        self.assertIn("flash_attention_fused", json.dumps(json.loads(module.explain())))
        self.assertEqual(len(module.kernel), len(list(module.kernel)))
        with self.assertRaises(KeyError):
            module.kernel["nothing"]
        kernel = module.kernel["saxpy"]
        module.unload()
        with self.assertRaises(ts.InvalidValue):
            ts.launch(kernel, self.mesh(1), args=ts.pack_args(0, 0, 0, 0))
        for damaged in (b"", b"\xca\xfe\xba\xbe", IMAGE[:-1], IMAGE[:100] + b"!" + IMAGE[101:]):
            with self.assertRaises(ts.Error):
                ts.module.load(damaged)

    def test_log_to_a_function(self):
        lines = []
        ts.set_log(lambda level, text: lines.append(text))
        try:
            context = ts.init()
            mesh = ts.Mesh(context, [0], {})
            stream = ts.Stream(mesh)
            context.shutdown()
        finally:
            ts.set_log(None)
        self.assertTrue(any("streams not destroyed" in line for line in lines), lines)
        with self.assertRaises(ts.InvalidValue):
            stream.synchronize()

    def test_that_are_gone_say_so(self):
        context = ts.init()
        mesh = ts.mesh([0])
        context.shutdown()
        context.shutdown()
        with self.says(ts.NotInitialized, "no context: tessera.init() makes one"):
            ts.mesh([0])
        with self.assertRaises(ts.NotInitialized):
            ts.Stream(mesh)

    def test_end_with_the_program_whatever_is_alive(self):
        program = ("import numpy as np, tessera as ts\n"
                   "ctx = ts.init(); mesh = ts.mesh(range(4)); x = ts.array(np.ones(1000)); y = x.view(2)\n"
                   "c = x.__dlpack__(); t = ts.from_dlpack(np.ones(5)); s = ts.Stream(); s.call(lambda: None)\n"
                   "ts.collectives.all_reduce(mesh, x); print('end')\n")
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))


class Library(Session):
    def test_is_looked_for_in_the_documented_order(self):
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            package = pathlib.Path(folder).resolve() / "lib" / "python3" / "dist-packages" / "tessera"
            package.mkdir(parents=True)
            paths = [package / _library.NAME, package.parents[2] / "x86_64-linux-gnu" / _library.NAME]
            before = _library.__file__, os.environ.pop("TESSERA_LIBRARY", None)
            _library.__file__ = str(package / "_library.py")
            try:
                self.assertEqual(_library.candidates(), [_library.NAME])
                for path in paths:
                    path.parent.mkdir(exist_ok=True)
                    path.touch()
                self.assertEqual(_library.candidates(), [*map(str, paths), _library.NAME])
                os.environ["TESSERA_LIBRARY"] = "/some/where.so"
                self.assertEqual(_library.candidates(), ["/some/where.so"])
            finally:
                _library.__file__ = before[0]
                os.environ.pop("TESSERA_LIBRARY", None)
                if before[1] is not None:
                    os.environ["TESSERA_LIBRARY"] = before[1]

    def test_has_structures_of_the_headers_sizes(self):
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            source = pathlib.Path(folder) / "sizes.c"
            names = [n for n, s in vars(_library).items() if isinstance(s, type) and issubclass(s, ctypes.Structure)
                     and n not in ("Structure", "Sized")]
            self.assertGreater(len(names), 10)
            source.write_text("#include <stdio.h>\n#include <tessera_ext.h>\nint main(void) {\n" + "".join(
                f'  printf("{n} %zu\\n", sizeof(tess{n}));\n' for n in names) + "  return 0;\n}\n")
            program = pathlib.Path(folder) / "sizes"
            try:
                subprocess.run(["cc", f"-I{SOURCE}/runtime/include", str(source), "-o", str(program)], check=True)
            except FileNotFoundError:
                self.skipTest("no compiler named cc")
            lines = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(lines, [f"{n} {ctypes.sizeof(getattr(_library, n))}" for n in names])

    def test_offers_every_function_that_the_headers_declare(self):
        text = "".join((SOURCE / "runtime" / "include" / h).read_text() for h in ("tessera.h", "tessera_ext.h"))
        declared = set(re.findall(r"TESS_API [^;(]*?\b(tess[A-Z]\w*)\(", text))
        self.assertEqual([n for n in _library._CALLS if n not in declared], [])
        self.assertEqual(sorted(n for n in declared if not hasattr(_library.lib, n)), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
