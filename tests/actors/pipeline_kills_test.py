# SPDX-License-Identifier: Apache-2.0
"""Kills a pipeline with SIGKILL at random instants and resumes it; its output must be that of a run without a kill.

pipeline_kills_test.py PROGRAM OUTPUT [KILLS]     PROGRAM FOLDER begins or continues a run that writes FOLDER/OUTPUT
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def run_whole(program, folder):
    start = time.monotonic()
    subprocess.run([program, folder], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def kill_until_finished(program, folder, seconds, instants, budget):
    """Returns the number of kills that met a running process."""
    kills = 0
    while True:
        process = subprocess.Popen([program, folder], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kills < budget:
            try:
                process.wait(timeout=instants.uniform(0, seconds))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        if process.returncode == -signal.SIGKILL:
            kills += 1
        elif process.returncode == 0:
            return kills
        else:
            sys.exit(f"the program ended with {process.returncode}: {errors.decode()}")


def main():
    program, output = sys.argv[1], sys.argv[2]
    wanted = int(os.environ.get("WEIR_TEST_KILLS", sys.argv[3] if len(sys.argv) > 3 else "20"))
    seed = int(os.environ.get("WEIR_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"seed {seed} (WEIR_TEST_SEED repeats it)")
    instants = random.Random(seed)
    with tempfile.TemporaryDirectory() as top:
        seconds = run_whole(program, f"{top}/whole")
        expected = pathlib.Path(f"{top}/whole/{output}").read_bytes()
        assert expected, "the run without a kill has written nothing"
        kills, rounds = 0, 0
        while kills < wanted:
            rounds += 1
            folder = f"{top}/round{rounds}"
            kills += kill_until_finished(program, folder, seconds, instants, wanted - kills)
            found = pathlib.Path(f"{folder}/{output}").read_bytes()
            if found != expected:
                sys.exit(f"round {rounds}, after {kills} kills: expected {len(expected)} bytes as without a kill, "
                         f"found {len(found)} bytes that differ")
    print(f"{kills} kills in {rounds} runs: all outputs equal that of a run without a kill")


if __name__ == "__main__":
    main()
