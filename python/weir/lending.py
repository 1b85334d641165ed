# SPDX-License-Identifier: Apache-2.0
"""Memory that a stage has for the time of a call alone. Afterwards every view of it holds the pattern 0xCB, so that a stage that
keeps a view is found. `weir.testing` lends such memory, and so does the host process with WEIR_DEBUG=1 or for a run of a debug build."""
import warnings

from .errors import numpy as np

POISON = 0xCB


class Lent:
    """Memory of one array that a stage has for the time of a call. Afterwards every view of it holds the pattern 0xCB."""

    def __init__(self, dtype, shape, content=None):
        dtype = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        self._memory = bytearray(bytes((POISON,)) * (count * dtype.itemsize))
        self.view = np.frombuffer(self._memory, dtype, count).reshape(shape) if count else np.empty(shape, dtype)
        if content is not None:
            self.view[...] = content
            self.view.flags.writeable = False

    def take_back(self):
        """Returns a copy of the elements, and poisons the memory. Returns whether the stage has kept a view as the second value."""
        copy = self.view.copy()
        self.view.flags.writeable = False
        self.view = None
        self._memory[:] = bytes((POISON,)) * len(self._memory)
        try:
            self._memory.clear()  # refused if a view of the memory exists
        except BufferError:
            return copy, True
        return copy, False


def call(running, inlets):
    """Calls the function of a stage with views that end with the call. Returns what `Running.made` returns, with the arrays of all
    outlets in place of those that the function has returned."""
    about = running.about
    lent = [None if a is None else Lent(a.dtype, a.shape, a) for a in inlets]
    views = [None if one is None else one.view for one in lent]
    shapes = running.shapes(views)
    given = [Lent(about.outlets[i].type.dtype, shape) for i, shape in zip(about.given, shapes)]
    try:
        answer = running.function(*views, *(one.view for one in given))
        returned = running.made(answer, views)
        if isinstance(returned, list):
            returned = [np.array(a) for a in returned]  # it may be a view of what was lent
        del answer
    finally:
        del views
        kept = []
        for port, one in zip(about.inlets, lent):
            if one is not None and one.take_back()[1]:
                kept.append(port.name)
        filled = []
        for i, one in zip(about.given, given):
            copy, held = one.take_back()
            filled.append(copy)
            if held:
                kept.append(about.outlets[i].name)
    for name in kept:
        warnings.warn(f"{about.where}: a view of port {name!r} is kept behind the call for item {running.item.seq}; its memory is used "
                      f"again, so keep {name}.copy()", RuntimeWarning, stacklevel=3)
    if not isinstance(returned, list):
        return returned
    outlets = dict(zip(about.given, filled)) | dict(zip(running.returned, returned))
    return [outlets[i] for i in range(len(outlets))]
