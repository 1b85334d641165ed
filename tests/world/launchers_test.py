#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Worlds of several processes: launchers_test.py PROGRAM PLUGINS DEMOS SUITE. Each program must print the hash of one process, a failed
rank must be named by the others, and nothing may be left behind. Exits with 77 if the launcher or its plug-in is not installed."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from ranks_case import DEADLINE_MS, DEMOS, PROGRAM, PROGRAMS, Ranks, environment, left_memory, line_of, main, run


class FromMpi(Ranks):
    """Programs that call MPI themselves, with the library of the launcher and with the other one."""
    library = other = ""
    beside = True  # the cases, two at a time

    def program(self, name, library=""):
        path = PROGRAM.with_name(f"{name}_{library or self.library}")
        if not path.exists():
            self.skipTest(f"not here: {path.name}")
        return path

    def test_worlds_live_beside_messages_of_the_program_and_do_not_end_mpi(self):
        for name, ranks, out in (("ring", 3, "ring 330"), ("multiple", 2, "multiple 110"), ("some", 3, "some 2")):
            found = self.launch(ranks, name, program=self.program("mpi_program"))
            self.assertEqual(found[:2], (0, out + "\n"), found)
            if name == "some":  # the last rank has no communicator
                self.assertRegex(found[2], "ranks not started: expected success of .*, found: .*communicator")

    def test_the_program_of_the_guide_has_the_same_result_on_any_number_of_ranks(self):
        outs = []
        for ranks in (1, 3):
            status, out, words = self.launch(ranks, program=self.program("mpi_guide"))
            self.assertEqual(status, 0, words)
            outs.append(out)
        self.assertRegex(outs[0], r"^\d+[.]\d+ degrees\n$")
        self.assertEqual(outs[1], outs[0])

    def test_a_level_of_threads_that_is_too_low_is_named_and_refused(self):
        for name in ("plain", "funneled"):
            words = self.launch(2, name, program=self.program("mpi_program"))[2]
            level = "FUNNELED" if name == "funneled" else "(SINGLE|FUNNELED)"
            refusal = ("ranks not started: expected .* with the level of threads MPI_THREAD_SERIALIZED or more, "
                       f"found MPI_THREAD_{level}; call MPI_Init_thread with MPI_THREAD_SERIALIZED\n")
            self.assertEqual(len(re.findall(refusal, words)), 2, words)

    def test_mpi_that_has_not_begun_or_has_ended_is_refused(self):
        for name in ("early", "late"):
            _, out, words = self.launch(2, name, program=self.program("mpi_program"))
            refusal = "ranks not started: expected that .* is active, found that the program has not called MPI_Init_thread yet, or has"
            self.assertEqual((len(re.findall(refusal, words)), out), (2, f"{name} 110\n"), words)

    def test_a_rank_that_never_makes_its_transport_is_named_by_the_others(self):
        begun = time.monotonic()
        words = self.launch(3, "absent", program=self.program("mpi_program"))[2]
        for rank in (0, 2):
            self.assertRegex(words, f"(?m)^rank {rank}: ranks not started: expected that all 3 ranks make their transports within 1000 ms, "
                                    "found no sign of life of rank 1; ")
        self.assertLess(time.monotonic() - begun, 20)

    def test_a_program_of_another_library_is_refused_with_both_files(self):
        for name in ("launched", "ring"):
            # A program of OpenMPI that its own launcher has not started looks for ssh, unless this variable is set.
            _, out, words = self.launch(2, name, program=self.program("mpi_program", self.other), OMPI_MCA_plm="isolated")
            files = {"openmpi": r"Open MPI in \S*/libmpi[.]so\S*", "mpich": r"MPICH in \S*/libmpich[.]so\S*"}
            found = {"openmpi": r"Open MPI v?4.* in \S*/libmpi[.]so\S*", "mpich": r"MPICH.* in \S*/libmpich[.]so\S*"}
            refusal = (f'cannot use the MPI plug-in ".*/{self.plugin}": expected that it calls {files[self.library]}, '
                       f"found that this process has {found[self.other]}; start the program with the launcher of the library")
            self.assertEqual((len(re.findall(refusal, words)), out), (2, ""), words)

    def test_each_end_of_a_transfer_is_told_once(self):
        status, out, words = self.launch(2, "ends", 1)
        self.assertEqual(status, 0, words)
        self.assertRegex(out, "^ends [0-9a-f]{16}\n$")


