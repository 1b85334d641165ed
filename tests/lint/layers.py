# SPDX-License-Identifier: Apache-2.0
"""Checks that includes and linked libraries respect the layers.

base <- {formats, storage, runtime}, runtime <- models <- actors <- tools.
"""
import pathlib
import re

import tree

ALLOWED = {
    "base": set(),
    "formats": {"base"},
    "storage": {"base"},
    "runtime": {"base"},
    "models": {"base", "runtime"},
    "actors": {"base", "formats", "storage", "runtime", "models"},
    "tools": {"base", "formats", "storage", "runtime", "models", "actors"},
}
# Headers of other projects, and the only folders that may include them.
HOMES = (
    (re.compile(r"^caf/"), ("actors/", "tests/actors/")),
    (re.compile(r"^(cuda|cublas|nccl|nvrtc)"), ("runtime/device/cuda/",)),
    (re.compile(r"^mpi\.h"), ("runtime/collective/transport_mpi",)),
    (re.compile(r"^CLI/"), ("tools/",)),
)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# Paths that leave the module. Only tests may use them, to include private headers.
ABSOLUTE_OR_UP = re.compile(r"^(/|\.\./)")


def module_of(path):
    return path.parts[0] if path.parts[0] in ALLOWED else None


def check_include(path, line, header, out):
    for pattern, homes in HOMES:
        if pattern.match(header) and not str(path).startswith(homes):
            out.add(path, line, f'<{header}> may be included only under {" and ".join(homes)}')
    if ABSOLUTE_OR_UP.match(header) and path.parts[0] != "tests":
        out.add(path, line, f'"{header}" leaves its folder: name headers from the module\'s root')
    own = module_of(path)
    target = re.match(r"weir/([a-z_]+)/", header)
    if own is None or target is None or target.group(1) == own:
        return
    if target.group(1) not in ALLOWED[own]:
        out.add(path, line, f"{own} includes {header}; it may see {sorted(ALLOWED[own]) or 'nothing'}")


def check_links(out):
    """Checks the libraries that a CMakeLists.txt names against the layers."""
    for path in tree.files():
        own = module_of(path)
        if own is None or path.name != "CMakeLists.txt":
            continue
        for number, text in enumerate(tree.read(path).splitlines(), 1):
            for target in re.findall(r"weir(?:::|_)([a-z]+)", text.split("#")[0]):
                if target in ALLOWED and target != own and target not in ALLOWED[own]:
                    out.add(path, number, f"{own} links weir::{target}")


# Public headers that users include without the name of the module.
TOP_HEADERS = {"runtime/include/weir/weir.hpp"}


def main():
    out = tree.Complaints("layers")
    checked = tree.code_files()
    for path in checked:
        text = tree.without_comments(tree.read(path))
        for match in INCLUDE.finditer(text):
            check_include(path, text.count("\n", 0, match.start()) + 1, match.group(1), out)
        public = "include/weir" in str(path)
        if public and str(path) not in TOP_HEADERS and pathlib.PurePosixPath(path).parts[2:4] != ("weir", path.parts[0]):
            out.add(path, 0, "a public header stands in MODULE/include/weir/MODULE/")
    check_links(out)
    out.finish(len(checked))


main()
