# SPDX-License-Identifier: Apache-2.0
"""Kills a pipeline with SIGKILL at random instants and resumes it; its output must be that of a run without a kill.

pipeline_kills_test.py PROGRAM OUTPUT [KILLS]     PROGRAM FOLDER begins or continues a run that writes FOLDER/OUTPUT
"""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import kills  # noqa: E402  (the folder is known only now)

if __name__ == "__main__":
    kills.compare_after_kills(lambda folder: [sys.argv[1], folder], sys.argv[2],
                              sys.argv[3] if len(sys.argv) > 3 else 20)
