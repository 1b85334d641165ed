# SPDX-License-Identifier: Apache-2.0
"""Attributes of items as bytes, as docs/formats/stage-wire.md describes them: for each u8 kind (0 i64, 1 u64, 2 f64, 3 text), u8 bytes
of the name, u16 bytes of the value, name, value."""
import struct

from .errors import Error, invalid

MAX_BYTES = 256  # of names and values as deterministic CBOR (RFC 8949, section 4.2.1)
I64, U64, F64, TEXT = range(4)
FORMATS = ("<q", "<Q", "<d")


def _head_size(number):
    return 1 if number < 24 else 2 if number < 1 << 8 else 3 if number < 1 << 16 else 5 if number < 1 << 32 else 9


def _number_size(value):
    for code, size in (("e", 3), ("f", 5)):  # the shortest form that keeps the value
        try:
            if struct.unpack(code, struct.pack(code, value))[0] == value or value != value:
                return size
        except OverflowError:
            continue
    return 9


def _encoded(name, value):
    """Returns kind, bytes and the size in CBOR of a value."""
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        value = value.item()  # a scalar of NumPy
    if isinstance(value, str):
        data = value.encode()
        return TEXT, data, _head_size(len(data)) + len(data)
    if isinstance(value, int) and not isinstance(value, bool):
        if not -2**63 <= value < 2**64:
            raise invalid(f"attribute {name!r}: expected an integer of 64 bits, found {value}")
        kind = I64 if value < 2**63 else U64
        return kind, struct.pack(FORMATS[kind], value), _head_size(value if value >= 0 else -1 - value)
    if isinstance(value, float):
        return F64, struct.pack("<d", value), _number_size(value)
    raise invalid(f"attribute {name!r}: expected an integer, a number or a text, found {type(value).__name__}")


def encode(attributes):
    """Returns the bytes of a dictionary. Names and values have at most 256 bytes in all."""
    parts, total = [], 0
    for name, value in attributes.items():
        if not isinstance(name, str):
            raise invalid(f"attributes of an item: expected texts as names, found {name!r}")
        key = name.encode()
        kind, data, size = _encoded(name, value)
        total += _head_size(len(key)) + len(key) + size
        if total > MAX_BYTES:
            raise invalid(f"attributes of an item: expected at most {MAX_BYTES} bytes, found {total} up to {name!r}; put long texts "
                          "into a tensor")
        parts += [struct.pack("<BBH", kind, len(key), len(data)), key, data]
    return b"".join(parts)


def decode(data):
    """Returns the dictionary that `encode` has made bytes of."""
    data, found, at = bytes(data), {}, 0
    while at < len(data):
        try:
            kind, name_bytes, value_bytes = struct.unpack_from("<BBH", data, at)
            name = data[at + 4:at + 4 + name_bytes].decode()
            value = data[at + 4 + name_bytes:at + 4 + name_bytes + value_bytes]
            found[name] = value.decode() if kind == TEXT else struct.unpack(FORMATS[kind], value)[0]
        except (struct.error, IndexError, UnicodeDecodeError):
            raise Error("corrupt", f"attributes of an item: expected kind, name and value at byte {at}, found other bytes") from None
        at += 4 + name_bytes + value_bytes
    return found
