# SPDX-License-Identifier: Apache-2.0
"""Checks that tests write only below temporary folders of their own, because several tests run at the same time."""
import re

import tree

SHARED = re.compile(r'\bTempDir\s*\(|"/(?:var/)?tmp/|"/dev/shm/')
# These paths are values of settings that are never opened.
VALUES = {"tests/tools/config_test.cpp"}


def main():
    out = tree.Complaints("paths")
    checked = [p for p in tree.code_files() if p.parts[0] == "tests" and str(p) not in VALUES]
    for path in checked:
        for number, line in enumerate(tree.without_comments(tree.read(path)).splitlines(), 1):
            if SHARED.search(line):
                out.add(path, number, "a path that other tests share; use test::temp_folder")
    out.finish(len(checked))


main()
