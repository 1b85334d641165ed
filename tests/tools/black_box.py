#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the program `weir` from outside: `black_box.py WEIR SOURCE_DIR [unittest arguments]`.

Every test works in a temporary folder of its own. Runs have budgets of a few thousand tokens, so that they take seconds.
"""
import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from black_box_case import LICENCE, SOURCE, TOML, Case, main


class Usage(Case):
    """Tests of arguments, messages and settings."""
    def test_version_and_help(self):
        self.assertRegex(self.weir("--version").stdout.decode(), r"^weir \d+\.\d+\.\d+\n$")
        verbs = ["run", "resume", "settings", "speak", "store", "report", "trace", "doctor", "checkpoint ls", "checkpoint verify",
                 "checkpoint show", "sessions",
                 "hn4 mkfs", "hn4 put", "hn4 ls", "hn4 cat", "tgm ls", "tgm dump", "tgm validate"]
        for verb in verbs:
            text = self.weir(*verb.split(), "--help").stdout.decode()
            self.assertIn("Example:\n  weir " + verb, text)

    def test_usage_errors_exit_with_2(self):
        for args in ([], ["fly"], ["run"], ["run", TOML, "--fast"], ["speak", "x", "--tokens", "many"],
                     ["tgm", "validate"], ["hn4", "cat", "volume"], ["checkpoint"]):
            done = self.weir(*args, code=2)
            self.assertTrue(done.stderr or done.stdout, args)

    def test_an_unknown_verb_names_the_nearest(self):
        message = self.error("hn4", "mkfss", code=2)
        self.assertRegex(message, r'^cannot find verb "mkfss": expected one of .*cat.*; did you mean "mkfs"\?')
        self.assertIn("`weir hn4 --help`", message)
        self.assertIn('cannot find verb "fly"', self.error("fly", code=2))

    def test_numbers_below_zero_are_refused(self):
        for args in (["hn4", "cat", "volume", "tag", "--offset", "-1"], ["hn4", "cat", "volume", "tag", "--length=-1"]):
            self.assertIn("expected a number from 0 on, found -1", self.weir(*args, code=2).stderr.decode())

    def test_unknown_key_names_the_nearest(self):
        message = self.error("run", TOML, "--set", "stream.chnk=3", code=2)
        self.assertEqual(message, 'cannot set key "stream.chnk": expected a known key, found none of that '
                                  'name; did you mean "stream.chunk"?\n  at --set stream.chnk')
        config = self.folder / "bad.toml"
        config.write_text('name = "x"\n[run]\nworker = 1\n')
        message = self.error("run", "bad.toml", code=2)
        self.assertEqual(message, 'cannot set key "run.worker": expected a known key, found none of that '
                                  'name; did you mean "run.workers"?\n  at bad.toml:3:10')

    def test_wrong_type_says_what_was_expected(self):
        message = self.error("run", TOML, "--set", "stream.chunk=wide", code=2)
        self.assertEqual(message, 'cannot set key "stream.chunk": expected an integer from 1 to 65536, '
                                  'found string "wide"\n  at --set stream.chunk')

    def test_settings_are_refused_before_anything_is_made(self):
        before = sorted(self.folder.rglob("*"))
        for sets, expected in ((["model.heads=32"], "an integer from 1 to 16, found integer 32"),
                               (["model.frequencies=[1, 2, 4, 8, 16, 32, 64, 128, 192]"], "an array of 1 to 8 integers"),
                               (["model.frequencies=[1, 3]"], "ascending divisors or multiples of 64"),
                               (["model.width=100"], "a multiple of 16 from 16 to 4096"),
                               (["stream.chunk=70000"], "an integer from 1 to 65536"),
                               (["stream.lanes=2000"], "an integer from 1 to 1024"),
                               (["stream.ranks=2"], "expected at most 1, one for each lane, found 2"),
                               (["run.replicas=per_rank", "stream.lanes=4", "stream.ranks=3"], "expected 1, 2, 4 of them"),
                               (["stream.path=[]"], "expected a string or an array of strings")):
            for out in ([], ["--out", "r"]):
                arguments = [a for s in sets for a in ("--set", s)]
                self.assertIn(expected, self.error("run", TOML, *out, *arguments, code=2))
                self.assertEqual(sorted(self.folder.rglob("*")), before, sets)

    def test_settings_say_what_they_take(self):
        text = self.weir("settings", "model.heads").stdout.decode()
        self.assertIn("an integer from 1 to 16", text)
        page = self.weir("settings", "--markdown").stdout
        self.assertEqual(page, Path(SOURCE, "docs/settings.md").read_bytes())
        facts = {s["name"]: s for s in json.loads(self.weir("settings", "--json").stdout)}
        self.assertTrue(facts["run.deadline"]["may_change"])
        self.assertFalse(facts["stream.path"]["required"])  # `check_source` asks for it
        self.assertEqual(facts["model.heads"]["default"], "2")
        self.assertIn('did you mean "model.heads"?', self.error("settings", "heads", code=2))
        helps = {verb: self.weir(verb, "--help").stdout.decode() for verb in ("run", "resume")}
        for name, setting in facts.items():
            self.assertIn(f" {name}", helps["run"])
            self.assertEqual(f" {name}" in helps["resume"], setting["may_change"], name)
        self.assertIn("docs/settings.md", helps["run"])

    def test_broken_toml_names_the_place(self):
        (self.folder / "bad.toml").write_text("seed = = 1\n")
        self.assertIn("at bad.toml:1:", self.error("run", "bad.toml", code=2))

    def test_missing_things_exit_with_3(self):
        self.assertIn("no.toml", self.error("run", "no.toml", code=3))
        for verb in (["resume"], ["report"], ["checkpoint", "ls"], ["checkpoint", "verify"]):
            self.assertIn('"nowhere"', self.error(*verb, "nowhere", code=3))
        self.assertIn("nowhere", self.error("tgm", "ls", "nowhere", code=3))
        self.assertIn("nowhere", self.error("hn4", "ls", "nowhere", code=3))
        self.assertIn("nowhere", self.error("speak", "nowhere", "--prompt", "x", "--tokens", 1, code=3))

    def test_a_missing_corpus_is_named(self):
        message = self.error("run", TOML, "--out", "r", *self.sets(stream__path="/no/such/text"), code=3)
        self.assertIn("/no/such/text", message)

    def test_doctor_knows_the_machine(self):
        facts = json.loads(self.weir("doctor", "--json").stdout)
        self.assertEqual(facts["built_in"]["models"], ["prose", "llama", "bert"])
        self.assertEqual({"openmpi", "mpich", "processors", "start"} - set(facts["mpi"]), set())
        self.assertGreaterEqual(facts["machine"]["cores"], 1)
        self.assertLess(0, facts["machine"]["memory_available_bytes"])
        self.assertLessEqual(facts["machine"]["memory_available_bytes"], facts["machine"]["memory_bytes"])
        self.assertTrue(facts["kernels"]["kernel_set"])
        self.assertEqual(facts["kernels"]["instruction_sets"][0], "x86-64")
        self.assertEqual(facts["libraries"]["caf"], "0.17.6")
        self.assertLessEqual({"none", "lz4", "zstd", "szip", "zfp", "blosc2"}, set(facts["built_in"]["compression"]))
        self.assertTrue(all(f["writable"] for f in facts["folders"]))
        self.assertIn("kernel_set", self.weir("doctor").stdout.decode())

    def mpi_of(self, *files):
        """Returns what the doctor says of MPI on a machine that has certain plug-ins and programs alone."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        for name in files:
            (folder / name).touch(0o755)
        return json.loads(self.weir("doctor", "--json", environment={"PATH": str(folder), "WEIR_MPI_FOLDER": str(folder)}).stdout)["mpi"]

    def test_doctor_says_how_ranks_are_started(self):
        openmpi, mpich = (("libweir-openmpi.so", "mpirun.openmpi"), ("libweir-mpich.so", "mpirun.mpich"))
        processors = len(os.sched_getaffinity(0))
        found = self.mpi_of(*openmpi, *mpich)
        options = "--bind-to none --use-hwthread-cpus" + (" --allow-run-as-root" if os.getuid() == 0 else "")
        self.assertEqual(found["start"], f"mpirun.openmpi {options} --mca plm isolated -n {processors} PROGRAM")
        self.assertEqual(found["more_ranks"], f"add --oversubscribe for more than {processors}")
        self.assertRegex(found["openmpi"], "^plug-in /.*/libweir-openmpi.so, launcher /.*/mpirun.openmpi$")
        self.assertEqual(self.mpi_of(*openmpi, "ssh")["start"], f"mpirun.openmpi {options} -n {processors} PROGRAM")
        found = self.mpi_of(*mpich)
        self.assertEqual((found["start"], found["openmpi"]), (f"mpirun.mpich -n {processors} PROGRAM", "no plug-in of Weir, no launcher"))
        self.assertIn(f"more than {processors} need no option", found["more_ranks"])
        # A launcher without a plug-in, or a plug-in without a launcher, starts nothing.
        for files in ((), openmpi[:1], mpich[1:]):
            found = self.mpi_of(*files)
            self.assertEqual(found["start"], "install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev, and build again")
            self.assertNotIn("more_ranks", found)

    def test_the_advice_of_doctor_starts_ranks(self):
        found = json.loads(self.weir("doctor", "--json").stdout)["mpi"]
        if not found["start"].startswith("mpirun"):
            self.skipTest("not here: a launcher of MPI and its plug-in")
        more = int(found["start"].split()[-2]) + 1
        commands = [found["start"].replace("PROGRAM", "echo ranks")]
        if "--oversubscribe" in found["more_ranks"]:
            commands.append(commands[0].replace(f"-n {more - 1}", f"--oversubscribe -n {more}"))
        with tempfile.TemporaryDirectory() as folder:
            for ranks, command in enumerate(commands, more - 1):
                done = subprocess.run(command.split(), capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "TMPDIR": folder})
                self.assertEqual((done.returncode, done.stdout), (0, "ranks\n" * ranks), done.stderr)
                self.assertEqual(self.left_of(folder), ([], []), command)

    def left_of(self, folder):
        """Returns the processes and the files that a launcher leaves in its folder for temporary files. It may remove them a moment later."""
        def left():
            processes = []
            for path in Path("/proc").glob("[0-9]*/environ"):
                with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                    processes += [path.parent.name] if f"TMPDIR={folder}".encode() in path.read_bytes() else []
            return processes, os.listdir(folder)
        end = time.monotonic() + 5
        while any(left()) and time.monotonic() < end:
            time.sleep(0.05)
        return left()

    def test_trace_finds_the_critical_path(self):
        def task(number, name, start, length, waited_for=0, of=""):
            return {"name": name, "ph": "X", "cat": "task", "pid": 1, "tid": 0, "ts": start, "dur": length,
                    "args": {"id": number, "pulse": 0, "submit": 0, "ready": start, "waited_for": waited_for,
                             "waited_for_name": of, "why": ""}}
        events = [task(1, "first", 0, 10), task(2, "aside", 10, 5), task(3, "last", 15, 20, 1, "first")]
        (self.folder / "trace.json").write_text(json.dumps(events))
        facts = json.loads(self.weir("trace", "trace.json", "--json").stdout)
        # The third task had its data at 10 us but waited for the worker, which ran the second.
        self.assertEqual([step["name"] for step in facts["critical_path"]], ["first", "aside", "last"])
        self.assertEqual(facts["ns"], 35_000)
        self.assertEqual(facts["workers"][0]["busy_ns"], 35_000)
        self.assertIn("data of first", self.weir("trace", ".").stdout.decode())
        # A task whose end would have no number counts as one without times.
        (self.folder / "far.json").write_text(json.dumps([task(1, "far", 8.9e15, 8.9e15)]))
        self.assertEqual(json.loads(self.weir("trace", "far.json", "--json").stdout)["ns"], 0)
        (self.folder / "bad.json").write_text("{")
        self.assertIn("bad.json", self.error("trace", "bad.json", code=4))


