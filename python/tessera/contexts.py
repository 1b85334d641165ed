# SPDX-License-Identifier: Apache-2.0
"""Contexts, devices, meshes, policy and the log."""
import collections
import ctypes
import os

from . import _library as c
from .errors import NotInitialized, invalid

AXES = ("tp", "pp", "dp", "ep")
Policy = collections.namedtuple("Policy", "stable_reductions deterministic rng_stateless allow_fast_math")
Device = collections.namedtuple(
    "Device", "ordinal name backend arch memory alignment max_grid max_block max_threads max_persistent_blocks "
              "max_shared_bytes")
# What calls use that name neither a context nor a mesh: the last one made, which lives until it is ended or replaced.
_latest = {"context": None, "mesh": None}


def _current(what):
    found = _latest[what]
    if found is None:
        maker = "init()" if what == "context" else "mesh(...)"
        raise NotInitialized(3, "TESS_ERR_NOT_INITIALIZED", f"no {what}: tessera.{maker} makes one")
    return found


def current_context():
    return _current("context")


def current_mesh():
    return _current("mesh")


Pool = collections.namedtuple("Pool", "used used_peak reserved reserved_peak keep reuses")
Cache = collections.namedtuple("Cache", "enabled hits misses stale quarantined writes entries bytes")


class Context:
    """An engine with devices. Lives until `shutdown`, or until nothing refers to it and another one was made."""

    def __init__(self):
        self.handle = c.made("tessInit")
        self._finish = c.when_gone(self, c.quietly, "tessShutdown", self.handle)
        self._process = os.getpid()
        _latest["context"] = self

    def shutdown(self):
        """Ends all work and invalidates what the context made; views of arrays keep their memory."""
        if self._finish.detach() is not None:
            if _latest["mesh"] is not None and _latest["mesh"].context is self:
                _latest["mesh"] = None
            if _latest["context"] is self:
                _latest["context"] = None
            c.call("tessShutdown", self.handle)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if os.getpid() == self._process:  # and not in the child of a fork, which leaves the block too
            self.shutdown()

    def device_count(self):
        return c.integer("tessDeviceGetCount", self.handle)

    def device(self, ordinal):
        props = c.DeviceProps()
        c.call("tessDeviceGetProps", self.handle, ordinal, ctypes.byref(props))
        return Device(props.ordinal, props.name.decode(), props.backend.decode(), props.arch.decode(), props.memory,
                      props.alignment, tuple(props.maxGrid), tuple(props.maxBlock), props.maxThreads,
                      props.maxPersistentBlocks, props.maxSharedBytes)

    def cache(self):
        """Counters of the cache of modules."""
        out = c.CacheStats()
        c.call("tessCacheGetStats", self.handle, ctypes.byref(out))
        return Cache(bool(out.enabled), *(getattr(out, f) for f in Cache._fields[1:]))

    def verify_cache(self):
        """Reads every entry; raises CacheCorrupt if one is damaged."""
        c.call("tessCacheVerify", self.handle)

    def clear_cache(self):
        c.call("tessCacheClear", self.handle)

    def set_determinism(self, seed, stable_toggles=7):
        """Seed of random numbers, and stable toggles, that launches are told from now on."""
        c.call("tessSetDeterminism", self.handle, seed, stable_toggles)

    @property
    def policy(self):
        """How numbers are treated by what is enqueued later. Set a Policy, or `policy._replace(...)`."""
        out = c.NumericsPolicy()
        c.call("tessGetNumericsPolicy", self.handle, ctypes.byref(out))
        return Policy(*(bool(getattr(out, field)) for field, _ in out._fields_))

    @policy.setter
    def policy(self, new):
        c.call("tessSetNumericsPolicy", self.handle, ctypes.byref(c.NumericsPolicy(*(int(f) for f in new))))


