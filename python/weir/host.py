# SPDX-License-Identifier: Apache-2.0
"""The child process of a stage. A run starts it and speaks to it as docs/formats/stage-wire.md describes."""
import json
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time

from . import loading
from .errors import Error, need_numpy
from .lending import call as lent_call
from .running import Running, prepared
from .shared import ABOUT, FLAGS, INTS, LONGS, MADE_BYTES, SKIPPED, Shared
from .stage import nothing_yet

VERSION, MAGIC, SOCKET, MEMORY = 2, 0x52494557, 3, 4
(START, OPEN, WORK, FILL, WRITE, CURSOR, SEEK, SETTLE, REWIND, VERIFY, COPY_STATE, RESTORE_STATE, REPORT, END) = range(1, 15)
ANSWER = 0x80
FAILED, ENDED, NOTHING = 1, 2, 4
WANTS_CURSOR = 1
HEAD = struct.Struct("<IIQIIQ")
SECTION = struct.Struct("<IIIIQ")
MAX_PREPARED = 4096  # calls whose views are kept; there are more only if places or shapes differ from item to item
MAX_MESSAGES = 256   # messages whose calls are kept together; most messages come again, because a run uses its places in turn
MAX_SECONDS = 0.02   # a message is answered behind the item at which so much time has passed
# Numbers of weir::errc.
CODES = {"invalid_argument": 10, "unknown_key": 11, "unsupported": 13, "not_found": 20, "already_exists": 21, "corrupt": 30,
         "torn": 31, "hash_mismatch": 41, "out_of_range": 42, "io": 50, "kernel_failed": 65}
FULL = object()


class Failure(Exception):
    """A failed call, behind `complete` calls that were not."""

    def __init__(self, complete, cause):
        super().__init__(complete)
        self.complete, self.cause = complete, cause


def error_of(code, text, places=""):
    """Returns an error as values for JSON."""
    return {"code": CODES.get(code, CODES["kernel_failed"]), "text": text, "location": places, "hint": "", "cause": None}


class Message:
    """The calls of a message that only filled their views, and the records of all items that they made."""

    __slots__ = ("calls", "records")

    def __init__(self, calls):
        self.calls, self.records = calls, b"".join(c.records for c in calls)


