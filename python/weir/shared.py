# SPDX-License-Identifier: Apache-2.0
"""The memory that a run shares with the child process of a stage: calls, tensors and made items, see docs/formats/stage-wire.md."""
import struct

from .errors import Error, invalid, numpy as np
from .types import ELEMENTS, NUMBERS, TEXTS, element_text

MAX_CALLS, ATTRIBUTE_BYTES, SAME, ALIGNMENT = 32, 2048, 0xFFFFFFFF, 64
CALL_BYTES, TENSOR_BYTES, MADE_BYTES = 64, 96, 128
TENSOR = struct.Struct("<QQII8q8x")
OFFER = struct.Struct("<QQI")  # offset, size and 0; another number stands in the record of a tensor, which offers nothing
MADE = struct.Struct("<IIII64s48x")
SKIPPED = 1
# Places of fields in a record of a call, counted in numbers of 8 and of 4 bytes.
LONGS, INTS, ABOUT, FLAGS = CALL_BYTES // 8, CALL_BYTES // 4, 8, 9


class Prepared:
    """The arguments of a call for tensors at given places, the views of its inlets, and the records of the tensors that it makes."""

    __slots__ = ("arguments", "inlets", "records", "end")

    def __init__(self, arguments, inlets, records, end):
        self.arguments, self.inlets, self.records, self.end = arguments, inlets, records, end


