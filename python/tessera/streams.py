# SPDX-License-Identifier: Apache-2.0
"""Streams and events."""
import ctypes
import weakref

from . import _library as c
from .contexts import current_mesh
from .errors import error_of
from .graphs import Capture, Graph, note


class Stream:
    """An ordered queue over all devices of a mesh, or, with `rank`, one rank's own.

    A failure skips what comes behind it in the stream; `synchronize` raises it and the stream is usable again.
    """

    def __init__(self, mesh=None, priority=0, rank=-1, memory_limit=0, timeout_ms=-1):
        mesh = mesh or current_mesh()
        desc = c.StreamDesc(priority=priority, rank=rank, memoryLimit=memory_limit, timeoutMs=timeout_ms)
        self._own(mesh, rank, c.made("tessStreamCreateEx", mesh.handle, ctypes.byref(desc)))

    @classmethod
    def from_native(cls, native, mesh=None, rank=0):
        """A stream made from a stream of another library on the device of `rank`: a CUstream as a number, or 1 for the
        default stream of the device. Each call that enqueues runs behind what the native stream has, and waits for it
        and for its own work. The native stream must exist as long as this one, which does not destroy it."""
        stream, mesh = cls.__new__(cls), mesh or current_mesh()
        stream._own(mesh, rank, c.made("tessStreamFromNative", mesh.handle, rank, native))
        return stream

    def _own(self, mesh, rank, handle):
        self.mesh, self.rank, self.handle = mesh, rank, handle
        self._finish = c.when_gone(self, c.let_go, _destroy, self.handle)
        self._kept = []  # what enqueued work still reads
        self._raised = []
        self.recorded = None  # what work uses since a launch with the flag CAPTURE
        self._closed = []  # the same of the recording that `synchronize` closed

    def destroy(self):
        if self._finish.detach() is not None:
            _destroy(self.handle)

    def synchronize(self):
        """Waits for all that was enqueued. Raises its first failure."""
        c.catch_up()
        kept = len(self._kept)  # what is kept by now was enqueued before; other threads may go on
        status = c.lib.tessStreamSynchronize(self.handle)
        if status != 9:  # after a time-out the work goes on
            if self.recorded is not None:
                self._closed, self.recorded = self.recorded, None
            del self._kept[:kept]
            raised = self._raised[:]
            del self._raised[:len(raised)]
            if raised:
                raise raised[0]
        c.check(status)

    def query(self):
        """True if all that was enqueued has ended."""
        return bool(c.integer("tessStreamQuery", self.handle))

    def wait(self, event):
        """What is enqueued from now on waits for the event's latest record."""
        c.call("tessStreamWaitEvent", self.handle, event.handle)

    def wait_native(self, native, device):
        """What is enqueued from now on waits for what a stream of another library has now. `native` is a CUstream of the
        device as a number; 1 is the default stream of the device."""
        c.call("tessStreamWaitNative", self.handle, device, native)

    def before_native(self, native, device):
        """Waits for all that was enqueued, so that what another library submits to its stream from now on comes behind."""
        c.call("tessNativeWaitStream", native, device, self.handle)

    @property
    def native(self):
        """The native stream that this one was made from, as a number."""
        return c.made("tessStreamGetNative", self.handle)

    def record(self, event=None):
        """Records an event behind what was enqueued so far; makes one if none is given."""
        event = event or Event()
        c.call("tessEventRecord", event.handle, self.handle)
        return event

    def call(self, function):
        """Calls `function()` in the stream's order, on a thread of the runtime; what it raises, `synchronize` raises.
        It may make no call that enqueues or waits."""
        raised = self._raised

        def wrapped(_):
            try:
                with c.inside_function():
                    function()
            except Exception as e:  # pylint: disable=broad-except
                raised.append(e)

        callback = c.HostFn(wrapped)
        self.keep(callback)
        c.call("tessLaunchHostFunc", self.handle, callback, None)

    def request_stop(self):
        """Asks persistent kernels on the stream to stop."""
        c.call("tessStreamRequestStop", self.handle)

    def set_timeout(self, milliseconds):
        """Limit of `synchronize`; 0: none."""
        c.call("tessStreamSetTimeout", self.handle, milliseconds)

    def set_memory_limit(self, size):
        c.call("tessStreamSetMemoryLimit", self.handle, size)

    def memory_use(self):
        """(bytes that it has from the pool, its limit; 0: none)."""
        used, limit = ctypes.c_size_t(), ctypes.c_size_t()
        c.call("tessStreamGetMemoryUse", self.handle, ctypes.byref(used), ctypes.byref(limit))
        return used.value, limit.value

    def determinism(self):
        """What the last launch or collective was told of numbers, as a dictionary; all zero before the first."""
        out = c.Determinism()
        c.call("tessStreamGetDeterminism", self.handle, ctypes.byref(out))
        return {name: getattr(out, name) for name, _ in out._fields_[1:]}

    def last_message(self):
        """Text of the failure that `synchronize` raised last."""
        return c.text("tessStreamGetLastMessage", self.handle)

    def capture(self, mode="global"):
        """`with stream.capture() as capture:` records instead of running; then `capture.graph`. `mode` says what becomes
        of calls of other threads, see `Capture`."""
        return Capture(self, mode)

    def info(self):
        """What the stream is, as a dictionary: priority, rank, nLanes, id (in traces) and capturing."""
        out = c.StreamInfo()
        c.call("tessStreamGetInfo", self.handle, ctypes.byref(out))
        return {name: getattr(out, name) for name in ("priority", "rank", "nLanes", "id", "capturing")}

    def take_graph(self):
        """What launches with the flag CAPTURE recorded, once `synchronize` has closed it."""
        graph = Graph(c.made("tessStreamTakeGraph", self.handle), self._closed)
        self._closed = []
        return graph

    def keep(self, what):
        """Refers to an object that enqueued work uses until the next `synchronize`, and as long as a graph uses it."""
        self._kept.append(what)
        note(self, what)


def _destroy(handle):
    """Work of the stream may still read what it keeps: it ends first."""
    for name in ("tessStreamRequestStop", "tessStreamSynchronize", "tessStreamDestroy"):
        c.quietly(name, handle)


class Event:
    """A point in a stream that others can wait for."""

    def __init__(self):
        self.handle = c.made("tessEventCreate")
        self._finish = c.when_gone(self, c.quietly, "tessEventDestroy", self.handle)

    def record(self, stream):
        stream.record(self)
        return self

    def query(self):
        return bool(c.integer("tessEventQuery", self.handle))

    def synchronize(self):
        c.call("tessEventSynchronize", self.handle)

    def elapsed_ms(self, end):
        """Milliseconds from this event to another; both have been reached."""
        out = ctypes.c_float()
        c.call("tessEventElapsedTime", ctypes.byref(out), self.handle, end.handle)
        return out.value


def priority_range():
    """(least, greatest) of the priorities that make a difference; lower is more urgent."""
    least, greatest = ctypes.c_int(), ctypes.c_int()
    c.call("tessStreamGetPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    return least.value, greatest.value


def default_stream(mesh=None):
    """The stream that calls without one use: one for each mesh."""
    mesh = mesh or current_mesh()
    if mesh.default_stream is None:
        mesh.default_stream = Stream(mesh)
        mesh.default_stream.mesh = weakref.proxy(mesh)  # the mesh owns it, not the other way round
    return mesh.default_stream
