#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs of `weir model` from outside: `verbs.py WEIR SOURCE_DIR`."""
import json
import os
import random
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
from black_box_case import Case  # noqa: E402

WIDTH, LAYERS, TYPES, CONTEXT, HIDDEN = 32, 1, 2, 8, 64
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "##s", "fox", "."]


def tokenizer():
    """A WordPiece tokenizer of eight tokens."""
    ids = {token: i for i, token in enumerate(VOCABULARY)}
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for t, i in ids.items() if t.startswith("[")]
    special = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    return {"version": "1.0", "added_tokens": added, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                           "strip_accents": None, "lowercase": True},
            "post_processor": {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": ids}}


def shapes():
    """Names and shapes of the weights of a tiny encoder."""
    out = {"embeddings.word_embeddings.weight": [len(VOCABULARY), WIDTH],
           "embeddings.position_embeddings.weight": [CONTEXT, WIDTH],
           "embeddings.token_type_embeddings.weight": [TYPES, WIDTH]}
    parts = {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
             "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
             "intermediate.dense": (HIDDEN, WIDTH), "output.dense": (WIDTH, HIDDEN)}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        for name, (rows, columns) in parts.items():
            out[f"{prefix}{name}.weight"] = [rows, columns]
            out[f"{prefix}{name}.bias"] = [rows]
        norms += [prefix + "attention.output.LayerNorm", prefix + "output.LayerNorm"]
    for norm in norms:
        out[norm + ".weight"] = out[norm + ".bias"] = [WIDTH]
    return out


def write_model(folder, seed=1):
    """Writes a folder of Hugging Face with a tiny encoder."""
    draw = random.Random(seed)
    header, data = {}, b""
    for name, shape in shapes().items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = struct.pack(f"<{count}f", *(draw.uniform(-1, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps({
        "model_type": "bert", "num_hidden_layers": LAYERS, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_attention_heads": 2, "vocab_size": len(VOCABULARY), "max_position_embeddings": CONTEXT,
        "type_vocab_size": TYPES, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))


class Models(Case):
    """Tests with a tiny encoder."""

    def setUp(self):
        super().setUp()
        write_model(self.folder / "tiny")

    def facts(self, *args, code=0):
        return json.loads(self.weir(*args, "--json", code=code).stdout)

    def test_a_model_goes_in_and_comes_out_in_both_formats(self):
        stored = self.facts("model", "import", "tiny", "v.hn4", "--tag", "a")
        self.assertEqual(stored["facts"]["architecture"], "bert")
        self.assertEqual([m["tag"] for m in self.facts("model", "ls", "v.hn4")], ["a"])
        self.assertIn(stored["digest"], self.weir("model", "ls", "v.hn4").stdout.decode())
        for out, to in (("a.gguf", "gguf"), ("a", "safetensors")):
            done = self.facts("model", "export", "v.hn4", out, "--to", to)
            self.assertEqual(done["digest"], stored["digest"])
            again = self.facts("model", "import", out, "w.hn4", "--tag", to)
            self.assertEqual(again["digest"], stored["digest"])
            self.assertIn(out, self.error("model", "export", "v.hn4", out, "--to", to, code=3))
            self.weir("model", "export", "v.hn4", out, "--to", to, "--force")
        self.assertEqual(self.facts("model", "verify", "w.hn4"),
                         [{"tag": "gguf", "whole": True}, {"tag": "safetensors", "whole": True}])
        message = self.error("model", "export", "w.hn4", "x", "--to", "gguf", code=2)
        self.assertIn('"gguf", "safetensors"', message)
        rounded = self.facts("model", "export", "v.hn4", "q.gguf", "--to", "gguf", "--type", "q8_0")
        self.assertNotEqual(rounded["digest"], stored["digest"])
        self.assertLess(rounded["bytes"], (self.folder / "a.gguf").stat().st_size)
        names = self.weir("hn4", "stat", "v.hn4", "a", "--json").stdout.decode()
        self.assertIn("encoder.layer.0.output.dense.weight", names)

    def test_ids_of_exported_tokenizers_are_those_of_the_model(self):
        self.weir("model", "import", "tiny", "v.hn4", "--tag", "a")
        self.weir("model", "export", "v.hn4", "a.gguf", "--to", "gguf")
        self.weir("model", "import", "a.gguf", "w.hn4", "--tag", "a")
        self.weir("model", "export", "w.hn4", "b", "--to", "safetensors")
        ids = [self.weir("tokens", "encode", "-", "--tokenizer", t, stdin=b"The foxes the fox. Thes").stdout
               for t in ("tiny/tokenizer.json", "a.gguf", "b/tokenizer.json")]
        self.assertEqual(ids, [ids[0]] * 3)

    def test_wrong_use_is_refused_and_leaves_nothing(self):
        self.error("model", "import", "nowhere", "v.hn4", "--tag", "a", code=3)
        (self.folder / "tiny" / "config.json").write_text('{"model_type": "mamba"}')
        self.assertIn("mamba", self.error("model", "import", "tiny", "v.hn4", "--tag", "a", code=2))
        self.assertFalse((self.folder / "v.hn4").exists())
        write_model(self.folder / "good")
        self.weir("model", "import", "good", "v.hn4", "--tag", "a")
        self.assertIn("--replace", self.error("model", "import", "good", "v.hn4", "--tag", "a", code=3))
        self.weir("model", "import", "good", "v.hn4", "--tag", "a", "--replace")
        self.assertIn("tag", self.error("model", "import", "good", "v.hn4", code=2))
        self.error("model", "export", "v.hn4", "x", "--to", "onnx", code=2)
        self.error("model", "export", "v.hn4", "x", "--to", "gguf", "--type", "q4_k", code=2)
        self.error("model", "export", "v.hn4", "x", "--to", "gguf", "--tag", "b", code=3)
        self.error("model", "verify", "v.hn4", "--tag", "b", code=3)

    def damage_weights(self):
        """Changes a bit of the weights in the volume v.hn4."""
        volume = self.folder / "v.hn4"
        content = volume.read_bytes()
        weights = (self.folder / "tiny" / "model.safetensors").read_bytes()
        # A part of the data may lie in two blocks, so several are searched.
        at = max(content.find(weights[-64 * k:-64 * k + 32]) for k in range(1, 9))
        self.assertGreater(at, 0)
        volume.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])

    def test_damage_is_found(self):
        self.weir("model", "import", "tiny", "v.hn4", "--tag", "a")
        self.damage_weights()
        done = self.weir("model", "verify", "v.hn4", code=1)
        self.assertIn('model "a" is damaged', done.stderr.decode())
        # The record is whole, and `ls` reads no weights.
        self.assertEqual([m["tag"] for m in self.facts("model", "ls", "v.hn4")], ["a"])

    def files_in(self, folder):
        """Returns {path: content} of the files below a folder."""
        return {str(p): p.read_bytes() for p in (self.folder / folder).rglob("*") if p.is_file()}

    def test_an_export_that_fails_leaves_what_was_there(self):
        self.weir("model", "import", "tiny", "v.hn4", "--tag", "a")
        self.weir("model", "export", "v.hn4", "before", "--to", "safetensors")
        (self.folder / "before" / "config.json").write_text("another file")
        before = self.files_in("before")
        self.assertEqual(len(before), 4)
        (self.folder / "own").mkdir()
        (self.folder / "own" / "notes").write_text("notes")
        whole = (self.folder / "v.hn4").read_bytes()
        self.damage_weights()
        for out, *force in (("new/",), ("own",), ("before", "--force")):
            self.error("model", "export", "v.hn4", out, "--to", "safetensors", *force, code=4)
        self.error("model", "export", "v.hn4", "new.gguf", "--to", "gguf", code=4)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["before", "own", "text", "tiny", "v.hn4", "v.hn4.index"])
        self.assertEqual([p.name for p in (self.folder / "own").iterdir()], ["notes"])
        self.assertEqual(self.files_in("before"), before)
        # A second try needs no --force.
        (self.folder / "v.hn4").write_bytes(whole)
        self.weir("model", "export", "v.hn4", "new/", "--to", "safetensors")
        self.assertEqual(len(self.files_in("new")), 4)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
