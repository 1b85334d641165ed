#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a library on one thread, command by command: python_peer.py NAME FOLDER DECODER ENCODER [prepare].

NAME is torch, ctranslate2 or onnxruntime; DECODER is SmolLM2's GGUF file of fp32, ENCODER the folder of MiniLM. A line of
standard input is a command, and its answer is a line with seconds, or "none" where the library is not asked for that:
`prefill ROWS`: one pass over ROWS tokens; `embed COUNT LENGTH`: the last hidden rows of COUNT texts.

With `prepare`, the files of the library are made in FOLDER, and nothing is measured.
"""
import os
import sys
import time

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
import warnings  # noqa: E402  (the environment is read when the libraries are loaded)

warnings.filterwarnings("ignore")
TOKEN = 2000  # of the texts of MiniLM


def some_ids(count):
    """Returns tokens of SmolLM2."""
    return [1000 + i * 37 % 20000 for i in range(count)]


def make_hf_folder(folder, decoder):
    """Writes the decoder as transformers and CTranslate2 read it."""
    path = os.path.join(folder, "smollm2-hf")
    if os.path.exists(os.path.join(path, "config.json")):
        return path
    import json

    import torch
    import transformers
    from safetensors.torch import save_file
    source, name = os.path.split(decoder)
    model = transformers.AutoModelForCausalLM.from_pretrained(source, gguf_file=name, dtype=torch.float32)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=name).save_pretrained(path)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config["torch_dtype"] = "float32"
    config["architectures"] = ["LlamaForCausalLM"]
    state = {k: v.contiguous().clone() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(state, os.path.join(path, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, default=str)
    return path


class Torch:
    """PyTorch with transformers."""

    def __init__(self, folder, decoder, encoder):
        import torch
        import transformers
        torch.set_num_threads(1)
        self.torch = torch
        self.decoder = transformers.AutoModelForCausalLM.from_pretrained(
            make_hf_folder(folder, decoder), dtype=torch.float32, attn_implementation="sdpa").eval()
        self.encoder = transformers.AutoModel.from_pretrained(encoder).eval()

    def prefill(self, rows):
        ids = self.torch.tensor([some_ids(rows)])
        with self.torch.inference_mode():
            self.decoder(ids, use_cache=True, logits_to_keep=1)

    def embed(self, count, length):
        ids = self.torch.full((count, length), TOKEN)
        with self.torch.inference_mode():
            self.encoder(input_ids=ids, attention_mask=self.torch.ones_like(ids))


class CTranslate2:
    """CTranslate2 in fp32."""

    def __init__(self, folder, decoder, encoder):
        import json

        import ctranslate2
        paths = {"smollm2-ct2": make_hf_folder(folder, decoder), "minilm-ct2": encoder}
        for name, source in paths.items():
            path = os.path.join(folder, name)
            if not os.path.exists(os.path.join(path, "model.bin")):
                ctranslate2.converters.TransformersConverter(source).convert(path, quantization=None, force=True)
        options = {"device": "cpu", "compute_type": "float32", "intra_threads": 1, "inter_threads": 1}
        self.decoder = ctranslate2.Generator(os.path.join(folder, "smollm2-ct2"), **options)
        self.encoder = ctranslate2.Encoder(os.path.join(folder, "minilm-ct2"), **options)
        with open(os.path.join(folder, "smollm2-ct2", "vocabulary.json"), encoding="utf-8") as file:
            self.vocabulary = json.load(file)

    def prefill(self, rows):
        prompt = [self.vocabulary[i] for i in some_ids(rows)]
        self.decoder.generate_batch([prompt], max_length=1, min_length=1, include_prompt_in_result=False, sampling_topk=1)

    def embed(self, count, length):
        import numpy
        numpy.array(self.encoder.forward_batch([[TOKEN] * length] * count).last_hidden_state)


class OnnxRuntime:
    """ONNX Runtime with a graph that PyTorch exports."""

    def __init__(self, folder, decoder, encoder):
        del decoder
        path = os.path.join(folder, "minilm.onnx")
        if not os.path.exists(path):
            self.export(path, encoder)
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self.encoder = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    @staticmethod
    def export(path, encoder):
        """Writes the graph, with free extents of batch and length."""
        import torch
        import transformers
        model = transformers.AutoModel.from_pretrained(encoder, attn_implementation="eager").eval()

        class LastRows(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids, attention_mask):
                return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

        ids = torch.full((2, 128), TOKEN)
        batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=512)
        torch.onnx.export(LastRows(), (ids, torch.ones_like(ids)), path + ".new", input_names=["input_ids", "attention_mask"],
                          dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}), dynamo=True, external_data=False)
        os.replace(path + ".new", path)

    def embed(self, count, length):
        import numpy
        ids = numpy.full((count, length), TOKEN, numpy.int64)
        self.encoder.run(None, {"input_ids": ids, "attention_mask": numpy.ones_like(ids)})


LIBRARIES = {"torch": Torch, "ctranslate2": CTranslate2, "onnxruntime": OnnxRuntime}


def main():
    """Loads the library and answers commands."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    library = LIBRARIES[sys.argv[1]](*sys.argv[2:5])
    if sys.argv[5:] == ["prepare"]:
        return
    for line in sys.stdin:
        word, *numbers = line.split()
        run = getattr(library, word, None)
        if run is None:
            print("none", file=out, flush=True)
            continue
        start = time.perf_counter()
        run(*map(int, numbers))
        print(time.perf_counter() - start, file=out, flush=True)


main()
