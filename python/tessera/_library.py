# SPDX-License-Identifier: Apache-2.0
"""The shared library: where it is, its structures and the types of its functions."""
import collections
import contextlib
import ctypes
import os
import pathlib
import threading
import weakref
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t,
                    c_uint, c_uint32, c_uint64, c_void_p)

from .errors import error_of

NAME = "libtessera.so.1"


class MeshAxes(Structure):
    _fields_ = [(axis, c_int) for axis in ("tp", "pp", "dp", "ep")]


class LaunchConfig(Structure):
    _fields_ = [("grid", c_int * 3), ("block", c_int * 3), ("shmemBytes", c_size_t), ("flags", c_uint)]


class NumericsPolicy(Structure):
    _fields_ = [(f, c_int) for f in ("stableReductions", "deterministic", "rngStateless", "allowFastMath")]


class Sized(Structure):
    """A structure that begins with its size, which is set already."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.structSize = ctypes.sizeof(self)


class DeviceProps(Sized):
    _fields_ = [("structSize", c_uint32), ("ordinal", c_int32), ("name", c_char * 64), ("backend", c_char * 16),
                ("arch", c_char * 32), ("memory", c_size_t), ("alignment", c_size_t), ("maxGrid", c_int32 * 3),
                ("maxBlock", c_int32 * 3), ("maxThreads", c_int32), ("maxPersistentBlocks", c_int32),
                ("maxSharedBytes", c_size_t)]


class MeshInfo(Sized):
    _fields_ = [("structSize", c_uint32), ("nDevices", c_int32), ("axes", MeshAxes)]


class StreamDesc(Sized):
    _fields_ = [("structSize", c_uint32), ("priority", c_int32), ("rank", c_int32), ("reserved", c_int32),
                ("memoryLimit", c_size_t), ("timeoutMs", c_int64)]


class StreamInfo(Sized):
    _fields_ = [("structSize", c_uint32), ("priority", c_int32), ("rank", c_int32), ("nLanes", c_int32), ("id", c_uint64),
                ("capturing", c_int32), ("reserved", c_int32)]


class CopyDesc(Sized):
    _fields_ = [("structSize", c_uint32), ("kind", c_int32), ("dst", c_void_p), ("src", c_void_p), ("width", c_size_t),
                ("height", c_size_t), ("rank", c_int32), ("reserved", c_int32), ("dstPitch", c_size_t),
                ("srcPitch", c_size_t)]


class ProfilerDesc(Sized):
    _fields_ = [("structSize", c_uint32), ("reserved", c_uint32), ("maxRecords", c_uint64)]


class KernelInfo(Sized):
    _fields_ = [("structSize", c_uint32), ("flags", c_uint32), ("paramCount", c_uint32), ("argBytes", c_uint32),
                ("argBytesPadded", c_uint32), ("defaultBlock", c_uint32 * 3), ("maxThreads", c_uint32),
                ("sharedBytes", c_uint32)]


class ParamInfo(Sized):
    _fields_ = [("structSize", c_uint32), ("kind", c_uint32), ("dtype", c_uint32), ("size", c_uint32),
                ("offset", c_uint32), ("space", c_uint32), ("direction", c_uint32), ("reserved", c_uint32),
                ("name", c_char_p)]


class CollectiveDesc(Sized):
    _fields_ = [("structSize", c_uint32), ("kind", c_int32), ("sendbuf", c_void_p), ("recvbuf", c_void_p),
                ("count", c_size_t), ("dtype", c_int32), ("op", c_int32), ("axis", c_char_p), ("root", c_int32),
                ("peer", c_int32), ("algorithm", c_char_p), ("chunkBytes", c_size_t), ("wireDtype", c_int32),
                ("packedShards", c_int32), ("timeoutMs", c_int64)]


class TensorDesc(Sized):
    _fields_ = [("structSize", c_uint32), ("dtype", c_int32), ("ndim", c_int32), ("rank", c_int32),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("flags", c_uint32),
                ("reserved", c_uint32)]


class TensorInfo(Sized):
    _fields_ = [("structSize", c_uint32), ("dtype", c_int32), ("ndim", c_int32), ("readOnly", c_int32),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("data", c_void_p), ("begin", c_void_p),
                ("bytes", c_size_t)]


class PointerAttributes(Sized):
    _fields_ = [("structSize", c_uint32), ("kind", c_int32), ("device", c_int32), ("rank", c_int32),
                ("base", c_void_p), ("bytes", c_size_t), ("offset", c_size_t)]


class MemPoolStats(Sized):
    _fields_ = [("structSize", c_uint32), ("reserved", c_uint32), ("usedBytes", c_size_t), ("usedPeakBytes", c_size_t),
                ("reservedBytes", c_size_t), ("reservedPeakBytes", c_size_t), ("keepBytes", c_size_t),
                ("reuses", c_uint64)]


class CacheStats(Sized):
    _fields_ = [("structSize", c_uint32), ("enabled", c_uint32),
                *((f, c_uint64) for f in ("hits", "misses", "stale", "quarantined", "writes", "entries", "bytes"))]


class Determinism(Sized):
    _fields_ = [*((f, c_uint32) for f in ("structSize", "version", "level", "tree", "stableToggles", "fastMath")),
                *((f, c_uint64) for f in ("seed", "stream", "ordinal", "digest")),
                *((f, c_uint32) for f in ("policy", "algorithm", "accumulate", "wire")), ("chunkBytes", c_uint64)]


class FatbinKernel(Sized):
    _fields_ = [("structSize", c_uint32), ("flags", c_uint32), ("name", c_char_p), ("symbol", c_char_p),
                ("params", POINTER(ParamInfo)), ("paramCount", c_int32), ("defaultBlock", c_uint32 * 3),
                ("maxThreads", c_uint32), ("sharedBytes", c_uint32), ("targets", c_uint64)]


class FatbinPlan(Sized):
    _fields_ = [("structSize", c_uint32), ("collective", c_uint32), ("dtype", c_uint32), ("algorithm", c_uint32),
                ("axis", c_char_p), ("leastBytes", c_uint64), ("mostBytes", c_uint64), ("chunkBytes", c_uint64),
                ("wireDtype", c_uint32), ("reserved", c_uint32)]


LogFn = CFUNCTYPE(None, c_int, c_char_p, c_void_p)
HostFn = CFUNCTYPE(None, c_void_p)

H = c_void_p  # handles are opaque
OUT = POINTER(c_void_p)
INT_OUT = POINTER(c_int)
SIZE_OUT = POINTER(c_size_t)
# Functions that return a status, with their parameters.
_CALLS = {
    "tessInit": [OUT], "tessShutdown": [H], "tessGetVersion": [INT_OUT, INT_OUT, INT_OUT],
    "tessDeviceGetCount": [H, INT_OUT], "tessDeviceGetProps": [H, c_int, POINTER(DeviceProps)],
    "tessMeshCreate": [H, INT_OUT, c_int, MeshAxes, OUT], "tessMeshDestroy": [H],
    "tessMeshGetInfo": [H, POINTER(MeshInfo)], "tessMeshRankCoords": [H, c_int, INT_OUT],
    "tessMeshAxisGroup": [H, c_char_p, c_int, INT_OUT, INT_OUT],
    "tessStreamCreateEx": [H, POINTER(StreamDesc), OUT], "tessStreamDestroy": [H], "tessStreamSynchronize": [H],
    "tessStreamFromNative": [H, c_int, c_void_p, OUT], "tessStreamGetNative": [H, OUT],
    "tessStreamWaitNative": [H, c_int, c_void_p], "tessNativeWaitStream": [c_void_p, c_int, H],
    "tessStreamQuery": [H, INT_OUT], "tessStreamIsCapturing": [H, INT_OUT], "tessStreamSetTimeout": [H, c_int64], "tessStreamSetMemoryLimit": [H, c_size_t],
    "tessStreamGetPriorityRange": [INT_OUT, INT_OUT], "tessStreamGetInfo": [H, POINTER(StreamInfo)],
    "tessStreamRequestStop": [H], "tessStreamWaitEvent": [H, H],
    "tessStreamGetLastMessage": [H, c_char_p, SIZE_OUT], "tessLaunchHostFunc": [H, HostFn, c_void_p],
    "tessEventCreate": [OUT], "tessEventDestroy": [H], "tessEventRecord": [H, H], "tessEventQuery": [H, INT_OUT],
    "tessEventSynchronize": [H], "tessEventElapsedTime": [POINTER(c_float), H, H],
    "tessMalloc": [H, c_size_t, OUT], "tessFree": [H, c_void_p],
    "tessMemcpyAsync": [c_void_p, c_void_p, c_size_t, c_int, H],
    "tessMemcpyRankAsync": [c_void_p, c_void_p, c_size_t, c_int, c_int, H],
    "tessCopyAsync": [POINTER(CopyDesc), H],
    "tessMemsetAsync": [c_void_p, c_int, c_size_t, H], "tessMemGetRankPtr": [H, c_void_p, c_int, OUT],
    "tessMemGetInfo": [H, c_int, SIZE_OUT, SIZE_OUT],
    "tessMallocAsync": [OUT, c_size_t, H], "tessFreeAsync": [c_void_p, H],
    "tessMemPoolGetStats": [H, POINTER(MemPoolStats)], "tessMemPoolSetKeep": [H, c_size_t],
    "tessMemPoolTrim": [H, c_size_t], "tessStreamGetMemoryUse": [H, SIZE_OUT, SIZE_OUT],
    "tessHostRegister": [c_void_p, c_size_t], "tessHostUnregister": [c_void_p],
    "tessPointerGetAttributes": [H, c_void_p, POINTER(PointerAttributes)],
    "tessMemExportDlpack": [H, c_void_p, POINTER(TensorDesc), OUT],
    "tessMemImportDlpack": [H, c_void_p, c_uint, c_int, POINTER(TensorInfo)],
    "tessMemReleaseImported": [H, c_void_p],
    "tessModuleLoad": [H, c_char_p, c_size_t, OUT], "tessModuleUnload": [H], "tessKernelGet": [H, c_char_p, OUT],
    "tessModuleGetKernelCount": [H, INT_OUT], "tessModuleGetKernelName": [H, c_int, POINTER(c_char_p)],
    "tessKernelGetInfo": [H, POINTER(KernelInfo)], "tessKernelGetParam": [H, c_int, POINTER(ParamInfo)],
    "tessPackArgs": [H, OUT, c_int, c_void_p, SIZE_OUT], "tessExplain": [H, c_char_p, SIZE_OUT],
    "tessLaunch": [H, H, LaunchConfig, c_void_p, c_size_t, H],
    "tessCollective": [H, POINTER(CollectiveDesc), H], "tessGroupStart": [], "tessGroupEnd": [],
    "tessMeshRecover": [H, c_int], "tessMeshAbort": [H], "tessMeshQuery": [H, c_int],
    "tessStreamGetDeterminism": [H, POINTER(Determinism)], "tessSetDeterminism": [H, c_uint64, c_uint32],
    "tessCacheVerify": [H], "tessCacheClear": [H],
    "tessCacheGetStats": [H, POINTER(CacheStats)],
    "tessFatbinCreate": [OUT], "tessFatbinDestroy": [H], "tessFatbinSetAbi": [H, c_int, c_int],
    "tessFatbinAddCode": [H, c_char_p, c_char_p, c_char_p, c_size_t, INT_OUT],
    "tessFatbinAddKernel": [H, POINTER(FatbinKernel)], "tessFatbinAddPlan": [H, POINTER(FatbinPlan)],
    "tessFatbinSetPolicy": [H, POINTER(NumericsPolicy), c_int, c_uint64], "tessFatbinSetExplain": [H, c_char_p],
    "tessFatbinSetSourceHash": [H, c_char_p], "tessFatbinBuild": [H, c_char_p, c_char_p, SIZE_OUT],
    "tessSetNumericsPolicy": [H, POINTER(NumericsPolicy)], "tessGetNumericsPolicy": [H, POINTER(NumericsPolicy)],
    "tessStreamBeginCaptureEx": [H, c_int], "tessStreamEndCapture": [H, OUT], "tessStreamTakeGraph": [H, OUT],
    "tessGraphGetNodeCount": [H, SIZE_OUT], "tessGraphExport": [H, c_char_p, c_char_p, SIZE_OUT],
    "tessGraphDestroy": [H], "tessGraphInstantiate": [H, OUT], "tessGraphLaunch": [H, H],
    "tessGraphExecUpdateLaunch": [H, c_size_t, H, LaunchConfig, c_void_p, c_size_t, H], "tessGraphExecDestroy": [H],
    "tessGraphExecUpdateCopy": [H, c_size_t, POINTER(CopyDesc), H],
    "tessGraphExecUpdateFill": [H, c_size_t, c_void_p, c_int, c_size_t, H],
    "tessGraphExecUpdateCollective": [H, c_size_t, POINTER(CollectiveDesc), H],
    "tessProfilerStartEx": [H, POINTER(ProfilerDesc), OUT], "tessProfilerStop": [H, c_char_p], "tessSetLogCallback": [LogFn, c_void_p],
}


def candidates():
    """Paths to try, best first: the environment's, beside the package, in the prefix it is installed in."""
    asked = os.environ.get("TESSERA_LIBRARY")
    if asked:
        return [asked]
    package = pathlib.Path(__file__).resolve().parent
    folders = [package]
    if len(package.parents) > 2:  # PREFIX/lib/python3/dist-packages/tessera
        libraries = package.parents[2]
        folders += [libraries, *sorted(libraries.glob("*-linux-gnu"))]
    return [str(folder / NAME) for folder in folders if (folder / NAME).exists()] + [NAME]


