# SPDX-License-Identifier: Apache-2.0
"""Arrays, their views, and tensors of other libraries."""
import ctypes
import gc
import threading
import weakref

from session import Session, np, ts, main
from tessera import dtypes


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

    def test_that_go_in_a_function_of_a_stream_go_back(self):
        mesh = self.mesh(2)
        stream = ts.Stream(mesh)
        before = mesh.memory()[0]
        last = [ts.empty(1 << 16), ts.empty(1 << 15, stream=stream), ts.Stream(mesh), ts.Event()]
        stream.call(last.clear)
        stream.synchronize()
        self.assertEqual(last, [])
        self.assertEqual(mesh.pool().used, 0)
        stream.synchronize()
        ts.default_stream().synchronize()
        mesh.trim_pool()
        # Memory of the mesh goes back behind all its streams, also the third one, which is destroyed by now. It ends on a
        # thread of the runtime, and no call waits for it.
        self.becomes(lambda: mesh.memory()[0], before)

    def test_freed_in_a_function_of_a_stream_are_still_there(self):
        mesh = self.mesh(1)
        stream = ts.Stream(mesh)
        before = mesh.memory()[0]
        x = ts.zeros(1 << 16)
        stream.call(x.free)
        with self.says(ts.InvalidValue, "function in a stream"):
            stream.synchronize()
        self.assertEqual(x.to_numpy().sum(), 0)
        x.free()
        x.free()  # once is enough, twice no harm
        stream.synchronize()
        ts.default_stream().synchronize()
        self.assertEqual(mesh.memory()[0], before)

    def test_that_go_while_their_stream_captures_spoil_nothing(self):
        mesh = self.mesh(2)
        stream, joined = ts.Stream(mesh), ts.Stream(mesh)
        x = ts.zeros(4, "int8")
        ts.default_stream().synchronize()
        gone = [ts.empty(4, stream=stream), ts.empty(4, stream=joined)]
        with stream.capture() as capture:
            joined.wait(stream.record())
            x.fill(1, joined)
            gone.clear()
            gc.collect()
            stream.wait(joined.record())
        self.assertEqual(mesh.pool().used, 0)
        capture.graph.instantiate().launch(stream)
        stream.synchronize()
        np.testing.assert_array_equal(x.to_numpy(), np.ones(4))

    def test_of_a_stream_are_used_in_its_order(self):
        mesh = self.mesh(2)
        stream, go = ts.Stream(mesh), threading.Event()
        self.addCleanup(go.set)
        x, y = ts.empty(4, "int8", stream=stream), ts.empty(4, "int8", stream=stream)
        views = [x.view(), y.view()]
        for view in views:
            view[:] = 0
        stream.call(go.wait)
        x.fill(1)
        y.copy_array(x)
        x.copy_from(np.full(4, 2, np.int8), wait=False)
        ts.default_stream().synchronize()
        self.assertEqual([view.sum() for view in views], [0, 0])
        go.set()
        np.testing.assert_array_equal(x.to_numpy(1), np.full(4, 2))
        np.testing.assert_array_equal(y.to_numpy(1), np.ones(4))

    def test_of_a_ranks_stream_are_that_ranks(self):
        mesh = self.mesh(3)
        x = ts.empty(4, "int8", stream=ts.Stream(mesh, rank=2)).fill(7)
        np.testing.assert_array_equal(x.to_numpy(), np.full(4, 7))
        with self.says(ts.InvalidValue, "expected 2", "found 0"):
            x.to_numpy(0)

    def test_of_a_stream_of_another_mesh_are_refused(self):
        first, second = self.mesh(2), self.mesh(2)
        with self.says(ts.InvalidValue, "stream of its mesh"):
            ts.empty(4, mesh=first, stream=ts.Stream(second))
        ts.empty(4, mesh=second, stream=ts.default_stream(second))

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


if __name__ == "__main__":
    main()
