# SPDX-License-Identifier: Apache-2.0
"""Checks for words that this project does not use: its models learn from an endless stream, and one thing has one name."""
import re

import tree

# Matches whole words and parts of identifiers, so "constraint" and "restrain" are allowed.
FORBIDDEN = re.compile(r"^(pre|re|un)?(train|trains|trained|trainer|trainers|training|trainable"
                       r"|dataloader|dataloaders)$")
# Where worlds are, these things have other names (docs/style.md): machine, rank, start id, shared segment, transfer log. The window of
# an engine and tasks in flight have those words with other meanings, so only pairs of words are refused there. slurm_test.py writes
# a configuration of Slurm, which has words of its own for machines.
OF_WORLDS = re.compile(r"^(runtime/(world|transport|state)/|runtime/include/weir/(world|world_arguments|tiles|each_tile)[.]|docs/ranks[.]md"
                       r"|runtime/include/weir/runtime/(state/|(world|transport|in_process)[.])|actors/worlds/"
                       r"|tests/(runtime/(world|transport)/|world/(?!slurm_test[.])|actors/worlds/)|demos/(shallow_water|heat2d)/|bench/runtime/ranks/)")
FORBIDDEN_THERE = re.compile(r"^(host|hosts|node|nodes|epoch|epochs|(shared|memory)windows?|flight(ring|recorder|log)s?)$")
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TEXT = {".hpp", ".cpp", ".h", ".toml", ".md", ".py", ".sh", ".txt", ".json", ".cmake", ".in", ""}
# tokens_hf.py, reference.py, python_peer.py and hf_names.hpp call a package by its names.
OWN = ("tests/lint/words.py", "tests/lint/complain_test.py", "tests/interop/tokens_hf.py",
       "tests/interop/reference.py", "bench/models/python_peer.py",
       "actors/model/hf_names.hpp", "LICENSE")


def pieces(line):
    """Yields the words of a line, split at underscores and at capitals inside a word, and certain pairs of them."""
    words = [w.lower() for w in PIECE.findall(line)]
    yield from words
    for left, right in zip(words, words[1:]):
        if (left == "data" and right.startswith("loader")) or left in ("shared", "memory", "flight"):
            yield left + right


def main():
    out = tree.Complaints("words")
    checked = [p for p in tree.files() if p.suffix in TEXT and str(p) not in OWN]
    for path in checked:
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            for word in pieces(line):
                if FORBIDDEN.match(word) or (OF_WORLDS.match(str(path)) and FORBIDDEN_THERE.match(word)):
                    out.add(path, number, f'the word "{word}"')
    out.finish(len(checked))


main()