class OpenMpi(FromMpi):
    """Processes of mpirun.openmpi, which stay if one of them fails."""
    library, other = "openmpi", "mpich"
    plugin = "libweir-openmpi.so"
    launcher = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated",
                "--mca", "orte_enable_recovery", "1")

    def test_two_ranks_have_the_hash_of_one(self):
        self.expect_hash_of_one_process(2, 1)

    def test_four_ranks_have_the_hash_of_one(self):
        self.expect_hash_of_one_process(4, 1)

    def test_two_ranks_with_two_workers_have_the_hash_of_one(self):
        self.expect_hash_of_one_process(2, 2)

    def test_demos_have_the_hash_of_threads(self):
        self.expect_demo_of_threads(3)

    def test_random_programs_equal_their_serial_runs(self):
        self.expect_random_programs(3, 2)

    def test_counters_of_all_ranks_are_json(self):
        status, out, words = self.launch(3, "--size", 48, "--tile", 16, "--steps", 5, "--json", 1, program=DEMOS / "shallow_water")
        self.assertEqual(status, 0, words)
        ranks = json.loads(out.split("\n", 1)[1])
        self.assertEqual([r["rank"] for r in ranks], [0, 1, 2])
        self.assertTrue(all(r["own_tasks"] > 0 and r["bytes_sent"] > 0 for r in ranks), ranks)

    def test_a_killed_demo_resumes_on_another_number_of_ranks(self):
        self.launcher = self.launcher[:-3]  # without recovery: the others end, too
        self.expect_resume_after_kills((3, 2))

    def test_a_signal_to_a_rank_saves_and_ends_all(self):
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            self.expect_drain(2, number, False)

    def test_a_signal_to_the_launcher_saves_and_ends_all(self):
        self.expect_drain(3, signal.SIGUSR1, True)

    def test_a_failed_kernel_has_the_same_text_on_all_ranks(self):
        words = self.launch(3, "failing", 1)[2]
        for rank in range(3):
            self.assertRegex(words, line_of(rank, 'kernel_failed: step 9 "fail" failed on rank 2: expected success, found: planted'))

    def test_a_rank_with_other_calls_is_an_error_of_all(self):
        words = self.launch(2, "diverging", 1)[2]
        for rank in range(2):
            self.assertRegex(words, line_of(rank, "[a-z_]+: ranks 0 and 1 differ in call 2: expected \"one\", found \"other\""))

    def test_a_kernel_may_take_three_deadlines(self):
        status, out, words = self.launch(2, "long", 1, 500)
        self.assertEqual((status, out.split()[:1]), (0, ["long"]), words)

    def test_a_killed_rank_is_named_by_the_others(self):
        begun = time.monotonic()
        words = self.launch(3, "killed", 1, DEADLINE_MS)[2]
        for rank in range(2):
            self.assertRegex(words, line_of(rank, f"rank_lost: .*rank 2 within {DEADLINE_MS} ms"))
        self.assertRegex(words, 'the task (step [0-9]+ )?"sweep" needs bytes that have not come')
        self.assertLess(time.monotonic() - begun, DEADLINE_MS / 1000 + 20)

    def start_stopping(self, deadline_ms, name="stopped"):
        """Starts two ranks, which write their status at the end; rank 1 stops itself. Returns the launcher and the process of rank 1."""
        with_status = ("sh", "-c", '"$@"; echo "status $?" >&2', "sh")
        command = [str(w) for w in (*self.launcher, "-n", 2, *with_status, PROGRAM, name, 1, deadline_ms)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, env=environment(TMPDIR=self.own_folder()))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process, int(process.stdout.readline().split()[1])

    def end_ranks(self):
        for one in self.ranks_of_this_test():
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)

    def expect_name_of_stopped_rank(self, words, *names):
        self.expect_end_with_stopped_rank(words + f"expected a sign of life of rank 1 within {DEADLINE_MS} ms", *names)

    def expect_end_with_stopped_rank(self, words, *names):
        """Runs programs beside each other. Rank 0 of each must end within the deadline + 2 s with status 6 and with words, while rank 1 is
        stopped."""
        for last_try in (False, True):  # another program may have the processors once
            started = []
            for name in names:
                started.append((name, *self.start_stopping(DEADLINE_MS, name), time.monotonic()))
            # Ranks that never end are ended, so that the test fails instead of waiting for ever.
            watchdog = threading.Timer(30, self.end_ranks)
            watchdog.start()
            ends = [(name, process.stderr.readline(), process.stderr.readline(), time.monotonic() - begun)
                    for name, process, _, begun in started]
            watchdog.cancel()
            for _, process, stopped, _ in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(stopped, signal.SIGKILL)
                process.communicate(timeout=60)
            for name, line, status, _ in ends:
                with self.subTest(name=name):
                    self.assertRegex(line, line_of(0, words))
                    self.assertEqual(status, "status 6\n")
            took = max(seconds for *_, seconds in ends)
            if took <= DEADLINE_MS / 1000 + 2:
                break
            self.assertFalse(last_try, f"ended after {took:.1f} s")

    def test_a_stopped_rank_is_named_by_the_others(self):
        self.expect_name_of_stopped_rank("rank_lost: .*message [0-9]+ of channel [0-9]+ .*", "stopped")

    def test_a_stopped_rank_is_named_by_a_rank_that_only_sends_to_it(self):
        # In a full window, with small messages, in a release.
        self.expect_name_of_stopped_rank("rank_lost: message [0-9]+ of channel [0-9]+ not sent to rank 1: ", "sending", "trickling", "releasing")

    def test_a_stopped_rank_is_named_by_a_rank_that_opens_a_channel(self):
        self.expect_name_of_stopped_rank("rank_lost: message 0 of channel 256 not moved: .*found none: ", "opening")

    def test_a_start_of_mpi_that_does_not_return_ends_the_process(self):
        self.expect_end_with_stopped_rank("rank_lost: ranks not started: expected that MPI_Init_thread of Open MPI returns within "
                                          f"{DEADLINE_MS} ms, found that it has not returned for [0-9]+ ms; a rank may have ended, or be stopped",
                                          "absent")

    def test_ranks_that_were_all_stopped_longer_than_the_deadline_do_not_call_each_other_silent(self):
        alone = run([PROGRAM, "pausing", 4])
        with subprocess.Popen([str(w) for w in (*self.launcher, "-n", 3, PROGRAM, "pausing", 1, 2 * DEADLINE_MS)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                              env=environment(TMPDIR=self.temporary.name)) as process:
            watchdog = threading.Timer(40, self.end_ranks)
            watchdog.start()
            begun = process.stdout.readline()
            ranks = self.ranks_of_this_test()
            self.assertEqual(len(ranks), 3)
            for rank in ranks:
                os.kill(rank, signal.SIGSTOP)
            time.sleep(2.4 * DEADLINE_MS / 1000)
            # At once: the scheduler of Linux 6.18 lets programs that were stopped run first, for about as long as they were stopped, so a
            # process that waited between two signals could be late by that time.
            for rank in ranks:
                os.kill(rank, signal.SIGCONT)
            out, words = process.communicate(timeout=60)
            watchdog.cancel()
        self.assertEqual((process.returncode, begun + out), (0, alone[1]), words)
        self.assertEqual(words, "")

    def test_tags_are_used_again_and_again(self):
        alone = run([PROGRAM, "wrapping", 1])
        self.assertEqual(alone[0], 0, alone)
        status, out, words = self.launch(2, "wrapping", 2)
        self.assertEqual((status, out), (0, alone[1]), words)
        status, out, words = self.launch(2, "tags", 1)
        self.assertEqual(status, 0, words)

    def test_a_sender_that_is_refused_sends_the_same_bytes_later(self):
        free = self.launch(2, "sent", 1)
        self.assertEqual(free[0], 0, free)
        status, out, words = self.launch(2, "unsent", 1, 60000, "state", 64 * 1024)
        self.assertEqual((status, out), (0, "un" + free[1]), words)

    def test_a_world_that_has_too_much_to_send_says_so(self):
        words = self.launch(2, "mirror", 1, 20000, "state", 64 * 1024)[2]
        self.assertRegex(words, "(?m)^.*out_of_memory: .*message [0-9]+ of channel [0-9]+ not sent to rank [01]: expected at most 65536 bytes that "
                                "are not sent yet, found [0-9]+; let the ranks wait for each other more often, or raise mpi_options::max_unsent")

    def test_a_rank_may_come_three_deadlines_late_to_a_channel(self):
        status, out, words = self.launch(2, "opening_late", 1, 500)
        self.assertEqual((status, out), (0, "opening_late 0000000000000007\n"), words)

    def test_a_rank_that_has_ended_its_transport_is_named_by_a_rank_that_opens_a_channel(self):
        _, _, words = self.launch(2, "opening_alone", 1, 500)
        self.assertRegex(words, "rank_lost: message 0 of channel 255 not moved: .*found none: rank 1 has ended its transport")

    def test_a_send_to_a_rank_that_has_left_the_channel_ends(self):
        status, out, words = self.launch(2, "leaving", 1)
        self.assertEqual((status, out), (0, "leaving 0000000000000002\n"), words)

    def test_worlds_move_on_while_another_one_is_made(self):
        alone = run([PROGRAM, "worlds_before", 1])
        self.assertEqual(alone[0], 0, alone)
        status, out, words = self.launch(2, "worlds_before", 1)
        self.assertEqual((status, out), (0, alone[1]), words)

    def test_a_rank_that_goes_on_before_the_deadline_changes_no_bit(self):
        alone = run([PROGRAM, "stopped", 1])
        process, stopped = self.start_stopping(20_000)
        time.sleep(0.5)
        os.kill(stopped, signal.SIGCONT)
        out, words = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, alone[1]), words)

    def test_a_message_of_a_rank_that_was_silent_is_not_lost(self):
        # Over TCP the sender takes part in the transfer of a large message, so a rank that is stopped has sent half of it.
        launcher, self.launcher = self.launcher, (*self.launcher, "--mca", "btl", "self,tcp")
        status, out, words = self.launch(2, "late", 1, 1000, limit=40)
        self.launcher = launcher
        self.assertEqual((status, out), (0, "late 0000000000000001\n"), words)

    def test_after_a_signal_to_the_launcher_the_newest_generation_remains(self):
        self.launcher = OpenMpi.launcher[:-3]  # without recovery
        every = 20
        words = [str(w) for w in ("--size", 48, "--tile", 16, "--every", every, "--steps")]

        def newest(folder):
            found = [re.fullmatch(r"state-(\d+)[.]manifest", n) for n in os.listdir(folder)]
            return max((int(m[1]) for m in found if m), default=0)
        with contextlib.ExitStack() as stack:
            runs = []
            for number in (signal.SIGTERM, signal.SIGINT):  # beside each other, since mpirun takes its time to end
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                runs.append((number, folder, stack.enter_context(self.started(2, *words, "200000", "--state", folder))))
            complete = {}
            for number, folder, process in runs:
                end = time.monotonic() + 60
                while process.poll() is None and newest(folder) < 2:
                    self.assertLess(time.monotonic(), end, "no generation was saved")
                    time.sleep(0.01)
                complete[number] = newest(folder)
                self.assertGreaterEqual(complete[number], 2, f"the run has ended with {process.returncode}")
                process.send_signal(number)
            for number, _, process in runs:
                self.assertEqual(process.wait(60), 1, number)
            self.nothing_is_left()
            for number, folder, _ in runs:
                with self.subTest(number=number):
                    self.assertGreaterEqual(newest(folder), complete[number])
                    looked = run([DEMOS / "shallow_water", *words, 0, "--state", folder])
                    self.assertRegex(looked[2], r"resumed at step \d+", looked)
                    step = int(re.search(r"resumed at step (\d+)", looked[2])[1])
                    self.assertGreaterEqual(step, complete[number] * every)
                    whole = run([DEMOS / "shallow_water", *words, step + 20])
                    status, out, complaints = run([DEMOS / "shallow_water", *words, step + 20, "--ranks", 2, "--state", folder])
                    self.assertEqual((status, out), (0, whole[1]), complaints)

    def test_a_lost_rank_is_reported_with_the_generation_to_resume_from(self):
        with tempfile.TemporaryDirectory() as folder:
            words = self.launch(3, "saving", 1, DEADLINE_MS, folder)[2]
            for rank in range(2):
                self.assertRegex(words, line_of(rank, f"rank_lost: .*rank 2 within.*; generation 5 in {re.escape(folder)}, saved at step 50, "
                                                      "is complete: resume from it, on any number of ranks"))


