# SPDX-License-Identifier: Apache-2.0
"""Captures, graphs and what can be changed in them; streams and meshes that are asked."""
import json
import tempfile
import threading

from session import Session, np, ts, main


class Captures(Session):
    def setUp(self):
        super().setUp()
        self.ranks = self.mesh(4)
        self.stream = ts.Stream(self.ranks)
        self.x = ts.array(np.arange(8, dtype=np.int32))
        self.y = ts.zeros(8, "int32")
        ts.default_stream().synchronize()

    def test_nodes_other_than_launches_can_be_changed(self):
        values, later = np.full(8, 3, np.int32), np.full(8, 5, np.int32)
        with self.stream.capture() as capture:
            self.x.copy_from(values, stream=self.stream, wait=False)
            self.y.fill(1, self.stream)
            ts.collectives.all_reduce(self.ranks, self.x, stream=self.stream)
        run = capture.graph.instantiate()
        run.launch(self.stream)
        np.testing.assert_array_equal(self.x.to_numpy(1, self.stream), values * 4)
        run.update_copy(0, self.x, later, "h2d", self.stream)
        run.update_fill(1, self.y, self.stream, byte=2)
        run.update_collective(2, "all_reduce", self.x, self.stream, op="max")
        run.launch(self.stream)
        np.testing.assert_array_equal(self.x.to_numpy(2, self.stream), later)
        np.testing.assert_array_equal(self.y.to_numpy(2, self.stream), np.full(8, 0x02020202))
        with self.says(ts.InvalidValue, "node 0 of a graph not updated"):
            run.update_fill(0, self.y, self.stream)

    def test_memory_is_taken_and_given_back_by_each_run(self):
        with self.stream.capture() as capture:
            scratch = ts.empty(8, "int32", stream=self.stream)
            scratch.copy_array(self.x, self.stream)
            self.y.copy_array(scratch, self.stream)
            scratch.free()
            left = ts.empty(8, "int32", stream=self.stream)
            left.copy_array(self.y, self.stream)
        run = capture.graph.instantiate()
        run.launch(self.stream)
        np.testing.assert_array_equal(left.to_numpy(3, self.stream), np.arange(8))
        with self.says(ts.InvalidValue, "32 bytes"):
            run.launch(self.stream)
        left.free()
        run.launch(self.stream)
        self.stream.synchronize()

    def test_a_graph_is_a_node_of_another(self):
        with self.stream.capture() as inner:
            ts.collectives.all_reduce(self.ranks, self.x, stream=self.stream)
        run = inner.graph.instantiate()
        with self.stream.capture() as outer:
            run.launch(self.stream)
            run.launch(self.stream)
        self.assertEqual(len(outer.graph), 2)
        outer.graph.instantiate().launch(self.stream)
        np.testing.assert_array_equal(self.x.to_numpy(0, self.stream), np.arange(8) * 16)

    def test_calls_of_other_threads_are_refused_or_recorded(self):
        caught = []

        def fill():
            try:
                self.y.fill(1, self.stream)
            except ts.InvalidValue as e:
                caught.append(e)

        for mode, refused, nodes in (("thread_local", 1, 1), ("relaxed", 1, 2)):
            with self.stream.capture(mode) as capture:
                self.y.fill(2, self.stream)
                thread = threading.Thread(target=fill)
                thread.start()
                thread.join()
            self.assertEqual((len(caught), len(capture.graph)), (refused, nodes), mode)
        with self.says(ts.InvalidValue, "expected one of global, thread_local, relaxed, found 'mine'"):
            self.stream.capture("mine")

    def test_streams_and_meshes_say_how_they_are(self):
        least, greatest = ts.priority_range()
        self.assertLess(greatest, least)
        own = ts.Stream(self.ranks, priority=-5, rank=2)
        info = own.info()
        self.assertEqual((info["priority"], info["rank"], info["nLanes"], info["capturing"]), (greatest, 2, 1, 0))
        self.ranks.check(2)
        ts.collectives.all_reduce(self.ranks, self.x, stream=own, timeout_ms=-1)
        self.ranks.abort()
        with self.assertRaises(ts.Timeout):
            own.synchronize()
        with self.says(ts.Timeout, "were aborted"):
            self.ranks.check(2)
        self.ranks.recover()
        self.ranks.check(2)

    def test_a_profile_keeps_as_much_as_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/trace.json"
            with ts.Profiler(path, max_records=4):
                for _ in range(10):
                    self.y.fill(1, self.stream)
                self.stream.synchronize()
            with open(path, encoding="utf-8") as file:
                meta = json.load(file)["metadata"]
        self.assertEqual(meta["record_limit"], "4")
        self.assertGreater(int(meta["dropped_records"]), 10)


if __name__ == "__main__":
    main()