class Shared:
    """The shared memory of a stage. `place` are the offsets and sizes of the start message."""

    def __init__(self, memory, place, ports, running):
        self.memory, self.place, self.running, self.about = memory, place, running, running.about
        whole = memoryview(memory)
        calls = whole[place["calls"]:place["calls"] + MAX_CALLS * CALL_BYTES]
        self.longs, self.ints = calls.cast("Q"), calls.cast("I")
        self.inlet_bytes = TENSOR_BYTES * sum(p["inlet"] for p in ports)
        self.outlet_bytes = TENSOR_BYTES * sum(not p["inlet"] for p in ports)  # those for failed items stay empty
        self.inputs, self.made, self.outputs = (whole[place[k]:] for k in ("inputs", "made", "outputs"))
        self.attributes, self.made_attributes = whole[place["attributes"]:], whole[place["made_attributes"]:]
        self.begin, self.limit = place["out"], place["out"] + place["out_bytes"]
        self.plain = [MADE.pack(c, 0, SAME, 0, b"") for c in range(MAX_CALLS)]
        self.all_plain = b"".join(self.plain)

    def key(self, call):
        """Returns the records of the inlets of a call."""
        return self.inputs[call * self.inlet_bytes:(call + 1) * self.inlet_bytes].tobytes()

    def offers(self, call):
        """Returns the records with the memory that the run offers for the outlets of a call."""
        return self.outputs[call * self.outlet_bytes:(call + 1) * self.outlet_bytes].tobytes()

    def records_of(self, count):
        """Returns the records of the inlets and those of the outlets of the first `count` calls."""
        return self.inputs[:count * self.inlet_bytes].tobytes(), self.outputs[:count * self.outlet_bytes].tobytes()

    def numbers(self, count):
        """Returns the numbers of the items of the first `count` calls."""
        return self.longs[:count * LONGS:LONGS].tolist()

    def attribute_sizes(self, count):
        """Returns the sizes of the attributes of the first `count` calls in bytes."""
        return self.ints[ABOUT:count * INTS:INTS].tolist()

    def about_of(self, call):
        """Returns the attributes of a call as bytes."""
        size = min(self.ints[call * INTS + ABOUT], ATTRIBUTE_BYTES)
        return self.attributes[call * ATTRIBUTE_BYTES:call * ATTRIBUTE_BYTES + size].tobytes() if size else b""

    def view(self, record, port):
        """Returns the array of an inlet, or None for a gap."""
        offset, size, number, rank, *shape = TENSOR.unpack(record)
        if number == 0:
            return None
        where = f"{self.about.where}: inlet {port.name!r}"
        if number not in TEXTS:
            raise invalid(f"{where}: expected an element type that NumPy has, found number {number}")
        dtype, shape = np.dtype(ELEMENTS[TEXTS[number]]), tuple(shape[:rank])
        inside = any(self.place[part] <= offset <= offset + size <= self.place[part] + self.place[bytes_of]
                     for part, bytes_of in (("in", "in_bytes"), ("slots", "slot_bytes")))
        if not inside or size != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise Error("corrupt", f"{where}: expected a tensor in the shared memory, found {size} bytes at offset {offset}")
        array = np.ndarray(shape, dtype, self.memory, offset)
        array.flags.writeable = False
        return array

    def room(self, port, shape, at, offered=(0, 0)):
        """Takes memory for the tensor of an outlet: what the run offers, offset and size, or else what is behind offset `at`. Returns its
        array, its record and the end of the memory, or None if the memory is full."""
        dtype = port.type.dtype
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        fits = 0 < size <= offered[1]
        begin = offered[0] if fits else -(-at // ALIGNMENT) * ALIGNMENT
        if fits or begin + size <= self.limit:
            record = TENSOR.pack(begin, size, NUMBERS[element_text(dtype)], len(shape), *shape, *(0,) * (8 - len(shape)))
            return np.ndarray(shape, dtype, self.memory, begin), record, at if fits else begin + size
        if at == self.begin:
            raise Error("out_of_range", f"{self.about.where}: outlet {port.name!r}: expected an item of at most "
                        f"{self.place['out_bytes']} bytes, found {size}; enlarge the bytes of the window behind it")
        return None

    def prepare(self, key, offers, at):
        """Makes the views of a call whose items are stored in the memory of `offers`, or else behind offset `at`. Returns None if that is
        full."""
        views = [self.view(key[i * TENSOR_BYTES:(i + 1) * TENSOR_BYTES], p) for i, p in enumerate(self.about.inlets)]
        arguments, records = list(views), [bytes(TENSOR_BYTES)] * (self.outlet_bytes // TENSOR_BYTES)
        shapes = self.running.shapes(views)
        for i, shape in zip(self.about.given, shapes):
            begin, size, number = OFFER.unpack_from(offers, i * TENSOR_BYTES)
            taken = self.room(self.about.outlets[i], shape, at, (begin, 0 if number else size))
            if taken is None:
                return None
            array, records[i], at = taken
            arguments.append(array)
        return Prepared(tuple(arguments), views, b"".join(records), at)

    def store(self, records, numbers, arrays, at):
        """Copies arrays that the stage has returned for the outlets with `numbers` behind offset `at`. Returns the records of all outlets
        and the end of the memory, or None if it is full."""
        records = [records[i:i + TENSOR_BYTES] for i in range(0, len(records), TENSOR_BYTES)]
        for i, array in zip(numbers, arrays):
            taken = self.room(self.about.outlets[i], array.shape, at)
            if taken is None:
                return None
            to, records[i], at = taken
            to[...] = array
        return b"".join(records), at

    def record_plain(self, count, records):
        """Writes the records of the items of the first `count` calls, which have the attributes of their calls."""
        self.made[:count * MADE_BYTES] = self.all_plain[:count * MADE_BYTES]
        self.outputs[:count * self.outlet_bytes] = records[:count * self.outlet_bytes]

    def record(self, call, records, changed=None, flags=0, cursor=b""):
        """Writes the record of the item that a call has made. `changed` are its attributes if they are not those of the call."""
        size = SAME if changed is None else len(changed)
        if changed:
            self.made_attributes[call * ATTRIBUTE_BYTES:call * ATTRIBUTE_BYTES + size] = changed
        self.made[call * MADE_BYTES:(call + 1) * MADE_BYTES] = MADE.pack(call, flags, size, len(cursor), cursor)
        self.outputs[call * self.outlet_bytes:(call + 1) * self.outlet_bytes] = records
