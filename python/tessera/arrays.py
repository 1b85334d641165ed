# SPDX-License-Identifier: Apache-2.0
"""Arrays on a mesh: an instance of the same shape on each device."""
import contextlib
import ctypes
import math

from . import _library as c
from . import dlpack
from .contexts import current_context, current_mesh
from .dtypes import dtype, need_numpy
from .errors import invalid
from .graphs import note
from .streams import default_stream

H2D, D2H, D2D = 0, 1, 2


class Instance:
    """What one rank has of an array."""

    def __init__(self, array, rank):
        self.array, self.rank = array, rank

    @property
    def address(self):
        return c.made("tessMemGetRankPtr", self.array.mesh.handle, self.array.address, self.rank)

    def view(self):
        """A NumPy array over the memory itself, which lives as long as the view. Nothing waits: `synchronize` the stream
        that writes it first. bf16 shows as uint16, fp8 as uint8."""
        a = self.array
        if 0 in a.shape:
            return need_numpy().empty(a.shape, a.dtype.numpy_name)
        return need_numpy().asarray(dlpack.Kept(a.mesh.context, a.address, a.dtype, a.shape, self.rank))

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """`stream` is that of the consumer. On a GPU, the stream that the array was made with, or the mesh's default stream,
        reaches its end before this returns, unless `stream` is -1."""
        device = self.__dlpack_device__()
        if copy or (dl_device is not None and tuple(dl_device) != device):
            raise BufferError("tessera: arrays are exported without a copy, on the device where they are")
        dlpack.hand_over(self.array, device, stream)
        versioned = max_version is not None and max_version[0] >= 1
        a = self.array
        managed = dlpack.export(a.mesh.context, a.address, a.dtype, a.shape, self.rank,
                                0 if versioned else dlpack.UNVERSIONED)
        return dlpack.capsule_of(managed, versioned)

    def __dlpack_device__(self):
        return dlpack.device_of(self.array.mesh, self.rank)


