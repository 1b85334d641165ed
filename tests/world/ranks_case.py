# SPDX-License-Identifier: Apache-2.0
"""What the tests of ranks in several processes share: how they start programs, what they expect of them, and that nothing is left."""
import contextlib
import io
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, PLUGINS, DEMOS = (pathlib.Path(w).resolve() for w in sys.argv[1:4])
PROGRAMS = ("heat", "tiles", "large", "blur", "normalise", "mirror", "worlds")
DEADLINE_MS = 1000


def environment(**more):
    clean = {k: v for k, v in os.environ.items() if not re.match(r"(OMPI|PMI|PMIX|SLURM)_", k)}
    return {**clean, "WEIR_MPI_FOLDER": str(PLUGINS), **more}


def without_warnings(out):
    """Returns the lines of an output but those of UCX, a library below MPICH that prints warnings of its own."""
    return "".join(line for line in out.splitlines(True) if " UCX " not in line)


def run(command, limit=60, **more):
    """Runs a command in a group of its own, all of which is ended after a limit in seconds. Returns its status, output and errors."""
    with subprocess.Popen([str(w) for w in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, start_new_session=True, env=environment(**more)) as process:
        try:
            out, words = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, words = process.communicate()
            raise AssertionError(f"{command} did not end within {limit} s: {out}{words}") from None
    return process.returncode, without_warnings(out), words


def running(word, file="cmdline", folders=(PROGRAM.parent, DEMOS)):
    """Returns the processes of programs in some folders, those of the tests and the demos, or in any folder for an empty list, with a word
    in their arguments, or in another file of /proc/PID."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/exe"):
        try:
            ours = not folders or path.resolve().parent in folders
            if ours and word.encode() in path.with_name(file).read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def line_of(rank, words):
    """Returns a pattern for a line that a rank writes: ranks other than 0 name themselves and their machine."""
    prefix = "" if rank == 0 else re.escape(f"[rank {rank} {socket.gethostname()}] ")
    return f"(?m)^{prefix}{words}"


def shared_memory():
    return {p.name for p in pathlib.Path("/dev/shm").iterdir()}


def left_memory(before):
    """Returns the shared memory that has come and that no process has mapped: other programs may make some meanwhile."""
    names = shared_memory() - before
    for path in pathlib.Path("/proc").glob("[0-9]*/maps") if names else ():
        with contextlib.suppress(OSError):
            names -= set(re.findall(r" /dev/shm/(\S+)", path.read_text("utf-8", "replace")))
    return names


class Ranks(unittest.TestCase):
    """Tests that all launchers have in common."""
    launcher = ()

    def setUp(self):
        self.before = shared_memory()
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.addCleanup(self.nothing_is_left)

    def ranks_of_this_test(self):
        """Returns the processes that launchers have started for this test. Programs of other tests may run beside it."""
        return running(f"TMPDIR={self.temporary.name}", "environ")

    def own_folder(self):
        """Returns a folder for the files of one launcher. Two of OpenMPI that start at once must not share one: the second one may not start."""
        return tempfile.mkdtemp(prefix="own-", dir=self.temporary.name)

    def nothing_is_left(self):
        """Checks that no process, shared memory, socket or file of this test is left. Launchers may remove theirs a moment later."""
        def left():
            top = pathlib.Path(self.temporary.name)
            files = [path.name for path in (*top.iterdir(), *top.glob("own-*/*")) if not path.match(f"{top}/own-*")]
            return self.ranks_of_this_test(), left_memory(self.before), files
        end = time.monotonic() + 5
        while any(found := left()) and time.monotonic() < end:  # each look may see what another program has made, and not mapped yet
            time.sleep(0.05)
        self.assertEqual(found, ([], set(), []))

    def launch(self, ranks, *words, program=PROGRAM, limit=60, **variables):
        """Runs a program on ranks. Returns its status, output and errors. Each rank writes into files of its own, because mpirun of OpenMPI 4.1
        seldom loses what a rank prints just before it ends."""
        with tempfile.TemporaryDirectory() as folder:
            into_files = ("sh", "-c", 'exec "$@" >"$0/$$.out" 2>"$0/$$.errors"', folder)
            status, out, complaints = run([*self.launcher, "-n", ranks, *into_files, program, *words], limit, TMPDIR=self.temporary.name,
                                          **variables)
            out, complaints = (text + "".join(path.read_text() for path in sorted(pathlib.Path(folder).glob(kind)))
                               for text, kind in ((out, "*.out"), (complaints, "*.errors")))
        return status, without_warnings(out), complaints

    def expect_demo_of_threads(self, ranks):
        for name in ("shallow_water", "heat2d"):
            words = ("--size", 48, "--tile", 16, "--steps", 30)
            threads = run([DEMOS / name, *words])
            self.assertEqual(threads[0], 0, threads)
            status, out, complaints = self.launch(ranks, *words, program=DEMOS / name)
            self.assertEqual((status, out), (0, threads[1]), complaints)

    def expect_hash_of_one_process(self, ranks, workers, names=("equal",)):
        """Runs programs, each in processes of its own. The program "equal" runs all of PROGRAMS, each in a world of its own."""
        for name in names:
            alone = run([PROGRAM, name, 2])
            self.assertEqual(alone[0], 0, alone)
            status, out, words = self.launch(ranks, name, workers)
            self.assertEqual((status, out), (0, alone[1]), words)

    def expect_random_programs(self, ranks, workers):
        alone = run([PROGRAM, "random", 1], 900)
        self.assertEqual(alone[0], 0, alone)
        status, out, words = self.launch(ranks, "random", workers, limit=900)
        self.assertEqual((status, out), (0, alone[1]), words)

    def expect_drain(self, ranks, number, to_launcher):
        """Asks a rank, or the launcher, to stop once a generation exists. All must end with 0, and a later run has the hash of a whole one."""
        words = [str(w) for w in ("--size", 48, "--tile", 16, "--steps", 20000, "--every", 50)]
        with tempfile.TemporaryDirectory() as folder:
            command = [*map(str, self.launcher), "-n", str(ranks), str(DEMOS / "shallow_water"), *words, "--state", folder]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  start_new_session=True, env=environment(TMPDIR=self.temporary.name)) as process:
                end = time.monotonic() + 60
                while process.poll() is None and not any(n.endswith("manifest") for n in os.listdir(folder)):
                    self.assertLess(time.monotonic(), end, "no generation was saved")
                    time.sleep(0.01)
                os.kill(process.pid if to_launcher else running(folder)[-1], number)
                out, complaints = process.communicate(timeout=60)
            stopped = re.search(r"stopped before step (\d+)", complaints)
            self.assertTrue(stopped and process.returncode == 0, (process.returncode, out, complaints))
            step = int(stopped[1])
            self.assertNotIn("hash", out)
            words[5] = str(step + 20)
            whole = run([DEMOS / "shallow_water", *words])
            status, out, complaints = run([DEMOS / "shallow_water", *words, "--ranks", 3, "--state", folder])
        self.assertEqual((status, out), (0, whole[1]), complaints)
        self.assertIn(f"resumed at step {step}", complaints)


    @contextlib.contextmanager
    def started(self, ranks, *words):
        """Starts ranks of a demo, and ends them if the block has not waited for them."""
        with subprocess.Popen([str(w) for w in (*self.launcher, "-n", ranks, DEMOS / "shallow_water", *words)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                              env=environment(TMPDIR=self.own_folder())) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    for one in (process.pid, *self.ranks_of_this_test()):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(one, signal.SIGKILL)

    def expect_resume_after_kills(self, numbers):
        """Kills a rank behind each first new generation, for several numbers of ranks. The run that ends has the hash of a whole one."""
        words = ("--size", 48, "--tile", 16, "--steps", 400, "--every", 10)
        whole = run([DEMOS / "shallow_water", *words])
        kills = 0
        with tempfile.TemporaryDirectory() as folder:
            for ranks in numbers:
                before = set(os.listdir(folder))
                with self.started(ranks, *words, "--state", folder) as process:
                    end = time.monotonic() + 60
                    while process.poll() is None and not any(n.endswith("manifest") for n in set(os.listdir(folder)) - before):
                        self.assertLess(time.monotonic(), end, "no generation was saved")
                        time.sleep(0.01)
                    for rank in self.ranks_of_this_test()[-1:]:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(rank, signal.SIGKILL)
                    kills += process.wait(60) != 0
                self.nothing_is_left()
            status, out, complaints = run([DEMOS / "shallow_water", *words, "--ranks", 1, "--state", folder])
        self.assertEqual((status, out), (0, whole[1]), complaints)
        self.assertIn("resumed at step", complaints)
        self.assertGreater(kills, 0)


def outcome_of_case(case):
    """Runs one case. Returns whether it has succeeded, and the lines about it."""
    lines = io.StringIO()
    outcome = unittest.TextTestRunner(stream=lines, verbosity=2).run(case)
    return outcome.wasSuccessful(), lines.getvalue()


def run_beside(suite):
    """Runs the cases of a suite two at a time, since they wait for deadlines and launchers much of their time. Ends with 1 if one fails."""
    cases = list(unittest.defaultTestLoader.loadTestsFromTestCase(suite))
    failures = 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for succeeded, lines in pool.imap_unordered(outcome_of_case, cases):
            print(lines, end="", flush=True)
            failures += not succeeded
    print(f"{suite.__name__}: {len(cases)} cases, {failures} failed")
    sys.exit(failures > 0)


def main(suites):
    """Runs the suite that the command names. Ends with 77 if its launcher or the plug-in is not installed."""
    suite = suites[sys.argv[4]]
    missing = [word for word in getattr(suite, "needed", getattr(suite, "launcher", ())[:1]) if not shutil.which(word)]
    if suite.plugin and not (PLUGINS / suite.plugin).exists():
        missing.append(suite.plugin)
    if getattr(suite, "needs_root", False) and os.getuid() != 0:
        missing.append("the rights of root")
    if missing:
        print(f"skipped: not here: {', '.join(missing)}")
        sys.exit(77)
    if getattr(suite, "beside", False) and not sys.argv[5:]:
        run_beside(suite)
    unittest.main(module="__main__", argv=[sys.argv[0], *(sys.argv[5:] or [suite.__name__])])
