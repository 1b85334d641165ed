# SPDX-License-Identifier: Apache-2.0
"""Arguments of kernels, and graphs of launches."""
import gc
import json
import weakref

from session import Session, np, ts, main


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

    def test_keep_the_values_and_functions_that_a_replay_uses(self):
        class Counter:
            calls = 0

            def __call__(self):
                self.calls += 1

        mesh = self.mesh(2)
        recording, replaying = ts.Stream(mesh), ts.Stream(mesh)
        x, values, count = ts.zeros(6), np.arange(6, dtype=np.float32), Counter()
        ts.default_stream().synchronize()
        with recording.capture() as capture:
            x.copy_from(values, stream=recording, wait=False)
            recording.call(count)
        alive = [weakref.ref(values), weakref.ref(count)]
        ready = capture.graph.instantiate()
        recording.synchronize()
        del values, capture
        for _ in range(3):
            ready.launch(replaying)
        replaying.synchronize()
        np.testing.assert_array_equal(x.to_numpy(1), np.arange(6))
        self.assertEqual(count.calls, 3)
        ready.launch(replaying)
        del ready, count
        gc.collect()
        self.assertIsNotNone(alive[0]())  # a run may be under way
        replaying.synchronize()
        gc.collect()
        self.assertEqual([ref() for ref in alive], [None, None])

    def test_that_flags_recorded_keep_what_they_use_too(self):
        mesh = self.mesh(1)
        x, y, values = ts.zeros(6), ts.zeros(6), np.ones(6, np.float32)
        stream = ts.default_stream()
        ts.launch(self.kernel("saxpy"), mesh, args=ts.pack_args(x, y, 6, 2.0), flags=ts.CAPTURE)
        x.copy_from(values, wait=False)
        stream.synchronize()
        alive = weakref.ref(values)
        ready = stream.take_graph().instantiate()
        del values
        stream.synchronize()
        gc.collect()
        self.assertIsNotNone(alive())
        x.fill(0)
        ready.launch(stream)
        np.testing.assert_array_equal(x.to_numpy(), np.ones(6))
        del ready
        gc.collect()
        self.assertIsNone(alive())

    def test_a_capture_that_raises_leaves_the_stream_usable(self):
        self.mesh(1)
        stream = ts.default_stream()
        x = ts.zeros(4, "int32")
        with self.assertRaises(KeyError):
            with stream.capture():
                x.fill(1)
                raise KeyError
        np.testing.assert_array_equal(x.to_numpy(), np.zeros(4))


if __name__ == "__main__":
    main()
