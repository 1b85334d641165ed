# SPDX-License-Identifier: Apache-2.0
"""Kills a pipeline that stores tags in an HN4 volume with SIGKILL at random instants and resumes it; the tags must be those
of a run without a kill, and the volume must be sound.

tag_kills_test.py WEIR [KILLS]
"""
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import kills  # noqa: E402  (the folder is known only now)

WEIR = pathlib.Path(sys.argv[1]).resolve()
STORE = """name = "store"
[checkpoint]
every = "20 items"
[[stage]]
name = "numbers"
use = "generator"
count = 150
shape = [40, 30]
kind = "philox"
[[stage]]
name = "tags"
use = "hn4.put"
path = "tags.hn4"
tag = "field/{item:4}"
compress = true
"""
# Messages hold the names of the tags, their types, shapes and elements.
LIST = """name = "list"
[[stage]]
name = "tags"
use = "hn4.tensors"
path = "tags.hn4"
[[stage]]
name = "messages"
use = "tgm.write"
path = "tags.tgm"
"""


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def prepare(folder):
    os.mkdir(folder)
    for name, text in (("store.toml", STORE), ("list.toml", LIST)):
        pathlib.Path(folder, name).write_text(text, encoding="utf-8")


def command(folder):
    if os.path.exists(f"{folder}/run/pipeline.toml"):
        return [WEIR, "resume", f"{folder}/run"]
    return [WEIR, "run", f"{folder}/store.toml", "--set", f"files={folder}", "--out", f"{folder}/run"]


def extract(folder):
    call(WEIR, "hn4", "check", f"{folder}/tags.hn4")
    call(WEIR, "run", f"{folder}/list.toml", "--set", f"files={folder}", "--out", f"{folder}/list")
    found = len(call(WEIR, "hn4", "ls", f"{folder}/tags.hn4").splitlines())
    if found < 150:
        sys.exit(f"the volume of {folder} has {found} lines of tags, expected 150 tags")


if __name__ == "__main__":
    kills.compare_after_kills(command, "tags.tgm", sys.argv[2] if len(sys.argv) > 2 else 20, prepare, extract)
