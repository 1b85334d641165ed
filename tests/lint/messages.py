# SPDX-License-Identifier: Apache-2.0
"""Checks the form of error messages: what failed on which thing, lower case, no full stop, never a bare "invalid"."""
import re

import tree

MAKER = re.compile(r"\berror\s*[({]\s*(?:::)?(?:weir::)?errc::\w+\s*,")
LITERAL = re.compile(r'\s*(?:fmt::format\s*\(\s*|std::string\s*[({]\s*)?(?:FMT_STRING\s*\(\s*)?'
                     r'((?:"(?:\\.|[^"\\\n])*"\s*)+)')
BARE = re.compile(r"^(an? )?(internal|invalid|unknown|bad|generic)?\s*(error|failure|invalid|internal)?\W*$")
# Names that may begin a message with a capital: CRC-32, StreamModelMismatch, and names of formats.
NAME = re.compile(r"[A-Z][A-Za-z]*[A-Z0-9]|(Tensogram|Tessera|Philox)\b")
WORDS = 3


def complaint_about(text):
    if BARE.match(text):
        return "says nothing"
    if text.endswith("."):
        return "ends with a full stop"
    if text[:1].isupper() and not NAME.match(text):
        return "begins with a capital letter"
    if re.match(r"(error|invalid|internal)\b", text):
        return 'begins with "error", "invalid" or "internal" instead of what failed'
    if "\\n" in text:
        return "spans lines"
    if len(re.findall(r"[A-Za-z0-9{}]+", text)) < WORDS:
        return f"has fewer than {WORDS} words: what failed, on which thing, why?"
    return None


def messages(text):
    """Yields (offset, literal) for every error that is constructed with a literal."""
    for match in MAKER.finditer(text):
        literal = LITERAL.match(text, match.end())
        if literal:
            parts = re.findall(r'"((?:\\.|[^"\\\n])*)"', literal.group(1))
            yield match.start(), "".join(parts).replace('\\"', '"')


def main():
    out = tree.Complaints("messages")
    count = 0
    for path in tree.code_files():
        if path.parts[0] in ("tests", "bench"):
            continue
        text = tree.without_comments(tree.read(path))
        for offset, message in messages(text):
            count += 1
            problem = complaint_about(message)
            if problem:
                out.add(path, text.count("\n", 0, offset) + 1, f'"{message}" {problem}')
    out.finish(count)


main()
