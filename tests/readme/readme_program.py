# SPDX-License-Identifier: Apache-2.0
"""Takes the program out of the README, and compares what it prints with the output that the README shows.

readme_program.py extract README PROGRAM     writes the first block of C++ into the file PROGRAM
readme_program.py compare README PROGRAM     runs PROGRAM; its output must be the block after "It prints:"
readme_program.py whole GUIDE PROGRAM        writes the first block of C++ that has a function `main`
"""
import pathlib
import re
import subprocess
import sys

MAX_LINES = 15


def block(text, pattern):
    found = re.search(pattern + r"\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"README.md: expected a block that matches {pattern!r}, found none")
    return found[1]


def extract(text, path):
    program = block(text, "^```cpp")
    lines = len(program.splitlines())
    if lines > MAX_LINES:
        sys.exit(f"README.md: expected a program of at most {MAX_LINES} lines, found {lines}")
    pathlib.Path(path).write_text(program, encoding="utf-8")


def whole(text, path):
    programs = [found for found in re.findall(r"^```cpp\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "int main(" in found]
    if not programs:
        sys.exit("expected a block with a function main, found none")
    pathlib.Path(path).write_text(programs[0], encoding="utf-8")


def compare(text, program):
    expected = block(text, "^It prints:\n\n```")
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    if printed != expected:
        sys.exit(f"README.md: expected the output {expected!r}, found {printed!r}")


def main():
    verb, readme, path = sys.argv[1:]
    text = pathlib.Path(readme).read_text(encoding="utf-8")
    {"extract": extract, "compare": compare, "whole": whole}[verb](text, path)


if __name__ == "__main__":
    main()
