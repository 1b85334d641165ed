# SPDX-License-Identifier: Apache-2.0
"""Stages alone in this process, with `weir.testing`: `feed_test.py [unittest arguments]`."""
import os
import tempfile
import unittest
import warnings

import numpy as np

import weir
from example import Numbers, RawFile, UnitRows
from weir.testing import feed, resumed

RNG = np.random.default_rng(1)


@weir.stage("demo.positive", x="f32[n]", y="f32[?]", stateless=True)
class Positive:
    """Keeps the positive numbers of an item, and skips items without one."""
    def on_item(self, x):
        kept = x[x > 0]
        return kept if len(kept) else weir.skip


@weir.stage("demo.keeper", x="f32[n]", y="f32[n]")
class Keeper:
    """Keeps views, which is a mistake."""
    def open(self):
        self.kept = []

    def on_item(self, x, y):
        y[:] = x
        self.kept.append((x[1:], y))


class Feed(unittest.TestCase):
    def test_the_example_equals_numpy_and_counts_rows(self):
        items = [RNG.standard_normal((n, 5), np.float32) for n in (1, 3, 2)]
        one = UnitRows(eps=0.5)
        found = feed(one, x=items)
        self.assertEqual(one.seen, 6)
        for item, result in zip(items, found):
            np.testing.assert_array_equal(result, item / (np.linalg.norm(item, axis=1, keepdims=True) + 0.5))

    def test_results_of_any_shape_and_gaps(self):
        found = feed(Positive, x=[[1, -1, 2], [-1, -2], []])
        self.assertEqual(found[0].tolist(), [1, 2])
        self.assertEqual(found[1:], [None, None])

    def test_a_view_that_is_kept_is_poisoned_and_told(self):
        one = Keeper()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = feed(one, x=[np.arange(4, dtype=np.float32)] * 2)
        self.assertEqual(found[1].tolist(), [0, 1, 2, 3])
        self.assertEqual([str(w.message).split(";")[0] for w in told],
                         [f"stage Keeper: a view of port '{p}' is kept behind the call for item {n}" for n in (0, 1) for p in "xy"])
        for views in one.kept:
            for view in views:
                self.assertEqual(set(view.tobytes()), {0xCB})

    def test_inlets_are_read_only(self):
        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            def on_item(self, x, y):
                x[0] = 1
        with self.assertRaisesRegex(ValueError, "read-only"):
            feed(Demo, x=[np.zeros(2, np.float32)])

    def test_wrong_results_name_the_outlet_and_both_types(self):
        results = {"array f64": (np.zeros(2), "outlet 'y': expected f32[n,2], found f64[2]"),
                   "extent": (np.zeros((3, 2), np.float32), "outlet 'y': expected f32[n,2] with n = 1, found f32[3,2]"),
                   "list": ([1, 2], "outlet 'y': expected an array f32[n,2], found list '[1, 2]'"),
                   "none": (None, "outlet 'y': expected an array f32[n,2], found None")}
        for result, words in results.values():
            class Demo:
                def on_item(self, x):
                    return result
            stage = weir.stage("demo.a", x="f32[n]", y="f32[n,2]")(Demo)
            with self.assertRaises(weir.Error) as caught:
                feed(stage, x=[np.zeros(1, np.float32)])
            self.assertIn(words, str(caught.exception))

    def test_wrong_items_name_the_inlet(self):
        for item, words in ((np.zeros((2, 2)), "inlet 'x': expected f32[n,k], found f64[2,2]"),
                            (np.zeros(2, np.float32), "inlet 'x': expected f32[n,k], found f32[2]")):
            with self.assertRaises(weir.Error) as caught:
                feed(UnitRows, x=[item])
            self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(weir.Error, "inlet 'x': expected a list of arrays, found None"):
            feed(UnitRows)
        with self.assertRaisesRegex(weir.Error, "did you mean 'eps'"):
            feed(UnitRows, x=[], epd=1)

    def test_letters_are_equal_among_inlets(self):
        @weir.stage("demo.a", a="f32[n]", b="f32[n]", y="f32[n]")
        class Demo:
            def on_item(self, a, b, y):
                np.add(a, b, out=y)
        self.assertEqual(feed(Demo, a=[[1, 2]], b=[[3, 4]])[0].tolist(), [4, 6])
        with self.assertRaisesRegex(weir.Error, r"inlet 'b': expected f32\[n\] with n = 2, found f32\[1\]"):
            feed(Demo, a=[[1, 2]], b=[[3]])
        with self.assertRaisesRegex(weir.Error, "equally many arrays"):
            feed(Demo, a=[[1, 2]], b=[])

    def test_shapes_that_the_stage_tells_are_checked(self):
        class Demo:
            def shape(self, x):
                return told

            def on_item(self, x, y):
                y[:] = x[0]
        stage = weir.stage("demo.a", x="f32[n]", y="f32[2,m]")(Demo)
        told = (2, 3)
        self.assertEqual(feed(stage, x=[[5]])[0].tolist(), [[5] * 3] * 2)
        for told in ((3, 3), 4, (2, -1), "ab", None):
            with self.assertRaisesRegex(weir.Error, "shape of outlet 'y': expected extents for f32"):
                feed(stage, x=[[5]])

    def test_attributes_begin_as_those_of_the_item_and_may_change(self):
        seen = []

        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            def on_item(self, x, y):
                y[:] = x
                seen.append((self.item.seq, dict(self.item.attributes)))
                self.item.attributes["sum"] = x.sum()
        feed(Demo, x=[[1], [2]], attributes=[{"a": 1, "b": "two"}, {"c": -0.5, "d": 2**64 - 1}])
        self.assertEqual(seen, [(0, {"a": 1, "b": "two"}), (1, {"c": -0.5, "d": 2**64 - 1})])

    def test_attributes_of_another_kind_or_size_are_refused(self):
        for value, words in (([1], "found list"), (True, "found bool"), (2**64, "64 bits"), ("a" * 300, "at most 256 bytes")):
            @weir.stage("demo.a", x="f32[n]", y="f32[n]")
            class Demo:
                def on_item(self, x, y):
                    self.item.attributes["a"] = value
            with self.assertRaisesRegex(weir.Error, words):
                feed(Demo, x=[[1]])

    def test_random_numbers_depend_on_seed_stage_and_item(self):
        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            def on_item(self, x, y):
                y[:] = self.item.random().random(len(x))
        again = [feed(Demo, x=[[0, 0]] * 2, seed=seed) for seed in (1, 1, 2)]
        np.testing.assert_array_equal(again[0], again[1])
        self.assertEqual(len({a.tobytes() for a in (*again[0], *again[2])}), 4)

    def test_a_source_runs_to_its_end_and_goes_on_from_its_state(self):
        one = Numbers(count=5)
        self.assertEqual([a[0] for a in feed(one, items=3)], [0, 1, 2])
        self.assertEqual([a[0] for a in feed(resumed(one))], [3, 4])

    def test_a_source_says_whether_there_is_an_item(self):
        @weir.stage("demo.a", y="f32[2]")
        class Demo:
            at: int = weir.state(0)

            def next(self, y):
                y[:] = 1
        with self.assertRaisesRegex(weir.Error, r"expected True \(an item\), False \(the end\) or weir.nothing_yet, found None"):
            feed(Demo)

    def test_a_sink_is_settled_and_cut(self):
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            path = os.path.join(folder, "a")
            self.assertEqual(feed(RawFile(path=path), x=[np.arange(3, dtype=np.uint8)] * 2), 6)
            one = RawFile(path=path, mode="reversed")
            self.assertEqual(feed(one, x=[np.arange(3, dtype=np.uint8)]), 9)
            one.rewind(3)
            one.file.close()
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"\0\1\2")

    def test_state_survives_with_its_types(self):
        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            count: int = weir.state(0)
            mean: float = weir.state(0.0)
            on: bool = weir.state(False)
            word: str = weir.state("")
            sums: np.ndarray = weir.state(np.zeros(0, np.float32))

            def on_item(self, x, y):
                y[:] = x
                self.count, self.mean, self.on, self.word = np.int64(7), np.float32(0.5), True, "größe"
                self.sums = np.arange(6, dtype=np.float32).reshape(2, 3).T
        one = Demo()
        feed(one, x=[[1]])
        two = resumed(one)
        self.assertEqual((two.count, two.mean, two.on, two.word), (7, 0.5, True, "größe"))
        self.assertEqual([type(v) for v in (two.count, two.mean, two.on)], [int, float, bool])
        np.testing.assert_array_equal(two.sums, one.sums)
        one.count = 2**63
        with self.assertRaisesRegex(weir.Error, "state 'count': expected a number of 64 bits"):
            resumed(one)
        one.count, one.sums = 1, np.zeros(2)
        with self.assertRaisesRegex(weir.Error, r"state 'sums': expected an array of f32, found an array f64\[2\]"):
            resumed(one)


if __name__ == "__main__":
    unittest.main()
