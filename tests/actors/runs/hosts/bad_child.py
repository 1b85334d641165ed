# SPDX-License-Identifier: Apache-2.0
"""A child process of a stage that does not keep to the wire. Environment variable WEIR_BAD_CHILD names its mistake."""
import json
import mmap
import os
import signal
import socket
import struct
import sys
import time

HEAD = struct.Struct("<IIQIIQ")
MAGIC = 0x52494557
WORK = 3
ENDED, NOTHING = 2, 4


def receive(link, count):
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def main():
    mistake = os.environ["WEIR_BAD_CHILD"]
    link = socket.socket(fileno=3)
    memory = None
    layout = {}
    if mistake == "exits at once":
        print("I leave early", file=sys.stderr)
        sys.exit(0)
    while True:
        _, kind, sequence, count, _, length = HEAD.unpack(receive(link, HEAD.size))
        payload = receive(link, length)
        if kind == 1:
            layout = json.loads(payload)["memory"]
            memory = mmap.mmap(4, layout["bytes"])
        if kind == WORK:
            misbehave(mistake, link, memory, layout, sequence, count)
        link.sendall(HEAD.pack(MAGIC, kind + 0x80, sequence, 0, 0, 0))


def misbehave(mistake, link, memory, layout, sequence, count):
    def answer(done=count, seq=sequence, magic=MAGIC, length=0, flags=0):
        link.sendall(HEAD.pack(magic, WORK + 0x80, seq, done, flags, length))

    for nth in range(count):
        struct.pack_into("<IIII", memory, layout["made"] + 128 * nth, nth, 0, 0xFFFFFFFF, 0)
        struct.pack_into("<QQIIq", memory, layout["outputs"] + 96 * nth, layout["out"] + 64 * nth, 32, 6, 1, 4)
    record = layout["outputs"]
    if mistake == "hangs":
        time.sleep(1000)
    elif mistake == "floods its standard error":
        while True:
            os.write(2, b"flood " * 1000)
    elif mistake == "floods the socket":
        while True:
            link.sendall(b"\xff" * 65536)
    elif mistake == "closes its socket":
        link.close()
        time.sleep(1000)
    elif mistake == "exits with status 0":
        print("I have had enough", file=sys.stderr, flush=True)
        os._exit(0)
    elif mistake == "kills itself":
        print("a last word", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif mistake == "writes garbage into the shared memory":
        memory[: layout["in"]] = b"\xa5" * layout["in"]
        answer()
    elif mistake == "claims more items":
        answer(done=count + 1)
    elif mistake == "makes no progress":
        answer(done=0)
    elif mistake == "has no item yet, as a source":
        answer(done=0, flags=NOTHING)
    elif mistake == "has ended, as a source":
        answer(done=0, flags=ENDED)
    elif mistake == "repeats an answer":
        answer(seq=sequence - 1)
    elif mistake == "answers with a wrong first word":
        answer(magic=1)
    elif mistake == "claims a large payload":
        answer(length=1 << 50)
    elif mistake == "points behind the shared memory":
        struct.pack_into("<QQ", memory, record, layout["bytes"] - 64, 4096)
        answer()
    elif mistake == "points into the inputs":
        struct.pack_into("<Q", memory, record, layout["in"])
        answer()
    elif mistake == "claims a shape that overflows":
        struct.pack_into("<QQIIqqq", memory, record, layout["out"], 32, 6, 3, 1 << 62, 1 << 62, 4)
        answer()
    elif mistake == "makes another element type":
        struct.pack_into("<QQIIq", memory, record, layout["out"], 32, 250, 1, 4)
        answer()
    elif mistake == "fills /dev/shm":
        fill_dev_shm()
    else:
        sys.exit(f"unknown mistake {mistake}")


def fill_dev_shm():
    """Writes until there is no space, at most 64 MiB, into a file that has no name any more."""
    path = f"/dev/shm/weir-bad-child-{os.getpid()}"
    with open(path, "wb") as full:
        os.unlink(path)
        try:
            for _ in range(64):
                full.write(b"x" * (1 << 20))
        except OSError as e:
            print(e, file=sys.stderr)
        print("/dev/shm has no more space for me", file=sys.stderr, flush=True)
        os._exit(3)


main()