class Mpich(FromMpi):
    """Processes of mpirun.mpich, which kills all if one fails."""
    library, other = "mpich", "openmpi"
    plugin = "libweir-mpich.so"
    launcher = ("mpirun.mpich",)

    def test_two_ranks_have_the_hash_of_one(self):
        self.expect_hash_of_one_process(2, 1)

    def test_demos_have_the_hash_of_threads(self):
        self.expect_demo_of_threads(2)

    def test_random_programs_equal_their_serial_runs(self):
        self.expect_random_programs(2, 1)

    def test_a_signal_to_a_rank_saves_and_ends_all(self):
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                self.expect_drain(2, number, False)

    def test_a_signal_to_the_launcher_saves_and_ends_all(self):
        for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):  # it passes all of them on, and waits for the ranks
            with self.subTest(number=number):
                self.expect_drain(2, number, True)

    def test_a_failed_kernel_has_the_same_text_on_all_ranks(self):
        words = self.launch(2, "failing", 1)[2]
        self.assertRegex(words, 'kernel_failed: step 9 "fail" failed on rank 1: expected success, found: planted')

    def test_a_start_of_mpi_that_does_not_return_ends_the_process(self):
        words = self.launch(2, "absent", 1, 1000)[2]
        self.assertRegex(words, line_of(0, "rank_lost: ranks not started: expected that MPI_Init_thread of MPICH returns within 1000 ms, found that"))

    def test_a_killed_rank_ends_all(self):
        self.assertNotEqual(self.launch(2, "killed", 1, DEADLINE_MS)[0], 0)

    def test_a_killed_demo_resumes_on_another_number_of_ranks(self):
        self.expect_resume_after_kills((2,))


