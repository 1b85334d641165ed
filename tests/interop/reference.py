#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of models with PyTorch and transformers: reference.py [OUTPUT].

The packages torch, transformers, accelerate and gguf come from $WEIR_TORCH_PYTHON (an interpreter that has them), or are installed
from PyPI into a virtual environment beside the weights. The weights come from PyPI wheels (reference_texts.py). Exit 77
where any of them cannot be had.

OUTPUT (default: reference.json beside this file) has for each prompt its ids, the greedy ids of 64 steps, the margin
between the best two logits at each step, and 256 logits behind the prompt with their values from an evaluation in f64;
and the embedding of each sentence. Arrays are base64 of little-endian f32.
"""
import base64
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference_texts as texts  # noqa: E402  (the folder is known only now)

PACKAGES = ["torch", "transformers", "accelerate", "gguf", "numpy", "safetensors"]
SKIPPED = 77


def text_of(array):
    """Returns an array as base64 of little-endian f32."""
    return base64.b64encode(array.detach().float().numpy().astype("<f4").tobytes()).decode()


def exact_logits(state, config, ids):
    """Returns the logits behind ids in f64: Llama's equations without transformers."""
    import torch
    weight = {name: tensor.double() for name, tensor in state.items()}
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    width = config.hidden_size // heads
    base = config.rope_parameters["rope_theta"]
    angles = torch.outer(torch.arange(len(ids), dtype=torch.float64),
                         base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)).repeat(1, 2)

    def norm(x, name):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + config.rms_norm_eps) * weight[name + ".weight"]

    def rotate(x):
        half = torch.cat((-x[..., width // 2:], x[..., :width // 2]), -1)
        return x * angles.cos()[:, None] + half * angles.sin()[:, None]

    x = weight["model.embed_tokens.weight"][ids]
    mask = torch.full((len(ids), len(ids)), -torch.inf, dtype=torch.float64).triu(1)
    for number in range(config.num_hidden_layers):
        layer = f"model.layers.{number}."
        row = norm(x, layer + "input_layernorm")
        q, k, v = (row @ weight[f"{layer}self_attn.{n}_proj.weight"].T for n in "qkv")
        q = rotate(q.view(len(ids), heads, width))
        k = rotate(k.view(len(ids), groups, width)).repeat_interleave(heads // groups, 1)
        v = v.view(len(ids), groups, width).repeat_interleave(heads // groups, 1)
        scores = torch.einsum("qhd,khd->hqk", q, k) / width ** 0.5 + mask
        read = torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(len(ids), -1)
        x = x + read @ weight[layer + "self_attn.o_proj.weight"].T
        row = norm(x, layer + "post_attention_layernorm")
        gate = torch.nn.functional.silu(row @ weight[layer + "mlp.gate_proj.weight"].T)
        x = x + (gate * (row @ weight[layer + "mlp.up_proj.weight"].T)) @ weight[layer + "mlp.down_proj.weight"].T
    return norm(x[-1:], "model.norm")[0] @ weight["model.embed_tokens.weight"].T


def answers(path):
    """Returns the entries of all prompts."""
    import torch
    import transformers
    folder, name = os.path.split(path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, attn_implementation="eager").eval()
    state = {n: t for n, t in model.state_dict().items() if n != "lm_head.weight"}
    state = {n: t.double() for n, t in state.items()}
    indices = torch.arange(texts.LOGITS) * (model.config.vocab_size // texts.LOGITS)
    every = [tokenizer(prompt)["input_ids"] for prompt in texts.PROMPTS]
    out = {}
    for length in sorted({len(ids) for ids in every}):
        # Prompts of one length need no padding, which would change their logits.
        numbers = [n for n, ids in enumerate(every) if len(ids) == length]
        step = model(torch.tensor([every[n] for n in numbers]), use_cache=True)
        first, steps, margins = step.logits[:, -1], [], []
        for number in range(texts.STEPS):
            best = step.logits[:, -1].topk(2)
            steps.append(best.indices[:, 0])
            margins.append(best.values[:, 0] - best.values[:, 1])
            if number + 1 < texts.STEPS:
                step = model(steps[-1][:, None], past_key_values=step.past_key_values, use_cache=True)
        for row, n in enumerate(numbers):
            out[n] = {"ids": every[n], "steps": [int(s[row]) for s in steps],
                      "margins": text_of(torch.stack([m[row] for m in margins])), "logits": text_of(first[row, indices]),
                      "exact": text_of(exact_logits(state, model.config, every[n])[indices])}
        print(f"{len(out)} of {len(every)} prompts", file=sys.stderr, flush=True)
    return [out[n] for n in range(len(every))]


def embeddings(folder):
    """Returns the embeddings of all sentences."""
    import torch
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    rows = []
    for sentence in texts.sentences():
        last = model(**tokenizer(sentence, return_tensors="pt", truncation=True, max_length=512)).last_hidden_state[0]
        rows.append(torch.nn.functional.normalize(last.mean(0), dim=0))
    return text_of(torch.stack(rows))


def write(output, decoder, encoder):
    """Writes the file."""
    import torch
    import transformers
    with torch.inference_mode():
        made = {"versions": {"torch": torch.__version__, "transformers": transformers.__version__},
                "digests": texts.digests(decoder, encoder), "embeddings": embeddings(encoder),
                "prompts": answers(decoder)}
    with open(output, "w", encoding="utf-8") as file:
        json.dump(made, file, separators=(",", ":"))
        file.write("\n")


def main():
    """Finds the weights and an interpreter with the packages, which then writes the file."""
    here = os.path.dirname(os.path.abspath(__file__))
    output = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "reference.json")
    if len(sys.argv) > 3:
        write(output, *sys.argv[2:])
        return
    found = texts.weights(600)
    python = found and texts.virtual_environment.interpreter(
        os.environ.get("WEIR_TORCH_PYTHON"), texts.weights_folder() + "-torch", PACKAGES,
        ["-c", "import torch, transformers, accelerate, gguf"], seconds=1800)
    if not python:
        print("SKIPPED: no weights, or no PyTorch and transformers from PyPI")
        sys.exit(SKIPPED)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    sys.exit(subprocess.run([python, "-B", os.path.abspath(__file__), output, *found], env=environment,
                            check=False).returncode)


main()
