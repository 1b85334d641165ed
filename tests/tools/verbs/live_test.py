#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests runs over live sources from outside: `live_test.py WEIR SOURCE_DIR [unittest arguments]`."""
import json
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import time

from black_box_case import SOURCE, TOML, WEIR, Case, main

# Bytes at random, the same in each run: neither a line nor UTF-8 nor JSON.
GARBAGE = random.Random(5).randbytes(4000)
QUIET_SECONDS = float(os.environ.get("WEIR_QUIET_SECONDS", "60"))
LINE_BYTES = int(os.environ.get("WEIR_LINE_BYTES", str(1 << 30)))

# Sends a text in pieces. Behind the byte GATE it is quiet until the file "open" exists.
CHILD = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from weir import sources

class Pieces(sources.Source):
    dataset = "text"

    def documents(self, state):
        text = open(sys.argv[2], encoding="latin-1").read()
        for at in range(state or 0, len(text), 700):
            while at > 2500 and not os.path.exists("open"):
                time.sleep(0.01)
            yield sources.doc(text[at:at + 700], state=at + 700, id=at)

print("a line for people", file=sys.stderr)
sources.serve(Pieces())
"""


class Base(Case):
    """Helpers of tests of sources whose tokens arrive while the run goes on."""

    def child(self, tokens, **keys):
        """The arguments of a run over the child."""
        (self.folder / "child.py").write_text(CHILD)
        command = json.dumps([sys.executable, str(self.folder / "child.py"), SOURCE + "/python", str(self.text)])
        return self.sets(tokens, stream__path="[]", stream__command=command, stream__eot="false",
                         stream__vocabulary="256", **keys)

    def wait_for(self, child, condition):
        while child.poll() is None and not condition():
            time.sleep(0.01)
        self.assertIsNone(child.poll(), child.poll() is not None and child.communicate())

    def feeds(self):
        """Returns {kind: (settings of the run, a function that opens the source and returns the function that writes bytes)}."""
        self.peers = []  # sockets that were opened, the newest one last
        (self.folder / "quiet.py").write_text(CHILD.replace("at > 2500", "at > 2100"))
        command = [sys.executable, str(self.folder / "quiet.py"), SOURCE + "/python", str(self.text)]
        os.mkfifo(self.folder / "pipe")
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        (self.folder / "token").write_text("secret\n")

        def connect(family, address, token=b""):
            def open_it(_, first=token):
                end = time.monotonic() + 30
                while time.monotonic() < end:
                    peer = socket.socket(family)
                    try:
                        peer.connect(address)
                        peer.sendall(first)
                        self.addCleanup(peer.close)
                        self.peers.append(peer)
                        return peer.sendall
                    except OSError:
                        peer.close()
                        time.sleep(0.01)
                raise AssertionError(f"nothing listens at {address}")
            return open_it

        def open_pipe(_):
            descriptor = os.open(self.folder / "pipe", os.O_WRONLY)
            pipe = os.fdopen(descriptor, "wb", buffering=0)
            self.addCleanup(pipe.close)
            self.peers.append(pipe)
            return pipe.write

        def open_input(run):
            def write(data):
                run.stdin.write(data)
                run.stdin.flush()
            return write

        none = {"stream__path": "[]"}
        return {
            "child": ({**none, "stream__command": json.dumps(command), "stream__vocabulary": "256"}, None),
            "pipe": ({"stream__path": str(self.folder / "pipe")}, open_pipe),
            "unix": ({**none, "stream__listen": f"unix:{self.folder}/socket"},
                     connect(socket.AF_UNIX, f"{self.folder}/socket")),
            "tcp": ({**none, "stream__listen": f"tcp:127.0.0.1:{self.port}", "stream__token_file": str(self.folder / "token")},
                    connect(socket.AF_INET, ("127.0.0.1", self.port), b"secret\n")),
            "input": ({"stream__path": "-"}, open_input),
        }

    def live_run(self, name, settings):
        command = [WEIR, "run", TOML, "--out", name,
                   *self.sets(100_000, checkpoint__every_tokens=0, checkpoint__every_seconds=1, stream__eot="false", **settings)]
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def check_end(self, run, name):
        """Checks that a run ends with the first 3000 tokens of GARBAGE, in the state of a run over a file."""
        run.wait(timeout=60)
        errors = run.stderr.read().decode()
        for stream in (run.stdin, run.stdout, run.stderr):
            stream.close()
        self.assertEqual(run.returncode, 0, errors)
        if not (self.folder / "file").exists():
            (self.folder / "file").write_bytes(GARBAGE[:3000])
            self.run_it("file-run", 100_000, stream__path=str(self.folder / "file"), stream__eot="false")
        found, expected = self.metrics(name), self.metrics("file-run")
        self.assertEqual((found["ended"], found["tokens"]), ("end of stream", 3000), name)
        for key in ("parameter_hash", "context_hash"):
            self.assertEqual(found[key], expected[key], name)

    def check_quiet(self, quiet, late_limit, end_limit):
        """Every source sends bytes at random, and is quiet then for a time. `quiet` and the limits are seconds."""
        runs = {}
        for name, (settings, open_it) in self.feeds().items():
            run = self.live_run(f"{name}-run", settings)
            if open_it is not None:
                write = open_it(run)
                write(GARBAGE[:2800])
                runs[name] = (run, write)
            else:
                runs[name] = (run, None)
        fed = time.monotonic()
        late = {}
        for name, (run, _) in runs.items():
            folder = self.folder / f"{name}-run" / "checkpoint"
            self.wait_for(run, lambda folder=folder: list(folder.glob("ck-*.weir")))
            late[name] = time.monotonic() - fed
        print("seconds from the last byte to the first checkpoint:", {k: round(v, 2) for k, v in late.items()}, flush=True)
        time.sleep(quiet)
        for name, (run, _) in runs.items():
            self.assertIsNone(run.poll(), name)
            asked = time.monotonic()
            run.send_signal(signal.SIGINT)
            run.wait(timeout=60)  # `communicate` would end standard input, too
            took = time.monotonic() - asked
            _, errors = run.communicate()
            print(f"{name}: ends {took:.2f} s behind the signal", flush=True)
            self.assertEqual(run.returncode, 0, errors.decode())
            metrics = self.metrics(f"{name}-run")
            self.assertEqual(metrics["ended"], "interrupted", name)
            self.assertGreaterEqual(metrics["tokens"], 2048, name)
            self.assertLess(took, end_limit, name)
        # A run that starts needs some time before it reads; its first checkpoint is due a second later.
        self.assertLess(max(late.values()), late_limit)

    def check_endless_line(self, size, all_turns):
        """Every source sends a line of `size` bytes without an end. Programs are refused, others are read in pieces."""
        block = b"x" * (1 << 20)
        child = f"import sys\nfor _ in range({size >> 20}): sys.stdout.write('x' * (1 << 20))\n"
        (self.folder / "endless.py").write_text(child)
        settings = {"stream__path": "[]", "stream__command": json.dumps([sys.executable, str(self.folder / "endless.py")])}
        run = self.live_run("child", settings)
        _, errors = run.communicate(timeout=600)
        self.assertEqual(run.returncode, 4, errors.decode())
        self.assertIn("expected lines of at most 16777216 bytes", errors.decode())
        for name, (settings, open_it) in self.feeds().items():
            if open_it is None:
                continue
            for turns in all_turns:
                run = self.live_run(f"{name}-{turns}", {**settings, "stream__turns": turns, "phase__build__tokens": 4096})
                write = open_it(run)
                try:
                    for _ in range(size >> 20):
                        write(block)
                except OSError:
                    pass  # the run has ended
                try:
                    _, errors = run.communicate(timeout=120)
                except BrokenPipeError:
                    run.wait(timeout=120)
                self.assertEqual(run.returncode, 0, name)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(f"peak memory of the programs: {most} MiB", flush=True)
        self.assertLess(most, 400)


class Live(Base):
    """Tests that take a few seconds."""

    def test_a_quiet_child_delays_neither_checkpoint_nor_stop_and_a_resume_equals_a_file(self):
        whole = self.run_it("whole", 6000, stream__eot="false")
        run = self.start("run", TOML, "--out", "r", *self.child(6000))
        checkpoints = self.folder / "r" / "checkpoint"
        self.wait_for(run, lambda: len(list(checkpoints.glob("ck-*.weir"))) >= 2)
        run.send_signal(signal.SIGINT)
        stdout, stderr = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, stderr.decode())
        self.assertIn("a line for people", stderr.decode())
        self.assertEqual(self.metrics("r")["ended"], "interrupted")
        (self.folder / "open").touch()
        self.weir("resume", "r")
        for key in ("parameter_hash", "context_hash", "tokens"):
            self.assertEqual(self.metrics("r")[key], whole[key], key)
        self.weir("run", TOML, "--out", "again", *self.child(6000))
        self.assertEqual(self.metrics("r")["state_hash"], self.metrics("again")["state_hash"])

    def test_turns_of_standard_input_are_pulses_of_their_own(self):
        sets = self.sets(1000, stream__path="-", stream__turns="true", checkpoint__every_tokens="0")
        done = self.weir("run", TOML, "--out", "r", *sets, stdin=b"one\ntwo\n/reset\nthree\n")
        metrics = self.metrics("r")
        self.assertEqual((metrics["tokens"], metrics["pulses"]), (14, 3), done.stderr)

    def test_a_child_that_fails_is_named_and_the_checkpoint_stays(self):
        sets = self.sets(6000, stream__path="[]", stream__command='["/bin/sh", "-c", "echo no JSON"]')
        self.assertIn("expected a JSON object in UTF-8, found \"no JSON\"", self.error("run", TOML, "--out", "r", *sets, code=4))
        (self.folder / "garbage").write_bytes(GARBAGE)
        sets = self.sets(6000, stream__path="[]", stream__command=json.dumps(["cat", str(self.folder / "garbage")]))
        self.assertIn("expected a JSON object in UTF-8, found", self.error("run", TOML, "--out", "g", *sets, code=4))

    def test_settings_exclude_each_other(self):
        for keys, expected in (({"stream__command": '["x"]'}, "expected one of"),
                               ({"stream__turns": "true"}, "found files"),
                               ({"stream__token_file": "t"}, "stream.listen"),
                               ({"stream__log": "l"}, "expected a pipe, standard input, or a socket without a token file"),
                               ({"stream__path": "[]", "stream__listen": "tcp:0.0.0.0:0"}, "expected a token file")):
            self.assertIn(expected, self.error("run", TOML, "--out", "r", *self.sets(64, **keys), code=2))

    def test_a_quiet_source_delays_no_checkpoint_and_no_stop(self):
        self.check_quiet(0.1, 30, 10)  # a machine may be busy; LiveSoak has the limits that users get

    def test_a_line_without_an_end_needs_no_more_memory_than_others(self):
        self.check_endless_line(24 << 20, ("true",))

    def test_a_child_that_is_killed_is_named_and_a_resume_goes_on(self):
        arguments = self.child(6000)
        (self.folder / "child.py").write_text(CHILD.replace("time.sleep(0.01)", "os.kill(os.getpid(), 9)"))
        message = self.error("run", TOML, "--out", "r", *arguments, code=5)
        self.assertIn("found that signal 9 (Killed) has ended it", message)
        self.assertIn("it goes on at its last checkpoint", message)
        (self.folder / "open").touch()
        self.weir("resume", "r")
        self.weir("run", TOML, "--out", "whole", *arguments)
        self.assertEqual(self.metrics("r")["state_hash"], self.metrics("whole")["state_hash"])

    def test_a_text_whose_writer_dies_has_ended(self):
        feeds = self.feeds()
        for name in ("pipe", "unix", "input"):
            settings, open_it = feeds[name]
            run = self.live_run(f"{name}-run", settings)
            open_it(run)(GARBAGE[:3000])
            (run.stdin if name == "input" else self.peers[-1]).close()
            self.check_end(run, f"{name}-run")

    def test_bytes_of_a_pipe_with_a_log_are_not_lost_with_the_run_that_took_them(self):
        os.mkfifo(self.folder / "pipe")
        writer = os.open(self.folder / "pipe", os.O_RDWR)
        log = self.folder / "bytes"
        keys = {"checkpoint__every_tokens": 256, "stream__path": str(self.folder / "pipe"), "stream__log": str(log),
                "stream__eot": "false"}
        command = ["run", TOML, "--out", "logged", *self.sets(100_000, **keys)]
        for sent in (600, 1200, 1800, 2400, 3000):  # each byte is written once
            run = self.start(*command)
            os.write(writer, GARBAGE[sent - 600:sent])
            self.wait_for(run, lambda size=sent: log.exists() and log.stat().st_size == size)
            if sent < 3000:
                run.kill()
                run.communicate()
            command = ["resume", "logged"]
        os.close(writer)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, errors)
        self.assertEqual(log.read_bytes(), GARBAGE[:3000])
        (self.folder / "file").write_bytes(GARBAGE[:3000])
        self.run_it("file-run", 100_000, stream__path=str(self.folder / "file"), stream__eot="false")
        found, expected = self.metrics("logged"), self.metrics("file-run")
        for key in ("ended", "tokens", "parameter_hash", "context_hash"):
            self.assertEqual(found[key], expected[key], key)
        message = self.error("resume", "logged", "--set", "stream.log=", code=2)
        self.assertIn('cannot change key "stream.log" of a run that has begun', message)

    def test_behind_a_socket_whose_writer_dies_another_one_goes_on(self):
        settings, open_it = self.feeds()["tcp"]
        run = self.live_run("tcp", settings)
        open_it(run, b"secreT\n")(GARBAGE)
        try:
            self.assertEqual(self.peers[-1].recv(100), b"")
        except ConnectionResetError:
            pass  # closed, and nothing behind the line was read
        open_it(run)(GARBAGE[:1000])
        first = self.peers[-1]
        self.assertEqual(first.recv(100), b'{"from": 0}\n')
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()  # as the system closes the connection of a program that is killed
        write = open_it(run)
        taken = json.loads(self.peers[-1].recv(100))["from"]
        self.assertLessEqual(taken, 1000)
        write(GARBAGE[taken:3000])
        self.peers[-1].close()
        self.check_end(run, "tcp")


class LiveSoak(Base):
    """Every live source is quiet for a minute; each sends a line without an end."""

    def test_a_quiet_source_delays_no_checkpoint_and_no_stop(self):
        self.check_quiet(QUIET_SECONDS, 3, 1)

    def test_a_line_without_an_end_needs_no_more_memory_than_others(self):
        self.check_endless_line(LINE_BYTES, ("false", "true"))

    def test_writers_that_die_two_hundred_times_lose_nothing(self):
        settings, open_it = self.feeds()["tcp"]
        run = self.live_run("tcp", settings)
        lengths = random.Random(7)
        taken = 0
        for _ in range(200):
            write = open_it(run)
            taken = json.loads(self.peers[-1].recv(100))["from"]
            write(GARBAGE[taken:min(2990, taken + lengths.randrange(40))])
            self.peers[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.peers.pop().close()
        print(f"{taken} bytes were taken from 200 writers that died", flush=True)
        open_it(run)(GARBAGE[json.loads(self.peers[-1].recv(100))["from"]:3000])
        self.peers[-1].close()
        self.check_end(run, "tcp")


if __name__ == "__main__":
    main()
