# SPDX-License-Identifier: Apache-2.0
"""Builds and reads Tensogram messages byte by byte, for tests that need descriptors which no writer would produce.

The messages have no digests.
"""
import struct


def _head(major, n):
    """Returns the head of a CBOR item in its shortest form."""
    if n < 24:
        return bytes([major << 5 | n])
    for code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if n < 1 << 8 * width:
            return bytes([major << 5 | code]) + n.to_bytes(width, "big")
    raise ValueError(n)


def cbor(value):
    """Encodes integers, text, bytes, lists and maps as canonical CBOR."""
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return _head(4, len(value)) + b"".join(map(cbor, value))
    return _head(5, len(value)) + b"".join(sorted(cbor(k) + cbor(v) for k, v in value.items()))


def _padded(frame):
    """Pads a frame to a multiple of 8 bytes."""
    return frame + bytes(-len(frame) % 8)


def _frame(kind, body, tail=b"", flags=0):
    """Returns a frame without a digest."""
    length = 16 + len(body) + len(tail) + 12
    return _padded(b"FR" + struct.pack(">HHHQ", kind, 1, flags, length) + body + tail + bytes(8) + b"ENDF")


def message(objects, base=None, extra=None):
    """Returns a message of (descriptor, payload) pairs. Keys that a descriptor lacks get their usual values."""
    metadata = {"base": base or [{} for _ in objects], "_extra_": extra or {}}
    frames = _frame(1, cbor(metadata))
    for changes, payload in objects:
        shape = changes.get("shape", [])
        strides = [1]
        for extent in shape[:0:-1]:
            strides.insert(0, strides[0] * extent)
        descriptor = {"type": "ntensor", "ndim": len(shape), "shape": shape, "strides": strides[:len(shape)],
                      "dtype": "float32", "byte_order": "little", "encoding": "none", "filter": "none",
                      "compression": "none", **changes}
        frames += _frame(9, payload + cbor(descriptor), struct.pack(">Q", 16 + len(payload)), 1)
    total = 24 + len(frames) + 24
    return (b"TENSOGRM" + struct.pack(">HHIQ", 3, 1, 0, total) + frames
            + struct.pack(">QQ", total - 24, total) + b"39277777")


def _item(data, at):
    """Returns a CBOR item and the offset behind it. Knows only the kinds that the writers of this project use."""
    major, short = data[at] >> 5, data[at] & 31
    width = {24: 1, 25: 2, 26: 4, 27: 8}.get(short, 0)
    n = int.from_bytes(data[at + 1:at + 1 + width], "big") if width else short
    at += 1 + width
    if major in (0, 1):
        return (n if major == 0 else -1 - n), at
    if major in (2, 3):
        text = data[at:at + n]
        return (text.decode() if major == 3 else text), at + n
    if major == 7:
        return struct.unpack({2: ">e", 4: ">f", 8: ">d"}[width], data[at - width:at])[0], at
    items = []
    for _ in range(n * (2 if major == 5 else 1)):
        item, at = _item(data, at)
        items.append(item)
    return (dict(zip(items[::2], items[1::2])) if major == 5 else items), at


def parse(content):
    """Returns the messages of a file: for each its metadata, and the descriptors and payload regions of its objects."""
    out = []
    while content:
        assert content[:8] == b"TENSOGRM", content[:8]
        total, = struct.unpack(">Q", content[16:24])
        found = {"bytes": content[:total], "metadata": None, "objects": []}
        at = 24
        while content[at:at + 2] == b"FR":
            kind, _, flags, length = struct.unpack(">HHHQ", content[at + 2:at + 16])
            if kind == 1:
                found["metadata"] = _item(content, at + 16)[0]
            elif kind == 9:
                assert flags & 1, "the descriptor stands behind the payload"
                end = at + length
                offset, = struct.unpack(">Q", content[end - 20:end - 12])
                found["objects"].append((_item(content, at + offset)[0], content[at + 16:at + offset]))
            at += length + -length % 8
        out.append(found)
        content = content[total:]
    return out
