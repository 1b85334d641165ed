# SPDX-License-Identifier: Apache-2.0
"""Modules that are made, memory from pools, groups of collectives."""
import hashlib
import json
import os
import tempfile
import threading

from session import IMAGE, Session, np, ts, main
from tessera import building


class Building(Session):
    def builder(self):
        made = ts.Builder()
        made.add_code("PTX", "sm_90", b"// ptx")
        made.add_kernel("step", [building.pointer("x", "fp32"), building.scalar("n", "int64"), building.opaque("s", 12)],
                        block=(32, 1, 1), shared_bytes=64)
        return made

    def test_the_same_calls_give_the_same_bytes_and_what_was_said(self):
        made = self.builder().set_source_hash(hashlib.sha256(b"source").digest()).set_explain('{"tiles":[8,8]}')
        made.add_plan("all_reduce", "ring", "fp32", "dp", 1024, 4096, wire="bf16")
        image = made.build()
        self.assertEqual(image, made.build())
        self.assertEqual(image[:7], b"TESSFAT")
        self.assertIn(hashlib.sha256(b"source").digest(), image)
        with self.says(ts.ArchMismatch, "step", "PTX sm_90"):
            ts.module.load(image)

    def test_refuses_what_a_module_cannot_hold(self):
        made = ts.Builder()
        with self.says(ts.InvalidValue, "kind of code", "WASM"):
            made.add_code("WASM", "wasm32")
        with self.says(ts.InvalidValue, "8 wrong"):
            made.add_kernel("8 wrong")
            made.build()
        for targets in ([], [-1], [0, 64]):
            with self.says(ts.InvalidValue, "targets of step", str(targets)):
                made.add_kernel("step", targets=targets)
        with self.says(ts.InvalidValue, "an algorithm", "star"):
            ts.Builder().add_plan(algorithm="star")
        with self.says(ts.InvalidValue, "64 bytes", "3"):
            made.build(b"key")
        with self.says(ts.InvalidValue, "32 bytes"):
            made.set_source_hash(b"")

    def test_an_abi_of_another_version_is_refused_by_the_loader(self):
        with self.says(ts.AbiVersionMismatch):
            ts.module.load(ts.Builder().set_abi(1, 1).build())
        self.assertEqual(len(ts.module.load(ts.Builder().build()).kernel), 0)

    def test_plans_of_a_module_decide_where_the_policy_lets_them(self):
        mesh = self.mesh(4)
        module = ts.module.load(ts.Builder().add_plan("all_reduce", wire="fp8_e4m3").build())
        values = np.random.default_rng(3).uniform(1, 2, 256).astype(np.float32)
        x = ts.array(values)
        ts.collectives.all_reduce(mesh, x)
        exact = 4 * values  # of four equal numbers: a power of two
        np.testing.assert_array_equal(x.to_numpy(), exact)  # the policy wants all bits
        self.context.policy = ts.Policy(False, False, True, True)
        x.copy_from(values)
        ts.collectives.all_reduce(mesh, x)
        rounded = x.to_numpy()
        self.assertFalse(np.array_equal(rounded, exact))
        np.testing.assert_allclose(rounded, exact, rtol=2 ** -3)  # three bits behind the point, rounded twice
        module.unload()  # and takes its plans with it
        x.copy_from(values)
        ts.collectives.all_reduce(mesh, x)
        np.testing.assert_array_equal(x.to_numpy(), exact)

    def test_the_cache_counts(self):
        before = {name: os.environ.get(name) for name in ("TESS_CACHE_DIR", "TESS_CODE_FROM_CACHE")}
        self.assertFalse(self.context.cache().enabled and before["TESS_CACHE_DIR"] is None and
                         "XDG_CACHE_HOME" not in os.environ)
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            os.environ.update(TESS_CACHE_DIR=folder, TESS_CODE_FROM_CACHE="1")
            try:
                with ts.init() as context:
                    ts.module.load(IMAGE, context).unload()
                    self.assertTrue(context.cache().enabled)
                    self.assertGreater(context.cache().entries, 0)
                    context.verify_cache()
                    context.clear_cache()
                    self.assertEqual(context.cache().entries, 0)
            finally:
                for name, value in before.items():
                    if value is None:
                        os.environ.pop(name)
                    else:
                        os.environ[name] = value


