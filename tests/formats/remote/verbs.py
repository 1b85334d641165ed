#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs of `weir tgm` that read, with an address instead of a file: verbs.py WEIR SOURCE_DIR PEER."""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WEIR = os.path.abspath(sys.argv[1])
SOURCE = Path(sys.argv[2]).resolve()
PEER = os.path.abspath(sys.argv[3])
SUITE = SOURCE / "tests" / "conformance" / "tensogram"
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if not k.startswith("AWS_")}, "no_proxy": "127.0.0.1,localhost"}


class Server:
    """A process of server.py beside this file."""

    def __init__(self, folder):
        self.child = subprocess.Popen([sys.executable, "-B", str(Path(__file__).with_name("server.py")), folder],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = json.loads(self.child.stdout.readline())["port"]

    def ask(self, **command):
        """Sends a command to the server and returns its answer."""
        self.child.stdin.write(json.dumps(command) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())

    def end(self):
        """Ends the server by closing its input."""
        self.child.stdin.close()
        self.child.wait(timeout=30)
        self.child.stdout.close()


class Addresses(unittest.TestCase):
    """Verbs on files that a server holds."""
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="weir-remote-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.server = Server(temporary.name)
        self.addCleanup(self.server.end)

    def address(self, name):
        """Returns the address of a file on the server."""
        return f"http://127.0.0.1:{self.server.port}/{name}"

    def put(self, name, content):
        """Stores a file. Returns its path and its address."""
        path = self.folder / name
        path.write_bytes(content)
        return str(path), self.address(name)

    def tgm(self, *arguments, code=0, env=None):
        """Runs a verb, which must end with an exit code, and returns what it printed."""
        done = subprocess.run([WEIR, "tgm", *map(str, arguments)], cwd=self.folder, capture_output=True, timeout=120,
                              env={**ENVIRONMENT, **(env or {})})
        self.assertEqual(done.returncode, code, (arguments, done.stdout[-500:], done.stderr[-500:]))
        return done

    def alike(self, path, address, *arguments, code=0):
        """Checks that a verb prints the same for a file and for its address, except for the name."""
        local, remote = (self.tgm(*[a if a != "FILE" else name for a in arguments], code=code) for name in (path, address))
        for stream in ("stdout", "stderr"):
            self.assertEqual(getattr(remote, stream).replace(address.encode(), path.encode()), getattr(local, stream),
                             arguments)

    def test_every_verb_that_reads_says_the_same_of_an_address(self):
        for name in ("layout/two.tgm", "layout/stream.tgm"):
            path, address = self.put(os.path.basename(name), (SUITE / name).read_bytes())
            for verb in (["info"], ["info", "-j"], ["ls"], ["ls", "-j"], ["ls", "-p", "name"], ["get", "-p", "version"],
                         ["dump"], ["dump", "-j"], ["dump", "--limit", "2"], ["dump", "--object", "0"], ["validate"],
                         ["validate", "--full", "--json"], ["validate", "--quick"], ["show", "--object", "0", "-j"]):
                self.alike(path, address, *verb, "FILE")

    def test_every_verb_that_rewrites_gives_the_same_file(self):
        path, address = self.put("two.tgm", (SUITE / "layout" / "two.tgm").read_bytes())
        for verb in (["copy", "FILE", "OUT"], ["export", "FILE", "0", "OUT"]):
            for name, out in ((path, "local"), (address, "remote")):
                self.tgm(*[{"FILE": name, "OUT": out}.get(word, word) for word in verb])
            self.assertEqual((self.folder / "remote").read_bytes(), (self.folder / "local").read_bytes(), verb)
        # These verbs write a time and a unique number into the message, so the files differ.
        for verb in (["set", "-s", "a=b", "FILE", "OUT"], ["copy", "--recode", "FILE", "OUT"], ["merge", "FILE", "FILE", "-o", "OUT"],
                     ["reshuffle", "FILE", "-o", "OUT"], ["split", "FILE", "-o", "OUT[index]"]):
            self.tgm(*[{"FILE": address}.get(word, word.replace("OUT", "out.tgm")) for word in verb])
            written = self.folder / ("out.tgm0000" if verb[0] == "split" else "out.tgm")
            self.tgm("validate", written)

    def test_damage_is_named_and_skipped_as_in_a_file(self):
        content = bytearray((SUITE / "layout" / "two.tgm").read_bytes() * 2)
        content[len(content) // 4 - 60] ^= 0x20
        path, address = self.put("damaged.tgm", b"garbage" + bytes(content))
        self.alike(path, address, "ls", "--skip-damaged", "FILE", code=4)
        self.alike(path, address, "validate", "FILE", code=4)
        self.alike(path, address, "ls", "FILE", code=4)

    def test_one_object_is_taken_out_of_a_big_file_by_ranges(self):
        subprocess.run([PEER, "make", str(self.folder / "big.tgm")], check=True, capture_output=True)
        size = (self.folder / "big.tgm").stat().st_size
        for arguments in (["export", "FILE", "o4", "out.npy", "--message", "1"], ["show", "FILE", "--object", "4", "-j"],
                          ["dump", "FILE", "--object", "o4"], ["info", "FILE"], ["ls", "-p", "name", "FILE"]):
            self.server.ask(do="log")
            self.tgm(*[a if a != "FILE" else self.address("big.tgm") for a in arguments])
            log = self.server.ask(do="log")
            sent = sum(entry["sent"] for entry in log)
            print(f"{arguments[0]}: {len(log)} requests, {sent} of {size} bytes")
            # The verb ls reads the ends of all twelve objects, the other verbs one object at most.
            self.assertLess(sent, 1_300_000)
            self.assertLess(len(log), 20)

    def test_failures_end_with_the_code_of_their_kind(self):
        _, address = self.put("a.tgm", (SUITE / "layout" / "two.tgm").read_bytes())
        self.assertIn(b"expected status 206, found 404", self.tgm("ls", self.address("missing"), code=3).stderr)
        self.server.ask(do="faults", name="a.tgm", then="status:403")
        self.assertIn(b"found 403", self.tgm("ls", address, code=5).stderr)
        self.assertIn(b"Google storage", self.tgm("ls", "gs://bucket/a.tgm", code=2).stderr)
        self.assertIn(b"Azure storage", self.tgm("ls", "az://container/a.tgm", code=2).stderr)
        self.assertIn(b"cannot write to an address", self.tgm("copy", SUITE / "layout" / "two.tgm", "s3://b/k", code=2).stderr)

    def test_a_name_with_an_unknown_scheme_is_that_of_a_file(self):
        (self.folder / "foo:" / "bar").mkdir(parents=True)
        (self.folder / "foo:" / "bar" / "a.tgm").write_bytes((SUITE / "layout" / "two.tgm").read_bytes())
        self.tgm("info", "foo://bar/a.tgm")
        self.tgm("info", "foo://bar/missing.tgm", code=3)

    def test_keys_of_s3_come_from_the_environment_and_are_not_shown(self):
        (self.folder / "bucket").mkdir()
        (self.folder / "bucket" / "a.tgm").write_bytes((SUITE / "layout" / "two.tgm").read_bytes())
        self.server.ask(do="keys", access="AKIA", secret="s3cret", region="eu-west-3", token="t0ken")
        env = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_SESSION_TOKEN": "t0ken",
               "AWS_DEFAULT_REGION": "eu-west-3", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server.port}"}
        self.tgm("ls", "s3://bucket/a.tgm", env=env)
        for change in ({"AWS_SECRET_ACCESS_KEY": "other s3cret"}, {"AWS_SESSION_TOKEN": "other t0ken"},
                       {"AWS_REGION": "eu-west-1"}):
            text = self.tgm("ls", "s3://bucket/a.tgm", env={**env, **change}, code=5).stderr.decode()
            self.assertIn("SignatureDoesNotMatch", text)
            self.assertNotIn("s3cret", text)
            self.assertNotIn("t0ken", text)


unittest.main(argv=sys.argv[:1])
