# SPDX-License-Identifier: Apache-2.0
"""Runs a stage alone in this process, by the code of the host process."""
import warnings

from .errors import invalid, nearest, numpy as np
from .running import Running, describe
from .stage import description_of, nothing_yet

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


def _array(port, value, where):
    if value is None:
        raise invalid(f"{where}: expected an array {port.type}, found None")
    if isinstance(value, np.ndarray):
        return value
    return np.asarray(value, port.type.dtype)


def _result(about, made):
    if made is None:
        return None
    return made[0] if len(made) == 1 else {p.name: a for p, a in zip(about.outlets, made)}


def feed(stage, *, attributes=None, seed=1, items=None, **given):
    """Runs a stage alone and returns its items: for each an array, a dictionary of arrays if the stage has several outlets, or None
    for a number that it skips.

    `stage` is a class, whose settings are keyword arguments, or an object of one, such as `UnitRows(eps=1e-3)`, whose state can be
    looked at afterwards. The arrays of an inlet are a list under its name: `feed(UnitRows, x=[a, b])`. A source runs to its end, or
    for `items` items. A sink is settled at the end, and its offset is returned.

    Views that the stage keeps behind a call are poisoned with the pattern 0xCB, with a RuntimeWarning."""
    about = description_of(stage if isinstance(stage, type) else type(stage))
    inlets = {p.name: given.pop(p.name, None) for p in about.inlets}
    one = stage(**given) if isinstance(stage, type) else stage
    if given and one is stage:
        raise invalid(f"{about.where}: feed: expected settings in the object, found {', '.join(given)}{nearest(next(iter(given)), inlets)}")
    for name, arrays in inlets.items():
        if not isinstance(arrays, (list, tuple)):
            raise invalid(f"{about.where}: inlet {name!r}: expected a list of arrays, found {describe(arrays)}")
    counts = {name: len(arrays) for name, arrays in inlets.items()}
    if len(set(counts.values())) > 1:
        raise invalid(f"{about.where}: feed: expected equally many arrays for each inlet, found {counts}")
    running = Running(one, seed=seed)
    running.open()
    if about.face == "source":
        return _pull(running, items)
    from . import attributes as codec
    results = []
    for seq in range(next(iter(counts.values()))):
        running.item.begin(seq, codec.encode(attributes[seq]) if attributes else b"")
        arrays = [_array(p, inlets[p.name][seq], f"{about.where}: inlet {p.name!r}, item {seq}") for p in about.inlets]
        results.append(_result(about, call(running, arrays)) if about.face == "item" else call(running, arrays))
        running.item.encoded()
    if about.face == "sink":
        return running.one.settle()
    return results


def _pull(running, items):
    results = []
    while items is None or len(results) < items:
        running.item.begin(len(results), b"")
        made = call(running, [])
        if made is False:
            break
        if made is not nothing_yet:
            results.append(_result(running.about, made))
            running.cursor()
    return results


def resumed(stage):
    """Returns a new object that continues where `stage` is, as after a checkpoint and a crash: with the settings of `stage`, opened, and
    with its state restored."""
    about = description_of(type(stage))
    one = type(stage)(**{name: getattr(stage, name) for name in about.settings})
    running = Running(one)
    running.open()
    if about.face == "source":
        running.seek(Running(stage).cursor())
    else:
        running.restore(Running(stage).save())
    return one