class Soak(Ranks):
    """The whole matrix, many random programs and many kills, for `make soak`."""
    shapes = [(ranks, workers) for ranks in range(1, 5) for workers in range(1, 4)]

    def test_every_number_of_ranks_and_workers_has_the_hash_of_one_process(self):
        for ranks, workers in self.shapes:
            with self.subTest(ranks=ranks, workers=workers):
                self.expect_hash_of_one_process(ranks, workers, PROGRAMS)

    def test_random_programs_equal_their_serial_runs(self):
        self.expect_random_programs(3, 2)

    def test_ranks_that_are_killed_at_random_instants_resume(self):
        kills = int(os.environ.get("WEIR_TEST_KILLS", 200))
        seed = int(os.environ.get("WEIR_TEST_SEED", "0")) or random.randrange(1, 1 << 30)
        print(f"seed {seed} (WEIR_TEST_SEED repeats it)", flush=True)
        dice = random.Random(seed)
        words = ("--size", 48, "--tile", 16, "--steps", 400, "--every", 10)
        whole = run([DEMOS / "shallow_water", *words])
        stuck = segments = 0
        begun = time.monotonic()
        self.assertEqual(self.launch(3, *words, program=DEMOS / "shallow_water")[:2], (0, whole[1]))
        seconds = time.monotonic() - begun
        while kills > 0:
            with tempfile.TemporaryDirectory() as folder:
                ended = False
                while not ended and kills > 0:
                    with self.started(dice.randint(2, 4), *words, "--state", folder) as process:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            process.wait(dice.uniform(0, seconds))
                        ranks = self.ranks_of_this_test()
                        for rank in dice.sample(ranks, min(len(ranks), 1)):
                            with contextlib.suppress(ProcessLookupError):  # it has just ended
                                os.kill(rank, signal.SIGKILL)
                        stuck += self.end_of(process)
                        segments += self.remove_segments()
                        ended = process.returncode == 0
                        kills -= not ended
                    self.nothing_is_left()
                status, out, complaints = self.launch(dice.randint(1, 4), *words, "--state", folder, program=DEMOS / "shallow_water")
                self.assertEqual((status, out), (0, whole[1]), complaints)
        print(f"launchers that did not end although all ranks had ended: {stuck}; segments that the libraries have left: {segments}", flush=True)

    def end_of(self, process):
        """Waits until a launcher has ended. Returns true if it had to be ended: mpirun of OpenMPI 4.1 can wait for ever, without a rank left,
        if one is killed while it connects to the launcher in MPI_Init."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            some_are_left = bool(self.ranks_of_this_test())
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1 if some_are_left else 5)
                return False
            if not some_are_left and not self.ranks_of_this_test():
                process.kill()
                process.wait()
                for path in pathlib.Path(self.temporary.name).iterdir():
                    shutil.rmtree(path)
                return True
        raise AssertionError(f"the ranks {self.ranks_of_this_test()} did not end within 60 s")

    def remove_segments(self):
        """Removes shared memory that a rank leaves if it is killed in MPI_Init, before its library has removed the name. Returns the number
        of segments."""
        end = time.monotonic() + 5
        while self.ranks_of_this_test() and time.monotonic() < end:  # the launcher may end before them
            time.sleep(0.05)
        names = [n for n in left_memory(self.before) if n.startswith(("mpich_shar_tmp", "ucx_shm_posix", "vader_segment"))]
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # of another program, which has removed it
                os.unlink(f"/dev/shm/{name}")
        return len(names)


class OpenMpiSoak(Soak):
    """Processes of mpirun.openmpi, which ends all if one fails."""
    plugin = OpenMpi.plugin
    launcher = OpenMpi.launcher[:-3]


class MpichSoak(Soak):
    """Processes of mpirun.mpich."""
    plugin = Mpich.plugin
    launcher = Mpich.launcher


class Threads(unittest.TestCase):
    """Ranks that are threads of one process."""
    plugin = ""

    def test_any_number_of_ranks_and_workers_has_the_hash_of_one(self):
        status, out, words = run([PROGRAM, "threads"], 240)
        self.assertEqual((status, out), (0, "".join(run([PROGRAM, name, 2])[1] for name in sorted(PROGRAMS))), words)


class Alone(unittest.TestCase):
    """Processes that no launcher has started, or only half."""
    plugin = ""

    def test_one_process_loads_no_plug_in(self):
        for more in ({}, {"OMPI_COMM_WORLD_SIZE": "1"}, {"PMI_SIZE": "1"}, {"SLURM_NTASKS": "4"}):
            status, out, words = run([PROGRAM, "heat", 1], **{**more, "WEIR_MPI_FOLDER": "/nonexistent"})
            self.assertEqual((status, out.split()[:1]), (0, ["heat"]), words)
            # The plug-ins are there now, and the loader names every file that it maps, at the start and later.
            status, _, words = run([PROGRAM, "heat", 1], **more, LD_DEBUG="files")
            loaded = re.findall(r"file=(\S+) \[0\];  generating link map", words)
            self.assertEqual((status, [name for name in loaded if re.search("libmpi|libopen-|libpmi|libweir-", name)]), (0, []), words)
            self.assertTrue(any("libc.so" in name for name in loaded), words)

    def test_a_missing_plug_in_is_named_with_its_folder(self):
        for variable, file in (("OMPI_COMM_WORLD_SIZE", "libweir-openmpi.so"), ("PMI_SIZE", "libweir-mpich.so")):
            status, _, words = run([PROGRAM, "heat", 1], **{variable: "2", "WEIR_MPI_FOLDER": "/nonexistent"})
            self.assertEqual(status, 3)
            self.assertIn(f"cannot load an MPI plug-in: expected {file} in /nonexistent, found none; set WEIR_MPI_FOLDER", words)

    def test_srun_without_a_type_of_mpi_is_refused(self):
        status, _, words = run([PROGRAM, "heat", 1], SLURM_NTASKS="4", SLURM_STEP_ID="0")
        self.assertEqual(status, 2)
        self.assertIn("start with srun --mpi=pmix", words)

    def test_a_process_may_pretend_to_be_one_of_many_ranks(self):
        status, out, words = run([PROGRAM, "tiles", 1], WEIR_PRETEND="30/100", WEIR_MPI_FOLDER="/nonexistent")
        self.assertEqual((status, out), (0, ""), words)
        self.assertIn("warning: WEIR_PRETEND is set: this process pretends to be rank 30 of 100", words)
        status, _, words = run([PROGRAM, "tiles", 1], WEIR_PRETEND="30")
        self.assertEqual(status, 2)
        self.assertIn('expected RANK/RANKS in the environment variable WEIR_PRETEND, found "30"', words)

    def test_a_file_that_is_no_plug_in_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "libweir-mpich.so").write_bytes(b"no library")
            status, _, words = run([PROGRAM, "heat", 1], PMI_SIZE="2", WEIR_MPI_FOLDER=folder)
        self.assertEqual(status, 2)
        self.assertIn("expected a library that this machine can load, found:", words)


if __name__ == "__main__":
    main(globals())