class Host:
    """A stage in this process."""

    def __init__(self, start, memory):
        if start["version"] != VERSION:
            raise Error("unsupported", f"cannot start a stage: expected version {VERSION} of the messages, found {start['version']}")
        about = next((a for a in loading.load(start["file"]) if a.name == start["use"]), None)
        if about is None:
            raise Error("not_found", f"cannot start a stage: expected {start['use']!r} in {start['file']!r}, found none")
        one = prepared(about, dict(start["settings"]), start["folder"])
        self.running = Running(one, start["name"], start["seed"])
        self.about, self.item, self.function = about, self.running.item, self.running.function
        self.shared = Shared(memory, start["memory"], start["ports"], self.running)
        self.kept, self.messages = {}, {}
        self.pending = None  # the item of a call for which the memory was full
        asked = os.environ.get("WEIR_DEBUG", "")
        self.debug = asked != "0" if asked else start.get("debug", False)
        # The shapes of outlets depend on those of the inlets alone, so that views can be kept.
        self.keeps = self.running.shape is None and not self.debug

    def prepare(self, key, offers, at):
        """Returns the views of a call, kept ones if there are any, or None if the memory for made items is full."""
        ready = self.shared.prepare(key, offers, at)
        if self.keeps and ready is not None:
            if len(self.kept) >= MAX_PREPARED:
                self.kept.clear()
            self.kept[key, offers, at] = ready
        return ready

    def begin(self, c):
        """Gives the item of call `c` to the stage."""
        shared, item = self.shared, self.item
        item.seq, item._attributes = shared.longs[c * LONGS], None
        item.raw = shared.about_of(c) if shared.ints[c * INTS + ABOUT] else b""

    def work(self, count):
        """Calls `on_item` for up to `count` items and returns the number of complete calls."""
        c, at = self.give_pending()
        if self.running.returned or self.debug:
            return self.work_slowly(c, count, at)
        end = time.monotonic() + MAX_SECONDS
        if c or not self.keeps:
            return self.work_singly(c, count, at, end)
        key = (*self.shared.records_of(count), at)
        message = self.messages.get(key)
        if message is not None:
            return self.work_together(message, end)
        calls = []
        c = self.work_singly(0, count, at, end, calls)
        if len(calls) == count:
            if len(self.messages) >= MAX_MESSAGES:
                self.messages.clear()
            self.messages[key] = Message(calls)
        return c

    def work_together(self, message, end):
        """Does the same for a message that has come before. Its records are written once behind the calls, unless a call returns
        something or changes attributes: then the calls behind it are made one by one."""
        shared, function, item, now = self.shared, self.function, self.item, time.monotonic
        count = len(message.calls)
        numbers, sizes = shared.numbers(count), shared.attribute_sizes(count)
        c, answer, ready = 0, None, None
        try:
            for ready in message.calls:
                item.seq, item._attributes = numbers[c], None
                item.raw = shared.about_of(c) if sizes[c] else b""
                answer = function(*ready.arguments)
                if answer is not None or item._attributes is not None:
                    break
                c += 1
                if now() > end:
                    break
            shared.record_plain(c, message.records)
            if answer is None and item._attributes is None:
                return c
            at = self.finish(c, ready, self.running.made(answer, ready.inlets), ready.end)
        except BaseException as failed:  # of the stage: it may also raise SystemExit
            shared.record_plain(c, message.records)
            raise Failure(c, failed) from None
        return self.work_singly(c + 1, count, at, end)

    def work_singly(self, c, count, at, end, plain_calls=None):
        """Makes the calls from number `c` one by one. Adds those that only fill their views to `plain_calls`."""
        shared, function, item, kept = self.shared, self.function, self.item, self.kept
        inputs, outputs, made, plain = shared.inputs, shared.outputs, shared.made, shared.plain
        longs, ints = shared.longs, shared.ints
        ins, outs = shared.inlet_bytes, shared.outlet_bytes
        now = time.monotonic
        try:
            while c < count:
                key = inputs[c * ins:c * ins + ins].tobytes()
                offers = outputs[c * outs:c * outs + outs].tobytes()
                ready = kept.get((key, offers, at)) or self.prepare(key, offers, at)
                if ready is None:
                    return c
                item.seq, item._attributes = longs[c * LONGS], None
                item.raw = shared.about_of(c) if ints[c * INTS + ABOUT] else b""
                answer = function(*ready.arguments)
                if answer is None and item._attributes is None:
                    outputs[c * outs:c * outs + outs] = ready.records
                    made[c * MADE_BYTES:(c + 1) * MADE_BYTES] = plain[c]
                    at = ready.end
                    if plain_calls is not None:
                        plain_calls.append(ready)
                else:
                    at = self.finish(c, ready, self.running.made(answer, ready.inlets), ready.end)
                c += 1
                if now() > end:
                    return c
        except BaseException as failed:
            raise Failure(c, failed) from None
        return c

    def work_slowly(self, c, count, at):
        """Does the same for a stage that returns arrays, whose memory is known only behind the call, and with debugging."""
        end = time.monotonic() + MAX_SECONDS
        try:
            while c < count:
                ready = self.prepare(self.shared.key(c), self.shared.offers(c), at)
                if ready is None:
                    return c
                self.begin(c)
                at = self.finish(c, ready, self.call(ready), ready.end)
                if at is FULL:
                    return c
                c += 1
                if time.monotonic() > end:
                    return c
        except BaseException as failed:
            raise Failure(c, failed) from None
        return c

    def call(self, ready):
        """Calls the stage and returns what `Running.made` returns."""
        if not self.debug:
            return self.running.made(self.function(*ready.arguments), ready.inlets)
        made = lent_call(self.running, ready.inlets)
        if not isinstance(made, list):
            return made
        for i, array in zip(self.about.given, ready.arguments[len(ready.inlets):]):
            array[...] = made[i]
        return [made[i] for i in self.running.returned]

    def finish(self, c, ready, arrays, at, cursor=b"", before=b""):
        """Stores the item of call `c`: a gap if `arrays` is None, else with the arrays of the outlets that the stage has returned.
        Returns the end of its memory. If that is full, the item waits for the next request, since the call cannot be repeated, and
        the result is FULL. `cursor` is that behind the item, and `before` the one before it."""
        if arrays is None:
            self.shared.record(c, bytes(self.shared.outlet_bytes), None, SKIPPED)
            return at
        raw, encoded = self.item.raw, self.item.encoded()
        changed = encoded if encoded != raw else None
        stored = self.shared.store(ready.records, self.running.returned, arrays, at)
        if stored is None:
            given = [a.copy() for a in ready.arguments[len(ready.inlets):]]
            numbers = [*self.about.given, *self.running.returned]
            self.pending = (numbers, given + [a.copy() for a in arrays], changed, cursor, before)
            return FULL
        self.shared.record(c, stored[0], changed, 0, cursor)
        return stored[1]

    def give_pending(self):
        """Stores the item that waits, if there is one. Returns the number of the first call to make and the offset of its memory."""
        if self.pending is None:
            return 0, self.shared.begin
        numbers, arrays, changed, cursor, _ = self.pending
        stored = self.shared.store(bytes(self.shared.outlet_bytes), numbers, arrays, self.shared.begin)
        if stored is None:
            self.complete(0)
        self.shared.record(0, stored[0], changed, 0, cursor)
        self.pending = None
        return 1, stored[1]

    def fill(self, count):
        """Calls `next` for up to `count` items. Returns the number of items and the flags of the answer."""
        c, at = self.give_pending()
        end = time.monotonic() + MAX_SECONDS
        try:
            while c < count:
                offers = self.shared.offers(c)
                ready = self.kept.get((b"", offers, at)) or self.prepare(b"", offers, at)
                if ready is None:
                    return c, 0
                self.begin(c)
                before = self.running.cursor() if self.running.returned else b""
                made = self.call(ready)
                if made is False or made is nothing_yet:
                    return c, ENDED if made is False else NOTHING
                wanted = self.shared.ints[c * INTS + FLAGS] & WANTS_CURSOR
                cursor = self.running.cursor() if wanted else b""
                at = self.finish(c, ready, made, ready.end, cursor, before)
                if at is FULL:
                    return c, 0
                c += 1
                if time.monotonic() > end:
                    break
        except BaseException as failed:
            raise Failure(c, failed) from None
        return c, 0

    def write(self, count):
        """Calls `put` for up to `count` items and returns the number of written ones."""
        c, end = 0, time.monotonic() + MAX_SECONDS
        try:
            while c < count:
                key = self.shared.key(c)
                ready = self.kept.get((key, b"", 0)) or self.prepare(key, b"", 0)
                self.begin(c)
                self.call(ready)
                c += 1
                if time.monotonic() > end:
                    break
        except BaseException as failed:
            raise Failure(c, failed) from None
        return c

    def complete(self, count):
        """Returns the number of complete calls, which is at least 1."""
        if count:
            return count
        self.pending = None
        raise Failure(0, Error("out_of_range", f"{self.about.where}: expected an item whose outlets have at most {self.shared.place['out_bytes']} "
                               "bytes together, found one with more; enlarge the bytes of the windows behind it"))

    def cursor(self):
        """Returns the cursor behind the items that the run has."""
        return self.pending[4] if self.pending is not None else self.running.cursor()

    def report(self):
        """Returns the figures of the stage as JSON."""
        tell = getattr(self.running.one, "report", None)
        values = [[str(k), v.item() if hasattr(v, "item") else v] for k, v in tell().items()] if callable(tell) else []
        return json.dumps({"values": values, "curves": [], "problems": []}).encode()