class Array:
    """Memory of one shape and type on every device of a mesh, row-major. With a stream it comes from the mesh's pool and
    goes back behind what that stream has then; it counts against the stream's limit, and calls that name no stream use
    that one."""

    def __init__(self, shape, element_type="fp32", mesh=None, stream=None):
        if stream is not None and mesh is not None and mesh.handle != stream.mesh.handle:
            raise invalid("array not made: expected a stream of its mesh, found another mesh's")
        mesh = mesh or (stream.mesh.itself() if stream is not None else None)
        self.mesh, self.dtype = mesh or current_mesh(), dtype(element_type)
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n < 0 for n in self.shape):
            raise invalid(f"array not made: expected extents of at least 0, found {self.shape}")
        self.size = math.prod(self.shape)
        self.nbytes = self.size * self.dtype.size
        self._stream = stream
        if stream is None:
            self.address = c.made("tessMalloc", self.mesh.handle, self.nbytes)
        else:
            address = ctypes.c_void_p()
            c.call("tessMallocAsync", ctypes.byref(address), self.nbytes, stream.handle)
            self.address = address.value
        # Freeing waits for nothing, and the memory for the work in flight.
        self._finish = c.when_gone(self, c.let_go, _give_back, self.mesh.handle, self.address, stream and stream.handle)

    def __repr__(self):
        return f"tessera.Array({self.shape}, {self.dtype.name!r}, ranks={self.mesh.ranks})"

    def free(self):
        """Gives the memory back behind the work in flight. Views keep theirs."""
        if self._finish.alive:
            stream = self._stream and self._stream.handle
            # In a capture, memory that was taken in it is given back by its graph.
            if stream is None or c.lib.tessFreeAsync(self.address, stream) != 0:
                c.check(_give_back(self.mesh.handle, self.address, stream))
            self._finish.detach()
            self.address = None

    def on(self, rank):
        """The instance of a rank."""
        return Instance(self, rank)

    def view(self, rank=0):
        return self.on(rank).view()

    def __dlpack__(self, **how):
        return self.on(0).__dlpack__(**how)

    def __dlpack_device__(self):
        return self.on(0).__dlpack_device__()

    def fill(self, byte=0, stream=None):
        """Every byte of every instance."""
        stream = self._stream_or(stream)
        c.call("tessMemsetAsync", self.address, byte, self.nbytes, stream.handle)
        note(stream, self)
        return self

    def copy_from(self, values, rank=None, stream=None, wait=True):
        """Takes values of the same shape into all instances, or into that of one rank. Without `wait` the call only
        enqueues; the values must not change until the stream is synchronized."""
        stream = self._stream_or(stream)
        numpy = need_numpy()
        source = numpy.ascontiguousarray(values, dtype=self._numpy_dtype(values)).reshape(numpy.shape(values))
        if source.shape != self.shape:
            raise invalid(f"array not filled: expected values of shape {self.shape}, found {source.shape}")
        stream.keep(source)  # before the call: one that runs out of time leaves its work enqueued
        self._copy(self.address, source.ctypes.data, H2D, rank, stream)
        if wait:
            stream.synchronize()
        return self

    def to_numpy(self, rank=None, stream=None):
        """A copy of what a rank has once the stream has got there: by default the stream's own rank, or 0."""
        stream = self._stream_or(stream)
        out = need_numpy().empty(self.shape, self.dtype.numpy_name)
        stream.keep(out)
        self._copy(out.ctypes.data, self.address, D2H, max(stream.rank, 0) if rank is None else rank, stream)
        stream.synchronize()
        return out

    def copy_array(self, source, stream=None):
        """Takes another array of the mesh, each rank from its own instance."""
        if source.nbytes != self.nbytes:
            raise invalid(f"array not copied: expected {self.nbytes} bytes, found {source.nbytes}")
        stream = self._stream_or(stream)
        c.call("tessMemcpyAsync", self.address, source.address, self.nbytes, D2D, stream.handle)
        note(stream, (self, source))
        return self

    def _stream_or(self, stream):
        return stream or self._stream or default_stream(self.mesh)

    def _numpy_dtype(self, values):
        """Values are converted, but for types that NumPy has not: there they are bits already."""
        if self.dtype.name in ("bf16", "fp8_e4m3", "fp8_e5m2") and \
                getattr(values, "dtype", None) != self.dtype.numpy_name:
            raise invalid(f"array not filled: expected {self.dtype.name} as bits in {self.dtype.numpy_name}")
        return self.dtype.numpy_name

    def _copy(self, to, source, kind, rank, stream):
        if rank is None:
            c.call("tessMemcpyAsync", to, source, self.nbytes, kind, stream.handle)
        else:
            c.call("tessMemcpyRankAsync", to, source, self.nbytes, kind, rank, stream.handle)
        note(stream, self)


def _give_back(mesh, address, stream):
    """Status of freeing: to the stream that it came from, if that is still there and does not capture."""
    captures = ctypes.c_int()
    if stream is not None and c.lib.tessStreamIsCapturing(stream, ctypes.byref(captures)) == 0 and not captures.value and \
            c.lib.tessFreeAsync(address, stream) == 0:
        return 0
    return c.lib.tessFree(mesh, address)


def empty(shape, element_type="fp32", mesh=None, stream=None):
    """Memory with any content; with a stream, from the pool."""
    return Array(shape, element_type, mesh, stream)


@contextlib.contextmanager
def registered(values):
    """Inside `with`, the runtime knows the memory of a NumPy array: copies that leave it are refused."""
    c.call("tessHostRegister", values.ctypes.data, values.nbytes)
    try:
        yield values
    finally:
        c.call("tessHostUnregister", values.ctypes.data)


def zeros(shape, element_type="fp32", mesh=None):
    return Array(shape, element_type, mesh).fill(0)


def array(values, element_type=None, mesh=None):
    """A copy of the values on every device."""
    values = need_numpy().asarray(values)
    return Array(values.shape, values.dtype if element_type is None else element_type, mesh).copy_from(values)


def from_dlpack(tensor, device=-1, context=None, stream=None):
    """Memory of another library, without a copy: as memory of a device, or of the host (-1). Work that the other library has
    submitted for a tensor on a GPU comes before what `stream` (none: the mesh's default stream) gets from now on."""
    return dlpack.take(tensor, context or current_context(), device, stream)


def pointer_attributes(address, context=None):
    """What the context knows about an address."""
    out = c.PointerAttributes()
    c.call("tessPointerGetAttributes", (context or current_context()).handle, address, ctypes.byref(out))
    return {name: getattr(out, name) for name, _ in out._fields_[1:]}
