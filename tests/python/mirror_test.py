#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The declarations of the C interface in Python equal those of the headers: structures, functions and numbers."""
import ctypes
import pathlib
import re
import subprocess
import tempfile

import session
from session import SOURCE, Session
from tessera import _library, arrays, building, collectives, dlpack, dtypes, errors, graphs, module

HEADERS = "".join(h.read_text() for h in sorted((SOURCE / "tessera" / "include").glob("tessera*.h")))
TEXT = re.sub(r"/\*.*?\*/", " ", HEADERS, flags=re.DOTALL)
STRUCTURES = {n: s for n, s in vars(_library).items() if isinstance(s, type) and issubclass(s, ctypes.Structure)
              and n not in ("Structure", "Sized")}
SCALARS = {"int": ctypes.c_int, "unsigned": ctypes.c_uint, "float": ctypes.c_float, "size_t": ctypes.c_size_t,
           "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64}


def upper(name):
    """Returns the name of a class in the form of the C interface: INVALID_VALUE for InvalidValue."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def numbers():
    """Returns the numbers that the package uses, each with the name that the headers have for it."""
    out = [(f"TESS_ERR_{upper(kind.__name__)}", i) for i, kind in enumerate(errors._BY_STATUS, 1)]
    out += [(f"TESS_{d.name.upper()}", d.id) for d in dtypes.ALL if d.id < 32]
    out += [(f"TESS_COLLECTIVE_{kind.upper()}", i) for i, kind in enumerate(collectives._KINDS)]
    out += [(f"TESS_COLL_{op.upper()}", number) for op, number in collectives._OPS.items()]
    out += [(f"TESS_COPY_{kind.upper()}", i) for i, kind in enumerate(graphs.COPIES)]
    out += [(f"TESS_CAPTURE_{mode.upper()}", i) for i, mode in enumerate(graphs.MODES)]
    for prefix, place, names in (
            ("TESS_COPY", arrays, "H2D D2H D2D"), ("TESS_TENSOR", dlpack, "READ_ONLY UNVERSIONED"),
            ("TESS_LAUNCH", module, "DEFAULT DETERMINISTIC CAPTURE PERSISTENT LOW_LATENCY"),
            ("TESS_KERNEL", building,
             "DETERMINISTIC USES_BARRIER PER_THREAD PERSISTENT_ONLY PERSISTENT_CAPABLE ANY_BLOCK")):
        out += [(f"{prefix}_{name}", getattr(place, name)) for name in names.split()]
    return out


def printed(expressions):
    """Returns the values that a C program with the headers has for integral expressions, or None without a compiler."""
    lines = "".join(f'  printf("%lld\\n", (long long)({e}));\n' for e in expressions)
    with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
        source = pathlib.Path(folder) / "values.c"
        source.write_text(f"#include <stddef.h>\n#include <stdio.h>\n#include <tessera_ext.h>\nint main(void) {{\n{lines}"
                          "  return 0;\n}\n")
        program = source.with_suffix("")
        try:
            subprocess.run(["cc", f"-I{SOURCE}/tessera/include", str(source), "-o", str(program)], check=True)
        except FileNotFoundError:
            return None
        done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def fits(declared, mirrored):
    """Returns whether a type of ctypes stands for a parameter as a header declares it."""
    if "(*" in declared:
        return issubclass(mirrored, ctypes._CFuncPtr)
    text = re.sub(r"\bconst\b|\bstruct\b", " ", declared)
    stars = text.count("*") + text.count("[")
    base = re.match(r"\s*(\w+)", text).group(1)
    if base.endswith("_t") and base.startswith("tess") and base != "tessStatus_t":  # a handle is a pointer
        base, stars = "void", stars + 1
    structure = STRUCTURES.get(base[len("tess"):])
    if stars == 0:
        if base.endswith("Fn"):
            return issubclass(mirrored, ctypes._CFuncPtr)
        if re.search(r"typedef enum \{[^}]*\}\s*%s;" % base, TEXT):
            return mirrored is ctypes.c_int
        return mirrored is (structure or SCALARS.get(base))
    if mirrored is ctypes.c_void_p:  # any address
        return True
    if stars == 1 and base in ("char", "void"):
        return mirrored is ctypes.c_char_p
    pointers = {"void": ctypes.c_void_p, "char": ctypes.c_char_p}
    return mirrored is ctypes.POINTER(pointers[base] if stars == 2 else structure or SCALARS[base])


class Mirror(Session):
    def values_or_skip(self, expressions):
        found = printed(expressions)
        if found is None:
            self.skipTest("no compiler named cc")
        return found

    def test_structures_have_the_members_of_the_headers(self):
        expressions, mirrored = [], []
        for name, structure in STRUCTURES.items():
            expressions.append(f"sizeof(tess{name})")
            mirrored.append(ctypes.sizeof(structure))
            for member, *_ in structure._fields_:
                place = getattr(structure, member)
                expressions += [f"offsetof(tess{name}, {member})", f"sizeof(((tess{name}*)0)->{member})"]
                mirrored += [place.offset, place.size]
        self.assertGreater(len(expressions), 200)
        found = self.values_or_skip(expressions)
        self.assertEqual([row for row in zip(expressions, found, mirrored) if row[1] != row[2]], [])

    def test_structures_name_every_member_of_the_headers(self):
        for name, structure in STRUCTURES.items():
            body = re.search(r"typedef struct(?: \w+)? \{([^{}]*)\}\s*tess%s;" % name, TEXT).group(1)
            declared = re.findall(r"(\w+)(?:\[\d+\])?\s*;", body)
            self.assertEqual([member for member, *_ in structure._fields_], declared, name)

    def test_numbers_are_those_of_the_headers(self):
        mirrored = numbers()
        self.assertGreater(len(mirrored), 50)
        found = self.values_or_skip([name for name, _ in mirrored])
        self.assertEqual([(n, v, f) for (n, v), f in zip(mirrored, found) if v != f], [])

    def test_functions_have_the_parameters_of_the_headers(self):
        declared = dict(re.findall(r"TESS_API tessStatus_t (tess\w+)\(([^;]*)\);", TEXT))
        for name, types in _library._CALLS.items():
            parameters = [p for p in declared[name].split(",") if p.strip() not in ("", "void")]
            self.assertEqual(len(types), len(parameters), name)
            for parameter, mirrored in zip(parameters, types):
                self.assertTrue(fits(parameter, mirrored), f"{name}: {parameter.strip()} is {mirrored.__name__}")

    def test_offers_every_function_that_the_headers_declare(self):
        declared = set(re.findall(r"TESS_API [^;(]*?\b(tess[A-Z]\w*)\(", TEXT))
        self.assertEqual([n for n in _library._CALLS if n not in declared], [])
        self.assertEqual(sorted(n for n in declared if not hasattr(_library.lib, n)), [])


if __name__ == "__main__":
    session.main()
