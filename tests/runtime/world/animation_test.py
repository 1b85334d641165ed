# SPDX-License-Identifier: Apache-2.0
"""Runs the dam break with an animation and reads the file: animation_test.py PROGRAM. Checks each chunk and each frame, that the run
ends with a table of its ranks, and that a run which is killed and resumed has the frames from before."""
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
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


def command(path, steps, *more):
    """Returns the words of a run that writes an animation."""
    return [sys.argv[1], "--ranks", "2", "--size", str(SIZE), "--tile", "16", "--steps", str(steps), "--frame-every", str(EVERY),
            "--animation", str(path), *more]


def run(path, steps, *more):
    return subprocess.run(command(path, steps, *more), check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def resume_after_kill(folder):
    """Kills a run once it has saved a state and resumes it. Expects the file of a run without a kill, byte for byte."""
    path, whole, state = pathlib.Path(folder, "killed.png"), pathlib.Path(folder, "whole.png"), f"{folder}/killed"
    process = subprocess.Popen(command(path, 100_000, "--state", state, "--every", "35"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(pathlib.Path(state).glob("*.manifest")):
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    expect("end of the run", process.wait(), -signal.SIGKILL)
    steps = EVERY * (len(chunks_of_frames(path.read_bytes())) + 2)
    done = run(path, steps, "--state", state)
    if "resumed at step" not in done.stderr or "animation" in done.stderr:
        sys.exit(f"expected a resumed run with all frames, found {done.stderr}")
    run(whole, steps)
    expect("the animation of the resumed run", path.read_bytes() == whole.read_bytes(), True)


def resume_with_other_files(folder):
    """Resumes at step 20 with a file that is torn behind its frames or between them, or that is missing. The first one is continued, and
    the others are begun again and reported."""
    path, whole = pathlib.Path(folder, "part.png"), pathlib.Path(folder, "depth.png").read_bytes()
    state = ["--state", f"{folder}/state"]
    run(path, 20, *state)
    half = path.read_bytes()
    path.write_bytes(half[:-20])  # the frame of step 20 is torn, and is written again
    done = run(path, 20, *state)
    expect("the file whose newest frame was torn", (path.read_bytes() == half, "animation" in done.stderr), (True, False))
    for number, before in enumerate([half[:len(half) // 3], b"", None, whole.replace(b"every 10", b"every 20")]):
        path.unlink()
        if before is not None:
            path.write_bytes(before)
        done = run(path, 20 + 10 * (number + 1), *state)
        first = 20 + 10 * number
        if f"has only frames from step {first} on" not in done.stderr:
            sys.exit(f"file {number}: expected a line about the first frame, of step {first}, found {done.stderr}")
        expect("frames from the resumed step on", len(chunks_of_frames(path.read_bytes())), 2)


def chunks_of_frames(data):
    """Returns the control chunks of the complete frames of a file, of which the newest may be torn."""
    found, at = [], 8
    while at + 12 <= len(data):
        length, = struct.unpack_from(">I", data, at)
        if at + 12 + length > len(data):
            break
        found.append(data[at + 4:at + 8])
        at += 12 + length
    return [kind for kind in found if kind in (b"IDAT", b"fdAT")]


with tempfile.TemporaryDirectory() as folder:
    picture = pathlib.Path(folder, "depth.png")
    done = run(picture, STEPS)
    chunks = chunks_of(picture.read_bytes())
    resume_after_kill(folder)
    resume_with_other_files(folder)

expect("lines about the result", len(done.stdout.splitlines()), 1)
expect("ranks in the table of counters", [line.split()[0] for line in done.stderr.splitlines()], ["rank", "0", "1"])

kinds = [kind for kind, _ in chunks]
frames = STEPS // EVERY + 1
expect("chunks", kinds, [b"IHDR", b"acTL", b"PLTE", b"tEXt", b"fcTL", b"IDAT"] + [b"fcTL", b"fdAT"] * (frames - 1) + [b"IEND"])
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