def pack_sections(parts):
    """Returns parts of a state as bytes."""
    pieces = [struct.pack("<I", len(parts))]
    for name, number, shape, data in parts:
        text = name.encode()
        pieces += [SECTION.pack(len(text), number, len(shape), 0, len(data)), struct.pack(f"<{len(shape)}q", *shape), text, data]
    return b"".join(pieces)


def unpack_sections(payload):
    """Returns what `pack_sections` has made bytes of."""
    (count,), at, parts = struct.unpack_from("<I", payload), 4, []
    for _ in range(count):
        name_bytes, number, rank, _, size = SECTION.unpack_from(payload, at)
        at += SECTION.size
        shape = struct.unpack_from(f"<{rank}q", payload, at)
        at += 8 * rank
        name = payload[at:at + name_bytes].decode()
        at += name_bytes
        parts.append((name, number, shape, payload[at:at + size]))
        at += size
    return parts


class Session:
    """Answers the requests of the run."""

    def __init__(self):
        self.host, self.file = None, ""

    def receive(self, size):
        """Returns so many bytes, or None if the run has ended."""
        data = os.read(SOCKET, size) if size else b""
        if len(data) == size:
            return data
        while data and len(data) < size:
            more = os.read(SOCKET, size - len(data))
            data = data + more if more else b""
        return data or None

    def send(self, data):
        """Sends all bytes."""
        sent = os.write(SOCKET, data)
        while sent < len(data):
            sent += os.write(SOCKET, data[sent:])

    def answer(self, kind, count, payload):
        """Performs a request. Returns count, flags and payload of the answer."""
        host = self.host
        if kind == WORK:
            return host.complete(host.work(count)), 0, b""
        if kind == WRITE:
            return host.write(count), 0, b""
        if kind == FILL:
            filled, flags = host.fill(count)
            return filled if flags else host.complete(filled), flags, host.cursor() if flags == ENDED else b""
        if kind == START:
            start = json.loads(payload)
            self.file = start["file"]
            self.host = Host(start, mmap.mmap(MEMORY, os.fstat(MEMORY).st_size))
            return 0, 0, b""
        if kind == VERIFY:
            size, = struct.unpack_from("<I", payload)
            return int(host.running.verify(payload[4:4 + size])), 0, b""
        return 0, 0, self.control(host, kind, payload)

    @staticmethod
    def control(host, kind, payload):
        """Performs a request that is not about items. Returns the payload of the answer."""
        running = host.running
        if kind == OPEN:
            running.open()
            return b'{"constants": []}'
        if kind == CURSOR:
            return host.cursor()
        if kind == SEEK:
            running.seek(payload)
        elif kind == SETTLE:
            return running.settle()
        elif kind == REWIND:
            running.rewind(payload)
        elif kind == COPY_STATE:
            # The state of a source is its cursor.
            return pack_sections([] if host.about.face == "source" else running.save())
        elif kind == RESTORE_STATE:
            if host.about.face != "source":
                running.restore(unpack_sections(payload))
        elif kind == REPORT:
            return host.report()
        else:
            raise Error("invalid_argument", f"cannot answer a request: expected a known kind, found {kind}")
        return b""

    def failed(self, cause):
        """Returns an exception as the payload of an answer."""
        if self.host is not None:
            facts = error_of(*self.host.running.failure(cause))
        else:
            told = loading.failure(self.file, cause)
            facts = error_of(told["code"], told["message"], f"{self.file}:{told['line']}" if told["line"] else "")
        return json.dumps(facts).encode()

    def serve(self):
        """Answers requests until the run ends."""
        while True:
            head = self.receive(HEAD.size)
            if head is None:
                return
            magic, kind, sequence, count, _, size = HEAD.unpack(head)
            payload = self.receive(size)
            if magic != MAGIC or payload is None or kind == END:
                return
            try:
                count, flags, payload = self.answer(kind, count, payload)
            except Failure as failure:
                count, flags, payload = failure.complete, FAILED, self.failed(failure.cause)
            except BaseException as cause:  # of the stage: it may also raise SystemExit
                count, flags, payload = 0, FAILED, self.failed(cause)
            self.send(HEAD.pack(MAGIC, kind + ANSWER, sequence, count, flags, len(payload)) + payload)


def end_with_run():
    """Ends the process when the run has closed the socket, also while the stage computes."""
    waiting = select.poll()
    waiting.register(SOCKET, 0)  # tells only that it was closed
    waiting.poll()
    os._exit(0)


def main():
    """Serves one run. The terminal's signals are for the run, which ends its children."""
    need_numpy()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.reconfigure(line_buffering=True)
    threading.Thread(target=end_with_run, daemon=True).start()
    Session().serve()
    sys.stdout.flush()
    os._exit(0)  # threads of the stage do not keep the process


if __name__ == "__main__":
    main()
