# SPDX-License-Identifier: Apache-2.0
"""Recorded work: captures, graphs, replays."""
import ctypes
from ctypes import c_size_t

from . import _library as c
from .errors import invalid


_open = []  # captures that go on
MODES = ("global", "thread_local", "relaxed")


def note(stream, what):
    """An object that work of the stream uses is used by the graphs that record it, too."""
    if stream.recorded is not None:
        stream.recorded.append(what)
    if _open and c.integer("tessStreamIsCapturing", stream.handle):
        for capture in tuple(_open):  # it may have joined any of them
            capture.kept.append(what)


class Capture:
    """From `with` to its end the stream records; then `graph` is what it recorded. Calls of other threads on the stream
    are refused, and then the capture is lost ("global"), goes on ("thread_local"), or they are recorded ("relaxed")."""

    def __init__(self, stream, mode="global"):
        if mode not in MODES:
            raise invalid(f"capture not begun: expected one of {', '.join(MODES)}, found {mode!r}")
        self.stream, self.mode, self.graph, self.kept = stream, MODES.index(mode), None, []

    def __enter__(self):
        c.call("tessStreamBeginCaptureEx", self.stream.handle, self.mode)
        _open.append(self)
        return self

    def __exit__(self, kind, *exception):
        _open.remove(self)
        if kind is not None:  # whatever was recorded is dropped
            out = ctypes.c_void_p()
            if c.lib.tessStreamEndCapture(self.stream.handle, ctypes.byref(out)) == 0:
                c.quietly("tessGraphDestroy", out)
            return
        self.graph = Graph(c.made("tessStreamEndCapture", self.stream.handle), self.kept)


class Graph:
    """Launches, copies, collectives and their order, with their arguments as they were. Keeps the arrays, values and
    functions that it uses."""

    def __init__(self, handle, kept):
        self.handle, self.kept = handle, kept
        self._finish = c.when_gone(self, c.quietly, "tessGraphDestroy", handle)

    def __len__(self):
        out = c_size_t()
        c.call("tessGraphGetNodeCount", self.handle, ctypes.byref(out))
        return out.value

    def to_dot(self):
        return c.text("tessGraphExport", self.handle, b"dot")

    def to_json(self):
        return c.text("tessGraphExport", self.handle, b"json")

    def instantiate(self):
        return GraphExec(self)


class GraphExec:
    """A graph that is ready to run again and again."""

    def __init__(self, graph):
        self.handle, self.kept = c.made("tessGraphInstantiate", graph.handle), list(graph.kept)
        self._finish = c.when_gone(self, c.quietly, "tessGraphExecDestroy", self.handle)

    def launch(self, stream):
        stream.keep(self)
        c.call("tessGraphLaunch", self.handle, stream.handle)

    def update(self, node, kernel, grid, block, args, stream, shared_bytes=0, flags=0):
        """From the next launch on, node `node` (a launch) runs with these arguments and this shape."""
        from .module import config_of, packed  # arrays need streams, and streams captures

        buffer, used = packed(kernel, args)
        c.call("tessGraphExecUpdateLaunch", self.handle, node, kernel.handle,
               config_of(grid, block, shared_bytes, flags), buffer, len(buffer), stream.handle)
        self.kept.append(used)

    def update_copy(self, node, to, source, kind, stream, rank=None, size=None):
        """From the next launch on, node `node` (a copy) copies `size` bytes, by default all of `to`. Each side is an
        array or an address; `kind` is "h2d", "d2h", "d2d" or "h2h"; `rank`: of that rank's instance alone."""
        desc = c.CopyDesc(kind=COPIES.index(kind), dst=_address_of(to), src=_address_of(source),
                          width=to.nbytes if size is None else size, rank=-1 if rank is None else rank)
        c.call("tessGraphExecUpdateCopy", self.handle, node, ctypes.byref(desc), stream.handle)
        self.kept.append((to, source))

    def update_fill(self, node, array, stream, byte=0):
        """From the next launch on, node `node` (a fill) fills this array."""
        c.call("tessGraphExecUpdateFill", self.handle, node, array.address, byte, array.nbytes, stream.handle)
        self.kept.append(array)

    def update_collective(self, node, kind, array, stream, out=None, **how):
        """From the next launch on, node `node` (a collective) does this: `kind` and what follows as the function of that
        name in `collectives`."""
        from .collectives import description  # which need graphs

        desc = description(kind, array, out, **how)
        c.call("tessGraphExecUpdateCollective", self.handle, node, ctypes.byref(desc), stream.handle)
        self.kept.append((array, out))


COPIES = ("h2d", "d2h", "d2d", "h2h")


def _address_of(what):
    """Of an array of devices, of a NumPy array, or the number itself."""
    address = getattr(what, "address", None)
    if address is not None:
        return address
    return what.ctypes.data if hasattr(what, "ctypes") else what