class Pools(Session):
    def test_memory_with_a_stream_comes_back_to_it(self):
        mesh = self.mesh(2)
        stream = ts.Stream(mesh)
        x = ts.empty(1000, "fp32", stream=stream)
        address = x.address
        self.assertEqual((mesh.pool().used, stream.memory_use()), (4000, (4000, 0)))
        x.free()
        self.assertEqual((mesh.pool().used, mesh.pool().reserved), (0, 4000))
        y = ts.empty(1000, "int32", stream=stream)
        self.assertEqual((y.address, mesh.pool().reuses), (address, 1))
        np.testing.assert_array_equal(y.fill(1, stream).to_numpy(1, stream), np.full(1000, 0x01010101, np.int32))
        del y
        self.assertEqual(mesh.pool().used, 0)
        stream.synchronize()
        mesh.trim_pool()
        self.assertEqual(mesh.pool().reserved, 0)
        mesh.keep_pool(10)
        self.assertEqual(mesh.pool().keep, 10)

    def test_an_array_outlives_its_stream(self):
        mesh = self.mesh(2)
        stream = ts.Stream(mesh)
        x = ts.empty(16, stream=stream)
        stream.destroy()
        x.free()
        self.assertEqual(mesh.pool().used, 0)

    def test_limits_count_what_a_stream_has(self):
        stream = ts.Stream(self.mesh(2), memory_limit=100)
        kept = ts.empty(20, stream=stream)
        with self.says(ts.OutOfMemory, "at most 20 bytes", "found 24"):
            ts.empty(6, stream=stream)
        self.assertEqual(stream.memory_use(), (80, 100))
        kept.free()
        ts.empty(25, stream=stream)

    def test_registered_memory_has_an_end(self):
        self.mesh(2)
        values = np.zeros(8, np.float32)
        x = ts.zeros(16)
        with ts.registered(values[:4]):
            self.assertEqual(ts.pointer_attributes(values.ctypes.data)["kind"], 3)
            with self.assertRaises(ts.InvalidValue):
                x._copy(x.address, values.ctypes.data, 0, None, ts.default_stream())
        self.assertEqual(ts.pointer_attributes(values.ctypes.data)["kind"], 0)


class Groups(Session):
    def test_begin_together_or_not_at_all(self):
        mesh = self.mesh(4)
        x = ts.array(np.arange(4, dtype=np.int64))
        with ts.collectives.group():
            ts.collectives.all_reduce(mesh, x)
            ts.collectives.all_reduce(mesh, x)
            np.testing.assert_array_equal(x.to_numpy(), np.arange(4))
        np.testing.assert_array_equal(x.to_numpy(), 16 * np.arange(4))
        with self.assertRaises(ZeroDivisionError), ts.collectives.group():
            ts.collectives.all_reduce(mesh, x)
            1 // 0
        with self.assertRaises(ts.InvalidValue), ts.collectives.group():
            ts.collectives.all_reduce(mesh, x)
            ts.collectives.all_reduce(mesh, x, axis="xp")
        np.testing.assert_array_equal(x.to_numpy(), 16 * np.arange(4))

    def test_two_ranks_exchange_from_threads_of_their_own(self):
        mesh = self.mesh(3)
        x, y = ts.zeros(1, ), ts.zeros(1)
        for rank in range(3):
            x.copy_from(np.full(1, rank, np.float32), rank=rank)
        ts.default_stream().synchronize()
        streams = [ts.Stream(mesh, rank=rank) for rank in range(2)]

        def exchange(rank):
            with ts.collectives.group():
                for source in (rank, 1 - rank):  # each in an order of its own
                    ts.collectives.send_recv(mesh, x, source, 1 - source, stream=streams[rank], out=y)

        threads = [threading.Thread(target=exchange, args=(rank,)) for rank in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for stream in streams:
            stream.synchronize()
        self.assertEqual([float(y.to_numpy(rank)[0]) for rank in range(3)], [1, 0, 0])

    def test_a_stream_tells_what_its_last_launch_was_told(self):
        mesh = self.mesh(2)
        stream = ts.default_stream()
        self.assertEqual(set(stream.determinism().values()), {0})
        x, y = ts.zeros(4), ts.zeros(4)
        ts.launch(self.kernel("saxpy"), mesh, args=ts.pack_args(x, y, 4, 1.0))
        told = stream.determinism()
        self.assertEqual((told["version"], told["level"]), (1, 2))
        self.context.set_determinism(2 ** 64 - 1, 1)
        ts.launch(self.kernel("saxpy"), mesh, args=ts.pack_args(x, y, 4, 1.0))
        now = stream.determinism()
        self.assertEqual((now["seed"], now["stableToggles"]), (2 ** 64 - 1, 1))
        self.assertNotEqual(now["digest"], told["digest"])
        self.assertEqual(json.loads(json.dumps(told)), told)


if __name__ == "__main__":
    main()
