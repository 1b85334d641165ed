# SPDX-License-Identifier: Apache-2.0
"""Tensors in and out of other libraries without a copy: DLPack's capsules."""
import ctypes
from ctypes import c_char_p, c_int64, c_void_p

from . import _library as c
from .dtypes import BY_ID
from .errors import invalid
from .streams import default_stream

READ_ONLY, UNVERSIONED = 1, 2
HOST = (1, 0)  # DLPack's device type and id of memory that the processor reads
CUDA = 2  # DLPack's device type of memory of a GPU
# Streams of consumers as numbers: none; and the default stream of the device, which None stands for.
NO_ORDER, DEFAULT_STREAM = -1, 1
_OLD, _NEW = b"dltensor", b"dltensor_versioned"
# Where the deleter stands in DLManagedTensor and in DLManagedTensorVersioned.
_DELETER = {_OLD: 56, _NEW: 16}
_Deleter = ctypes.CFUNCTYPE(None, c_void_p)

_api = ctypes.pythonapi
_Destructor = ctypes.PYFUNCTYPE(None, c_void_p)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, _Destructor)(("PyCapsule_New", _api))
# The destructor's capsule is no object any more: it is an address for these.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_SetName", _api))
_USED = {_OLD: b"used_dltensor", _NEW: b"used_dltensor_versioned"}  # kept: capsules refer to their names


def release(managed, name=_NEW):
    """Calls the deleter of a tensor that nobody took."""
    deleter = c_void_p.from_address(managed + _DELETER[name]).value
    if deleter:
        _Deleter(deleter)(managed)


@_Destructor
def _drop(capsule):
    for name in (_OLD, _NEW):
        if _is_valid(capsule, name):
            release(_pointer(capsule, name), name)


ctypes.pythonapi.Py_IncRef(ctypes.py_object(_drop))  # capsules may outlive the module


def device_of(mesh, rank):
    """DLPack's device of a rank's memory."""
    ordinal = mesh.devices[rank]
    return (CUDA, ordinal) if mesh.context.device(ordinal).backend == "cuda" else HOST


def hand_over(array, device, consumer):
    """Lets work of the consumer's stream come behind what the array's stream has now, if the memory is on a GPU."""
    kind, ordinal = device
    if kind != CUDA and consumer not in (None, NO_ORDER):
        raise BufferError("tessera: arrays in memory of the host are exported without a stream")
    if kind != CUDA or consumer == NO_ORDER:
        return
    consumer = DEFAULT_STREAM if consumer is None else consumer
    if consumer < 1:
        raise BufferError(f"tessera: array not exported: expected a stream of the consumer from 1 on or -1, found {consumer}")
    array._stream_or(None).before_native(consumer, ordinal)


def export(context, address, element_type, shape, rank, flags=0):
    """Address of a managed tensor, row-major, over the instance of a rank."""
    dims = (c_int64 * max(1, len(shape)))(*shape)
    desc = c.TensorDesc(dtype=element_type.id, ndim=len(shape), rank=rank, shape=dims, flags=flags)
    return c.made("tessMemExportDlpack", context.handle, address, ctypes.byref(desc))


def capsule_of(managed, versioned):
    return _new(managed, _NEW if versioned else _OLD, _drop)


class Kept:
    """Memory for NumPy by its address, kept for as long as any view of it lives."""

    def __init__(self, context, address, element_type, shape, rank):
        managed = export(context, address, element_type, shape, rank)
        self._finish = c.when_gone(self, release, managed)
        self._finish.atexit = False  # the process ends, and with it its memory
        data = c_void_p.from_address(managed + 32).value or 0
        self.__array_interface__ = {"version": 3, "shape": tuple(shape), "typestr": _typestr(element_type),
                                    "data": (data + ctypes.c_uint64.from_address(managed + 72).value, False)}


def _typestr(element_type):
    kinds = {"float": "f", "int": "i", "uint": "u", "bool": "b", "complex": "c"}
    kind = kinds[element_type.numpy_name.rstrip("0123456789")]
    return f"{'|' if element_type.size == 1 else '<'}{kind}{element_type.size}"


class Imported:
    """A tensor of another library, known to a context until `release`, or until nothing refers to it."""

    def __init__(self, context, managed, versioned, device):
        info = c.TensorInfo()
        c.call("tessMemImportDlpack", context.handle, managed, 0 if versioned else UNVERSIONED, device,
               ctypes.byref(info))
        self.context, self.dtype, self.address = context, BY_ID[info.dtype], info.data
        self.shape = tuple(info.shape[:info.ndim])
        self.strides = tuple(info.strides[:info.ndim]) if info.strides else row_major(self.shape)
        self.read_only = bool(info.readOnly)
        self._finish = c.when_gone(self, c.quietly, "tessMemReleaseImported", context.handle, info.begin)

    @property
    def contiguous(self):
        return all(n <= 1 or s == w for n, s, w in zip(self.shape, self.strides, row_major(self.shape)))

    def release(self):
        """Lets go of it: work in flight still has it, later work does not know it."""
        self._finish()


def row_major(shape):
    out, step = [], 1
    for n in reversed(shape):
        out.append(step)
        step *= n
    return tuple(reversed(out))


def take(tensor, context, device, stream=None):
    """Imports what offers `__dlpack__`. If it is on a GPU, its library lets the default stream of the GPU wait for its work,
    and `stream` waits for that."""
    if not hasattr(tensor, "__dlpack__"):
        raise invalid(f"import a tensor: expected an object with __dlpack__, found {type(tensor).__name__}")
    kind, ordinal = tensor.__dlpack_device__() if hasattr(tensor, "__dlpack_device__") else HOST
    order = {"stream": DEFAULT_STREAM} if kind == CUDA else {}
    try:
        capsule = tensor.__dlpack__(max_version=(1, 1), **order)
    except TypeError:  # from before version 1.0
        capsule = tensor.__dlpack__(**order)
    at = id(capsule)
    for name in (_NEW, _OLD):
        if _is_valid(at, name):
            made = Imported(context, _pointer(at, name), name == _NEW, device)
            _set_name(at, _USED[name])  # it is ours now
            if kind == CUDA:
                try:
                    (stream or default_stream()).wait_native(DEFAULT_STREAM, ordinal)
                except Exception:
                    made.release()
                    raise
            return made
    raise invalid("import a tensor: expected a capsule of DLPack that nobody has used, found another")
