# SPDX-License-Identifier: Apache-2.0
"""The run's side of a stage in a child process, for tests of `weir.host`: it lays out the shared memory and speaks the messages of
docs/formats/stage-wire.md, and lets a test write any bytes.
"""
import json
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys

import numpy as np

from weir import describe, host, shared, types

SOURCE = pathlib.Path(__file__).resolve().parents[3]
BOOT = "import sys; sys.path[0] = sys.argv.pop(1); from weir import host; host.MAX_SECONDS = {}; host.main()"


class Parent:
    """A child with a stage of a file. `slot` are the bytes for the tensor of one item at each port, `out_bytes` those of all outlets."""

    def __init__(self, file, use, settings=(), slot=4096, calls=32, environment=None, out_bytes=None, max_seconds=1000):
        facts = next(s for s in describe.facts_of(str(file))["stages"] if s["name"] == use)
        self.ports, self.sequence, self.slot = facts["ports"], 0, slot
        self.offered = {}  # bytes that the run offers for the first outlet, by call
        self.inlets = sum(p["inlet"] for p in self.ports)
        self.outlets = len(self.ports) - self.inlets
        self.place, at = {"made_records": calls}, 0
        for part, size in (("calls", 32 * 64), ("inputs", 32 * self.inlets * 96), ("attributes", 32 * 2048), ("made", calls * 128),
                           ("outputs", calls * self.outlets * 96), ("made_attributes", calls * 2048),
                           ("in", calls * self.inlets * slot), ("out", calls * self.outlets * slot if out_bytes is None else out_bytes), ("slots", calls * slot)):
            self.place[part], at = at, -(-(at + size) // 64) * 64
            if part in ("in", "out", "slots"):
                self.place[part.removesuffix("s") + "_bytes"] = size
        self.place["bytes"] = at
        descriptor = os.memfd_create("weir-test")
        os.ftruncate(descriptor, max(at, 4096))
        self.memory = mmap.mmap(descriptor, max(at, 4096))
        self.socket, theirs = socket.socketpair()
        self.error_file = os.memfd_create("weir-test-words")
        boot = ("import fcntl, os, sys; a, b = (fcntl.fcntl(int(w), fcntl.F_DUPFD, 10) for w in sys.argv[1:3]); "
                "os.dup2(a, 3); os.dup2(b, 4); os.close(a); os.close(b); os.execv(sys.executable,[sys.executable,'-B','-c',sys.argv[3],sys.argv[4]])")
        low = os.dup(theirs.fileno()), os.dup(descriptor)
        for one in low:
            os.set_inheritable(one, True)
        self.process = subprocess.Popen([sys.executable, "-B", "-c", boot, *map(str, low), BOOT.format(max_seconds), str(SOURCE / "python")],
                                        stdout=self.error_file, stderr=self.error_file, pass_fds=low,
                                        env={**os.environ, **(environment or {})})
        for one in (*low, descriptor):
            os.close(one)
        theirs.close()
        self.start = {"version": host.VERSION, "name": "unit", "use": use, "face": facts["face"], "settings": list(settings), "file": str(file),
                      "plugins": [], "seed": 1, "folder": str(pathlib.Path(file).parent), "resuming": False, "takes": 1, "gives": 1,
                      "own_numbering": False, "accepts_gaps": False, "memory": self.place,
                      "ports": [{**p, "dead_letter": False, "longest": 0} for p in self.ports]}

    def close(self):
        """Closes the socket and returns the exit status of the child."""
        self.socket.close()
        status = self.process.wait(timeout=20)
        os.close(self.error_file)
        return status

    def words(self):
        """Returns what the child has printed."""
        return os.pread(self.error_file, 1 << 20, 0).decode()

    def ask(self, kind, count=0, payload=b""):
        """Sends a request and returns count, flags and payload of its answer."""
        if kind in (host.WORK, host.FILL):
            self._offer()
        self.sequence += 1
        self.socket.sendall(host.HEAD.pack(host.MAGIC, kind, self.sequence, count, 0, len(payload)) + payload)
        magic, answer, sequence, count, flags, size = host.HEAD.unpack(self._read(host.HEAD.size))
        assert (magic, answer, sequence) == (host.MAGIC, kind + host.ANSWER, self.sequence), (magic, answer, sequence)
        return count, flags, self._read(size)

    def _offer(self):
        """Offers memory for the first outlet of each call of `offered`, and none for other tensors."""
        begin, size = self.place["outputs"], self.place["made_records"] * self.outlets * 96
        self.memory[begin:begin + size] = bytes(size)
        for call, size in self.offered.items():
            struct.pack_into("<QQ", self.memory, begin + 96 * call * self.outlets, self.place["slots"] + call * self.slot, size)

    def _read(self, size):
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                raise EOFError(self.words())
            data += more
        return data

    def begin(self):
        """Starts and opens the stage; returns the error, or None."""
        for kind, payload in ((host.START, json.dumps(self.start).encode()), (host.OPEN, b"")):
            _, flags, answer = self.ask(kind, 0, payload)
            if flags & host.FAILED:
                return json.loads(answer)
        return None

    def put(self, call, seq, *arrays, attributes=b"", flags=0):
        """Writes a call with one array for each inlet."""
        struct.pack_into("<QIIqqII", self.memory, self.place["calls"] + 64 * call, seq, 0, 1, 0, 0, len(attributes), flags)
        at = self.place["attributes"] + 2048 * call
        self.memory[at:at + len(attributes)] = attributes
        for i, array in enumerate(arrays):
            offset = self.place["in"] + (call * self.inlets + i) * self.slot
            number = types.NUMBERS[types.element_text(array.dtype)]
            shape = (*array.shape, *(0,) * (8 - array.ndim))
            record = shared.TENSOR.pack(offset, array.nbytes, number, array.ndim, *shape)
            at = self.place["inputs"] + 96 * (call * self.inlets + i)
            self.memory[at:at + 96] = record
            self.memory[offset:offset + array.nbytes] = array.tobytes()

    def made(self, call):
        """Returns the item of a call: flags, attributes (None: those of the call), cursor, arrays."""
        number, flags, about, cursor_bytes, cursor = shared.MADE.unpack_from(self.memory, self.place["made"] + 128 * call)
        assert number == call
        at = self.place["made_attributes"] + 2048 * call
        arrays = []
        for i in range(self.outlets):
            offset, size, kind, rank, *shape = shared.TENSOR.unpack_from(self.memory, self.place["outputs"] + 96 * (call * self.outlets + i))
            if kind:
                assert offset % 64 == 0 and any(self.place[part] <= offset <= offset + size <= self.place[part] + self.place[n]
                                                for part, n in (("out", "out_bytes"), ("slots", "slot_bytes")))
                dtype = np.dtype(types.ELEMENTS[types.TEXTS[kind]])
                arrays.append(np.frombuffer(self.memory[offset:offset + size], dtype).reshape(shape[:rank]))
        return flags, None if about == shared.SAME else self.memory[at:at + about], cursor[:cursor_bytes], arrays
