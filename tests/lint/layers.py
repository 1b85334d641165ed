# SPDX-License-Identifier: Apache-2.0
"""Checks that includes and linked libraries respect the layers.

base <- {formats, storage, runtime}, runtime <- collective <- {tessera, pipeline} <- models <- actors <- tools.
Nothing in pipeline/ and actors/ names the text model outside of its own folder.
The collectives and the transport over MPI are libraries of their own inside runtime/, above the task engine.
Files of worlds are a library of their own inside actors/, without CAF.
"""
import pathlib
import re

import tree

ALLOWED = {
    "base": set(),
    "formats": {"base"},
    "storage": {"base"},
    "runtime": {"base"},
    "collective": {"base", "runtime"},
    "mpi": {"base", "runtime"},
    "tessera": {"base", "runtime", "collective"},
    "pipeline": {"base", "runtime", "collective"},
    "models": {"base", "runtime", "collective", "tessera", "pipeline"},
    "actors": {"base", "formats", "storage", "runtime", "collective", "tessera", "pipeline", "models"},
    "worlds": {"base", "formats", "storage", "runtime"},
    "tools": {"base", "formats", "storage", "runtime", "mpi", "worlds", "collective", "tessera", "pipeline", "models", "actors"},
}
# Libraries whose folder lies inside that of another one.
NESTED = {"runtime/collective/": "collective", "runtime/transport/mpi/": "mpi", "actors/worlds/": "worlds"}
# Headers of other projects, and the only folders that may include them.
HOMES = (
    (re.compile(r"^caf/"), ("actors/", "tests/actors/")),
    (re.compile(r"^(cuda|cublas|nccl|nvrtc)"), ("tessera/device/cuda/",)),
    (re.compile(r"^mpi\.h"), ("runtime/transport/mpi/", "bench/runtime/ranks/", "tests/world/")),
    (re.compile(r"^CLI/"), ("tools/",)),
)
# The text model is a user of pipelines and of hosts, which do not know it.
TEXT_MODEL = re.compile(r"prose", re.IGNORECASE)
WITHOUT_TEXT_MODEL = ("pipeline/", "actors/")
FOLDER_OF_TEXT_MODEL = "actors/stages/prose/"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
# Paths that leave the module. Only tests may use them, to include private headers.
ABSOLUTE_OR_UP = re.compile(r"^(/|\.\./)")


def module_of(path):
    for folder, module in NESTED.items():
        if str(path).startswith(folder):
            return module
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


def check_text_model(path, text, out):
    if not str(path).startswith(WITHOUT_TEXT_MODEL) or str(path).startswith(FOLDER_OF_TEXT_MODEL):
        return
    for match in TEXT_MODEL.finditer(text):
        out.add(path, text.count("\n", 0, match.start()) + 1, f"names the text model, which only {FOLDER_OF_TEXT_MODEL} may do")


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
TOP_HEADERS = {"runtime/include/weir/weir.hpp", "runtime/include/weir/tiles.hpp", "runtime/include/weir/each_tile.hpp", "runtime/include/weir/world.hpp", "runtime/include/weir/world_arguments.hpp", "pipeline/include/weir/pipeline.hpp", "pipeline/include/weir/plugin.hpp"}


def main():
    out = tree.Complaints("layers")
    checked = tree.code_files()
    for path in checked:
        text = tree.without_comments(tree.read(path))
        for match in INCLUDE.finditer(text):
            check_include(path, text.count("\n", 0, match.start()) + 1, match.group(1), out)
        check_text_model(path, text, out)
        if "include/weir" in str(path) and str(path) not in TOP_HEADERS:
            own = module_of(path) or path.parts[0]
            if f"/include/weir/{own}/" not in str(path):
                out.add(path, 0, "a public header stands in MODULE/include/weir/MODULE/")
    check_links(out)
    out.finish(len(checked))


main()
