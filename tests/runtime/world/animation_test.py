# SPDX-License-Identifier: Apache-2.0
"""Runs the dam break with an animation and reads the file: animation_test.py PROGRAM. Checks each chunk and each frame, and that the run
ends with a table of its ranks."""
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

SIZE, STEPS, EVERY = 48, 40, 10


def chunks_of(data):
    """Returns [(type, bytes)] of a PNG."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        sys.exit(f"expected the signature of PNG, found {data[:8]!r}")
    found, at = [], 8
    while at < len(data):
        length, = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        checksum, = struct.unpack_from(">I", data, at + 8 + length)
        if checksum != zlib.crc32(kind + body):
            sys.exit(f"chunk {kind!r} at byte {at}: expected the checksum {zlib.crc32(kind + body):08x}, found {checksum:08x}")
        found.append((kind, body))
        at += 12 + length
    return found


def expect(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected}, found {found}")


with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, "depth.png")
    done = subprocess.run([sys.argv[1], "--ranks", "2", "--size", str(SIZE), "--tile", "16", "--steps", str(STEPS), "--frame-every",
                           str(EVERY), "--animation", str(path)], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    chunks = chunks_of(path.read_bytes())

expect("lines about the result", len(done.stdout.splitlines()), 1)
expect("ranks in the table of counters", [line.split()[0] for line in done.stderr.splitlines()], ["rank", "0", "1"])

kinds = [kind for kind, _ in chunks]
frames = STEPS // EVERY + 1
expect("chunks", kinds, [b"IHDR", b"acTL", b"PLTE", b"fcTL", b"IDAT"] + [b"fcTL", b"fdAT"] * (frames - 1) + [b"IEND"])
expect("size, depth of colours and type", struct.unpack(">IIBB", chunks[0][1][:10]), (SIZE, SIZE, 8, 3))
expect("number of frames", struct.unpack(">I", chunks[1][1][:4])[0], frames)
numbers = [struct.unpack(">I", body[:4])[0] for kind, body in chunks if kind in (b"fcTL", b"fdAT")]
expect("sequence numbers", numbers, list(range(2 * frames - 1)))
pictures = [zlib.decompress(body if kind == b"IDAT" else body[4:]) for kind, body in chunks if kind in (b"IDAT", b"fdAT")]
expect("bytes of each frame", {len(p) for p in pictures}, {SIZE * (SIZE + 1)})
middle = SIZE // 2 * (SIZE + 1) + 1 + SIZE // 2
expect("colours of the first frame in the middle and at the corner", (pictures[0][middle], pictures[0][1] < 32), (63, True))
if len(set(pictures)) != frames:
    sys.exit(f"expected {frames} frames that differ, found {len(set(pictures))}")
