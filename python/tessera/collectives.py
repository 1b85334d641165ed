# SPDX-License-Identifier: Apache-2.0
"""Collectives: each call serves every group of ranks along the axis, on the mesh's default stream if none is given."""
import contextlib
import ctypes

from . import _library as c
from .arrays import Array
from .dtypes import dtype
from .errors import invalid
from .graphs import note
from .streams import default_stream

_KINDS = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send",
          "barrier")
_OPS = {"sum": 0, "max": 1, "min": 2, "product": 3, "average": 4}


def description(kind, source, out=None, op="sum", axis=None, count=None, root=0, peer=0, algorithm=None, chunk_bytes=0,
                wire=None, packed_shards=False, timeout_ms=0):
    """A collective as the C interface wants it."""
    if op not in _OPS:
        raise invalid(f"collective not posted: expected one of {', '.join(_OPS)}, found {op!r}")
    for array in () if kind == "barrier" else (source, source if out is None else out):
        if not isinstance(array, Array):
            raise invalid(f"collective not posted: expected an array of the mesh, found {array!r}")
    if out is not None and out.dtype is not source.dtype:
        raise invalid(f"collective not posted: expected results of {source.dtype.name}, found {out.dtype.name}")
    full = max((a.size for a in (source, out) if a is not None), default=0)
    return c.CollectiveDesc(
        kind=_KINDS.index(kind), op=_OPS[op], root=root, peer=peer, chunkBytes=chunk_bytes,
        sendbuf=source.address if source is not None else None, recvbuf=out.address if out is not None else None,
        count=full if count is None else count, dtype=source.dtype.id if source is not None else dtype("fp32").id,
        axis=axis.encode() if axis else None, algorithm=algorithm.encode() if algorithm else None,
        wireDtype=dtype(wire).id if wire is not None else 0, packedShards=1 if packed_shards else 0,
        timeoutMs=timeout_ms)


def _post(kind, mesh, source, out=None, op="sum", axis=None, stream=None, **how):
    desc = description(kind, source, out, op, axis, **how)
    stream = stream or default_stream(mesh)
    c.call("tessCollective", mesh.handle, ctypes.byref(desc), stream.handle)
    note(stream, (source, out))
    return out if out is not None else source


@contextlib.contextmanager
def group():
    """Collectives that this thread calls inside `with group():` begin together at its end: all, or none if one of the
    calls or anything else in the block raises."""
    c.call("tessGroupStart")
    try:
        yield
    except BaseException:
        c.lib.tessCollective(None, None, None)  # a call that fails: the group begins none of them
        c.lib.tessGroupEnd()
        raise
    c.call("tessGroupEnd")


def all_reduce(mesh, array, op="sum", axis=None, stream=None, out=None, **how):
    """Every rank gets the reduction over its group. `how`: count, algorithm ("direct", "ring", "tree", "hierarchical"),
    chunk_bytes, wire (a narrower type between ranks, where the policy allows it), timeout_ms (how long a share on a stream
    of one rank waits for the others; -1: for ever)."""
    return _post("all_reduce", mesh, array, out, op, axis, stream, **how)


def reduce_scatter(mesh, array, op="sum", axis=None, stream=None, out=None, **how):
    """Rank r of R gets shard r of the reduction: elements from r n / R on, at their own place."""
    return _post("reduce_scatter", mesh, array, out, op, axis, stream, **how)


def all_gather(mesh, array, axis=None, stream=None, out=None, **how):
    """Every rank gets all shards; its own stands at its own place."""
    return _post("all_gather", mesh, array, out, "sum", axis, stream, **how)


def broadcast(mesh, array, root=0, axis=None, stream=None, out=None, **how):
    """Every rank gets what rank `root` of its group has."""
    return _post("broadcast", mesh, array, out, "sum", axis, stream, root=root, **how)


def reduce(mesh, array, op="sum", root=0, axis=None, stream=None, out=None, **how):
    """Rank `root` of each group gets the reduction."""
    return _post("reduce", mesh, array, out, op, axis, stream, root=root, **how)


def gather(mesh, array, root=0, axis=None, stream=None, out=None, **how):
    """Rank `root` of each group gets all shards."""
    return _post("gather", mesh, array, out, "sum", axis, stream, root=root, **how)


def scatter(mesh, array, root=0, axis=None, stream=None, out=None, **how):
    """Rank r gets shard r of what rank `root` of its group has."""
    return _post("scatter", mesh, array, out, "sum", axis, stream, root=root, **how)


def all_to_all(mesh, array, axis=None, stream=None, out=None, **how):
    """Shard r of rank s goes to rank r, as its shard s."""
    return _post("all_to_all", mesh, array, out, "sum", axis, stream, **how)


def send_recv(mesh, array, source, target, stream=None, out=None, **how):
    """Rank `target` of the mesh gets what rank `source` has. On streams of one rank, both of the two call it."""
    return _post("send", mesh, array, out, "sum", None, stream, root=source, peer=target, **how)


def barrier(mesh, axis=None, stream=None):
    """No rank goes on in the stream before all of its group are there."""
    _post("barrier", mesh, None, axis=axis, stream=stream)
