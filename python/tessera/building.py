# SPDX-License-Identifier: Apache-2.0
"""Making modules: code, kernels with their parameters, plans, policy; out comes a fatbin."""
import ctypes

from . import _library as c
from .dtypes import dtype
from .errors import invalid

COLLECTIVES = ("any", "all_reduce", "reduce_scatter", "all_gather", "broadcast")
ALGORITHMS = ("none", "ring", "tree", "hierarchical", "direct")
DETERMINISTIC, USES_BARRIER, PER_THREAD, PERSISTENT_ONLY, PERSISTENT_CAPABLE, ANY_BLOCK = (1 << i for i in range(6))


def scalar(name, element_type):
    """A parameter that is a value."""
    t = dtype(element_type)
    return c.ParamInfo(kind=0, dtype=t.id, size=t.size, name=name.encode())


def pointer(name, element_type=None, direction="inout"):
    """A parameter that is an address in memory of devices."""
    ident = 0 if element_type is None else dtype(element_type).id
    return c.ParamInfo(kind=1, dtype=ident, size=8, space=1, direction=("in", "out", "inout").index(direction),
                       name=name.encode())


def opaque(name, size):
    """A parameter of so many bytes."""
    return c.ParamInfo(kind=2, size=size, name=name.encode())


def _number(names, name, what):
    if name not in names:
        raise invalid(f"plan not added: expected {what} of {', '.join(names)}, found {name!r}")
    return names.index(name)


class Builder:
    """A module in the making; `build` gives the bytes that `module.load` takes. The same calls give the same bytes."""

    def __init__(self):
        self.handle = c.made("tessFatbinCreate")
        self._finish = c.when_gone(self, c.quietly, "tessFatbinDestroy", self.handle)

    def add_code(self, kind, arch, code=b""):
        """Code of a kind ("CPU_SO", "PTX", ...) for what `arch` names; the number of its section."""
        return c.integer("tessFatbinAddCode", self.handle, kind.encode(), arch.encode(), bytes(code), len(code))

    def add_kernel(self, name, parameters=(), flags=DETERMINISTIC, symbol=None, block=(0, 0, 0), max_threads=0,
                   shared_bytes=0, targets=None):
        """A kernel. `targets` are the sections that have it; None: all."""
        if targets is not None and (not targets or not all(0 <= t < 64 for t in targets)):
            raise invalid(f"kernel not added: expected as targets of {name} sections from 0 to 63, found {targets}")
        listed = (c.ParamInfo * max(1, len(parameters)))(*parameters)
        kernel = c.FatbinKernel(flags=flags, name=name.encode(), symbol=symbol.encode() if symbol else None, params=listed,
                                paramCount=len(parameters), defaultBlock=(ctypes.c_uint32 * 3)(*block),
                                maxThreads=max_threads, sharedBytes=shared_bytes,
                                targets=sum(1 << t for t in set(targets or ())))
        c.call("tessFatbinAddKernel", self.handle, ctypes.byref(kernel))
        return self

    def add_plan(self, collective="any", algorithm="none", element_type=None, axis=None, least_bytes=0, most_bytes=0,
                 chunk_bytes=0, wire=None):
        """A hint for collectives; `wire` is a narrower type between ranks, where the policy allows it."""
        plan = c.FatbinPlan(collective=_number(COLLECTIVES, collective, "a collective"),
                            algorithm=_number(ALGORITHMS, algorithm, "an algorithm"),
                            dtype=0 if element_type is None else dtype(element_type).id,
                            axis=axis.encode() if axis else None, leastBytes=least_bytes, mostBytes=most_bytes,
                            chunkBytes=chunk_bytes, wireDtype=0 if wire is None else dtype(wire).id)
        c.call("tessFatbinAddPlan", self.handle, ctypes.byref(plan))
        return self

    def set_policy(self, policy, wire_quantisation=False, seed=0):
        """What counts for contexts whose program sets nothing: a Policy."""
        c.call("tessFatbinSetPolicy", self.handle, ctypes.byref(c.NumericsPolicy(*(int(f) for f in policy))),
               int(wire_quantisation), seed)
        return self

    def set_explain(self, json):
        """JSON about tiles and fusion."""
        c.call("tessFatbinSetExplain", self.handle, json.encode())
        return self

    def set_source_hash(self, sha256):
        """The 32 bytes of SHA-256 of what the module was compiled from."""
        if len(sha256) != 32:
            raise invalid(f"source hash not set: expected 32 bytes, found {len(sha256)}")
        c.call("tessFatbinSetSourceHash", self.handle, bytes(sha256))
        return self

    def set_abi(self, major, minor):
        c.call("tessFatbinSetAbi", self.handle, major, minor)
        return self

    def build(self, secret_key=None):
        """The fatbin; signed if there is a key of 64 bytes: seed, then public half."""
        if secret_key is not None and len(secret_key) != 64:
            raise invalid(f"module not signed: expected a key of 64 bytes, found {len(secret_key)}")
        size = ctypes.c_size_t()
        c.call("tessFatbinBuild", self.handle, secret_key, None, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        c.call("tessFatbinBuild", self.handle, secret_key, out, ctypes.byref(size))
        return out.raw[:size.value]
