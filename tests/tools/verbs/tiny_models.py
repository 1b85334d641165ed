# SPDX-License-Identifier: Apache-2.0
"""Tiny models with random weights, as folders of Hugging Face."""
import json
import random
import struct

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "##s", "fox", "."]
WIDTH, HIDDEN, CONTEXT, HEADS = 32, 64, 16, 2
LAYERS = 3  # of the encoder
LONG = 128  # tokens of a context of the decoder


def write_model(folder, config, tokenizer, shapes, zeros=0):
    """Writes a folder of Hugging Face with random weights. The last `zeros` rows of the first weight are 0.

    Models of two families have no weights in common, so that a test finds those of each in a volume.
    """
    draw = random.Random(f"28 {config['model_type']}")
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = struct.pack(f"<{count}f", *(draw.uniform(-1, 1) for _ in range(count)))
        if not data and zeros:
            values = values[:-4 * zeros * shape[1]] + bytes(4 * zeros * shape[1])
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


def write_encoder(folder, layers=LAYERS):
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
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}." for number in range(layers)):
        for name, shape in {"attention.self.query": (WIDTH, WIDTH), "attention.self.key": (WIDTH, WIDTH),
                            "attention.self.value": (WIDTH, WIDTH), "attention.output.dense": (WIDTH, WIDTH),
                            "intermediate.dense": (HIDDEN, WIDTH), "output.dense": (WIDTH, HIDDEN)}.items():
            shapes[f"{layer}{name}.weight"] = list(shape)
            shapes[f"{layer}{name}.bias"] = [shape[0]]
        norms += [layer + "attention.output.LayerNorm", layer + "output.LayerNorm"]
    for norm in norms:
        shapes[norm + ".weight"] = shapes[norm + ".bias"] = [WIDTH]
    write_model(folder, {
        "model_type": "bert", "num_hidden_layers": layers, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS, "vocab_size": len(WORDS), "max_position_embeddings": CONTEXT,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}, tokenizer, shapes)


def byte_names():
    """Returns the characters that stand for the 256 bytes in byte-level vocabularies."""
    own = [b for b in range(256) if 0x20 < b < 0x7F or 0xA0 < b != 0xAD]
    others = [b for b in range(256) if b not in own]
    return {b: chr(b if b in own else 256 + others.index(b)) for b in range(256)}


def write_decoder(folder, context=LONG, special_tokens=(), ends=True):
    """Writes a tiny Llama whose tokens are the bytes, an end of text, and other special tokens.

    Without `ends` the model practically never draws a special token.
    """
    specials = ["<|end|>", *special_tokens]
    size = 256 + len(specials)
    vocabulary = {name: b for b, name in byte_names().items()}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = {
        "version": "1.0", "added_tokens": [special(t, 256 + i) for i, t in enumerate(specials)], "normalizer": None, "post_processor": None,
        "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {**vocabulary, **{t: 256 + i for i, t in enumerate(specials)}}, "merges": []}}
    shapes = {"model.embed_tokens.weight": [size, WIDTH], "model.norm.weight": [WIDTH]}
    layer = "model.layers.0."
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        shapes[f"{layer}self_attn.{name}.weight"] = [WIDTH, WIDTH]
    for name, shape in {"gate_proj": [HIDDEN, WIDTH], "up_proj": [HIDDEN, WIDTH], "down_proj": [WIDTH, HIDDEN]}.items():
        shapes[f"{layer}mlp.{name}.weight"] = shape
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"{layer}{name}.weight"] = [WIDTH]
    write_model(folder, {
        "model_type": "llama", "num_hidden_layers": 1, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "vocab_size": size, "max_position_embeddings": context,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True, "hidden_act": "silu",
        "eos_token_id": 256}, tokenizer, shapes, 0 if ends else len(specials))
