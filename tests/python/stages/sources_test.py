# SPDX-License-Identifier: Apache-2.0
"""Tests weir.sources: the protocol, credits, states and the end of the run, without the program."""
import io
import json
import os
import unittest

from weir import sources


class Numbers(sources.Source):
    dataset = {"name": "numbers"}

    def documents(self, state):
        for i in range(state or 0, 4):
            if i == 2:
                yield sources.reset()
            yield sources.doc(f"number {i}", state=i + 1, id=i)
        yield [1, 2, 3]
        yield "ä"


def exchange(*messages):
    """What the source sends if the run sends these messages and then goes."""
    out = io.StringIO()
    sources.serve(Numbers(), io.StringIO("".join(json.dumps(m) + "\n" for m in messages)), out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


class Protocol(unittest.TestCase):
    def test_everything_is_sent_in_order(self):
        sent = exchange({"seek": None}, {"more": 10000})
        self.assertEqual(sent[:4], [{"hello": 1, "dataset": {"name": "numbers"}}, {"doc": 0, "text": "number 0"},
                                    {"state": 1}, {"doc": 1, "text": "number 1"}])
        self.assertEqual(sent[-3:], [{"ids": [1, 2, 3]}, {"text": "ä"}, {"end": True}])
        self.assertEqual(sent[5], {"reset": True})

    def test_a_state_leaves_out_what_lies_before_it(self):
        self.assertEqual(exchange({"seek": 3}, {"more": 10000})[1], {"doc": 3, "text": "number 3"})

    def test_nothing_is_sent_without_credit(self):
        self.assertEqual(len(exchange({"seek": None})), 1)
        self.assertEqual(len(exchange({"seek": None}, {"more": 1})), 2)
        self.assertEqual(len(exchange({"seek": None}, {"more": 1}, {"more": 40})), 4)

    def test_a_run_that_has_gone_is_the_end(self):
        self.assertEqual(len(exchange()), 1)

    def test_a_closed_pipe_is_the_end(self):
        reading, writing = os.pipe()
        os.close(reading)
        lines_in = io.StringIO('{"seek": null}\n{"more": 10000}\n')
        with os.fdopen(writing, "w") as out:  # leaving the block flushes the stream again
            sources.serve(Numbers(), lines_in, out)
        self.assertEqual(lines_in.tell(), 0)


if __name__ == "__main__":
    unittest.main()
