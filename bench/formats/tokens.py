# SPDX-License-Identifier: Apache-2.0
"""Times Hugging Face tokenizers on one thread: tokens.py SOURCE_DIR FOLDER, run by a Python that has the package.

Writes text, bpe.json and wordpiece.json into FOLDER, and prints one JSON object, {kind: processor seconds for the text}.
The text is 4 MB in paragraphs, which the package encodes faster than a text in one piece.
"""
import json
import os
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
source, folder = sys.argv[1:3]
sys.path.insert(0, os.path.join(source, "tests", "interop"))
import tokens_hf  # noqa: E402

SIZE = 4_000_000
REPEATS = 5


def seconds(run):
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def main():
    text = tokens_hf.documents(source, SIZE)
    paragraphs = [p + "\n\n" for p in text.split("\n\n")]
    with open(os.path.join(folder, "text"), "w", encoding="utf-8", newline="") as f:
        f.write("\0".join(paragraphs))
    out = {}
    for kind, made in (("bpe", tokens_hf.byte_level), ("wordpiece", tokens_hf.word_piece)):
        one = made(None, text[:2_000_000], 8000)
        one.save(os.path.join(folder, kind + ".json"))
        out[kind] = seconds(lambda: one.encode_batch_fast(paragraphs))
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