class Mesh:
    """Devices along the axes tp, pp, dp and ep; tp varies fastest. Rank r is position r in `devices`."""

    def __init__(self, context, devices, axes):
        self.context, self.devices = context, tuple(devices)
        unknown = sorted(set(axes) - set(AXES))
        if unknown:
            raise invalid(f"mesh not created: expected axes of {', '.join(AXES)}, found {unknown[0]}")
        ids = (ctypes.c_int * len(self.devices))(*self.devices)
        self.handle = c.made("tessMeshCreate", context.handle, ids, len(self.devices),
                             c.MeshAxes(*(axes.get(a, 0) for a in AXES)))
        self._finish = c.when_gone(self, c.quietly, "tessMeshDestroy", self.handle)
        self.default_stream = None
        _latest["mesh"] = self

    def destroy(self):
        """Ends the work of the mesh's streams and frees its arrays; views keep their memory."""
        if self._finish.alive:
            c.call("tessMeshDestroy", self.handle)
            self._finish.detach()
            if _latest["mesh"] is self:
                _latest["mesh"] = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.destroy()

    def recover(self, rank=-1):
        """Makes collectives of one rank's streams usable again after one has failed; every rank calls it (-1: all)."""
        c.call("tessMeshRecover", self.handle, rank)

    def abort(self):
        """Ends collectives that wait for ranks. Until `recover`, every collective of a rank's stream raises Timeout."""
        c.call("tessMeshAbort", self.handle)

    def check(self, rank=0):
        """Raises Timeout if collectives that this rank calls for itself do not meet those of others any more."""
        c.call("tessMeshQuery", self.handle, rank)

    def itself(self):
        """The mesh, also from a stream that only knows it weakly."""
        return self

    @property
    def ranks(self):
        return len(self.devices)

    @property
    def axes(self):
        info = c.MeshInfo()
        c.call("tessMeshGetInfo", self.handle, ctypes.byref(info))
        return {a: getattr(info.axes, a) for a in AXES}

    def coords(self, rank):
        """Place of a rank along tp, pp, dp, ep."""
        out = (ctypes.c_int * 4)()
        c.call("tessMeshRankCoords", self.handle, rank, out)
        return dict(zip(AXES, out))

    def group(self, axis=None, rank=0):
        """Ranks of the group along an axis ("dp", "tp+dp"; None: all) that `rank` is in."""
        count = ctypes.c_int(self.ranks)
        out = (ctypes.c_int * self.ranks)()
        c.call("tessMeshAxisGroup", self.handle, axis.encode() if axis else None, rank, out, ctypes.byref(count))
        return list(out[:count.value])

    def memory(self, rank=0):
        """(free, total) bytes of a rank's device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        c.call("tessMemGetInfo", self.handle, rank, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def pool(self):
        """Bytes of one instance that arrays with a stream use, and that are kept for the next."""
        out = c.MemPoolStats()
        c.call("tessMemPoolGetStats", self.handle, ctypes.byref(out))
        return Pool(out.usedBytes, out.usedPeakBytes, out.reservedBytes, out.reservedPeakBytes, out.keepBytes, out.reuses)

    def keep_pool(self, size):
        """The pool keeps at most so many bytes from now on."""
        c.call("tessMemPoolSetKeep", self.handle, size)

    def trim_pool(self, size=0):
        """Lets go of kept memory until at most so many bytes are left."""
        c.call("tessMemPoolTrim", self.handle, size)


def init():
    """A new context, which calls that name none use from now on."""
    return Context()


def mesh(devices, axes=None, context=None):
    """Devices of a context along axes: `mesh(range(8), dict(tp=2, dp=4))`; no axes: all along dp."""
    devices = list(devices)
    return Mesh(context or current_context(), devices, dict(dp=len(devices)) if axes is None else axes)


def version():
    """(major, minor, patch) of the library."""
    numbers = [ctypes.c_int() for _ in range(3)]
    c.call("tessGetVersion", *(ctypes.byref(n) for n in numbers))
    return tuple(n.value for n in numbers)


_kept_log = []


def set_log(function):
    """Contexts made from now on call `function(level, text)` for each line; None: back to standard error."""
    def wrapped(level, line, _):
        function(level, line.decode("utf-8", "replace"))

    callback = c.LogFn(wrapped) if function else c.LogFn()
    _kept_log.append(callback)  # a context that logs to it may live as long as the program
    c.call("tessSetLogCallback", callback, None)
