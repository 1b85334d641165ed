# SPDX-License-Identifier: Apache-2.0
"""A stage that is open: its calls with views, and its state as bytes. The host process and `weir.testing` run stages by this class."""
import json
import os
import struct
import traceback

from .errors import Error, invalid, numpy as np
from .stage import Item, nothing_yet, skip
from .types import NUMBERS, TEXTS, array_text, element_text

MAX_RECORD = 64  # bytes of a cursor and of an offset
FORMATS = {bool: "?", int: "q", float: "d"}
STATES = {bool: "bool", int: "i64", float: "f64", str: "u8"}  # element types of state that is no array
HERE = os.path.dirname(os.path.abspath(__file__))


class Running:
    """An object of a stage class between `open` and the end."""

    def __init__(self, one, name=None, seed=1):
        self.one, self.about = one, type(one).__weir__
        self.item = one.item = Item(seed, name or self.about.name)
        self.function = getattr(one, self.about.function)
        self.shape = getattr(one, "shape", None)
        self.returned = [i for i in range(len(self.about.outlets)) if i not in self.about.given]
        self._letters = {}
        if self.about.face == "source":
            self._cursor = struct.Struct("<" + "".join(FORMATS[type(s.initial)] for s in self.about.states.values()))

    def open(self):
        """Calls `open` of the stage, if it has one."""
        if callable(getattr(self.one, "open", None)):
            self.one.open()

    def letters(self, inlets):
        """Compares the arrays of one item with the types of the inlets, and returns the values of the letters."""
        key = tuple(None if a is None else (a.dtype, a.shape) for a in inlets)
        found = self._letters.get(key)
        if found is None:
            found = {}
            for port, array in zip(self.about.inlets, inlets):
                if array is not None:
                    port.type.bind(array, found, f"{self.about.where}: inlet {port.name!r}")
            if len(self._letters) < 4096:  # shapes that differ from item to item are not kept for ever
                self._letters[key] = found
        return found

    def shapes(self, inlets):
        """Returns the shapes of the outlets that the function has as parameters, as a list."""
        letters = self.letters(inlets)
        outlets = [self.about.outlets[i] for i in self.about.given]
        shapes = [p.type.resolve(letters) for p in outlets]
        if None in shapes:
            told = self._told_shapes([p for p, s in zip(outlets, shapes) if s is None], inlets, letters)
            shapes = [told[p.name] if s is None else s for p, s in zip(outlets, shapes)]
        return shapes

    def _told_shapes(self, outlets, inlets, letters):
        told = self.shape(*inlets)
        if not isinstance(told, dict):
            told = {outlets[0].name: told} if len(outlets) == 1 else {}
        shapes, letters = {}, dict(letters)
        for port in outlets:
            shape = told.get(port.name)
            where = f"{self.about.where}: shape of outlet {port.name!r}"
            try:
                shape = (shape.__index__(),) if hasattr(shape, "__index__") else tuple(e.__index__() for e in shape)
            except (TypeError, AttributeError):
                raise invalid(f"{where}: expected extents for {port.type}, found {told.get(port.name)!r}") from None
            fits = len(shape) == len(port.type.shape) and all(
                found >= 0 and (wanted if isinstance(wanted, int) else letters.setdefault(wanted, found) if wanted != "?" else found)
                == found for wanted, found in zip(port.type.shape, shape))
            if not fits:
                raise invalid(f"{where}: expected extents for {port.type}, found {shape}")
            shapes[port.name] = shape
        return shapes

    def made(self, answer, inlets):
        """Reads what the function has returned. Returns None if there is no item, `nothing_yet`, False at the end of a source, and
        otherwise the arrays of the outlets that the function has returned, as a list."""
        if self.about.face == "sink":
            if answer is not None:
                raise invalid(f"{self.about.where}: put: expected no result, found {answer!r}")
            return []
        if self.about.face == "source":
            if answer is nothing_yet:
                return nothing_yet
            if answer is False or (answer is None and self.returned):
                return False
            if not self.returned:
                if answer is not True and not isinstance(answer, np.bool_):
                    raise invalid(f"{self.about.where}: next: expected True (an item), False (the end) or weir.nothing_yet, found "
                                  f"{answer!r}")
                return [] if answer else False
        elif answer is skip:
            return None
        if not self.returned:
            if answer is not None:
                names = " and ".join(self.about.outlets[i].name for i in self.about.given)
                raise invalid(f"{self.about.where}: on_item: expected None or weir.skip, because it fills {names}, found "
                              f"{describe(answer)}")
            return []
        return self._arrays(answer, inlets)

    def _arrays(self, answer, inlets):
        outlets = [self.about.outlets[i] for i in self.returned]
        if len(outlets) == 1 and not isinstance(answer, dict):
            answer = {outlets[0].name: answer}
        names = [p.name for p in outlets]
        if not isinstance(answer, dict) or set(answer) != set(names):
            found = f"a dictionary of {', '.join(map(str, answer))}" if isinstance(answer, dict) else describe(answer)
            raise invalid(f"{self.about.where}: {self.about.function}: expected a dictionary of {', '.join(names)}, found {found}")
        letters = dict(self.letters(inlets))
        for port in outlets:
            where = f"{self.about.where}: outlet {port.name!r}"
            if not isinstance(answer[port.name], (np.ndarray, np.generic)):
                raise invalid(f"{where}: expected an array {port.type}, found {describe(answer[port.name])}")
            port.type.bind(np.asarray(answer[port.name]), letters, where)
        return [np.asarray(answer[n]) for n in names]

    def cursor(self):
        """Returns the state of a source as bytes, at most 64."""
        values = [getattr(self.one, n) for n in self.about.states]
        try:
            return self._cursor.pack(*values)
        except struct.error:
            found = ", ".join(f"{n} = {v!r}" for n, v in zip(self.about.states, values))
            raise invalid(f"{self.about.where}: state: expected numbers of 64 bits, found {found}") from None

    def seek(self, cursor):
        """Continues a source from a cursor."""
        if len(cursor) != self._cursor.size:
            raise Error("corrupt", f"{self.about.where}: cursor: expected {self._cursor.size} bytes, found {len(cursor)}")
        for name, value in zip(self.about.states, self._cursor.unpack(cursor)):
            setattr(self.one, name, value)
        if callable(getattr(self.one, "seek", None)):
            self.one.seek()

    def settle(self):
        """Makes the output of a sink durable and returns its offset as bytes, at most 64."""
        offset = self.one.settle()
        if hasattr(offset, "item"):
            offset = offset.item()  # a scalar of NumPy
        try:
            record = json.dumps(offset, separators=(",", ":")).encode()
        except (TypeError, ValueError):
            record = None
        if record is None or len(record) > MAX_RECORD or not isinstance(offset, (int, float, str, list, tuple)):
            raise invalid(f"{self.about.where}: settle: expected the offset as a number, a text or a list of both of at most "
                          f"{MAX_RECORD} bytes, found {describe(offset)}")
        return record

    def rewind(self, offset):
        """Cuts the output of a sink to an offset."""
        self.one.rewind(self._offset(offset))

    def verify(self, offset):
        """Compares the output of a finished run with its offset. Returns False if the sink cannot tell. It is not open."""
        return callable(getattr(self.one, "verify", None)) and bool(self.one.verify(self._offset(offset)))

    def _offset(self, record):
        try:
            return json.loads(bytes(record))
        except ValueError:
            raise Error("corrupt", f"{self.about.where}: offset: expected what settle returns, found {bytes(record)!r}") from None

    def save(self):
        """Returns the state in its order: for each part its name, the number of its element type, its shape and its bytes."""
        return [self._saved(name, part.initial, getattr(self.one, name)) for name, part in self.about.states.items()]

    def _saved(self, name, initial, value):
        where = f"{self.about.where}: state {name!r}"
        if isinstance(initial, np.ndarray):
            if not isinstance(value, np.ndarray) or value.dtype != initial.dtype:
                raise invalid(f"{where}: expected an array of {element_text(initial.dtype)}, found {describe(value)}")
            return name, NUMBERS[element_text(value.dtype)], value.shape, np.ascontiguousarray(value).tobytes()
        if hasattr(value, "item") and not isinstance(value, (int, float)):
            value = value.item()  # a scalar of NumPy
        kind = type(initial)
        if type(value) is not kind and not (kind is float and isinstance(value, (int, float))):
            raise invalid(f"{where}: expected {kind.__name__}, found {describe(value)}")
        if kind is str:
            data = value.encode()
            return name, NUMBERS["u8"], (len(data),), data
        try:
            return name, NUMBERS[STATES[kind]], (), struct.pack("<" + FORMATS[kind], value)
        except struct.error:
            raise invalid(f"{where}: expected a number of 64 bits, found {value}") from None

    def restore(self, parts):
        """Restores what `save` has returned."""
        found = {name: (number, shape, data) for name, number, shape, data in parts}
        for name, part in self.about.states.items():
            where = f"{self.about.where}: state {name!r}"
            if name not in found:
                raise Error("corrupt", f"{where}: expected it in the checkpoint, found none")
            number, shape, data = found[name]
            initial = part.initial
            kind = element_text(initial.dtype) if isinstance(initial, np.ndarray) else STATES[type(initial)]
            if number != NUMBERS[kind]:
                raise Error("corrupt", f"{where}: expected {kind} in the checkpoint, found {TEXTS.get(number, number)}")
            try:
                if isinstance(initial, np.ndarray):
                    value = np.frombuffer(data, initial.dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape).copy()
                elif isinstance(initial, str):
                    value = bytes(data).decode()
                else:
                    value = struct.unpack("<" + FORMATS[type(initial)], data)[0]
            except (ValueError, struct.error) as cause:
                raise Error("corrupt", f"{where}: expected bytes of {kind}, found others: {cause}") from None
            setattr(self.one, name, value)

    def failure(self, failed):
        """Returns code, text and places of an exception for the run's error: the innermost place first, one in each line."""
        if isinstance(failed, Error):
            return failed.code, failed.message, ""
        frames = [f for f in traceback.extract_tb(failed.__traceback__) if not f.filename.startswith(HERE + os.sep)]
        place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
        causes, one = [], failed
        while one is not None and len(causes) < 5:
            causes.append("".join(traceback.format_exception_only(type(one), one)).strip().splitlines()[-1])
            one = one.__cause__
        places = "\n  at ".join(f"{f.filename}:{f.lineno}, in {f.name}: {f.line}" for f in reversed(frames))
        return "kernel_failed", f"{self.about.where}: {'; caused by '.join(causes)}{place}", places


def describe(value):
    """Returns a value in words for messages."""
    if isinstance(value, np.ndarray):
        return "an array " + array_text(value)
    return f"{type(value).__name__} {str(value)[:60]!r}" if value is not None else "None"


def prepared(description, given, files=""):
    """Returns an object of a class with settings; texts that are paths become absolute, relative to the folder `files`."""
    settings = dict(given)
    for name, one in description.settings.items():
        value = settings.get(name, "" if one.required else one.default)
        if one.facts["path"] and value:
            settings[name] = [os.path.join(files, v) for v in value] if isinstance(value, list) else os.path.join(files, value)
    return description.cls(**settings)
