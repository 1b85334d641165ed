# SPDX-License-Identifier: Apache-2.0
"""Compares what the headers declare and what the shared library exports with prototypes.txt.

prototypes.py LIBRARY INCLUDE_FOLDER COMPILER

The list has the functions of the reference's interface, then those that only this library has ("tgm_x_").
"""
import pathlib
import re
import subprocess
import sys

LIST = pathlib.Path(__file__).with_name("prototypes.txt")
SONAME = "libtensogram.so.0.24"
REFERENCE_FUNCTIONS = 135


def output_of(*command):
    """Runs a command and returns its standard output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def canonical(prototype):
    """Returns a prototype without superfluous blanks."""
    text = re.sub(r"\s+", " ", prototype.replace("_Bool", "bool")).strip()
    return re.sub(r"\s*([*(),])\s*", r"\1", text)


def by_name(prototypes):
    """Returns prototypes by the names of their functions."""
    return {re.search(r"\b(tgm_\w+)\(", p).group(1): p for p in map(canonical, prototypes)}


def declared(compiler, header):
    """Returns the prototypes that a program in C99 sees behind one #include."""
    text = output_of(compiler, "-E", "-P", "-x", "c", "-std=c99", str(header))
    text = re.sub(r'__attribute__\(\(visibility\("default"\)\)\)', "", text)
    return by_name(re.findall(r"[^;{}]*\btgm_\w+\s*\([^;{}]*\)(?=\s*;)", text))


def without_comment(header):
    """Returns a complaint for each function that has no comment of its own in front of it."""
    text = header.read_text()
    places = re.finditer(r"^TGM_API[^;]*?\b(tgm_\w+)\(", text, re.MULTILINE)
    fronts = [(place.group(1), text[:place.start()].rstrip()) for place in places]
    return [f"{header.name}: expected a comment on {name}, found none"
            for name, front in fronts if not front.endswith("*/") or front.endswith("--\n */")]


def differences(what, expected, found):
    """Returns a complaint for each name that differs, and one if nothing was expected at all."""
    out = [f"{what}: expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
           for name in sorted(set(expected) | set(found)) if expected.get(name) != found.get(name)]
    return out if expected else [f"{what}: expected functions, found none"]


def main():
    """Compares headers, library and list. Returns the exit code."""
    library, include, compiler = sys.argv[1:]
    listed = by_name(LIST.read_text().splitlines())
    reference = {name: p for name, p in listed.items() if not name.startswith("tgm_x_")}
    exported = {line.split()[-1] for line in output_of("nm", "-D", "--defined-only", library).splitlines()}
    headers = pathlib.Path(include)
    wrong = differences("tensogram.h", reference, declared(compiler, headers / "tensogram.h"))
    wrong += differences("tensogram_x.h", listed, declared(compiler, headers / "tensogram_x.h"))
    wrong += differences("the library", dict.fromkeys(listed, "a symbol"), dict.fromkeys(exported, "a symbol"))
    wrong += [each for header in sorted(headers.glob("*.h")) for each in without_comment(header)]
    if len(reference) != REFERENCE_FUNCTIONS:
        wrong.append(f"prototypes.txt: expected {REFERENCE_FUNCTIONS} functions of the reference, found {len(reference)}")
    if f"[{SONAME}]" not in output_of("readelf", "-d", library):
        wrong.append(f"the library: expected the soname {SONAME}, found another")
    print("\n".join(wrong) or f"{len(reference)} functions of the reference and {len(listed) - len(reference)} more")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
