# SPDX-License-Identifier: Apache-2.0
"""Element types under their ids, their names and NumPy's."""
import ctypes
import operator
import struct

from .errors import invalid

try:
    import numpy
except ImportError:  # everything but views works without it
    numpy = None


class DType:
    """A type of elements. `numpy_name` is what its bytes look like to NumPy, which has no bf16 and no fp8."""

    def __init__(self, ident, name, size, numpy_name, code, least=None, most=None):
        self.id, self.name, self.size, self.numpy_name = ident, name, size, numpy_name
        self._code, self._least, self._most = code, least, most

    def __repr__(self):
        return f"tessera.{self.name}"

    def to_bytes(self, value, what):
        """One value as the bytes of a parameter; bytes of the right size pass as they are."""
        if isinstance(value, (bytes, bytearray)):
            if len(value) != self.size:
                raise invalid(f"{what}: expected {self.size} bytes, found {len(value)}")
            return bytes(value)
        try:
            return self._pack(value)
        except (TypeError, ValueError, OverflowError, struct.error):
            raise invalid(f"{what}: expected a value of {self.name}, found {value!r}") from None

    def _pack(self, value):
        if self._least is not None:
            number = operator.index(value)
            if not self._least <= number <= self._most:
                raise OverflowError
            return number.to_bytes(self.size, "little", signed=self._least < 0)
        if self.name == "bool":
            return bytes([1 if value else 0])
        if self.name == "bf16":
            return _bf16(float(value))
        if self._code is None:
            raise ValueError  # fp8 has no Python value: give bytes
        if self.name.startswith("complex"):
            value = complex(value)
            return struct.pack("<2" + self._code, value.real, value.imag)
        return struct.pack("<" + self._code, float(value))


def _bf16(value):
    """Upper half of the fp32 bits, rounded to nearest even."""
    bits = int.from_bytes(struct.pack("<f", value), "little")
    if value != value:
        return (0x7FC0).to_bytes(2, "little")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).to_bytes(2, "little")


def _whole(ident, name, size, signed=True):
    least = -(1 << (8 * size - 1)) if signed else 0
    return DType(ident, name, size, name, None, least, least + (1 << (8 * size)) - 1)


ALL = (
    DType(1, "fp8_e4m3", 1, "uint8", None), DType(2, "fp8_e5m2", 1, "uint8", None),
    DType(3, "fp16", 2, "float16", "e"), DType(4, "bf16", 2, "uint16", None),
    DType(5, "fp32", 4, "float32", "f"), DType(6, "fp64", 8, "float64", "d"),
    _whole(7, "int8", 1), _whole(8, "int16", 2), _whole(9, "int32", 4), _whole(10, "int64", 8),
    DType(11, "bool", 1, "bool", None), DType(12, "complex64", 8, "complex64", "f"),
    DType(13, "complex128", 16, "complex128", "d"),
    # Not of the ABI's table: arrays may have them, collectives take none of them.
    _whole(32, "uint8", 1, False), _whole(33, "uint16", 2, False), _whole(34, "uint32", 4, False),
    _whole(35, "uint64", 8, False),
)
BY_ID = {d.id: d for d in ALL}
BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy_name: d for d in ALL if d.name not in ("bf16", "fp8_e4m3", "fp8_e5m2")}


def dtype(what):
    """A DType by itself, its id, its name ("bf16"), or as NumPy names it ("float32", numpy.float32)."""
    if isinstance(what, DType):
        return what
    if isinstance(what, int) and what in BY_ID:
        return BY_ID[what]
    if isinstance(what, str) and what in BY_NAME:
        return BY_NAME[what]
    if isinstance(what, str) and what in _BY_NUMPY:
        return _BY_NUMPY[what]
    if numpy is not None:
        try:
            known = numpy.dtype(what)
        except TypeError:
            known = None
        if known is not None and known.isnative and known.name in _BY_NUMPY:
            return _BY_NUMPY[known.name]
    raise invalid(f"type of elements not known: expected one of {', '.join(BY_NAME)}, found {what!r}")


def need_numpy():
    if numpy is None:
        raise ImportError("tessera: NumPy is not installed (Debian: python3-numpy), and views of arrays need it")
    return numpy


def buffer_of(data):
    """Bytes in a ctypes buffer of their own."""
    return ctypes.create_string_buffer(data, len(data))
