# SPDX-License-Identifier: Apache-2.0
"""The exception of this package, and NumPy, without which stages cannot run."""
import difflib

try:
    import numpy
except ImportError:  # the module stays usable, so that the message can name the package
    numpy = None


class Error(RuntimeError):
    """A call of Weir failed. `code` is the name of the error code, such as `invalid_argument`; the text says what failed on which
    thing, what was expected, and what was found."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


def invalid(message):
    """Returns the error for a mistake of the caller."""
    return Error("invalid_argument", message)


def need_numpy():
    """Raises an error that names the Debian package if NumPy is absent."""
    if numpy is None:
        raise Error("unsupported", "cannot use stages in Python: expected NumPy, found none (Debian package python3-numpy)")


def nearest(word, known):
    """Returns a hint that suggests the name that is most like `word`, or an empty text."""
    found = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {found[0]!r}?" if found else ""
