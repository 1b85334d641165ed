#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs of `weir tokens` from outside: `verbs.py WEIR SOURCE_DIR`."""
import json
import os
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
from black_box_case import LICENCE, Case  # noqa: E402


def spelled(byte):
    """The character that stands for a byte in byte-level vocabularies."""
    own = [b for b in range(256) if 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE]
    return chr(byte) if byte in own else chr(0x100 + sum(1 for b in range(byte) if b not in own))


def tokenizer(extra=0):
    """Ids 0 to 255 are bytes, 256 is " t", 257 "he", 258 " the", 259 end of text; `extra` more ids lie behind."""
    vocabulary = {spelled(b): b for b in range(256)}
    merges = [[spelled(32), "t"], ["h", "e"], [spelled(32) + "t", "he"]]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    vocabulary["<|endoftext|>"] = 259
    for i in range(extra):
        vocabulary[f"<extra {i}>"] = 260 + i
    end = {"id": 259, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": False, "special": True}
    template = {"type": "TemplateProcessing", "pair": [],
                "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [259], "tokens": ["<|endoftext|>"]}}}
    return {"version": "1.0", "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "post_processor": template,
            "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}


def gguf(description):
    """The header of a GGUF file with the vocabulary of a description that splits like GPT-2."""
    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def texts(values):
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(text(v) for v in values)
    model = description["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    special = {t["id"] for t in description["added_tokens"]}
    ids = struct.pack("<IIQ", 9, 5, len(tokens)) + b"".join(struct.pack("<i", 3 if i in special else 1) for i in range(len(tokens)))
    values = {"model": struct.pack("<I", 8) + text("gpt2"), "pre": struct.pack("<I", 8) + text("gpt-2"), "tokens": texts(tokens),
              "merges": texts([" ".join(m) for m in model["merges"]]), "token_type": ids,
              "bos_token_id": struct.pack("<II", 4, 259), "add_bos_token": struct.pack("<IB", 7, 1)}
    return (b"GGUF" + struct.pack("<IQQ", 3, 0, len(values)) +
            b"".join(text("tokenizer.ggml." + key) + value for key, value in values.items()))


class Tokens(Case):
    """Tests with a small tokenizer and one whose ids need 32 bits."""

    def setUp(self):
        super().setUp()
        (self.folder / "t.json").write_text(json.dumps(tokenizer()))
        (self.folder / "wide.json").write_text(json.dumps(tokenizer(extra=70_000)))
        (self.folder / "a.txt").write_bytes(b"in the hat")

    def ids(self, *args, **keys):
        return [int(w) for w in self.weir("tokens", "encode", *args, **keys).stdout.split()]

    def test_encode_prints_ids_with_and_without_special_ones(self):
        expected = [105, 110, 258, 32, 104, 97, 116]
        self.assertEqual(self.ids("a.txt", "--tokenizer", "t.json"), [259, *expected])
        self.assertEqual(self.ids("a.txt", "--tokenizer", "t.json", "--plain"), expected)
        self.assertEqual(self.ids("-", "--tokenizer", "t.json", "--plain", stdin=b"in the hat"), expected)

    def test_every_format_comes_back(self):
        text = Path(LICENCE).read_bytes() * 30
        (self.folder / "long.txt").write_bytes(text)
        for name in ("t.json", "wide.json"):
            for path, options in (("o.bin", []), ("o.npy", []), ("o.llmc", ["--format", "llmc"]), ("o.text", [])):
                self.weir("tokens", "encode", "long.txt", "--tokenizer", name, "-o", path, *options)
                back = self.weir("tokens", "decode", path, "--tokenizer", name, *options)
                self.assertEqual(back.stdout, text, (name, path))
        wide = (self.folder / "o.bin").read_bytes()
        self.assertEqual(struct.unpack_from("<I", wide), (259,))

    def test_headers_have_the_number_of_ids(self):
        self.weir("tokens", "encode", "a.txt", "--tokenizer", "t.json", "-o", "a.llmc", "--format", "llmc")
        data = (self.folder / "a.llmc").read_bytes()
        self.assertEqual(struct.unpack_from("<3I", data), (20240520, 1, 8))
        self.assertEqual(struct.unpack_from("<8H", data, 1024), (259, 105, 110, 258, 32, 104, 97, 116))
        self.weir("tokens", "encode", "a.txt", "--tokenizer", "wide.json", "-o", "w.llmc", "--format", "llmc")
        self.assertEqual(struct.unpack_from("<3I", (self.folder / "w.llmc").read_bytes()), (20240801, 7, 8))
        self.weir("tokens", "encode", "a.txt", "--tokenizer", "t.json", "-o", "a.npy")
        data = (self.folder / "a.npy").read_bytes()
        self.assertEqual(data[:10], b"\x93NUMPY\x01\x00\x76\x00")
        self.assertIn(b"'descr': '<u2', 'fortran_order': False, 'shape': (8,)", data[:128])
        self.assertEqual(len(data), 128 + 16)

    def test_count_sums_up(self):
        found = json.loads(self.weir("tokens", "count", "a.txt", "a.txt", "--tokenizer", "t.json", "--json").stdout)
        self.assertEqual((found["bytes"], found["tokens"], found["vocabulary"]), (20, 16, 260))
        self.assertEqual([t["tokens"] for t in found["texts"]], [8, 8])
        self.assertIn(b"16\ttotal", self.weir("tokens", "count", "a.txt", "a.txt", "--tokenizer", "t.json").stdout)

    def test_pack_reads_folders_in_the_order_of_names(self):
        (self.folder / "in" / "b").mkdir(parents=True)
        for name, text in (("in/c", "c"), ("in/a", "a"), ("in/b/z", "z"), ("in/.hidden", "h")):
            (self.folder / name).write_text(text)
        facts = json.loads(self.weir("tokens", "pack", "in", "--tokenizer", "t.json", "-o", "p.bin", "--json").stdout)
        self.assertEqual((facts["texts"], facts["tokens"], facts["bytes"]), (3, 6, 3))
        self.assertEqual(struct.unpack("<6H", (self.folder / "p.bin").read_bytes()), (97, 259, 122, 259, 99, 259))
        self.weir("tokens", "pack", "in", "--tokenizer", "t.json", "-o", "q.bin", "--end-of-text", "he")
        self.assertEqual(struct.unpack("<6H", (self.folder / "q.bin").read_bytes())[1], 257)
        self.assertIn("\"nobody\"", self.error("tokens", "pack", "in", "--tokenizer", "t.json", "-o", "r.bin",
                                               "--end-of-text", "nobody", code=3))
        self.assertFalse((self.folder / "r.bin").exists())

    def test_text_that_is_not_utf8_is_refused_or_replaced(self):
        (self.folder / "bad").write_bytes(b"a" * 100_000 + b"\xE4\xB8b")
        message = self.error("tokens", "encode", "bad", "--tokenizer", "t.json", "-o", "bad.bin", code=4)
        self.assertIn("0xe4 at byte 100000", message)
        self.assertFalse((self.folder / "bad.bin").exists())
        self.weir("tokens", "encode", "bad", "--tokenizer", "t.json", "-o", "bad.bin", "--replace")
        back = self.weir("tokens", "decode", "bad.bin", "--tokenizer", "t.json").stdout
        self.assertEqual(back, b"a" * 100_000 + "\uFFFDb".encode())

    def test_damaged_files_of_ids_are_refused(self):
        self.weir("tokens", "encode", "a.txt", "--tokenizer", "t.json", "-o", "a.npy")
        data = (self.folder / "a.npy").read_bytes()
        llmc = struct.pack("<256I", 20240520, 1, 9, *[0] * 253) + bytes(16)
        for name, content, options in (
                ("odd.bin", b"abc", []), ("words", b"1 2 x", []), ("big", b"1 99999", []), ("cut.npy", data[:60], []),
                ("type.npy", data.replace(b"<u2", b"<f2"), []), ("cut.npy", data[:-1], []),
                ("cut.npy", data[:-2], []), ("more.npy", data + b"aa", []), ("axes.npy", data.replace(b"(8,)", b"(4, 2,)"), []),
                ("m", bytes(2000), ["--format", "llmc"]),
                ("n", llmc, ["--format", "llmc"]), ("s", llmc[:100], ["--format", "llmc"]), ("huge", b"99999999999", [])):
            (self.folder / name).write_bytes(content)
            self.error("tokens", "decode", name, "--tokenizer", "t.json", *options, code=4)

    def test_tokenizers_that_are_refused_are_named(self):
        description = tokenizer()
        description["model"]["type"] = "Unigram"
        (self.folder / "u.json").write_text(json.dumps(description))
        message = self.error("tokens", "count", "a.txt", "--tokenizer", "u.json", code=2)
        self.assertIn("Unigram", message)
        self.assertIn("u.json", message)
        self.error("tokens", "count", "a.txt", "--tokenizer", "nobody.json", code=3)
        self.error("tokens", "count", "nobody.txt", "--tokenizer", "t.json", code=3)
        self.assertIn("-o", self.error("tokens", "encode", "a.txt", "--tokenizer", "t.json", "--format", "npy", code=2))

    def test_gguf_files_are_tokenizers(self):
        (self.folder / "m.gguf").write_bytes(gguf(tokenizer()) + bytes(100))
        expected = self.ids("a.txt", "--tokenizer", "t.json")
        self.assertEqual(self.ids("a.txt", "--tokenizer", "m.gguf"), expected)
        self.weir("tokens", "pack", "a.txt", "--tokenizer", "m.gguf", "-o", "p.bin")
        self.assertEqual(self.weir("tokens", "decode", "p.bin", "--tokenizer", "m.gguf").stdout, b"in the hat")
        (self.folder / "cut.gguf").write_bytes(gguf(tokenizer())[:900])
        self.assertIn("cut.gguf:", self.error("tokens", "count", "a.txt", "--tokenizer", "cut.gguf", code=4))

    def test_help_has_examples_and_completion_has_the_verbs(self):
        for verb in ("encode", "decode", "count", "pack"):
            self.assertIn(f"weir tokens {verb}", self.weir("tokens", verb, "--help").stdout.decode())
        self.assertIn(b"tokens pack", self.weir("completion", "bash").stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
