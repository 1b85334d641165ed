# SPDX-License-Identifier: Apache-2.0
"""Documentation comments of installed headers: how they begin, and that `@error` begins with a code."""
import collections
import re

import declarations
from declarations import tree

# Lines of `///` that follow each other, or one comment of the form /** ... */.
COMMENT = re.compile(r"(?P<lines>^[ \t]*///(?!<).*(?:\n[ \t]*///(?!<).*)*)|(?P<trailing>///<.*(?:\n[ \t]*///<.*)*)"
                     r"|/\*\*(?P<block>[\s\S]*?)\*/", re.MULTILINE)
MARGIN = re.compile(r"^[ \t]*(?:///<?|\*(?!/)|<)?[ \t]?", re.MULTILINE)
HEADLESS = re.compile(r"(?:@file\s+|@brief\s+)?(what|who|whose|whether|of|by|the same|likewise)\b", re.IGNORECASE)
ERROR = re.compile(r"@error\b(?:\{\s*(?P<first>[^\s,;:}]*))?")
# A C interface has enumerators for codes; errc has them for all of C++.
ENUM = re.compile(r"\benum\b[^;{}()]*\{(?P<body>[^}]*)\}")
CODE = re.compile(r"(?P<name>\w+)\s*(?:=[^,]*)?(?:,|$)")
C_CODES = re.compile(r"^(TESS|TGM|HN4)_")


def codes(texts):
    """Enumerators of `errc`, and those of C interfaces."""
    found = set()
    for text in texts:
        for match in ENUM.finditer(tree.without_comments(text)):
            names = {m["name"] for m in CODE.finditer(match["body"].strip())}
            is_errc = re.match(r"enum\s+class\s+errc\b", match.group(0)) is not None
            found |= names if is_errc else {n for n in names if C_CODES.match(n)}
    return found


def comments(text):
    """(number of the first line, text without margins) of each documentation comment."""
    for match in COMMENT.finditer(text):
        body = match["lines"] or match["trailing"] or match["block"]
        yield text.count("\n", 0, match.start()) + 1, MARGIN.sub("", body).strip()


def check(comment, known):
    """(number of lines below the first, text) of each complaint about one comment."""
    headless = HEADLESS.match(comment)
    if headless:
        yield 0, f'the comment begins with "{headless.group(1)}"; begin with a verb or name the thing'
    for match in ERROR.finditer(comment):
        if match["first"] not in known:
            below = comment.count("\n", 0, match.start())
            yield below, f'@error begins with "{match["first"] or ""}"; expected a code such as invalid_argument'


def main():
    out = tree.Complaints("comments")
    counts = collections.Counter()
    texts = {path: tree.read(path) for path in declarations.paths()}
    known = codes(texts.values())
    checked = 0
    for path, text in texts.items():
        for line, comment in comments(text):
            checked += 1
            for below, complaint in check(comment, known):
                counts[path.parts[0]] += 1
                out.add(path, line + below, complaint)
    for module, count in sorted(counts.items()):
        print(f"comments: {module}: {count} complaints")
    out.finish(checked)


main()