class Runs(Case):
    """Tests of `weir run`."""
    def test_a_run_leaves_its_folder(self):
        done = self.weir("run", TOML, "--set", "name=short", *self.sets(run__trace="window"))
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "run folder runs/short-1")
        self.assertIn(str(self.text), lines[1])
        self.assertNotIn(b"\r", done.stderr)
        folder = self.folder / "runs" / "short-1"
        for name in ("config.toml", "metrics.json", "trace.json", "curve.tgm", "report.html", "log",
                     "checkpoint"):
            self.assertTrue((folder / name).exists(), name)
        metrics = json.loads((folder / "metrics.json").read_text())
        self.assertEqual(metrics["tokens"], 4096)
        self.assertEqual(metrics["pulses"], 64)
        for key in ("state_hash", "context_hash", "parameter_hash", "tokens_per_second", "kernel_seconds",
                    "engine_overhead", "stall_seconds", "generations", "resumed", "peak_rss_bytes"):
            self.assertIn(key, metrics)
        self.assertLess(metrics["bits_per_byte"]["last_quarter"], metrics["bits_per_byte"]["cumulative"])
        json.loads((folder / "trace.json").read_text())
        self.weir("tgm", "validate", "runs/short-1/curve.tgm")
        self.weir("run", TOML, "--set", "name=short", *self.sets(128))
        self.assertTrue((self.folder / "runs" / "short-2" / "metrics.json").exists())

    def test_json_is_the_metrics_and_nothing_else(self):
        done = self.weir("run", TOML, "--out", "r", "--json", *self.sets(1024))
        self.assertEqual(json.loads(done.stdout), self.metrics("r"))

    def test_a_budget_is_met_exactly(self):
        for tokens, lanes in ((1000, 1), (1001, 3)):
            self.assertEqual(self.run_it(f"r{lanes}", tokens, stream__lanes=lanes)["tokens"], tokens)

    def test_a_folder_with_a_checkpoint_is_refused(self):
        self.run_it("r", 1024)
        before = (self.folder / "r" / "config.toml").read_bytes()
        message = self.error("run", TOML, "--out", "r", *self.sets(2048), code=3)
        self.assertIn("weir resume r", message)
        self.assertEqual((self.folder / "r" / "config.toml").read_bytes(), before)

    def test_one_state_for_workers_prefetch_and_ranks(self):
        hashes = set()
        for i, keys in enumerate(({}, {"run__workers": 2}, {"run__workers": 4, "stream__prefetch": 0},
                                  {"stream__prefetch": 64, "checkpoint__every_tokens": 0})):
            hashes.add(self.run_it(f"a{i}", 2048, **keys)["state_hash"])
        self.assertEqual(len(hashes), 1)
        hashes = {self.run_it(f"b{r}", 2048, stream__lanes=4, stream__ranks=r)["state_hash"] for r in (1, 2, 4)}
        hashes |= {self.run_it(f"d{r}{w}", 2048, stream__lanes=4, stream__ranks=r, run__replicas="per_rank",
                               run__workers=w)["state_hash"] for r, w in ((1, 1), (2, 2), (4, 1), (4, 2))}
        self.assertEqual(len(hashes), 1)

    def test_chunk_sizes_of_the_test_phase_give_one_context(self):
        hashes = {self.run_it(f"c{n}", 0, phase__test__tokens=2500, stream__chunk=n)["context_hash"]
                  for n in (8, 64, 100, 512, 1024)}
        self.assertEqual(len(hashes), 1)

    def test_phases_follow_each_other(self):
        metrics = self.run_it("r", 1024, phase__test__tokens=512, phase__stream__tokens=256)
        self.assertEqual(metrics["tokens"], 1024 + 512 + 256)

    def test_a_chunk_below_the_slowest_level_is_warned_of_once(self):
        done = self.weir("run", TOML, "--out", "r", *self.sets(1024))
        self.assertEqual(done.stderr.decode().count("warning: "), 1)
        self.assertIn("warning", (self.folder / "r" / "log").read_text())
        done = self.weir("run", TOML, "--out", "s", *self.sets(1024, stream__chunk=512))
        self.assertEqual(done.stderr, b"")

    def test_a_text_without_a_score_does_not_look_like_a_perfect_one(self):
        self.text.write_bytes(b"x")
        done = self.weir("run", TOML, "--out", "r", *self.sets(64, stream__end="stop"))
        self.assertIn("no token was scored", done.stdout.decode())
        self.assertNotIn("0.000 bits", done.stdout.decode() + (self.folder / "r" / "log").read_text())

    def test_colour_and_control_characters_stay_off_a_pipe(self):
        done = self.weir("run", TOML, "--out", "r", *self.sets(1024))
        self.assertNotIn(b"\x1b", done.stdout + done.stderr)


