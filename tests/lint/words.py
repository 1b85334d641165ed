# SPDX-License-Identifier: Apache-2.0
"""Checks for words that this project does not use, because its models learn from an endless stream."""
import re

import tree

# Matches whole words and parts of identifiers, so "constraint" and "restrain" are allowed.
FORBIDDEN = re.compile(r"^(pre|re|un)?(train|trains|trained|trainer|trainers|training|trainable"
                       r"|dataloader|dataloaders|epoch|epochs)$")
# A name of the C++ standard library.
STANDARD = "time_since_epoch"
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TEXT = {".hpp", ".cpp", ".h", ".toml", ".md", ".py", ".sh", ".txt", ".json", ".cmake", ".in", ""}
OWN = ("tests/lint/words.py", "tests/lint/complain_test.py", "LICENSE")
# HN4's specification uses the word for a generation of a volume.
VOLUME_WORD, VOLUME = re.compile("^epochs?$"), re.compile("hn4")


def pieces(line):
    """Yields the words of a line, split at underscores and at capitals inside a word, and certain pairs of them."""
    words = [w.lower() for w in PIECE.findall(line.replace(STANDARD, ""))]
    yield from words
    for left, right in zip(words, words[1:]):
        if left == "data" and right.startswith("loader"):
            yield left + right


def main():
    out = tree.Complaints("words")
    checked = [p for p in tree.files() if p.suffix in TEXT and str(p) not in OWN]
    for path in checked:
        for number, line in enumerate(tree.read(path).splitlines(), 1):
            for word in pieces(line):
                own_word = VOLUME_WORD.match(word) and (VOLUME.search(str(path)) or "HN4" in line)
                if FORBIDDEN.match(word) and not own_word:
                    out.add(path, number, f'the word "{word}"')
    out.finish(len(checked))


main()
