# SPDX-License-Identifier: Apache-2.0
"""Interpreters with packages that the system does not have."""
import os
import subprocess
import sys


def interpreter(given, folder, packages, check, seconds):
    """Returns the path of an interpreter that has the packages, or None.

    `given` is an interpreter that the user names, or None. Without one, the packages are installed from PyPI into a
    virtual environment in `folder`, unless they are there already; each step may take `seconds`. `check` has the
    arguments with which an interpreter ends with 0 if it has the packages.
    """
    made = os.path.join(folder, "bin", "python")
    for python in filter(None, [given, made]):
        if os.path.exists(python) and subprocess.run([python, *check], capture_output=True).returncode == 0:
            return python
    if given:
        return None
    steps = [[sys.executable, "-m", "venv", folder],
             [made, "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "0", "--timeout", "10", "--disable-pip-version-check",
              *packages]]
    for step in steps:
        try:
            if subprocess.run(step, capture_output=True, timeout=seconds).returncode != 0:
                return None
        except (OSError, subprocess.TimeoutExpired):
            return None
    return made
