# SPDX-License-Identifier: Apache-2.0
"""Streams, events and collectives."""
import threading
import time

from session import Session, np, ts, main


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

    def test_what_functions_raise_after_a_time_out_is_raised_by_the_next_synchronization(self):
        stream, go = ts.Stream(self.mesh(1), timeout_ms=1), threading.Event()
        self.addCleanup(go.set)
        stream.call(go.wait)
        stream.call(lambda: 1 / 0)
        with self.assertRaises(ts.Timeout):
            stream.synchronize()
        go.set()
        stream.set_timeout(0)
        with self.assertRaises(ZeroDivisionError):
            stream.synchronize()
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
        steps, deadline = done.view(), time.monotonic() + 60
        while steps[0] < 3:
            self.assertLess(time.monotonic(), deadline)
        self.assertFalse(stream.query())
        stream.request_stop()
        stream.synchronize()
        last = int(steps[0])
        self.assertEqual(int(done.to_numpy()[0]), last)
        self.assertTrue(np.isfinite(a.to_numpy()).all())


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
        for wrong in ({"array": np.zeros(3)}, {"array": self.x, "out": [1, 2]}, {"array": None}):
            with self.says(ts.InvalidValue, "expected an array of the mesh, found"):
                ts.collectives.all_reduce(self.ranks, **wrong)


if __name__ == "__main__":
    main()
