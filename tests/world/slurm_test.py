#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Worlds whose ranks are steps of Slurm: slurm_test.py PROGRAM PLUGINS DEMOS Slurm. Exits with 77 if Slurm or the plug-in is not installed,
or without the rights of root."""
import contextlib
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ranks_case import DEMOS, PROGRAM, PROGRAMS, Ranks, environment, left_memory, main, run, running, shared_memory


def become_parent_of_orphans():
    """Lets this process wait for all programs that it has started, also if those between have ended."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm(Ranks):
    """Steps of srun on a cluster of this machine alone, which the test starts and ends."""
    needed = ("srun", "slurmctld", "slurmd")
    needs_root = True  # slurmd starts steps by it
    plugin = "libweir-openmpi.so"

    @classmethod
    def setUpClass(cls):
        # The name has no letter that slurm.conf gives a meaning, and sockets in it are short enough.
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-slurm-", dir="/tmp"))
        cls.daemons = []
        cls.memory_before = shared_memory()
        become_parent_of_orphans()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(cls.nothing_of_the_cluster_is_left)
        cls.addClassCleanup(cls.end_cluster)
        (cls.folder / "tmp").mkdir()
        machine = socket.gethostname()
        (cls.folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={machine}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={cls.folder}
SlurmdSpoolDir={cls.folder}/spool
SlurmctldPidFile={cls.folder}/slurmctld.pid
SlurmdPidFile={cls.folder}/slurmd.pid
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerType=sched/builtin
NodeName={machine} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes={machine} Default=YES State=UP
SlurmdParameters=config_overrides
""", "utf-8")
        for command in (["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
            with open(cls.folder / f"{command[0]}.log", "wb") as log:
                cls.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                                    env=environment(SLURM_CONF=str(cls.folder / "slurm.conf"), TMPDIR=str(cls.folder / "tmp"))))
        end = time.monotonic() + 30
        while "idle" not in run(["sinfo", "-h"], SLURM_CONF=str(cls.folder / "slurm.conf"))[1]:
            if time.monotonic() > end or any(d.poll() is not None for d in cls.daemons):
                logs = "".join(p.read_text("utf-8", "replace") for p in sorted(cls.folder.glob("*.log")))
                raise AssertionError(f"the cluster does not start: {logs}")
            time.sleep(0.2)

    @classmethod
    def end_cluster(cls):
        for one in reversed(cls.daemons):
            one.terminate()
            one.wait(20)
        with contextlib.suppress(ChildProcessError):  # programs that have started steps, and whose parents have ended
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    @classmethod
    def nothing_of_the_cluster_is_left(cls):
        """Checks that no process, shared memory or temporary file of the cluster and its steps is left."""
        def left():
            return running(f"SLURM_CONF={cls.folder}", "environ", ()), left_memory(cls.memory_before), os.listdir(cls.folder / "tmp")
        end = time.monotonic() + 5
        while any(left()) and time.monotonic() < end:
            time.sleep(0.05)
        if any(left()):
            raise AssertionError(f"expected that nothing of the cluster is left, found {left()}")

    def variables(self):
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "TMPDIR": self.temporary.name}

    def srun(self, kind, ranks, *words, limit=120):
        return run(["srun", *([f"--mpi={kind}"] if kind else []), "-n", ranks, *words], limit, **self.variables())

    def test_both_types_of_mpi_have_the_hash_of_one_process(self):
        for name in PROGRAMS:
            alone = run([PROGRAM, name, 2])
            for kind, ranks, workers in itertools.product(("pmix", "pmi2"), (2, 4), (1, 2)):
                status, out, words = self.srun(kind, ranks, PROGRAM, name, workers)
                self.assertEqual((status, out), (0, alone[1]), (kind, ranks, workers, words))

    def test_without_a_type_of_mpi_the_error_names_the_option(self):
        status, _, words = self.srun("", 2, PROGRAM, "heat", 1)
        self.assertEqual(status, 2)
        self.assertIn("start with srun --mpi=pmix for OpenMPI, or --mpi=pmi2 for MPICH", words)

    def test_a_killed_demo_resumes_with_the_other_library(self):
        words = ("--size", 48, "--tile", 16, "--every", 20, "--steps")
        with tempfile.TemporaryDirectory() as folder:
            command = ["srun", "--mpi=pmix", "-n", "3", str(DEMOS / "shallow_water"), *map(str, words), "200000", "--state", folder]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True, env=environment(**self.variables())) as process:
                end = time.monotonic() + 60
                while not any(n.endswith("manifest") for n in os.listdir(folder)):
                    self.assertLess(time.monotonic(), end, "no generation was saved")
                    time.sleep(0.01)
                os.kill(running(folder)[-1], signal.SIGKILL)
                self.assertNotEqual(process.wait(60), 0)
            looked = run([DEMOS / "shallow_water", *words, 0, "--state", folder])
            steps = int(re.search(r"resumed at step (\d+)", looked[2])[1]) + 20
            whole = run([DEMOS / "shallow_water", *words, steps])
            status, out, complaints = self.srun("pmi2", 2, DEMOS / "shallow_water", *words, steps, "--state", folder)
        self.assertEqual((status, out), (0, whole[1]), complaints)


if __name__ == "__main__":
    main(globals())
