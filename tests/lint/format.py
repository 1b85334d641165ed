# SPDX-License-Identifier: Apache-2.0
"""Checks that clang-format 14 would change no source. Exits with 77 (skipped) if it is not installed."""
import shutil
import subprocess
import sys

import tree

NAMES = ("clang-format-14", "clang-format")


def main():
    tool = next((t for t in map(shutil.which, NAMES) if t), None)
    version = tool and subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    if not version or " 14." not in version:
        print("format: clang-format 14 is not installed; `make lint` installs it")
        sys.exit(77)
    out = tree.Complaints("format")
    checked = [str(p) for p in tree.code_files()]
    run = subprocess.run([tool, "--dry-run", *checked], cwd=tree.ROOT, capture_output=True, text=True, check=False)
    for name in sorted({line.split(":")[0] for line in run.stderr.splitlines() if "warning: code should be" in line}):
        out.add(name, 0, f"differs from {tool} -i")
    if run.returncode:
        out.add(".clang-format", 0, run.stderr.strip().splitlines()[0])
    out.finish(len(checked))


main()
