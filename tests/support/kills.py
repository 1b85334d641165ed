# SPDX-License-Identifier: Apache-2.0
"""Kills programs with SIGKILL at random instants and continues them; helpers of tests."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time


def kill_until_finished(command, seconds, instants, budget):
    """Begins and continues a run until it has ended. Returns the number of kills that met a running process.

    `command()` returns the words of the command that begins the run, or continues it after a kill.
    """
    kills = 0
    while True:
        process = subprocess.Popen(command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
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


def compare_after_kills(command, output, default_kills, prepare=lambda folder: None, extract=lambda folder: None):
    """Compares the output of runs that are killed with that of a run without a kill, and ends the program if they differ.

    command  command(folder) returns the words of the command that begins or continues the run of a folder
    output   name of the file in the folder that is compared
    default_kills  number of kills; WEIR_TEST_KILLS overrides it
    prepare  prepare(folder) is called before the first command of a folder, which does not exist
    extract  extract(folder) is called behind the last command of a folder, and may make the file that is compared
    """
    wanted = int(os.environ.get("WEIR_TEST_KILLS", default_kills))
    seed = int(os.environ.get("WEIR_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
    print(f"seed {seed} (WEIR_TEST_SEED repeats it)", flush=True)
    instants = random.Random(seed)
    with tempfile.TemporaryDirectory() as top:
        prepare(f"{top}/whole")
        start = time.monotonic()
        subprocess.run(command(f"{top}/whole"), check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        extract(f"{top}/whole")
        expected = pathlib.Path(f"{top}/whole/{output}").read_bytes()
        assert expected, "the run without a kill has written nothing"
        kills, rounds = 0, 0
        while kills < wanted:
            rounds += 1
            folder = f"{top}/round{rounds}"
            prepare(folder)
            kills += kill_until_finished(lambda: command(folder), seconds, instants, wanted - kills)
            extract(folder)
            found = pathlib.Path(f"{folder}/{output}").read_bytes()
            if found != expected:
                sys.exit(f"round {rounds}, after {kills} kills: expected {len(expected)} bytes as without a kill, "
                         f"found {len(found)} bytes that differ")
    print(f"{kills} kills in {rounds} runs: all outputs equal that of a run without a kill")
