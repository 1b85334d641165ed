# SPDX-License-Identifier: Apache-2.0
"""Tests `weir` with files that somebody made to break it, and with surroundings that are wrong: each gives an error of one
message, and none ends the program by a signal, writes outside of the working folder, or runs without an end.
"""
import json
import os
import sys
import unittest

from black_box_case import Case
from made_messages import message

DEEP = 300_000
USAGE, DATA = 2, 4
PIPELINE = """[[stage]]
name = "numbers"
use = "generator"
count = 3
shape = [4]

[[stage]]
name = "file"
use = "tgm.write"
path = "out.tgm"
"""
PREDICTIONS = """[[stage]]
name = "items"
use = "json.read"
path = "x.jsonl"
type = "u32[?]"

[[stage]]
name = "file"
use = "prose.predictions"
path = "out.tgm"
"""


def one_object():
    """Returns a message with one object of four floats."""
    return message([({"shape": [4]}, bytes(16))])


class Foreign(Case):
    def write(self, name, text):
        (self.folder / name).write_text(text)
        return name

    def test_keys_of_many_parts_are_refused_before_they_are_parsed(self):
        deep = ".".join("a" for _ in range(DEEP))
        # The last texts have a quote before the closing ones, which belongs to the string.
        for text in (f"{deep} = 1\n", f"[{deep}]\n", f"x = {{ {deep} = 1 }}\n",
                     *(f"x = [{q * 3}a{q * 4}, {{ {deep} = 1 }}]\n" for q in "\"'")):
            name = self.write("deep.toml", text)
            for verb in ("check", "graph", "run"):
                refusal = self.error(verb, name, code=USAGE)
                self.assertIn("expected keys of at most 32 parts", refusal)
                self.assertIn("deep.toml:1", refusal)
        # On the command line such a text is no TOML but a string, which is no shape.
        value = "numbers.shape={" + ".".join("a" for _ in range(50_000)) + "=1}"
        self.assertIn("numbers.shape", self.error("run", self.write("p.toml", PIPELINE), "--set", value, code=USAGE))

    def test_dots_in_strings_comments_and_lists_are_no_keys(self):
        many = ", ".join(["1.5"] * 100)
        name = self.write("p.toml", f"# {'.' * 100}\nplugins = []\n{PIPELINE}" + f"# {many}\n")
        self.weir("check", name)
        self.weir("check", name, "--set", "file.path=" + "/".join(["./a"] * 40))

    def test_nested_json_is_refused(self):
        nested = "[" * DEEP + "]" * DEEP
        (self.folder / "run").mkdir()
        self.write("run/metrics.json", f'{{"a": {nested}}}')
        self.assertIn(f"expected at most 100 nested values, found {DEEP + 1}", self.error("report", "run", code=DATA))
        self.write("run/pipeline.toml", PIPELINE)
        self.assertIn("expected at most 100 nested values", self.error("report", "run", code=DATA))
        self.write("tokenizer.json", f'{{"version": {nested}}}')
        self.assertIn("expected at most 100 nested values",
                      self.error("tokens", "count", "text", "--tokenizer", "tokenizer.json", code=DATA))

    def test_a_nested_record_of_a_model_is_refused(self):
        nested = "[" * DEEP + "]" * DEEP
        self.weir("hn4", "mkfs", "v.hn4")
        for name in ("weir_model", "facts"):
            self.write("record.json", f'{{"weir_model": 1, "{name}": {nested}}}')
            self.weir("hn4", "put", "v.hn4", f"{name}/model", "record.json")
        self.assertIn(f"found {DEEP + 1} nested values",
                      self.weir("model", "ls", "v.hn4", code=1).stderr.decode())

    def test_a_damaged_item_of_predictions_is_refused(self):
        # Three arrays of so many tokens have, modulo 2^64, one word: the item has the size of its lane.
        chunk = (2**65 + 1) // 3
        words = [0x317364657270, 0, 0, 0, 1, chunk, 0, 50_000_000]
        halves = [half for word in words for half in (word % 2**32, word >> 32)] + [0, 0, 0]
        self.write("x.jsonl", json.dumps(halves) + "\n")
        name = self.write("p.toml", PREDICTIONS)
        self.assertIn("expected the words of 1 lanes", self.error("run", name, code=DATA))

    def test_metrics_of_wrong_types_give_a_report(self):
        self.weir("run", self.write("p.toml", PIPELINE), "--out", "run")
        path = self.folder / "run" / "metrics.json"
        metrics = json.loads(path.read_text())
        metrics["stages"][0]["curves"] = [5, {"points": 7}, {"points": [[1, "x"], 3, [1, 2]]}]
        metrics["stages"][0]["values"] = {"x": 1}
        metrics["ended"] = 5
        path.write_text(json.dumps(metrics))
        self.weir("report", "run")
        self.weir("resume", "run")
        self.assertEqual(self.metrics("run")["ended"], "finished")

    def test_a_key_of_many_names_is_refused_in_messages(self):
        (self.folder / "x.tgm").write_bytes(one_object())
        key = ".".join("a" for _ in range(60_000))
        self.assertIn("expected a key of at most 32 names, found 60000",
                      self.error("tgm", "set", "-s", f"{key}=1", "x.tgm", "y.tgm", code=USAGE))
        self.assertFalse((self.folder / "y.tgm").exists())

    def test_values_of_a_message_choose_no_other_folder(self):
        (self.folder / "x.tgm").write_bytes(one_object())
        inner = self.folder / "inner"
        inner.mkdir()
        for value, expected in (("..", "_."), (".", "_"), ("../..", "_._..")):
            self.weir("tgm", "set", "-s", f"extra.name={value}", "x.tgm", "y.tgm")
            (inner / expected).mkdir()
            self.weir("tgm", "copy", "y.tgm", "inner/[name]/out.tgm")
            self.assertTrue((inner / expected / "out.tgm").exists(), value)
        self.assertEqual(sorted(os.listdir(self.folder)), ["inner", "text", "x.tgm", "y.tgm"])

    def test_a_folder_that_leads_back_to_itself_is_refused(self):
        loop = self.folder / "loop"
        loop.mkdir()
        for name in ("a", "b"):
            (loop / name).symlink_to(".")
        tokenizer = self.write("tokenizer.json", json.dumps(
            {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
             "decoder": None, "model": {"type": "BPE", "vocab": {"a": 0, "</s>": 1}, "merges": []}}))
        self.assertIn("found a link to a folder around it",
                      self.error("tokens", "pack", "loop", "--tokenizer", tokenizer, "--out", "x.bin", code=USAGE))

    def test_names_that_are_not_utf_8_are_printed(self):
        tokenizer = self.write("tokenizer.json", json.dumps(
            {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None,
             "decoder": None, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}))
        name = os.fsdecode(b"bad_\xff.txt")
        (self.folder / name).write_text("aaa")
        done = self.weir("tokens", "count", "--json", name, "--tokenizer", tokenizer)
        self.assertEqual(json.loads(done.stdout.decode())["tokens"], 3)

    def test_a_missing_folder_for_temporary_files_is_named(self):
        missing = {"TMPDIR": "/nonexistent"}
        done = self.weir("prove", self.write("p.toml", PIPELINE), code=5, environment=missing)
        self.assertIn("expected TMPDIR to name a folder", done.stderr.decode())
        facts = json.loads(self.weir("doctor", "--json", environment=missing).stdout)
        last = facts["folders"][-1]
        self.assertFalse(last["writable"])
        self.assertEqual(last["folder"], "the folder for temporary files")

    def test_many_damaged_streams_are_passed_over(self):
        # A preamble that says "a stream follows", and a frame without a type or an end, 160,000 times.
        preamble = one_object()[:16] + bytes(8)
        damaged = (preamble + b"FR" + bytes(14)) * 160_000
        done = self.weir("pipe", "- ! null", stdin=damaged, code=DATA)
        self.assertIn("found", done.stderr.decode())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