def _open():
    tried = candidates()
    for path in tried:
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            problem = e
    raise ImportError(f"tessera: no runtime library: {problem}; TESSERA_LIBRARY names its file")


lib = _open()
lib.tessGetErrorName.argtypes, lib.tessGetErrorName.restype = [c_int], c_char_p
lib.tessGetLastErrorMessage.argtypes, lib.tessGetLastErrorMessage.restype = [], c_char_p
for _name, _types in _CALLS.items():
    _function = getattr(lib, _name)
    _function.argtypes, _function.restype = _types, c_int


def check(status):
    """Raises what a status says, with the text of the call that failed last on this thread."""
    if status:
        message = lib.tessGetLastErrorMessage().decode("utf-8", "replace")
        raise error_of(status, lib.tessGetErrorName(status).decode(), message)


_this_thread = threading.local()
_put_off = collections.deque()  # what could not be let go of where it was


@contextlib.contextmanager
def inside_function():
    """Around functions that the runtime calls in a stream's order: they may not give anything back."""
    _this_thread.inside = True
    try:
        yield
    finally:
        _this_thread.inside = False


def let_go(function, *args):
    """What finalizers call: garbage is collected anywhere, in functions of streams too; then the next call does it."""
    if getattr(_this_thread, "inside", False):
        _put_off.append((function, args))
    else:
        function(*args)


