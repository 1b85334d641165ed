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

LIBRARIES = {"pmix": "openmpi", "pmi2": "mpich"}
# Arguments of a demo, and a number of steps that it never makes. It saves often, so that most of its time is not that of its steps.
BASIN = ("--size", "48", "--tile", "16")
SMALL = (*BASIN, "--every", "10")
FOREVER = 100_000_000
GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/ranks.md"


def become_parent_of_orphans():
    """Lets this process wait for all programs that it has started, also if those between have ended."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Slurm(Ranks):
    """Steps of srun on a cluster of this machine alone, which the test starts and ends."""
    needed = ("srun", "sbatch", "scancel", "squeue", "scontrol", "slurmctld", "slurmd")
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
NodeName={machine} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
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

    def setUp(self):
        super().setUp()
        self.addCleanup(self.no_job_is_left)

    def no_job_is_left(self):
        """Ends the jobs that a test has left because it failed."""
        end = time.monotonic() + 60
        while (jobs := run(["squeue", "-h", "-o", "%A"], **self.variables())[1].split()) and time.monotonic() < end:
            self.take_orphans()
            run(["scancel", *jobs], **self.variables())
            time.sleep(1)
        self.assertEqual(jobs, [])

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

    def test_programs_that_have_called_mpi_themselves_give_their_communicator_to_a_world(self):
        for kind, library in LIBRARIES.items():
            for name, ranks, expected in (("ring", 3, "ring 330\n"), ("multiple", 2, "multiple 110\n"), ("some", 3, "some 2\n")):
                status, out, words = self.srun(kind, ranks, PROGRAM.with_name(f"mpi_program_{library}"), name)
                self.assertEqual((status, out), (0, expected), (kind, words))
            outs = [self.srun(kind, ranks, PROGRAM.with_name(f"mpi_guide_{library}")) for ranks in (1, 3)]
            self.assertRegex(outs[0][1], r"^\d+[.]\d+ degrees\n$")
            self.assertEqual([one[:2] for one in outs], [(0, outs[0][1])] * 2, (kind, outs))

    def take_orphans(self):
        """Waits for programs of jobs whose parents have ended. As long as nobody has waited for srun, slurmstepd takes it for a running task,
        and the job of its script does not end."""
        daemons = {d.pid for d in self.daemons}
        while (one := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and one.si_pid not in daemons:
            os.waitpid(one.si_pid, 0)

    def script_of_the_guide(self, kind, options):
        """Returns the job script of docs/ranks.md for a small basin on this machine, with other options of sbatch; None removes a line."""
        script = re.search("(?s)```sh\n(#!/bin/sh\n#SBATCH.*?)```", GUIDE.read_text("utf-8"))[1]
        for pattern, text in (("#SBATCH -N 2 ", "#SBATCH -N 1 "), ("#SBATCH -n 8 ", "#SBATCH -n 2 "), ("#SBATCH -c 4 ", "#SBATCH -c 1 "),
                              ("srun --mpi=pmix -c 4 ", f"srun --mpi={kind} -c 1 "),
                              (r'--workers 4 --steps 100000 --state "\$SCRATCH/basin"',
                               f'--workers 1 {" ".join(BASIN)} --steps $STEPS --every $EVERY --state "$SCRATCH/state"'),
                              *((f"#SBATCH --{name}=.*\n", f"#SBATCH --{name}={value}\n" if value else "") for name, value in options.items())):
            script, found = re.subn(pattern, text, script)
            self.assertEqual(found, 1, f"{pattern} in {script}")
        return script

    def submit(self, folder, kind, steps, every=10, **options):
        """Submits the script of the guide as a job that runs in a folder. Returns its number."""
        script = folder / "job.sh"
        script.write_text(self.script_of_the_guide(kind, options), "utf-8")
        with contextlib.suppress(FileExistsError):
            (folder / "basin").symlink_to(DEMOS / "shallow_water")
        status, out, words = run(["sbatch", "--parsable", "-D", folder, "-o", "out", "-e", "errors", script], **self.variables(),
                                 SCRATCH=str(folder), STEPS=str(steps), EVERY=str(every))
        self.assertEqual(status, 0, words)
        return out.strip()

    def end_of(self, job, folder):
        """Waits until a job has ended. Returns its state, its status, its output and its errors."""
        end = time.monotonic() + 180
        while True:
            self.take_orphans()
            shown = run(["scontrol", "show", "job", job], **self.variables())[1]
            state = re.search(r"JobState=(\w+)", shown)[1]
            if state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"):
                return state, re.search(r"ExitCode=(\S+)", shown)[1], *((folder / name).read_text("utf-8") for name in ("out", "errors"))
            self.assertLess(time.monotonic(), end, shown)
            time.sleep(0.2)

    def expect_saved(self, folder, out, words):
        """Checks that a run has stopped by itself and saved its state. Returns the step that the next one begins with."""
        self.assertNotIn("hash", out)
        self.assertRegex(words, r"stopped before step \d+")
        step = int(re.search(r"stopped before step (\d+)", words)[1])
        looked = run([DEMOS / "shallow_water", *SMALL, "--steps", 0, "--state", folder / "state"])
        self.assertIn(f"resumed at step {step}", looked[2])
        return step

    def test_jobs_save_before_their_time_is_over_and_the_next_ones_go_on(self):
        with tempfile.TemporaryDirectory() as name:
            folders = {kind: pathlib.Path(name) / kind for kind in LIBRARIES}
            jobs = {}
            for kind, folder in folders.items():
                folder.mkdir()
                jobs[kind] = self.submit(folder, kind, FOREVER, time=1, signal="USR1@20")
            for kind, folder in folders.items():
                *state, out, words = self.end_of(jobs[kind], folder)
                self.assertEqual(state, ["COMPLETED", "0:0"], (kind, out, words))
                step = self.expect_saved(folder, out, words)
                whole = run([DEMOS / "shallow_water", *SMALL, "--steps", step + 20], 180)
                *state, out, words = self.end_of(self.submit(folder, kind, step + 20), folder)
                self.assertEqual((state, out), (["COMPLETED", "0:0"], whole[1]), (kind, words))
                self.assertIn(f"resumed at step {step}", words)

    def test_a_job_that_is_not_told_before_saves_at_the_end_of_its_time(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            # Its only generation is that of its end. What it writes then is lost, because its srun gets SIGTERM as well.
            state, _, _, words = self.end_of(self.submit(folder, "pmix", FOREVER, every=FOREVER, time=1, signal=None), folder)
            self.assertEqual(state, "TIMEOUT", words)
            looked = run([DEMOS / "shallow_water", *SMALL, "--steps", 0, "--state", folder / "state"])
            self.assertRegex(looked[2], r"resumed at step [1-9]", words)

    def test_steps_without_a_script_save_before_their_time_is_over(self):
        with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as started:
            runs = {}
            for kind in LIBRARIES:
                os.mkdir(f"{name}/{kind}")
                command = ["srun", f"--mpi={kind}", "-n", "2", "--time=1", "--signal=USR1@20", DEMOS / "shallow_water", *SMALL,
                           "--steps", FOREVER, "--state", f"{name}/{kind}/state"]
                runs[kind] = started.enter_context(subprocess.Popen(
                    [str(w) for w in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    start_new_session=True, env=environment(**self.variables())))
            for kind, process in runs.items():
                out, words = process.communicate(timeout=120)
                self.assertEqual(process.returncode, 0, words)
                self.expect_saved(pathlib.Path(name) / kind, out, words)


if __name__ == "__main__":
    main(globals())
