# SPDX-License-Identifier: Apache-2.0
"""The child process of a stage, against the run's side of the wire in parent.py: `host_test.py [unittest arguments]`."""
import json
import os
import pathlib
import struct
import tempfile
import unittest

import numpy as np

from parent import Parent
from weir import attributes, host

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE / "host_stages.py"


class Child(unittest.TestCase):
    def child(self, use, file=FILE, **more):
        one = Parent(file, use, **more)
        self.addCleanup(lambda: one.process.poll() is None and one.close())
        self.assertIsNone(one.begin())
        return one

    def failure(self, answer, complete):
        count, flags, payload = answer
        self.assertEqual((count, flags), (complete, host.FAILED), payload)
        return json.loads(payload)

    def test_a_message_of_32_items_equals_numpy(self):
        one = self.child("test.double")
        items = [np.arange(n % 5, dtype=np.float32) for n in range(32)]
        for _ in range(2):  # the second time with views that are kept
            for c, item in enumerate(items):
                one.put(c, c, item)
            self.assertEqual(one.ask(host.WORK, 32), (32, 0, b""))
            for c, item in enumerate(items):
                flags, about, cursor, (found,) = one.made(c)
                self.assertEqual((flags, about, cursor), (0, None, b""))
                np.testing.assert_array_equal(found, item * 2)
        self.assertEqual(one.close(), 0)

    def test_a_message_that_comes_again_may_skip_change_and_fail(self):
        one = self.child("test.sometimes")
        about = attributes.encode({"a": 1})
        for first in (0, 10, 20, 30):
            for c in range(10):
                one.put(c, first + c, np.array(c), attributes=about if c == 2 else b"")
            answer = one.ask(host.WORK, 10)
            complete = 7 if first == 20 else 10
            if complete == 7:
                self.assertIn("item 27", self.failure(answer, 7)["text"])
            else:
                self.assertEqual(answer, (10, 0, b""))
            for c in range(complete):
                flags, changed, _, arrays = one.made(c)
                self.assertEqual(flags, int(first + c == 13))
                self.assertEqual(changed, attributes.encode({"changed": 1}) if first + c == 16 else None)
                self.assertEqual([int(a) for a in arrays], [] if first + c == 13 else [100 * (first + c) + c])
        self.assertEqual(one.close(), 0)

    def test_an_exception_names_the_call_and_has_its_traceback(self):
        one = self.child("test.double", settings=[["at", 7]])
        for c in range(10):
            one.put(c, c, np.zeros(3, np.float32))
        error = self.failure(one.ask(host.WORK, 10), 7)
        self.assertEqual((error["code"], error["text"].split(" (")[0]), (65, "stage Double: ValueError: bad item of 3 elements"))
        self.assertRegex(error["text"], r"\(host_stages.py:\d+\)$")
        self.assertRegex(error["location"], r"host_stages.py:\d+, in misbehave: raise ValueError.*\n  at .*:\d+, in on_item: self.misbehave\(x\)$")
        self.assertNotIn(str(HERE.parents[2] / "python" / "weir"), error["location"])
        one.put(0, 8, np.ones(1, np.float32))
        self.assertEqual(one.ask(host.WORK, 1)[:2], (1, 0))  # it goes on behind a skipped item

    def test_exit_is_an_error_of_the_item(self):
        one = self.child("test.double", settings=[["at", 0], ["act", "exit"]])
        one.put(0, 0, np.zeros(3, np.float32))
        self.assertIn("SystemExit: 3", self.failure(one.ask(host.WORK, 1), 0)["text"])

    def test_a_process_that_ends_closes_the_socket_and_leaves_its_last_words(self):
        for act, status in (("_exit", 3), ("kill", -9)):
            one = self.child("test.double", settings=[["at", 0], ["act", act]])
            one.put(0, 0, np.zeros(3, np.float32))
            with self.assertRaises(EOFError):
                one.ask(host.WORK, 1)
            self.assertEqual(one.words(), "last words\n" if act == "_exit" else "")
            self.assertEqual(one.close(), status)

    def test_a_stage_that_hangs_ends_with_its_run(self):
        one = self.child("test.double", settings=[["at", 0], ["act", "hang"]])
        one.put(0, 0, np.zeros(3, np.float32))
        one.socket.sendall(host.HEAD.pack(host.MAGIC, host.WORK, 3, 1, 0, 0))
        self.assertEqual(one.close(), 0)

    def test_a_slow_stage_answers_before_all_items_are_done(self):
        one = self.child("test.double", settings=[["at", 2], ["act", "sleep"]], max_seconds=0.02)
        for c in range(10):
            one.put(c, c, np.zeros(3, np.float32))
        count, flags, _ = one.ask(host.WORK, 10)
        self.assertEqual((0 < count <= 3, flags), (True, 0))  # fewer on a machine that is busy

    def test_results_of_wrong_type_and_shape_name_outlet_expected_and_found(self):
        for act, words in (("dtype", "outlet 'y': expected f32[n], found f64[2]"),
                           ("shape", "outlet 'y': expected f32[n] with n = 2, found f32[3]"),
                           ("none", "outlet 'y': expected an array f32[n], found None")):
            one = self.child("test.wrong", settings=[["act", act]])
            one.put(0, 0, np.zeros(2, np.float32))
            self.assertEqual(self.failure(one.ask(host.WORK, 1), 0)["text"], "stage Wrong: " + words)

    def test_a_call_is_made_once_if_the_memory_for_results_is_full(self):
        one = self.child("test.repeat", slot=128, calls=4)  # room for 512 bytes
        item = np.arange(8, dtype=np.float32)  # results of 32, 64, 96, ... bytes
        results, number = [], 0
        while number < 10:
            for c in range(4):
                one.put(c, number + c, item)
            count, flags, _ = one.ask(host.WORK, 4)
            self.assertEqual(flags, 0)
            self.assertGreater(count, 0)
            results += [one.made(c)[3][0] for c in range(count)]
            number += count
        for n, found in enumerate(results):
            np.testing.assert_array_equal(found, np.tile(item, n + 1))
        count = 1
        while count:  # an item that waits comes first
            one.put(0, 10, np.zeros(100, np.float32))
            count, flags, payload = one.ask(host.WORK, 1)
        self.assertIn("an item of at most 512 bytes, found", self.failure((count, flags, payload), 0)["text"])

    def test_an_item_that_is_larger_than_the_memory_is_refused(self):
        for use, outlets in (("test.both", 2), ("test.double", 1)):
            one = self.child(use, slot=256, out_bytes=outlets * 128)
            one.put(0, 0, np.ones(32, np.float32))
            self.assertEqual(one.ask(host.WORK, 1)[:2], (1, 0))
            one.put(0, 1, np.ones(48, np.float32))
            self.assertIn(f"at most {outlets * 128} bytes", self.failure(one.ask(host.WORK, 1), 0)["text"])
            one.put(0, 2, np.ones(1, np.float32))
            self.assertEqual(one.ask(host.WORK, 1)[:2], (1, 0))

    def test_attributes_are_passed_on_unless_they_change(self):
        one = self.child("test.note")
        about = attributes.encode({"a": -1, "b": "ü", "c": 0.5, "d": 2**63})
        for c in range(4):
            one.put(c, c, np.zeros((1,) * c, np.int16), attributes=about)
        self.assertEqual(one.ask(host.WORK, 4)[:2], (4, 0))
        self.assertEqual([one.made(c)[3][0][0] for c in range(4)], [0, 1, 2, 3])
        self.assertEqual([one.made(c)[1] for c in (0, 2)], [None, None])
        self.assertEqual(attributes.decode(one.made(3)[1]), {"a": -1, "b": "ü", "c": 0.5, "d": 2**63, "rank": 3})

    def test_gaps_are_told(self):
        one = self.child("test.odd")
        for c in range(4):
            one.put(c, c, np.array(c))
        self.assertEqual(one.ask(host.WORK, 4)[:2], (4, 0))
        self.assertEqual([one.made(c)[0] for c in range(4)], [1, 0, 1, 0])
        self.assertEqual(int(one.made(3)[3][0]), 3)

    def test_state_goes_from_child_to_child(self):
        one, two = self.child("test.double"), self.child("test.double")
        for c in range(5):
            one.put(c, c, np.full(3, 2, np.float32))
        one.ask(host.WORK, 5)
        state = one.ask(host.COPY_STATE)[2]
        parts = host.unpack_sections(state)
        self.assertEqual(parts, [("seen", 10, (), struct.pack("<q", 5)), ("sums", 6, (2,), struct.pack("<2d", 30, 5))])
        self.assertEqual(two.ask(host.RESTORE_STATE, 0, state), (0, 0, b""))
        two.put(0, 5, np.ones(1, np.float32))
        two.ask(host.WORK, 1)
        self.assertEqual(host.unpack_sections(two.ask(host.COPY_STATE)[2])[1][3], struct.pack("<2d", 31, 6))
        wrong = host.pack_sections([("seen", 10, (), struct.pack("<q", 5))])
        self.assertIn("state 'sums': expected it in the checkpoint", self.failure(two.ask(host.RESTORE_STATE, 0, wrong), 0)["text"])

    def test_a_source_goes_on_from_its_cursor(self):
        one = self.child("test.count", settings=[["quiet", 3]])
        for c in range(4):
            one.put(c, c, flags=host.WANTS_CURSOR)
        self.assertEqual(one.ask(host.FILL, 4), (3, host.NOTHING, b""))
        items = [one.made(c) for c in range(3)]
        self.assertEqual([i[2] for i in items], [struct.pack("<qd", n, n / 2) for n in (1, 2, 3)])
        self.assertEqual([attributes.decode(i[1]) for i in items], [{"n": n} for n in (1, 2, 3)])
        np.testing.assert_array_equal(items[2][3][0], [1.5] * 3)
        two = self.child("test.count")
        self.assertEqual(two.ask(host.SEEK, 0, items[1][2]), (0, 0, b""))
        self.assertEqual(two.ask(host.FILL, 4), (3, host.ENDED, struct.pack("<qd", 5, 2.5)))
        np.testing.assert_array_equal(two.made(0)[3][0], [1.5] * 3)
        self.assertIn("cursor: expected 16 bytes, found 3", self.failure(two.ask(host.SEEK, 0, b"abc"), 0)["text"])

    def test_the_cursor_does_not_run_ahead_of_an_item_that_had_no_room(self):
        one = self.child("test.count", settings=[["count", 9]], slot=32, calls=2)  # room for 64 bytes, item n has 8 (n + 1)
        found = []
        while True:
            for c in range(2):
                one.put(c, len(found) + c)
            count, flags, _ = one.ask(host.FILL, 2)
            found += [one.made(c)[3][0] for c in range(count)]
            if flags or len(found) == 8:
                break
            self.assertEqual(one.ask(host.CURSOR)[2], struct.pack("<qd", len(found), len(found) / 2))
        self.assertEqual([len(a) for a in found], [1, 2, 3, 4, 5, 6, 7, 8])

    def test_a_sink_writes_settles_and_is_cut(self):
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            example = HERE / "example.py"
            one = self.child("demo.raw_file", file=example, settings=[["path", os.path.join(folder, "out")]])
            for c in range(3):
                one.put(c, c, np.array([c, c], np.uint8))
            self.assertEqual(one.ask(host.WRITE, 3), (3, 0, b""))
            offset = one.ask(host.SETTLE)[2]
            one.ask(host.WRITE, 1)
            self.assertEqual(one.ask(host.REWIND, 0, offset), (0, 0, b""))
            self.assertEqual(one.close(), 0)
            self.assertEqual(pathlib.Path(folder, "out").read_bytes(), b"\0\0\1\1\2\2")
            record = struct.pack("<I", len(offset)) + offset + struct.pack("<I", 0)
            two = Parent(example, "demo.raw_file", settings=[["path", os.path.join(folder, "out")]])
            two.ask(host.START, 0, json.dumps(two.start).encode())
            self.assertEqual(two.ask(host.VERIFY, 0, record), (1, 0, b""))
            os.truncate(os.path.join(folder, "out"), 5)
            error = self.failure(two.ask(host.VERIFY, 0, record), 0)
            self.assertEqual((error["code"], error["text"].split(": ")[1]), (31, "expected 6 bytes, found 5"))
            two.close()

    def test_with_debugging_a_view_that_was_kept_is_poisoned(self):
        # A debug build asks for it, and the environment decides before the build.
        for asked, build, poisoned in (("1", False, True), ("", True, True), ("0", True, False), ("", False, False)):
            one = Parent(FILE, "test.keep", environment={"WEIR_DEBUG": asked})
            self.addCleanup(lambda one=one: one.process.poll() is None and one.close())
            one.start["debug"] = build
            self.assertIsNone(one.begin())
            for c in range(2):
                one.put(c, c, np.ones(2, np.float32))
            self.assertEqual(one.ask(host.WORK, 2)[:2], (2, 0))
            self.assertEqual(one.made(1)[3][0].tobytes()[:4] == b"\xcb" * 4, poisoned)
            self.assertEqual("a view of port 'x' is kept behind the call for item 0" in one.words(), poisoned)

    def test_an_item_lies_in_the_memory_that_the_run_offers_if_it_fits(self):
        one = self.child("test.double")
        one.offered = {0: 64, 1: 4}
        for _ in range(2):  # the second time with views that are kept
            for c in range(3):
                one.put(c, c, np.full(4, c, np.float32))
            self.assertEqual(one.ask(host.WORK, 3)[:2], (3, 0))
            for c in range(3):
                np.testing.assert_array_equal(one.made(c)[3][0], np.full(4, 2 * c, np.float32))
            places = [struct.unpack_from("<Q", one.memory, one.place["outputs"] + 96 * c)[0] for c in range(3)]
            self.assertEqual(places, [one.place["slots"], one.place["out"], one.place["out"] + 64])

    def test_wrong_starts_are_refused(self):
        for change, words in (({"use": "test.none"}, "expected 'test.none' in"), ({"version": 1}, "expected version 2"),
                              ({"settings": [["at", "x"]]}, "setting 'at': expected an integer, found 'x'")):
            one = Parent(FILE, "test.double")
            one.start.update(change)
            self.assertIn(words, one.begin()["text"])
            self.assertEqual(one.close(), 0)

    def test_a_tensor_outside_of_the_memory_is_refused(self):
        one = self.child("test.double")
        one.put(0, 0, np.zeros(2, np.float32))
        struct.pack_into("<QQ", one.memory, one.place["inputs"], one.place["bytes"], 8)
        self.assertIn("expected a tensor in the shared memory", self.failure(one.ask(host.WORK, 1), 0)["text"])


if __name__ == "__main__":
    unittest.main()
