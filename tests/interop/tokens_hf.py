#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares ids with those of Hugging Face tokenizers: tokens_hf.py PEER SOURCE_DIR WORK_FOLDER STRINGS TEXT_BYTES.

PEER is the program tokens_peer. The package comes from $WEIR_TOKENIZERS_PYTHON (an interpreter that has it), or is
installed from PyPI into a virtual environment below WORK_FOLDER. Exit 77, which CTest counts as skipped, where it
cannot be had. The tokenizers are trained here, by the package, on the documents of the repository.
"""
import glob
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import virtual_environment  # noqa: E402

PACKAGES = ["tokenizers==0.23.3"]
SKIPPED = 77
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")


def interpreter(work):
    """An interpreter that can import the package, or None."""
    return virtual_environment.interpreter(
        os.environ.get("WEIR_TOKENIZERS_PYTHON"), os.path.join(work, "tokenizers-venv"), PACKAGES,
        ["-c", "import tokenizers"], seconds=200)


def documents(source, size):
    """Text of the repository and of the machine, at least `size` bytes where there are so many."""
    names = sorted(glob.glob(os.path.join(source, "docs", "**", "*.md"), recursive=True))
    names += sorted(glob.glob(os.path.join(source, "*", "**", "*.[ch]pp"), recursive=True))
    names += sorted(glob.glob("/usr/share/perl/*/**/*.p[om]d", recursive=True))
    names += sorted(glob.glob("/usr/share/i18n/locales/*")) + sorted(glob.glob("/usr/lib/python3*/**/*.py", recursive=True))
    parts, total = [], 0
    for name in names:
        if "/build/" in name[len(source):] or not os.path.isfile(name):
            continue
        with open(name, encoding="utf-8", errors="replace", newline="") as f:
            parts.append(f.read())
        total += len(parts[-1].encode())
        if total >= size:
            break
    text = "".join(parts)
    return text.encode()[:size].decode(errors="ignore")


def random_strings(count, added):
    """Texts of all planes: words, spaces, marks, controls, and added tokens anywhere."""
    r = random.Random(11)
    alphabets = [
        lambda: chr(r.randrange(0x20, 0x7F)), lambda: r.choice("abcdeéßñ'stmdvlre   "), lambda: r.choice(" \t\n\r\v\f"),
        lambda: chr(r.randrange(0x00, 0x250)), lambda: chr(r.randrange(0x300, 0x370)), lambda: chr(r.randrange(0x370, 0x2000)),
        lambda: chr(r.randrange(0x1F00, 0x3300)), lambda: chr(r.randrange(0x4E00, 0xA000)),
        lambda: chr(r.randrange(0xAC00, 0xD7B0)), lambda: chr(r.randrange(0x1100, 0x1200)),
        lambda: chr(r.randrange(0xE000, 0x10000)), lambda: chr(r.randrange(0x10000, 0x20000)),
        lambda: chr(r.randrange(0x20000, 0x32400)), lambda: chr(r.randrange(0xE0000, 0x110000)),
        lambda: chr(r.choice([0x85, 0xA0, 0x180E, 0x200B, 0x200D, 0x2028, 0x3000, 0xFEFF, 0x130, 0x345, 0x17F, 0x660, 0xB2])),
        lambda: r.choice(["1", "23", "456", "7890", "don't", "I'LL", "we've", "\r\n", "ﬁ", "Ａ", "\u1e9b\u0323", "a\u0300\u0316"]),
        lambda: r.choice(added), lambda: r.choice(added)[:r.randrange(1, 9)],
    ]
    out = [""]
    while len(out) < count:
        chosen = r.sample(alphabets, r.randrange(1, 5))
        out.append("".join(r.choice(chosen)() for _ in range(r.randrange(1, 60))))
    return out


def byte_level(package, text, size, pre=None, normalizer=None, ignore_merges=False):
    """A byte-level BPE tokenizer that the package has trained."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    one = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    one.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer:
        one.normalizer = normalizer
    one.decoder = decoders.ByteLevel()
    one.train_from_iterator(text.split("\n\n"), trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    one.post_processor = processors.ByteLevel(trim_offsets=False)
    return one


def word_piece(package, text, size, cased=False):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    one = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    one.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    one.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    one.decoder = decoders.WordPiece(cleanup=not cased)
    one.train_from_iterator(text.split("\n\n"), trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    one.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", one.token_to_id("[CLS]")), ("[SEP]", one.token_to_id("[SEP]"))])
    return one


def tokenizers_to_compare(package, text):
    """Name, tokenizer and whether it belongs to the full comparison."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    bpe = byte_level(package, text, 8000)
    yield "bpe", bpe
    small = text[:300_000]
    marked = Tokenizer.from_str(bpe.to_str())
    marked.add_special_tokens([AddedToken("<|pad|>", lstrip=True), AddedToken("<|im_start|>", rstrip=True),
                               AddedToken("<|im|>")])
    marked.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("Added one", normalized=True),
                       AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("naïve", single_word=True, normalized=True)])
    marked.normalizer = normalizers.NFC()
    marked = Tokenizer.from_str(marked.to_str())
    marked.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|endoftext|> $A", pair="$A $B", special_tokens=[("<|endoftext|>", 0)])])
    yield "bpe_added", marked
    yield "bpe_smollm", byte_level(package, small, 3000, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    for name, regex, normalizer in (("bpe_llama3", LLAMA3, None), ("bpe_gpt4o", GPT4O, None), ("bpe_nfkc", LLAMA3, normalizers.NFKC()),
                                    ("bpe_nfd", GPT4O, normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])),
                                    ("bpe_nfkd", LLAMA3, normalizers.NFKD())):
        yield name, byte_level(package, small, 3000, pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(regex), "isolated"),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), normalizer, name == "bpe_llama3")
    yield "bpe_prefix", byte_level(package, small, 3000, pre_tokenizers.ByteLevel(add_prefix_space=True))
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield f"bpe_{behavior}_{invert}", byte_level(package, small, 1000, pre_tokenizers.Sequence(
                [pre_tokenizers.Punctuation(behavior), pre_tokenizers.Split(Regex(r"[aeiou ]\p{L}"), behavior, invert),
                 pre_tokenizers.Split("th", behavior, not invert), pre_tokenizers.Digits(individual_digits=False),
                 pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    plain = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.train_from_iterator(small.split("\n\n"), trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<unk>"], limit_alphabet=60, show_progress=False))
    yield "bpe_characters", plain
    yield "wordpiece", word_piece(package, text, 8000)
    yield "wordpiece_cased", word_piece(package, small, 3000, cased=True)


def records(path):
    """The tokenizer's size, and a function that reads the next record."""
    with open(path, "rb") as f:
        data = f.read()
    at = 4

    def next_record(width):
        nonlocal at
        (count,) = struct.unpack_from("<I", data, at)
        at += 4 + count * width
        return struct.unpack_from(f"<{count}I", data, at - count * 4) if width == 4 else data[at - count:at].decode()
    return struct.unpack_from("<I", data, 0)[0], next_record


def compare(peer, folder, name, one, texts):
    """Compares all ids and decoded texts; returns the number of texts that differ."""
    paths = [os.path.join(folder, f"{name}.{end}") for end in ("json", "texts", "ids")]
    one.save(paths[0])
    with open(paths[1], "wb") as f:
        for text in texts:
            f.write(struct.pack("<I", len(text.encode())) + text.encode())
    done = subprocess.run([peer, *paths], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"FAILED: {name}: {done.stderr}")
        return 1
    size, next_record = records(paths[2])
    wrong, ids = 0, 0
    if size != 1 + max(one.get_vocab(True).values()):
        print(f"FAILED: {name}: vocabulary of {size} ids")
        wrong += 1
    for text in texts:
        theirs = one.encode(text).ids
        expected = [tuple(theirs), tuple(one.encode(text, add_special_tokens=False).ids),
                    one.decode(theirs, skip_special_tokens=False), one.decode(theirs, skip_special_tokens=True)]
        ours = [next_record(4), next_record(4), next_record(1), next_record(1)]
        ids += len(theirs)
        if ours != expected:
            wrong += 1
            if wrong <= 3:
                which = [a == b for a, b in zip(ours, expected)]
                print(f"FAILED: {name}: {which} of {ascii(text[:300])}\n  expected {str(expected)[:600]}\n  found    {str(ours)[:600]}")
    print(f"{name}: {len(texts)} texts, {ids} ids, {wrong} differ")
    return wrong


def main():
    peer, source, work, strings, size = sys.argv[1:4] + [int(a) for a in sys.argv[4:6]]
    only = sys.argv[6] if len(sys.argv) > 6 else None
    text = documents(source, max(size, 2_000_000))
    added = ["<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im|>", "word", "Added one", " <mask> ", "naïve", "nai\u0308ve", "[MASK]",
             "[CLS]", "[UNK]", " <|pad|>", "words", "<|im_start|>  "]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="weir-tokens-") as folder:
        for name, one in tokenizers_to_compare(None, text[:2_000_000]):
            if only and only != name:
                continue
            full = name in ("bpe", "bpe_added", "wordpiece")
            texts = random_strings(strings if full else strings // 10, added)
            texts += [t for t in one.get_vocab(True)]
            texts.append(text[:size] if full else text[:size // 10])
            wrong += compare(peer, folder, name, one, texts)
    return 1 if wrong else 0


if __name__ == "__main__":
    made = interpreter(sys.argv[3])
    if made is None:
        print("SKIPPED: tokenizers is absent and cannot be installed")
        sys.exit(SKIPPED)
    if os.environ.get("WEIR_TOKENS_INNER") != "1":
        sys.exit(subprocess.run([made, "-B", *sys.argv], env={**os.environ, "WEIR_TOKENS_INNER": "1",
                                                             "WEIR_TOKENIZERS_PYTHON": made}).returncode)
    sys.exit(main())
