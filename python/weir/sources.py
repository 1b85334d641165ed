# SPDX-License-Identifier: Apache-2.0
"""Sources of documents for a context stream, as child processes of a run.

docs/formats/child-source.md describes the protocol. The module needs nothing but the interpreter.
"""
import json
import os
import sys


class Source:
    """Base of a source of documents. A subclass has `documents`; `serve` speaks the protocol.

    `dataset` names the data: a run is not resumed with data of another name. None: the name is not checked.
    """

    dataset = None

    def documents(self, state):
        """Yields the documents behind `state`, or all of them if it is None.

        Each one is a text or a list of ids, or `doc(...)` with an identifier and the state behind it; `reset()` asks
        for a new context. Equal states must give equal documents.
        """
        raise NotImplementedError


def doc(content, state=None, id=None):
    """A document: its text or ids, the state from which a resumed run goes on behind it, and its identifier.

    A state is any value that JSON can express, below 1 MiB. Without states a resumed run reads everything again.
    """
    return {"content": content, "state": state, "id": id}


def reset():
    """Asks for a new context before the next document."""
    return {"reset": True}


class Wire:
    """The two streams of lines, with the bytes that may still be sent."""

    def __init__(self, lines_in, lines_out):
        self.lines_in, self.lines_out, self.credit = lines_in, lines_out, 0

    def take(self):
        """The next message of the run, or None once it has gone."""
        line = self.lines_in.readline()
        return json.loads(line) if line else None

    def send(self, message, counted=True):
        """Sends a message, once the run has space for one. Returns False once the run has gone."""
        while counted and self.credit <= 0:
            more = self.take()
            if more is None:
                return False
            self.credit += more.get("more", 0)
        line = json.dumps(message, separators=(",", ":")) + "\n"
        self.credit -= len(line) if counted else 0
        try:
            self.lines_out.write(line)
            self.lines_out.flush()
        except BrokenPipeError:
            # The interpreter flushes the stream once more when it ends, and would fail again.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.lines_out.fileno())
            os.close(null)
            return False
        return True


def lines_of(item):
    """The messages that one item of `documents` stands for."""
    if isinstance(item, dict) and item.get("reset"):
        return [{"reset": True}]
    item = item if isinstance(item, dict) else doc(item)
    content = item["content"]
    first = {"text": content} if isinstance(content, str) else {"ids": [int(i) for i in content]}
    if item["id"] is not None:
        first = {"doc": item["id"], **first}
    return [first] if item["state"] is None else [first, {"state": item["state"]}]


def serve(source, lines_in=None, lines_out=None):
    """Serves a source on standard input and output until the run ends it or no document is left.

    What the source prints goes to standard error, because standard output belongs to the protocol.
    """
    wire = Wire(lines_in or sys.stdin, lines_out or sys.stdout)
    if lines_out is None:
        sys.stdout = sys.stderr
    hello = {"hello": 1} if source.dataset is None else {"hello": 1, "dataset": source.dataset}
    seek = wire.take() if wire.send(hello, counted=False) else None
    if seek is None:
        return
    for item in source.documents(seek["seek"]):
        for message in lines_of(item):
            if not wire.send(message):
                return
    wire.send({"end": True})
