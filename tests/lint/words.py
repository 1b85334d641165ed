# SPDX-License-Identifier: Apache-2.0
"""Words that this project does not use for a model that learns from a stream without end."""
import re

import tree

# Parts of identifiers and words of prose; "constraint" and "restrain" are other words.
FORBIDDEN = re.compile(r"^(pre|re|un)?(train|trains|trained|trainer|trainers|training|trainable"
                       r"|dataloader|dataloaders|epoch|epochs)$")
# The C++ library's own name for the zero of a clock.
STANDARD = "time_since_epoch"
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
TEXT = {".hpp", ".cpp", ".h", ".toml", ".md", ".py", ".sh", ".txt", ".json", ".cmake", ".in", ""}
OWN = ("tests/lint/words.py", "tests/lint/complain_test.py", "LICENSE")
# The volume format has a ring of that name: its specification's word for a generation of the volume.
VOLUME_WORD, VOLUME = re.compile("^epochs?$"), re.compile("hn4")


def pieces(line):
    """Words of a line, split at underscores and at camel humps; also the humps joined in pairs."""
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
