# SPDX-License-Identifier: Apache-2.0
"""Types of ports, such as `f32[n,384]`, `u8[?]`, `f64[]` or `any`: the same texts as in C++ and in TOML."""
from .errors import invalid, numpy as np

ELEMENTS = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "i8": "|i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "|u1",
            "u16": "<u2", "u32": "<u4", "u64": "<u8", "bool": "|b1", "c64": "<c8", "c128": "<c16"}
# Numbers of the element types in files and messages, see weir/base/dtype.hpp.
NUMBERS = {"f16": 3, "f32": 5, "f64": 6, "i8": 7, "i16": 8, "i32": 9, "i64": 10, "bool": 11, "c64": 12, "c128": 13, "u8": 32,
           "u16": 33, "u32": 34, "u64": 35}
TEXTS = {number: text for text, number in NUMBERS.items()}
# Element types of Weir that NumPy does not have.
ABSENT = ("bf16", "e4m3", "e5m2")
MAX_DIMENSIONS = 8
UNKNOWN = "?"


def element_text(dtype):
    """Returns the text of a NumPy type in port types, or the name that NumPy has for it."""
    for text, code in ELEMENTS.items():
        if np.dtype(code) == dtype:
            return text
    return str(dtype)


def array_text(array):
    """Returns the type of an array as the text of a port type."""
    return f"{element_text(array.dtype)}[{','.join(map(str, array.shape))}]"


class PortType:
    """An element type and extents. `dtype` is None for `any`. An extent is a number, a letter, or `?` for any number."""

    __slots__ = ("element", "dtype", "shape", "fixed")

    def __init__(self, text, where):
        if not isinstance(text, str):
            raise invalid(f"{where}: expected the text of a type such as \"f32[n,4]\", found {text!r}")
        self.element, self.dtype, self.shape = None, None, ()
        if text != "any":
            self._parse(text, where)
        self.fixed = self.element is not None and all(isinstance(e, int) for e in self.shape)

    def _parse(self, text, where):
        element, bracket, rest = text.partition("[")
        if element in ABSENT:
            raise invalid(f"{where}: expected an element type that NumPy has ({', '.join(ELEMENTS)}), found {element!r}")
        if element not in ELEMENTS:
            raise invalid(f"{where}: expected an element type ({', '.join(ELEMENTS)}) or any, found {text!r}")
        if not bracket or not rest.endswith("]"):
            raise invalid(f"{where}: expected extents in brackets such as \"{element}[n,4]\", found {text!r}")
        inner = rest[:-1].strip()
        extents = [self._extent(part.strip(), text, where) for part in inner.split(",")] if inner else []
        if len(extents) > MAX_DIMENSIONS:
            raise invalid(f"{where}: expected at most {MAX_DIMENSIONS} extents, found {len(extents)}")
        self.element, self.dtype, self.shape = element, np.dtype(ELEMENTS[element]), tuple(extents)

    @staticmethod
    def _extent(part, text, where):
        if part == UNKNOWN or (len(part) == 1 and "a" <= part <= "z"):
            return part
        if part.isascii() and part.isdigit() and int(part) < 2**63:
            return int(part)
        raise invalid(f"{where}: expected a number, a letter from a to z, or ? for each extent, found {part!r} in {text!r}")

    def __str__(self):
        return "any" if self.element is None else f"{self.element}[{','.join(map(str, self.shape))}]"

    def letters(self):
        """Returns the letters among the extents."""
        return {e for e in self.shape if isinstance(e, str) and e != UNKNOWN}

    def bind(self, array, letters, where):
        """Compares an array with the type and adds the values of its letters to `letters`. The error names `where`."""
        if self.element is None:
            return
        if array.dtype != self.dtype or array.ndim != len(self.shape):
            raise invalid(f"{where}: expected {self}, found {array_text(array)}")
        for wanted, found in zip(self.shape, array.shape):
            known = wanted if isinstance(wanted, int) else letters.setdefault(wanted, found) if wanted != UNKNOWN else found
            if known != found:
                raise invalid(f"{where}: expected {self} with {wanted} = {known}, found {array_text(array)}"
                              if wanted != known else f"{where}: expected {self}, found {array_text(array)}")

    def resolve(self, letters):
        """Returns the shape with the values of the letters, or None if an extent is not known."""
        shape = tuple(letters.get(e, e) if isinstance(e, str) else e for e in self.shape)
        return None if any(isinstance(e, str) for e in shape) else shape
