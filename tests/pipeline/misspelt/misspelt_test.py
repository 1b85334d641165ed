# SPDX-License-Identifier: Apache-2.0
"""Compiles stages with misspelt members, and expects messages that name their faces."""
import subprocess
import sys

# Texts that the compiler must show, each from the static assertion of one face.
EXPECTED = [
    "a stage has `static void describe(",
    "a task stage has `result<void> on_item(step&)`",
    "a late stage has `result<void> on_item(step&)` and `result<void> on_done(step&)`",
    "a step loop has `result<void> on_item(step&)` and `result<bool> on_step(step&)`",
    "a blocking stage has `result<void> on_ready(taken&, pull&)`",
    "a source (it has a type `cursor`) has `result<bool> next(pull&)`",
    "a sink (it has a type `offset`) has `result<void> put(taken&)`",
    "a map stage is a function `void(view<const A, m>, view<B, n>)`",
]
# How often the texts of faces with a declaration appear: for the misspelt and for the mistyped member.
TWICE = EXPECTED[2:5]


def compile_with(compiler, folders, source, *defines):
    command = [compiler, "-std=c++20", "-fsyntax-only", "-w", *defines, *(f"-I{f}" for f in folders), source]
    done = subprocess.run(command, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return done.returncode, done.stderr


def main():
    compiler, folders, source = sys.argv[1], sys.argv[2].split(";"), sys.argv[3]
    code, text = compile_with(compiler, folders, source)
    if code != 0:
        sys.exit(f"stages without a mistake: expected to compile, found\n{text}")
    code, text = compile_with(compiler, folders, source, "-DMISSPELT")
    if code == 0:
        sys.exit("stages with misspelt members: expected errors of the compiler, found none")
    errors = [line for line in text.splitlines() if "error:" in line and "assert" in line]
    for expected in EXPECTED:
        found = sum(expected in line for line in errors)
        wanted = 2 if expected in TWICE else 1
        if found < wanted:
            sys.exit(f"expected {wanted} errors with \"{expected}\", found {found} in\n{text}")


if __name__ == "__main__":
    main()
