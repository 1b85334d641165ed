#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two small fatbins, written from docs/formats/fatbin.md alone: `golden.py FILE` writes them as hexadecimal lines,
`golden.py --check FILE` compares. Ed25519 is that of RFC 8032, in affine coordinates."""
import hashlib
import struct
import sys

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
BASE_Y = 4 * pow(5, -1, P) % P


def recover_x(y, sign):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    return x if x % 2 == sign else P - x


BASE = (recover_x(BASE_Y, 0), BASE_Y)


def add(a, b):
    t = D * a[0] * b[0] * a[1] * b[1] % P
    return ((a[0] * b[1] + a[1] * b[0]) * pow(1 + t, -1, P) % P, (a[1] * b[1] + a[0] * b[0]) * pow(1 - t, -1, P) % P)


def times(n, point):
    out = (0, 1)
    while n:
        if n & 1:
            out = add(out, point)
        point = add(point, point)
        n >>= 1
    return out


def encode(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def number(data):
    return int.from_bytes(hashlib.sha512(data).digest(), "little")


def sign(seed, message):
    """Public key and signature."""
    expanded = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(expanded[:32], "little") & ((1 << 254) - 8) | 1 << 254
    key = encode(times(scalar, BASE))
    nonce = number(expanded[32:] + message) % ORDER
    start = encode(times(nonce, BASE))
    end = (nonce + number(start + key + message) * scalar) % ORDER
    return key, start + end.to_bytes(32, "little")


def up(value, unit):
    return -(-value // unit) * unit


def fatbin(sections, source_hash, seed=None):
    """`sections`: (kind, flags, offset of the machine's name, alignment, bytes); bytes of kind 7 are left to the seed."""
    end = 128 + 64 * len(sections)
    places = []
    for kind, _, _, align, data in sections:
        places.append(up(end, align))
        end = places[-1] + len(data)
    image = bytearray(up(end, 8))
    image[0:40] = struct.pack("<8sHHHHIIQQ", b"TESSFAT\x1a", 1, 0, 1, 0, 128, len(sections), 128, len(image))
    image[40:72] = source_hash
    hole = (len(image), len(image))
    for i, ((kind, flags, arch, align, data), at) in enumerate(zip(sections, places)):
        prefix = bytes(16) if kind == 7 else hashlib.sha256(data).digest()[:16]
        entry = struct.pack("<IIIIQQQ16s8x", kind, flags, arch, align, at, len(data), len(data), prefix)
        image[128 + 64 * i:128 + 64 * (i + 1)] = entry
        image[at:at + len(data)] = data
        if kind == 7:
            hole = (at, at + len(data))
    digest = hashlib.sha256(image[:72] + image[104:hole[0]] + image[hole[1]:]).digest()
    image[72:104] = digest
    if seed is not None:
        key, signature = sign(seed, digest)
        image[hole[0]:hole[1]] = struct.pack("<II32s64s", 1, 0, key, signature)
    return bytes(image)


def table(record_bytes, records):
    return struct.pack("<II", record_bytes, len(records)) + b"".join(records)


class Strings:
    def __init__(self):
        self.data = b"\0"
        self.places = {"": 0}

    def __call__(self, text):
        if text not in self.places:
            self.places[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.places[text]


def small():
    """One kernel, `scale(inout fp32* x, int32 n, fp32 a)`, named only by a registered function."""
    s = Strings()
    kernel = struct.pack("<IIIIIIIIIIIIQQ", s("scale"), s("scale"), 0, 3, 16, 64, 1, 1, 256, 0, 1, 0, 1, 0)
    parameters = [struct.pack("<IIIIIIII", s("x"), 1, 5, 8, 0, 1, 2, 0),
                  struct.pack("<IIIIIIII", s("n"), 0, 9, 4, 8, 0, 0, 0),
                  struct.pack("<IIIIIIII", s("a"), 0, 5, 4, 12, 0, 0, 0)]
    sections = [(2, 0, 0, 8, table(64, [kernel])), (3, 0, 0, 8, table(32, parameters)), (17, 0, 0, 8, b"")]
    return fatbin([(1, 0, 0, 8, s.data)] + sections, hashlib.sha256(b"scale").digest())


def full():
    """Every kind of section, two kernels, a plan, a policy, a signature, a section nobody knows."""
    s = Strings()
    first = struct.pack("<IIIIIIIIIIIIQQ", s("alpha"), s("alpha_v1"), 0, 2, 40, 0, 0, 0, 1024, 512, 5, 0, 3, 0)
    second = struct.pack("<IIIIIIIIIIIIQQ", s("beta"), s("beta"), 2, 0, 0, 8, 4, 2, 64, 0, 1, 0, 4, 0)
    parameters = [struct.pack("<IIIIIIII", s("options"), 2, 0, 20, 0, 0, 0, 0),
                  struct.pack("<IIIIIIII", s("z"), 0, 13, 16, 24, 0, 0, 0)]
    plan = struct.pack("<IIIIQQQII", 1, 5, s("dp"), 1, 4096, 1 << 30, 65536, 4, 0)
    policy = struct.pack("<IIIIIIQ", 1, 0, 1, 1, 1, 0, 77)
    explain = b'{"tiles":[16,64]}'
    code = [(16, 0, s("x86-64-v1"), 4096, b"\x7fELF no code"), (32, 0, s("compute_80"), 4096, b"// ptx\n"),
            (17, 0, 0, 8, b"")]
    known = [(2, 0, 0, 8, table(64, [first, second])), (3, 0, 0, 8, table(32, parameters)), (4, 0, 0, 8, policy),
             (5, 0, 0, 8, table(48, [plan])), (6, 0, 0, 8, explain), (7, 0, 0, 8, bytes(104)), (4711, 2, 0, 8, b"later")]
    return fatbin([(1, 0, 0, 8, s.data)] + known + code, bytes(range(32)), bytes(range(100, 132)))


def main():
    text = "".join(f"{name} {make().hex()}\n" for name, make in (("small", small), ("full", full)))
    if sys.argv[1] == "--check":
        with open(sys.argv[2], encoding="ascii") as f:
            if f.read() != text:
                sys.exit(f"{sys.argv[2]} differs from what this script writes")
    else:
        with open(sys.argv[1], "w", encoding="ascii") as f:
            f.write(text)


main()
