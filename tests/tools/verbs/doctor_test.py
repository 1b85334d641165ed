# SPDX-License-Identifier: Apache-2.0
"""Tests what `weir doctor` says of the processors of this run, started by the launchers of MPI themselves and alone:
doctor_test.py WEIR SOURCE_DIR. Tests of a launcher that is not installed are skipped, and so are those that need two processors.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from black_box_case import WEIR, Case

PROCESSORS = len(os.sched_getaffinity(0))
OPENMPI = ("mpirun.openmpi", "--mca", "plm", "isolated", *(("--allow-run-as-root",) if os.getuid() == 0 else ()))


def clean_environment(**more):
    """Returns this environment without the variables of launchers."""
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(OMPI|PMI|PMIX|MPI|SLURM)_", k)}
    return {**kept, **more}


class Doctor(Case):
    """Tests of the section about the run."""
    def launch(self, launcher, *words):
        """Runs `weir doctor` by a launcher with its options, and returns the output of each rank. Each writes into a file of its own, because
        mpirun of OpenMPI 4.1 seldom loses what a rank prints just before it ends."""
        if launcher and not shutil.which(launcher[0]):
            self.skipTest(f"not here: {launcher[0]}")
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as outputs:
            into_file = ("sh", "-c", 'exec "$@" >"$0/$$"', outputs)
            done = subprocess.run([str(w) for w in (*launcher, *into_file, WEIR, "doctor", *words)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=60, check=False, env=clean_environment(TMPDIR=folder))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return [path.read_text() for path in Path(outputs).iterdir()]

    def runs(self, launcher, *words):
        """Returns the section about the run of each rank, by rank."""
        outputs = self.launch(launcher, "--json", *words)
        found = [json.loads(text) for text in outputs]
        # Several ranks write a line each, and rank 0 alone describes the machine.
        self.assertTrue(len(outputs) == 1 or all(text.count("\n") == 1 for text in outputs), outputs)
        self.assertEqual([("machine" in one) for one in found], [one["run"]["rank"] == 0 for one in found])
        return sorted((one["run"] for one in found), key=lambda run: run["rank"])

    def check_two_ranks(self, runs, launcher, processors):
        self.assertEqual([run["rank"] for run in runs], [0, 1])
        for run in runs:
            self.assertEqual((run["launcher"], run["ranks"], run["ranks_here"], run["processors"]), (launcher, 2, 2, processors), run)

    def needs_two_processors(self):
        if PROCESSORS < 2:
            self.skipTest("not here: two processors")

    def test_a_process_alone_has_a_worker_for_each_of_its_processors(self):
        alone = self.runs(())[0]
        self.assertEqual((alone["launcher"], alone["rank"], alone["ranks"], alone["workers"]), ("none", 0, 1, PROCESSORS))
        self.assertEqual((alone["binding_fits"], alone["oversubscribed"]), (True, False), alone)
        more = self.runs((), "--workers", 10_000)[0]
        self.assertTrue(more["oversubscribed"], more)
        self.assertIn("x 10000 workers on", more["oversubscription"])
        self.assertIn("give each rank at most ", more["oversubscription"])

    def test_a_process_bound_by_taskset_is_told_so(self):
        self.needs_two_processors()
        first = min(os.sched_getaffinity(0))
        bound = self.runs(("taskset", "-c", first), "--workers", 2)[0]
        self.assertEqual((bound["processors"], bound["their_numbers"], bound["binding_fits"]), (1, str(first), False))
        self.assertRegex(bound["binding"], r"^to 1 of \d+ processors, too few for 2 workers: start without taskset, or with 1 worker$")

    def test_ranks_that_openmpi_binds_to_a_core_get_the_option_and_the_option_helps(self):
        self.needs_two_processors()
        core = self.runs((*OPENMPI, "--bind-to", "core", "-n", 2), "--workers", 2)
        self.check_two_ranks(core, "mpirun of OpenMPI", core[0]["processors"])
        if core[0]["processors"] > 1:
            self.skipTest("not here: cores of one processor")
        for run in core:
            self.assertFalse(run["binding_fits"], run)
            self.assertRegex(run["binding"], "^to 1 of .*, too few for 2 workers: start with mpirun.openmpi --bind-to none")
        free = self.runs((*OPENMPI, "--bind-to", "none", "-n", 2), "--workers", 2)
        self.check_two_ranks(free, "mpirun of OpenMPI", PROCESSORS)
        for run in free:
            self.assertTrue(run["binding_fits"], run)
            self.assertRegex(run["binding"], "^none: this process may use ")
            self.assertEqual(run["oversubscribed"], PROCESSORS < 4, run)
        each = self.runs((*OPENMPI, "--map-by", "slot:PE=2", "-n", 1), "--workers", 2)[0]
        self.assertEqual((each["processors"], each["binding_fits"]), (2, True), each)

    def test_more_ranks_than_processors_are_oversubscription(self):
        runs = self.runs((*OPENMPI, "--oversubscribe", "--bind-to", "none", "-n", PROCESSORS + 1))
        self.assertEqual(len(runs), PROCESSORS + 1)
        for run in runs:
            self.assertEqual((run["workers"], run["oversubscribed"]), (1, True), run)
            self.assertIn(f"{PROCESSORS + 1} ranks x 1 worker on", run["oversubscription"])

    def test_ranks_that_mpich_binds_to_a_core_get_the_option_and_the_option_helps(self):
        self.needs_two_processors()
        core = self.runs(("mpirun.mpich", "-bind-to", "core", "-n", 2), "--workers", 2)
        self.check_two_ranks(core, "mpirun of MPICH", core[0]["processors"])
        if core[0]["processors"] > 1:
            self.skipTest("not here: cores of one processor")
        self.assertTrue(all(run["binding"].endswith("start with mpirun.mpich -bind-to none") for run in core), core)
        free = self.runs(("mpirun.mpich", "-bind-to", "none", "-n", 2), "--workers", 1)
        self.check_two_ranks(free, "mpirun of MPICH", PROCESSORS)
        self.assertTrue(all(run["binding_fits"] and not run["oversubscribed"] for run in free), free)

    def test_ranks_other_than_0_say_in_text_only_what_differs(self):
        first, second = sorted(self.launch((*OPENMPI, "--oversubscribe", "--bind-to", "none", "-n", 2)), key=len, reverse=True)
        self.assertRegex(first, r"(?m)^kernels ")
        self.assertRegex(first, r"(?m)^run +launcher +mpirun of OpenMPI$")
        self.assertRegex(second, r"^\[rank 1 \S+\] run +launcher +mpirun of OpenMPI\n")
        self.assertTrue(all(line.startswith("[rank 1 ") for line in second.splitlines()), second)
        self.assertRegex(second, r"(?m)^\[rank 1 \S+\] +oversubscription ")

    def test_the_advice_for_the_next_start_is_not_that_of_the_binding(self):
        bound = self.launch((*OPENMPI, "--bind-to", "core", "-n", 1))[0]
        self.assertRegex(bound, rf"(?m) -n {PROCESSORS} PROGRAM$|install openmpi-bin")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
