# SPDX-License-Identifier: Apache-2.0
"""What all tests of the package begin with: `TEST.py SOURCE_DIR KERNELS_FATBIN [SUITE]` runs over the library that
TESSERA_LIBRARY names."""
import pathlib
import re
import sys
import time
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)

import tessera as ts

SOURCE, FATBIN = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
IMAGE = FATBIN.read_bytes()


class Session(unittest.TestCase):
    """A context, and on demand a mesh and a module."""

    def setUp(self):
        self.context = ts.init()
        self.addCleanup(self.context.shutdown)

    def mesh(self, devices=4, **axes):
        return ts.mesh(range(devices), axes or None)

    def kernel(self, name):
        return ts.module.load(IMAGE).kernel[name]

    def becomes(self, value, expected, seconds=30):
        """Waits until `value()` returns what is expected, and fails after `seconds`."""
        end = time.monotonic() + seconds
        while value() != expected and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(value(), expected)

    def says(self, kind, *words):
        return self.assertRaisesRegex(kind, ".*".join(re.escape(w) for w in words))


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
