# SPDX-License-Identifier: Apache-2.0
"""Kills a demo of worlds with SIGKILL at random instants and resumes it on random numbers of ranks; the hash must be that of a run
without a kill.

kills_test.py PROGRAM KILLS STEPS
"""
import os
import pathlib
import random
import shlex
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import kills  # noqa: E402  (the folder is known only now)


def command(folder):
    """Returns the words of a run on one to three ranks, which writes what it prints to a file."""
    words = [sys.argv[1], "--ranks", str(random.randint(1, 3)), "--size", "48", "--tile", "16", "--steps", sys.argv[3], "--every", "6",
             "--state", f"{folder}/state"]
    return ["sh", "-c", f"exec {shlex.join(words)} > {shlex.quote(folder)}/printed"]


def check_folder(folder):
    """Checks that nothing is left but the lock and two generations of at most three parts.

    A third one stays if a kill came between the newest manifest and the removal of the oldest, and the run has saved nothing since then.
    """
    names = sorted(os.listdir(f"{folder}/state"))
    wrong = [n for n in names if n != "lock" and not n.endswith((".manifest", ".part"))]
    if wrong or sum(n.endswith(".manifest") for n in names) > 3 or len(names) > 13:
        sys.exit(f"expected the lock and two or three generations, found {names}")


kills.compare_after_kills(command, "printed", int(sys.argv[2]), prepare=os.mkdir, extract=check_folder)