class Resumes(Case):
    """Tests of `weir resume` and of checkpoints."""
    def test_checkpoints_of_the_stream_phase_refer_to_the_parameters(self):
        whole = self.run_it("r", 2048, phase__stream__tokens=6144)
        shown = json.loads(self.weir("checkpoint", "show", "r", "--json").stdout)
        self.assertEqual(shown["base"]["sections"][:2], ["STATE/learn/PARAM", "STATE/learn/MOMENT"])
        files = {int(p.stem[3:]): p for p in (self.folder / "r" / "checkpoint").glob("ck-*.weir")}
        self.assertEqual(len(files), 4)
        newest = max(files)
        self.assertLess(2 * files[newest].stat().st_size, files[min(files)].stat().st_size)
        # Without the base of the newest, the generation before it is whole.
        files[shown["base"]["generation"]].unlink()
        done = self.weir("resume", "r")
        self.assertIn(f"refers to generation {shown['base']['generation']}, expected", done.stderr.decode())
        self.assertEqual(self.metrics("r")["state_hash"], whole["state_hash"])

    def test_kill_and_resume_end_in_the_same_state(self):
        whole = self.run_it("whole", 20_000)
        args = ("run", TOML, "--out", "r", *self.sets(20_000))
        self.kill_after_checkpoint("r", *args)
        self.weir("resume", "r")
        metrics = self.metrics("r")
        for key in ("state_hash", "context_hash", "parameter_hash", "tokens", "pulses"):
            self.assertEqual(metrics[key], whole[key], key)
        self.assertEqual(metrics["bits_per_byte"], whole["bits_per_byte"])

    def test_resume_of_a_resume_of_a_resume(self):
        whole = self.run_it("whole", 30_000)
        self.kill_after_checkpoint("r", "run", TOML, "--out", "r", *self.sets(30_000))
        resumed = 0
        for workers in (2, 1, 2):
            before = self.newest("r").name
            child = self.start("resume", "r", "--set", f"run.workers={workers}", "--set", "stream.prefetch=1")
            while child.poll() is None and self.newest("r").name == before:
                time.sleep(0.002)
            resumed += child.poll() is None
            child.kill()
            child.communicate()
        self.weir("resume", "r")
        self.assertGreater(resumed, 0)
        self.assertEqual(self.metrics("r")["state_hash"], whole["state_hash"])

    def test_a_range_is_left_out_by_hand(self):
        self.run_it("r", stream__end="stop")
        command = ("resume", "r", "--set", "phase.build.tokens=6144", "--set")
        message = self.error(*command, f"stream.skip={self.text}:10-20", code=2)
        self.assertIn("expected a range behind the place at which the run goes on", message)
        self.weir(*command, f"stream.skip={self.text}:5000-9000")
        shown = self.weir("checkpoint", "show", "r").stdout.decode()
        self.assertIn(f"left out: bytes 5000 to 8999 of {self.text.name}, by hand\n", shown)
        self.assertIn("stream.skip from nothing to", shown)
        said = json.loads(self.weir("checkpoint", "show", "r", "--json").stdout)
        self.assertEqual(said["left_out"], [{"source": "", "file": self.text.name, "begin": 5000, "end": 9000,
                                             "by_hand": True}])
        self.weir("resume", "r", "--set", "phase.build.tokens=7168", "--set", "stream.skip=[]")
        self.assertIn("left out", self.weir("checkpoint", "show", "r").stdout.decode())

    def test_a_stopped_run_says_how_to_go_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            out = f"r{number}"
            child = self.start("run", TOML, "--out", out, *self.sets(39_000))
            self.wait_for_checkpoint(out, child)
            child.send_signal(number)
            stdout, stderr = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 0, stderr.decode())
            self.assertEqual(self.metrics(out)["ended"], "interrupted")
            self.assertIn(f"weir resume {out}", stdout.decode())
            self.weir("checkpoint", "verify", out)
            self.weir("resume", out)
            self.assertEqual(self.metrics(out)["tokens"], 39_000)
        hashes = {self.metrics(f"r{number}")["state_hash"] for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        self.assertEqual(len(hashes), 1)

    def test_a_run_whose_output_is_closed_ends_with_a_checkpoint(self):
        child = self.start("run", TOML, "--out", "r", *self.sets(39_000))
        self.wait_for_checkpoint("r", child)
        child.stdout.close()
        child.send_signal(signal.SIGPIPE)  # as the next line that it prints would
        messages = child.stderr.read()
        self.assertIn(child.wait(timeout=60), (0, 5), messages.decode())
        self.assertEqual(self.metrics("r")["ended"], "interrupted")
        self.weir("checkpoint", "verify", "r")
        self.weir("resume", "r")
        self.assertEqual(self.metrics("r")["tokens"], 39_000)

    def test_a_finished_run_rewrites_its_metrics(self):
        before = self.run_it("r", 1024)
        (self.folder / "r" / "metrics.json").unlink()
        self.weir("resume", "r")
        after = self.metrics("r")
        self.assertEqual(after["state_hash"], before["state_hash"])
        self.assertEqual(after["tokens"], 1024)
        self.assertEqual(after["bits_per_byte"], before["bits_per_byte"])

    def test_without_a_checkpoint_it_starts_over(self):
        whole = self.run_it("r", 2048)
        for path in (self.folder / "r" / "checkpoint").glob("ck-*"):
            path.unlink()
        done = self.weir("resume", "r")
        self.assertIn("holds no checkpoint, so the run begins anew\n", done.stderr.decode())
        self.assertEqual(self.metrics("r")["state_hash"], whole["state_hash"])

    def test_what_standard_input_cannot_repeat_is_said(self):
        text = self.text.read_bytes()
        self.weir("run", TOML, "--out", "r", *self.sets(9000, stream__path="-"), stdin=text[:4100])
        done = self.weir("resume", "r", "--set", "phase.build.tokens=9064", stdin=text[4100:])
        self.assertRegex(done.stdout.decode(), r"resumed    from generation \d+ at \d+ tokens")
        self.assertIn("standard input must go on behind the tokens of the checkpoint", done.stderr.decode())
        for path in (self.folder / "r" / "checkpoint").glob("ck-*"):
            path.unlink()
        done = self.weir("resume", "r", stdin=text[:4100])
        self.assertIn("begins anew; what it has read of standard input is lost", done.stderr.decode())

    def test_only_some_keys_may_change(self):
        self.run_it("r", 1024)
        message = self.error("resume", "r", "--set", "seed=9", code=2)
        self.assertIn("ConfigMismatch", message)
        self.assertIn('"seed"', message)
        self.weir("resume", "r", "--set", "run.workers=2", "--set", "stream.prefetch=0", "--set",
                  "stream.ranks=1", "--set", "run.trace=off", "--set", "checkpoint.every_tokens=512",
                  "--set", "run.deadline=77")

    def test_changes_are_recorded_and_shown(self):
        self.run_it("r", 1024)
        self.assertIn(b"no change", self.weir("checkpoint", "show", "r").stdout)
        self.weir("resume", "r", "--set", "phase.test.tokens=512", "--set", "run.deadline=77")
        config = (self.folder / "r" / "config.toml").read_text()
        self.assertIn("test.tokens = 512", config)
        self.assertNotIn("deadline = 77", config)  # it was given for one process
        for _ in range(2):  # config.toml has the change, so that it is not made twice
            shown = json.loads(self.weir("checkpoint", "show", "r", "--json").stdout)
            self.assertEqual([c["key"] for c in shown["changes"]], ["phase.test.tokens"])
            self.assertEqual(shown["changes"][0]["to"], "512")
            self.assertEqual(self.metrics("r")["changes"], shown["changes"])
            self.weir("resume", "r")

    def test_a_changed_corpus_is_named_with_file_and_offset(self):
        self.kill_after_checkpoint("r", "run", TOML, "--out", "r", *self.sets(30_000))
        content = bytearray(self.text.read_bytes())
        content[700] ^= 1
        self.text.write_bytes(content)
        message = self.error("resume", "r", code=4)
        self.assertIn("HistoryMismatch", message)
        self.assertRegex(message, r"at .*text:\d+")

    def test_a_damaged_checkpoint_is_named_and_the_previous_one_taken(self):
        whole = self.run_it("whole", 8192)
        self.run_it("r", 8192)
        newest = self.newest("r")
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 0x10
        newest.write_bytes(content)
        message = self.error("checkpoint", "verify", "r", code=4)
        self.assertIn(newest.name, message)
        self.weir("checkpoint", "ls", "r")
        done = self.weir("resume", "r")
        self.assertIn(newest.name, done.stderr.decode())
        self.assertEqual(self.metrics("r")["state_hash"], whole["state_hash"])

    def test_checkpoints_are_listed(self):
        self.run_it("r", 4096)
        listed = json.loads(self.weir("checkpoint", "ls", "r", "--json").stdout)
        self.assertEqual(len(listed["checkpoints"]), 2)
        self.assertTrue(all(c["valid"] for c in listed["checkpoints"]))
        self.assertEqual(max(c["pulse"] for c in listed["checkpoints"]), 64)
        verified = json.loads(self.weir("checkpoint", "verify", "r", "--json").stdout)
        self.assertEqual(verified["checkpoints"], listed["checkpoints"])
        (self.folder / "empty").mkdir()
        self.error("checkpoint", "ls", "empty", code=3)


class Parameters(Case):
    """Tests of `weir store` and `weir speak`."""
    def test_a_volume_holds_the_parameters_of_the_run(self):
        metrics = self.run_it("r", 2048)
        self.weir("store", "r", "p.hn4", "--tag", "prose")
        message = self.weir("hn4", "cat", "p.hn4", "prose").stdout
        listed = json.loads(self.weir("tgm", "ls", "-", "--json", stdin=message).stdout)
        self.assertEqual(listed["messages"][0]["digest"], metrics["parameter_hash"])
        names = [o["name"] for o in listed["messages"][0]["objects"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn(metrics["parameter_hash"], self.weir("tgm", "ls", "-", stdin=message).stdout.decode())

    def test_speaking_depends_on_the_seed_alone(self):
        self.run_it("r", 4096)
        self.weir("store", "r", "p.hn4")

        def speak(*args):
            return self.weir("speak", *args, "--prompt", "The ", "--tokens", 40).stdout

        for source in ("r", "p.hn4"):
            first = speak(source, "--temperature", 0.9, "--seed", 5)
            self.assertEqual(first, speak(source, "--temperature", 0.9, "--seed", 5))
            self.assertNotEqual(first, speak(source, "--temperature", 0.9, "--seed", 6))
            self.assertTrue(first.startswith(b"The "))
            greedy = speak(source, "--temperature", 0, "--seed", 1)
            self.assertEqual(greedy, speak(source, "--temperature", 0, "--seed", 2))
        said = json.loads(self.weir("speak", "p.hn4", "--prompt", "The ", "--tokens", 5, "--json", "--kernels", "x86-64").stdout)
        self.assertFalse(said["with_context"])
        self.assertEqual(said["instruction_set"], "x86-64")
        self.assertEqual(said["tokens"], 5)

    def test_a_prompt_comes_from_standard_input_and_no_byte_of_the_answer_is_lost(self):
        self.run_it("r", 64)  # a model that has learned little draws any byte
        prompt = "The \xe4".encode()
        options = ("--tokens", 60, "--temperature", 5)
        plain = self.weir("speak", "r", "--prompt", "-", *options, stdin=prompt).stdout
        self.assertEqual(plain, self.weir("speak", "r", "--prompt", prompt.decode(), *options).stdout)
        said = json.loads(self.weir("speak", "r", "--prompt", "-", *options, "--json", stdin=prompt).stdout)
        self.assertEqual(said["prompt"].encode(), prompt)
        self.assertEqual(prompt + bytes(said["bytes"]) + b"\n", plain)


class Volumes(Case):
    """Tests of `weir hn4`."""
    def test_what_is_put_comes_back(self):
        content = os.urandom(300_000)
        self.weir("hn4", "mkfs", "v.hn4", "--seed", 7)
        self.weir("hn4", "put", "v.hn4", "noise", stdin=content)
        self.weir("hn4", "put", "v.hn4", "licence", LICENCE, "--shards", 3)
        self.assertEqual(self.weir("hn4", "cat", "v.hn4", "noise").stdout, content)
        self.assertEqual(self.weir("hn4", "cat", "v.hn4", "licence").stdout, Path(LICENCE).read_bytes())
        tags = {t["tag"]: t for t in json.loads(self.weir("hn4", "ls", "v.hn4", "--json").stdout)}
        self.assertEqual(tags["noise"]["size"], 300_000)
        self.assertEqual(tags["licence"]["shards"], 3)
        for verb in ("get", "export"):
            facts = json.loads(self.weir("hn4", verb, "v.hn4", "noise", f"{verb}.bin", "--json").stdout)
            self.assertEqual(facts, {"file": f"{verb}.bin", "bytes": 300_000})
            self.assertEqual((self.folder / f"{verb}.bin").read_bytes(), content)
        self.error("hn4", "get", "v.hn4", "noise", "--json", code=2)

    def test_every_reader_says_what_is_wrong_with_the_volume(self):
        self.weir("hn4", "mkfs", "v.hn4")
        self.weir("hn4", "put", "v.hn4", "licence", LICENCE)
        with open(self.folder / "v.hn4", "r+b") as volume:
            volume.write(b"\0" * 512)  # the first superblock
        for args in (["ls", "v.hn4"], ["stat", "v.hn4"], ["cat", "v.hn4", "licence"], ["get", "v.hn4", "licence", "a"],
                     ["export", "v.hn4", "licence", "b"], ["bench", "v.hn4", "licence"]):
            self.assertRegex(self.weir("hn4", *args).stderr.decode(), "note: .*superblock", args)

    def test_refusals_are_named(self):
        self.weir("hn4", "mkfs", "v.hn4")
        self.error("hn4", "mkfs", "v.hn4", code=3)
        self.weir("hn4", "mkfs", "v.hn4", "--force")
        self.weir("hn4", "put", "v.hn4", "licence", LICENCE)
        self.assertIn('"licence"', self.error("hn4", "cat", "v.hn4", "licenc", code=3))
        self.assertIn("found --threads 0", self.error("hn4", "bench", "v.hn4", "licence", "--threads", 0, code=2))
        self.error("hn4", "mkfs", "w.hn4", "--size", "many", code=2)

    def test_a_flipped_byte_is_an_error(self):
        content = random.Random(3).randbytes(50_000)
        self.weir("hn4", "mkfs", "v.hn4")
        self.weir("hn4", "put", "v.hn4", "noise", stdin=content)
        volume = self.folder / "v.hn4"
        image = bytearray(volume.read_bytes())
        image[image.find(content[20_000:20_032])] ^= 1
        volume.write_bytes(image)
        self.error("hn4", "cat", "v.hn4", "noise", code=4)


class Messages(Case):
    """Tests of `weir tgm` on the curve of a run."""
    def test_listing_dumping_and_validating_a_curve(self):
        self.run_it("r", 4096)
        objects = json.loads(self.weir("tgm", "ls", "r/curve.tgm", "--json").stdout)["messages"][0]["objects"]
        self.assertEqual([o["name"] for o in objects], ["tokens", "bits_per_byte"])
        lines = self.weir("tgm", "dump", "r/curve.tgm", "--limit", 0).stdout.decode().splitlines()
        self.assertEqual(json.loads(lines[1])["values"][-1], 4096)
        raw = self.weir("tgm", "dump", "r/curve.tgm", "--object", "tokens", "--raw").stdout
        self.assertEqual(len(raw), objects[0]["bytes"])
        self.assertIn("OK", self.weir("tgm", "validate", "r/curve.tgm").stdout.decode())
        self.assertIn('did you mean "tokens"', self.error("tgm", "dump", "r/curve.tgm", "--object", "token", code=3))

    def test_damage_is_found(self):
        self.run_it("r", 4096)
        path = self.folder / "r" / "curve.tgm"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
        self.weir("tgm", "validate", "r/curve.tgm", code=4)
        self.assertNotEqual(json.loads(self.weir("tgm", "validate", "r/curve.tgm", "--json", code=4).stdout), {})
        (self.folder / "noise").write_bytes(b"no message at all")
        self.weir("tgm", "ls", "--skip-damaged", "noise", code=4)
        self.weir("tgm", "validate", "noise", code=4)


class Soak(Case):
    """Long tests, which CTest runs under the label soak."""

    def test_a_thousand_random_kills(self):
        # Short runs, so that most of the time goes into kills. WEIR_TEST_KILLS says another number.
        wanted = int(os.environ.get("WEIR_TEST_KILLS", 1000))
        whole = self.run_it("whole", 8_000)
        seed = random.SystemRandom().randrange(1 << 32)
        print("seed", seed, flush=True)
        moments = random.Random(seed)
        seconds = 0.0  # duration of a run that was not killed; it depends on the load of the machine
        kills = 0
        for i in itertools.count():
            if kills >= wanted:
                break
            out = f"r{i}"
            command = ["run", TOML, "--out", out, *self.sets(8_000)]
            while True:
                begun = time.monotonic()
                child = self.start(*command)
                try:
                    child.communicate(timeout=moments.uniform(0.0, seconds) if seconds else None)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.communicate()
                    kills += 1
                if child.returncode == 0:
                    if command[0] == "run":
                        seconds = time.monotonic() - begun
                    break
                self.assertEqual(child.returncode, -signal.SIGKILL)
                if (self.folder / out / "config.toml").exists():
                    command = ["resume", out]
                elif list((self.folder / out).glob("checkpoint/ck-*")):
                    self.fail("a checkpoint without a configuration")
            self.assertEqual(self.metrics(out)["state_hash"], whole["state_hash"], f"kill {kills}, run {i}")


if __name__ == "__main__":
    main()
