#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `weir embed` and `weir generate` with tiny random models: `texts_test.py WEIR SOURCE_DIR [unittest
arguments]`.
"""
import json
import random
import struct

from black_box_case import Case, main

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "##s", "fox", "."]
WIDTH, HIDDEN, CONTEXT, HEADS = 32, 64, 16, 2
LONG = 128  # tokens of a context of the decoder


def write_model(folder, config, tokenizer, shapes):
    """Writes a folder of Hugging Face with random weights."""
    draw = random.Random(28)
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = struct.pack(f"<{count}f", *(draw.uniform(-1, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def special(content, number):
    """Returns a special token of a tokenizer."""
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def write_encoder(folder):
    """Writes a tiny BERT with a WordPiece tokenizer of eight tokens."""
    ids = {token: i for i, token in enumerate(WORDS)}
    ends = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    tokenizer = {
        "version": "1.0", "added_tokens": [special(t, i) for t, i in ids.items() if t.startswith("[")],
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": ends},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": ids}}
    shapes = {"embeddings.word_embeddings.weight": [len(WORDS), WIDTH],
              "embeddings.position_embeddings.weight": [CONTEXT, WIDTH],
              "embeddings.token_type_embeddings.weight": [2, WIDTH]}
    layer = "encoder.layer.0."
    for name, shape in {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
                        "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
                        "intermediate.dense": (HIDDEN, WIDTH), "output.dense": (WIDTH, HIDDEN)}.items():
        shapes[f"{layer}{name}.weight"] = list(shape)
        shapes[f"{layer}{name}.bias"] = [shape[0]]
    for norm in ("embeddings.LayerNorm", layer + "attention.output.LayerNorm", layer + "output.LayerNorm"):
        shapes[norm + ".weight"] = shapes[norm + ".bias"] = [WIDTH]
    write_model(folder, {
        "model_type": "bert", "num_hidden_layers": 1, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS, "vocab_size": len(WORDS), "max_position_embeddings": CONTEXT,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}, tokenizer, shapes)


def byte_names():
    """Returns the characters that stand for the 256 bytes in byte-level vocabularies."""
    own = [b for b in range(256) if 0x20 < b < 0x7F or 0xA0 < b != 0xAD]
    others = [b for b in range(256) if b not in own]
    return {b: chr(b if b in own else 256 + others.index(b)) for b in range(256)}


def write_decoder(folder):
    """Writes a tiny Llama whose tokens are the bytes and an end of text."""
    vocabulary = {name: b for b, name in byte_names().items()}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "added_tokens": [special("<|end|>", 256)], "normalizer": None, "post_processor": None,
        "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {**vocabulary, "<|end|>": 256}, "merges": []}}
    shapes = {"model.embed_tokens.weight": [257, WIDTH], "model.norm.weight": [WIDTH]}
    layer = "model.layers.0."
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        shapes[f"{layer}self_attn.{name}.weight"] = [WIDTH, WIDTH]
    for name, shape in {"gate_proj": [HIDDEN, WIDTH], "up_proj": [HIDDEN, WIDTH], "down_proj": [WIDTH, HIDDEN]}.items():
        shapes[f"{layer}mlp.{name}.weight"] = shape
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"{layer}{name}.weight"] = [WIDTH]
    write_model(folder, {
        "model_type": "llama", "num_hidden_layers": 1, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": 257, "max_position_embeddings": LONG,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu",
        "eos_token_id": 256}, tokenizer, shapes)


class TextCase(Case):
    """A volume with a tiny encoder "e" and a tiny decoder "d"."""

    def setUp(self):
        super().setUp()
        for write, tag in ((write_encoder, "e"), (write_decoder, "d")):
            write(self.folder / tag)
            self.weir("model", "import", tag, "v.hn4", "--tag", tag)

    def write(self, name, content):
        """Writes a file of the working folder."""
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def read(self, name):
        """Returns the bytes of a file of the working folder."""
        return (self.folder / name).read_bytes()

    def lines(self, name):
        """Returns the values of the lines of JSON of a file."""
        return [json.loads(line) for line in self.read(name).splitlines()]

    def embed(self, *args, code=0):
        """Embeds with the model "e" into out.tgm and returns the completed process."""
        return self.weir("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", *args, code=code)

    def generate(self, *args, code=0):
        """Generates with the model "d" into out.jsonl and returns the completed process."""
        return self.weir("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "out.jsonl", *args, code=code)


class Embed(TextCase):
    """Embeddings of files of texts."""

    def test_bytes_do_not_depend_on_workers_and_batches(self):
        draw = random.Random(5)
        self.write("a", "".join(" ".join(draw.choices(["the", "foxes", "fox", "."], k=draw.randrange(5))) + "\n"
                                for _ in range(1030)))
        self.write("b.txt", "fox\r\nthe fox.")
        seen = set()
        for workers, batch in ((1, 1), (2, 7), (2, 32)):
            done = json.loads(self.embed("a", "b.txt", "--workers", workers, "--batch", batch, "--json").stdout)
            self.assertEqual((done["rows"], done["width"], done["skipped"]), (1032, WIDTH, 0))
            seen.add(self.read("out.tgm"))
        self.assertEqual(len(seen), 1)
        described = self.weir("tgm", "ls", "out.tgm").stdout.decode()
        for shape in ("[1024, 32]", "[6, 32]", "[2, 32]"):
            self.assertIn(shape, described)
        self.weir("tgm", "validate", "out.tgm")

    def test_rows_have_length_1_and_name_their_lines(self):
        self.write("one", '{"t": "the fox", "u": {"t": 1}}\n{"t": ""}\n{"x": [1, {}], "t": "the fox"}\n')
        self.embed("--field", "t", "one")
        self.weir("tgm", "export", "out.tgm", "embeddings", "rows.npy")
        raw = self.read("rows.npy")
        rows = [struct.unpack_from(f"<{WIDTH}f", raw, len(raw) - 4 * WIDTH * (3 - i)) for i in range(3)]
        for row in rows:
            self.assertAlmostEqual(sum(v * v for v in row), 1, places=5)
        self.assertEqual(rows[0], rows[2])
        self.assertNotEqual(rows[0], rows[1])
        described = self.weir("tgm", "dump", "out.tgm").stdout.decode()
        self.assertIn("[1,2,3]", described.replace(" ", ""))

    def test_bad_lines_end_the_run_or_are_listed(self):
        good = '{"t": "fox"}\n'
        bad = [(b'{"t": "\xff"}', "expected UTF-8, found byte 0xff at byte 7 of the line"),
               (b"fox", "expected a JSON object, found no JSON at byte 1 of the line"),
               (b'{"u": "fox"}', 'expected a string under "t", found an object without it'),
               (b'{"t": 5}', 'expected a string under "t", found a number'),
               (b'["t"]', "expected a JSON object, found an array"),
               (b'{"t": "a", "t": "b"}', 'expected "t" once, found it twice'),
               (b'{"t": "a\x00"}', "expected text without NUL, found NUL at byte 8 of the line"),
               (b'{"t": "\\u0000"}', "expected text without NUL, found NUL at byte 0 of the string"),
               (b'{"t": "' + b"fox " * 15 + b'"}',
                "expected at most 16 tokens, found 17; --truncate cuts longer texts"),
               (b'{"t": "' + b"x" * (16 << 20) + b'"}', "expected a line of at most 16 MiB, found a longer one")]
        self.write("docs.jsonl", good.encode() + b"".join(line + b"\n" + good.encode() for line, _ in bad))
        done = json.loads(self.embed("--field", "t", "docs.jsonl", "--skip-bad", "bad.jsonl", "--json").stdout)
        self.assertEqual((done["rows"], done["skipped"]), (len(bad) + 1, len(bad)))
        offset = len(good)
        for number, ((line, reason), found) in enumerate(zip(bad, self.lines("bad.jsonl"))):
            self.assertEqual(found, {"file": "docs.jsonl", "line": 2 * number + 2, "offset": offset,
                                     "reason": "cannot read a document: " + reason})
            offset += len(line) + 1 + len(good)
        (self.folder / "out.tgm").unlink()
        for line, reason in (bad[0], bad[8]):
            self.write("docs.jsonl", good.encode() + line)
            message = self.error("embed", "v.hn4", "--tag", "e", "--field", "t", "docs.jsonl", "-o", "out.tgm", code=4)
            self.assertTrue(message.startswith(f"docs.jsonl:2: cannot read a document: {reason}"), message)
            self.assertFalse((self.folder / "out.tgm").exists())
        self.embed("--field", "t", "docs.jsonl", "--truncate")

    def test_an_empty_file_gives_no_rows(self):
        self.write("empty", "")
        self.assertEqual(self.embed("empty").stdout.decode(), "e: 0 rows of 32 features in out.tgm, 0 lines skipped\n")
        self.assertIn("[0, 32]", self.weir("tgm", "ls", "out.tgm").stdout.decode())
        self.weir("tgm", "validate", "out.tgm")

    def test_wrong_use_is_refused(self):
        self.write("a", "fox\n")
        message = self.error("embed", "v.hn4", "a", "-o", "out.tgm", code=2)
        self.assertIn('"d", "e"', message)
        message = self.error("embed", "v.hn4", "--tag", "d", "a", "-o", "out.tgm", code=2)
        self.assertEqual(message, 'cannot use model "d": expected architecture bert, found llama')
        self.error("embed", "v.hn4", "--tag", "e", "nowhere", "-o", "out.tgm", code=3)
        self.assertIn("no input", self.error("embed", "v.hn4", "--tag", "e", "a", "-o", "./a", code=2))
        self.assertEqual(self.read("a"), b"fox\n")
        self.assertFalse((self.folder / "out.tgm").exists())
        self.assertIn("Example", self.weir("embed", "--help").stdout.decode())


class Generate(TextCase):
    """Answers to files of prompts."""

    def test_answers_do_not_depend_on_workers_and_batches(self):
        draw = random.Random(6)
        prompts = ["".join(draw.choices("the fox.", k=draw.randrange(1, 50))) for _ in range(12)]
        # Behind a page of equal tokens, prompts use the memory of an earlier batch again.
        prompts[9:] = ["the fox." * 9 + p[:9] for p in prompts[9:]]
        self.write("p", "".join(json.dumps({"q": p}) + "\n" for p in prompts))
        seen = set()
        for workers, batch in ((1, 1), (2, 7)):
            self.generate("--field", "q", "--workers", workers, "--batch", batch, "--max-tokens", 20, "--temperature",
                          1, "--seed", 40)
            seen.add(self.read("out.jsonl"))
        # Memory for two prompts makes batches of two.
        self.generate("--field", "q", "--context-tokens", 128, "--max-tokens", 20, "--temperature", 1, "--seed", 40)
        seen.add(self.read("out.jsonl"))
        self.assertEqual(len(seen), 1)
        answers = self.lines("out.jsonl")
        self.assertEqual([(a["line"], a["seed"]) for a in answers], [(i + 1, i + 40) for i in range(12)])
        for answer, prompt in zip(answers, prompts):
            self.assertIn(answer["finish"], ("stop", "length"))
            if answer["finish"] == "length":
                self.assertEqual(answer["tokens"], 20)
        # A prompt alone with the seed of its line has the same answer.
        self.write("p", prompts[3])
        self.generate("--max-tokens", 20, "--temperature", 1, "--seed", 43)
        self.assertEqual({**self.lines("out.jsonl")[0], "line": 4}, answers[3])

    def test_bad_prompts_end_the_run_or_are_listed(self):
        self.write("p", b"a\n\n\xc3(\n" + b"x" * LONG + b"\nb\n")
        message = self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "out.jsonl", code=4)
        self.assertTrue(message.startswith("p:2: cannot read a document: expected at least one token, found an empty"),
                        message)
        self.assertFalse((self.folder / "out.jsonl").exists())
        done = self.generate("--skip-bad", "bad", "--max-tokens", 2)
        self.assertIn("2 answers", done.stdout.decode())
        self.assertEqual([a["line"] for a in self.lines("out.jsonl")], [1, 5])
        self.assertEqual([(b["line"], b["offset"]) for b in self.lines("bad")], [(2, 2), (3, 3), (4, 6)])
        done = self.generate("--skip-bad", "bad", "--max-tokens", 2, "--truncate")
        self.assertEqual([a["tokens"] for a in self.lines("out.jsonl") if a["line"] == 4], [1])

    def test_an_empty_file_gives_no_answers(self):
        self.write("p", "")
        self.assertEqual(json.loads(self.generate("--json").stdout)["answers"], 0)
        self.assertEqual(self.read("out.jsonl"), b"")

    def test_wrong_use_is_refused(self):
        self.write("p", "fox\n")
        message = self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "o", "--context-tokens", 1,
                             code=5)
        self.assertIn("--context-tokens", message)
        self.error("generate", "v.hn4", "--tag", "e", "--prompts", "p", "-o", "o", code=2)
        self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "o", "--temperature", -1, code=2)


main()
