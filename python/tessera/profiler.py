# SPDX-License-Identifier: Apache-2.0
"""Profiles: a trace that Perfetto and chrome://tracing open."""
import ctypes
import os

from . import _library as c
from .contexts import current_context


class Profiler:
    """Watches a context from now on; `stop` writes what it saw. `with Profiler("trace.json"):` does both. The earliest
    `max_records` operations and calls are kept; 0: as many as TESS_PROFILER_RECORDS says."""

    def __init__(self, path=None, context=None, max_records=0):
        self.path = path
        desc = c.ProfilerDesc(maxRecords=max_records)
        self.handle = c.made("tessProfilerStartEx", (context or current_context()).handle, ctypes.byref(desc))
        self._finish = c.when_gone(self, c.quietly, "tessProfilerStop", self.handle, None)

    def stop(self, path=None):
        """Writes the trace; without any path it is dropped."""
        path = path or self.path
        if self._finish.detach() is not None:
            c.call("tessProfilerStop", self.handle, os.fsencode(path) if path else None)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()
