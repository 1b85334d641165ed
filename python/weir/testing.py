# SPDX-License-Identifier: Apache-2.0
"""Runs a stage alone in this process, by the code of the host process."""
from . import attributes as codec
from .errors import invalid, nearest, numpy as np
from .lending import call
from .running import Running, describe
from .stage import description_of, nothing_yet

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
