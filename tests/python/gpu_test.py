#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensors on GPUs go to another library and come back in the order of its stream. The stand-in driver plays the GPU."""
import ctypes
import os
import threading
import time

from session import Session, main, np, ts

LEGACY = 1
FILE, DRIVER = (os.environ.get(name) for name in ("WEIR_STAND_IN_LOADED", "WEIR_STAND_IN_DRIVER"))


class Driver:
    """Calls of the stand-in driver by their names. Each must succeed."""

    def __init__(self):
        self.control = ctypes.CDLL(FILE, mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(DRIVER, mode=ctypes.RTLD_GLOBAL)

    def call(self, name, *args):
        address, found = ctypes.c_void_p(), ctypes.c_int()
        self.control.weir_stand_in_lookup(name.encode(), ctypes.byref(address), 13000, ctypes.c_uint64(0),
                                          ctypes.byref(found))
        status = ctypes.CFUNCTYPE(ctypes.c_int)(address.value)(*args)
        assert status == 0, f"{name} returned {status}"

    def made(self, name, *args):
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *args)
        return out

    def broken_rules(self):
        text = ctypes.create_string_buffer(4096)
        self.control.weir_stand_in_breaches(text, ctypes.c_size_t(len(text)))
        return sorted(set(text.value.decode().split()))


class OtherLibrary:
    """A library with a stream of its own on device 0, whose tensors are in the memory of an array."""

    def __init__(self, driver):
        self.driver, self.asked = driver, None
        driver.call("cuInit", 0)
        self.context = driver.made("cuDevicePrimaryCtxRetain", 0)
        self.stream = self.inside(lambda: driver.made("cuStreamCreateWithPriority", 1, 0))

    def inside(self, body):
        """Calls `body` while the context is current."""
        self.driver.call("cuCtxPushCurrent", self.context)
        try:
            return body()
        finally:
            self.driver.made("cuCtxPopCurrent")

    def fill(self, array, byte):
        self.inside(lambda: self.driver.call("cuMemsetD8Async", ctypes.c_uint64(array.address), byte,
                                             ctypes.c_size_t(array.nbytes), self.stream))

    def copy(self, to, source):
        self.inside(lambda: self.driver.call("cuMemcpyDtoDAsync", ctypes.c_uint64(to.address), ctypes.c_uint64(source.address),
                                             ctypes.c_size_t(to.nbytes), self.stream))

    def let_wait(self, stream):
        """Lets a stream of a consumer wait for this library's, as the DLPack protocol asks for."""
        def body():
            event = self.driver.made("cuEventCreate", 2)
            self.driver.call("cuEventRecord", event, self.stream)
            self.driver.call("cuStreamWaitEvent", ctypes.c_void_p(stream), event, 0)
            self.driver.call("cuEventDestroy", event)
        self.inside(body)

    def close(self):
        self.inside(lambda: self.driver.call("cuStreamDestroy", self.stream))
        self.driver.call("cuDevicePrimaryCtxRelease", 0)

    def tensor(self, array, in_order=True):
        library = self

        class Tensor:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, *, stream=None, max_version=None):
                library.asked = stream
                if in_order:
                    library.let_wait(stream)
                return array.__dlpack__(stream=-1, max_version=max_version)

        return Tensor()


class Gpu(Session):
    def setUp(self):
        if not FILE or not DRIVER:
            self.skipTest("the stand-in driver was not built")
        self.driver = Driver()
        self.driver.control.weir_stand_in_show(1, 2000)
        os.environ["TESS_BACKEND"] = "cuda"
        self.addCleanup(os.environ.pop, "TESS_BACKEND")
        self.context = ts.init()
        self.on = ts.mesh([0])
        self.other = OtherLibrary(self.driver)

    def tearDown(self):
        # The host learns of the end of the other library's work before memory goes.
        ts.default_stream().wait_native(self.other.stream.value, 0)
        ts.default_stream().synchronize()
        self.other.close()
        self.context.shutdown()
        # Objects that operations have used go with their last task, perhaps a moment after the context.
        deadline = time.monotonic() + 10
        while not self.driver.control.weir_stand_in_rests() and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertTrue(self.driver.control.weir_stand_in_rests(), "objects of the driver are left")
        self.assertEqual(self.driver.broken_rules(), [])

    def test_arrays_name_their_gpu(self):
        x = ts.zeros(4)
        self.assertEqual((x.__dlpack_device__(), x.on(0).__dlpack_device__()), ((2, 0), (2, 0)))

    def test_an_export_comes_behind_the_work_of_the_array(self):
        stream, opened = ts.default_stream(), threading.Event()
        x, y = ts.zeros(64, "int8"), ts.zeros(64, "int8")
        stream.synchronize()
        for consumer in (self.other.stream.value, 2, 1, None):
            opened.clear()
            stream.call(lambda: opened.wait(10))
            x.fill(3)
            threading.Timer(0.02, opened.set).start()
            capsule = x.__dlpack__(stream=consumer, max_version=(1, 0))
            self.assertTrue(opened.is_set())
            del capsule
        self.other.copy(y, x)
        stream.wait_native(self.other.stream.value, 0)
        np.testing.assert_array_equal(y.to_numpy(), np.full(64, 3))

    def test_an_export_without_order_does_not_wait(self):
        stream, opened = ts.default_stream(), threading.Event()
        x = ts.zeros(4)
        stream.call(lambda: opened.wait(10))
        capsule = x.__dlpack__(stream=-1)
        self.assertFalse(stream.query())
        opened.set()
        stream.synchronize()
        del capsule

    def test_stream_0_of_a_consumer_is_refused(self):
        with self.assertRaisesRegex(BufferError, "from 1 on or -1, found 0"):
            ts.zeros(4).__dlpack__(stream=0)

    def test_an_import_comes_behind_the_work_of_its_library(self):
        x = ts.zeros(64, "int8")
        x.to_numpy()
        for value in range(1, 6):
            self.other.fill(x, value)
            taken = ts.from_dlpack(self.other.tensor(x), device=0)
            self.assertEqual((self.other.asked, taken.address), (LEGACY, x.address))
            np.testing.assert_array_equal(x.to_numpy(), np.full(64, value))
            taken.release()

    def test_an_import_without_the_order_of_its_library_is_reported(self):
        x = ts.zeros(64, "int8")
        x.to_numpy()
        self.other.fill(x, 1)
        taken = ts.from_dlpack(self.other.tensor(x, in_order=False), device=0)
        self.driver.control.weir_stand_in_settle()
        x.to_numpy()
        self.assertEqual(self.driver.broken_rules(), ["access_order"])
        taken.release()

    def test_a_stream_made_from_a_native_one_is_in_its_order(self):
        native = self.other.stream.value
        stream = ts.Stream.from_native(native)
        self.assertEqual((stream.native, stream.rank, stream.info()["nLanes"]), (native, 0, 1))
        x, y = ts.zeros(64, "int8"), ts.zeros(64, "int8")
        ts.default_stream().synchronize()
        for value in range(1, 6):
            self.other.fill(x, value)
            y.copy_array(x, stream=stream)
            x.fill(0, stream=stream)
            self.other.copy(x, y)
            np.testing.assert_array_equal(x.to_numpy(stream=stream), np.full(64, value))
        with self.assertRaisesRegex(ts.Error, "made from a native stream"):
            ts.default_stream().native  # pylint: disable=expression-not-assigned
        with self.assertRaisesRegex(ts.Error, "found NULL"):
            ts.Stream.from_native(None)
        stream.destroy()


if __name__ == "__main__":
    main()