def when_gone(owner, function, *args):
    """Calls the function once nothing refers to the owner, but only in the process that made it: the child of a fork has
    none of the threads of its parent's contexts, and nothing to give back to them."""
    return weakref.finalize(owner, _in_process, os.getpid(), function, args)


def _in_process(pid, function, args):
    if os.getpid() == pid:
        function(*args)


os.register_at_fork(after_in_child=_put_off.clear)


def catch_up():
    """Does what was put off, unless this is a function of a stream itself."""
    while _put_off and not getattr(_this_thread, "inside", False):
        try:
            function, args = _put_off.popleft()
        except IndexError:  # another thread was faster
            return
        function(*args)


def call(name, *args):
    catch_up()
    check(getattr(lib, name)(*args))


def made(name, *args):
    """For calls that put a handle or an address into their last argument."""
    out = c_void_p()
    call(name, *args, ctypes.byref(out))
    return out.value


def quietly(name, *args):
    """For finalizers: whatever is gone already is gone."""
    let_go(getattr(lib, name), *args)


def integer(name, *args):
    out = c_int()
    call(name, *args, ctypes.byref(out))
    return out.value


def text(name, *args):
    """For calls that fill a buffer: once for the size, once for the text."""
    size = c_size_t()
    call(name, *args, None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    call(name, *args, buffer, ctypes.byref(size))
    return buffer.value.decode("utf-8", "replace")
