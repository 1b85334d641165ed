# SPDX-License-Identifier: Apache-2.0
"""A child process of a stage that does not keep to the wire. The environment variable WEIR_BAD_CHILD names its mistake, or else the file
`mistake` in the folder of the run. It makes the mistake when it gets the request after which its stage is named, or `work` for a stage of
another name; before that it does all that it is asked."""
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
KINDS = ["start", "open", "work", "fill", "write", "cursor", "seek", "settle", "rewind", "verify", "copy_state", "restore_state", "report",
         "end"]
START, WORK, FILL, WRITE, CURSOR, SETTLE, SAVE, END = (KINDS.index(kind) + 1 for kind in (
    "start", "work", "fill", "write", "cursor", "settle", "copy_state", "end"))
ENDED, NOTHING = 2, 4
GARBAGE = b"\xa5" * 100
ITEMS = 40  # of a source


def receive(link, count):
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


class Child:
    """A child that answers well until it makes its mistake."""

    def __init__(self, mistake):
        self.mistake, self.link = mistake, socket.socket(fileno=3)
        self.phase, self.memory, self.layout = None, None, {}
        self.filled = 0
        self.mark = None  # a file that says that the mistake was made

    def serve(self):
        while True:
            _, self.kind, self.sequence, self.count, _, length = HEAD.unpack(receive(self.link, HEAD.size))
            payload = receive(self.link, length)
            if self.kind == START:
                start = json.loads(payload)
                self.layout = start["memory"]
                self.memory = mmap.mmap(4, self.layout["bytes"])
                self.phase = KINDS.index(start["name"]) + 1 if start["name"] in KINDS else WORK
                if self.mistake is None:
                    with open(os.path.join(start["folder"], "mistake"), encoding="ascii") as file:
                        self.mistake = file.read()
                    self.mark = os.path.join(start["folder"], "made")
            if self.kind == self.phase:
                if self.mark:
                    os.close(os.open(self.mark, os.O_CREAT))
                self.make_items(self.count)
                self.misbehave()
                continue
            if self.kind == END:
                sys.exit(0)
            self.answer_well()

    def answer(self, done=0, seq=None, magic=MAGIC, length=None, flags=0, payload=b""):
        self.link.sendall(HEAD.pack(magic, self.kind + 0x80, self.sequence if seq is None else seq, done, flags,
                                    len(payload) if length is None else length) + payload)

    def answer_well(self):
        if self.kind == WORK:
            self.make_items(self.count)
            self.answer(self.count)
        elif self.kind == FILL:
            done = min(self.count, ITEMS - self.filled)
            self.make_items(done)
            self.filled += done
            ended = done < self.count
            self.answer(done, flags=ENDED if ended else 0, payload=self.cursor() if ended else b"")
        elif self.kind == WRITE:
            self.answer(self.count)
        elif self.kind in (CURSOR, SETTLE):
            self.answer(payload=self.cursor())
        elif self.kind == SAVE:
            self.answer(payload=struct.pack("<I", 0))
        else:
            self.answer()

    def cursor(self):
        return struct.pack("<Q", self.filled)

    def make_items(self, count):
        """Stores items of four numbers of f64 at the begin of the space for made items."""
        if self.kind not in (WORK, FILL):
            return
        for nth in range(count):
            struct.pack_into("<IIII8s", self.memory, self.layout["made"] + 128 * nth, nth, 0, 0xFFFFFFFF,
                             8 if self.kind == FILL else 0, self.cursor())
            struct.pack_into("<QQIIq", self.memory, self.layout["outputs"] + 96 * nth, self.layout["out"] + 64 * nth, 32, 6, 1, 4)

    def misbehave(self):
        mistake, memory, layout, count = self.mistake, self.memory, self.layout, self.count
        record = layout["outputs"]
        if mistake == "hangs":
            time.sleep(1000)
        elif mistake == "floods its standard error":
            while True:
                os.write(2, b"flood " * 1000)
        elif mistake == "floods the socket":
            while True:
                self.link.sendall(b"\xff" * 65536)
        elif mistake == "closes its socket":
            self.link.close()
            time.sleep(1000)
        elif mistake == "stops in the middle of its answer":
            self.link.sendall(HEAD.pack(MAGIC, self.kind + 0x80, self.sequence, count, 0, 0)[:20])
            time.sleep(1000)
        elif mistake == "exits in the middle of its answer":
            self.link.sendall(HEAD.pack(MAGIC, self.kind + 0x80, self.sequence, count, 0, 64) + b"half")
            os._exit(0)
        elif mistake == "exits with status 0":
            print("I have had enough", file=sys.stderr, flush=True)
            os._exit(0)
        elif mistake == "kills itself":
            print("a last word", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        elif mistake == "writes garbage into the shared memory":
            memory[: layout["in"]] = b"\xa5" * layout["in"]
            self.answer(count)
        elif mistake == "answers with garbage":
            self.answer(payload=GARBAGE)
        elif mistake == "claims more items":
            self.answer(count + 1)
        elif mistake == "makes no progress":
            self.answer()
        elif mistake == "has no item yet, as a source":
            self.answer(flags=NOTHING)
        elif mistake == "has ended, as a source":
            self.answer(flags=ENDED)
        elif mistake == "repeats an answer":
            self.answer(count, seq=self.sequence - 1)
        elif mistake == "answers with a wrong first word":
            self.answer(count, magic=1)
        elif mistake == "claims a large payload":
            self.answer(count, length=1 << 50)
        elif mistake == "claims a long cursor":
            struct.pack_into("<I", memory, layout["made"] + 12, 65)
            self.answer(count)
        elif mistake == "points behind the shared memory":
            struct.pack_into("<Q", memory, record, layout["bytes"] // 64 * 64)
            self.answer(count)
        elif mistake == "points into the inputs":
            struct.pack_into("<Q", memory, record, layout["in"])
            self.answer(count)
        elif mistake == "claims a shape that overflows":
            struct.pack_into("<QQIIqqq", memory, record, layout["out"], 32, 6, 3, 1 << 62, 1 << 62, 4)
            self.answer(count)
        elif mistake == "makes another element type":
            struct.pack_into("<QQIIq", memory, record, layout["out"], 32, 250, 1, 4)
            self.answer(count)
        elif mistake == "fills /dev/shm":
            fill_dev_shm()
        else:
            sys.exit(f"unknown mistake {mistake}")


def fill_dev_shm():
    """Writes until there is no space, at most 16 MiB, into a file that has no name any more."""
    path = f"/dev/shm/weir-bad-child-{os.getpid()}"
    with open(path, "wb") as full:
        os.unlink(path)
        try:
            for _ in range(16):
                full.write(b"x" * (1 << 20))
        except OSError as e:
            print(e, file=sys.stderr)
        print("/dev/shm has no more space for me", file=sys.stderr, flush=True)
        os._exit(3)


def main():
    mistake = os.environ.get("WEIR_BAD_CHILD")
    if mistake == "exits at once":
        print("I leave early", file=sys.stderr)
        sys.exit(0)
    Child(mistake).serve()


main()
