# SPDX-License-Identifier: Apache-2.0
"""Recorded work: captures, graphs, replays."""
import ctypes
from ctypes import c_size_t

from . import _library as c


_open = []  # captures that go on


def note(stream, what):
    """An object that work of the stream uses is used by the graphs that record it, too."""
    if stream.recorded is not None:
        stream.recorded.append(what)
    if _open and c.integer("tessStreamIsCapturing", stream.handle):
        for capture in tuple(_open):  # it may have joined any of them
            capture.kept.append(what)


class Capture:
    """From `with` to its end the stream records; then `graph` is what it recorded."""

    def __init__(self, stream):
        self.stream, self.graph, self.kept = stream, None, []

    def __enter__(self):
        c.call("tessStreamBeginCapture", self.stream.handle)
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
        c.call("tessGraphLaunch", self.handle, stream.handle)
        stream.keep(self)

    def update(self, node, kernel, grid, block, args, stream, shared_bytes=0, flags=0):
        """From the next launch on, node `node` (a launch) runs with these arguments and this shape."""
        from .module import config_of, packed  # arrays need streams, and streams captures

        buffer, used = packed(kernel, args)
        c.call("tessGraphExecUpdateLaunch", self.handle, node, kernel.handle,
               config_of(grid, block, shared_bytes, flags), buffer, len(buffer), stream.handle)
        self.kept.append(used)
