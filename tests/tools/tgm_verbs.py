#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs of `weir tgm` from outside, on the conformance suite: `tgm_verbs.py WEIR SOURCE_DIR`."""
import ast
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from black_box_case import Shells

WEIR = os.path.abspath(sys.argv[1])
SUITE = Path(sys.argv[2]).resolve() / "tests" / "conformance" / "tensogram"
MANIFEST = json.loads((SUITE / "manifest.json").read_text())


class Verbs(Shells, unittest.TestCase):
    """Tests of every verb, in a folder of its own for each."""
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="weir-tgm-")
        self.folder = Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)

    def tgm(self, *args, code=0, env=None):
        """Runs a verb, checks its exit code, and returns what it printed."""
        done = subprocess.run([WEIR, "tgm", *map(str, args)], cwd=self.folder, capture_output=True, timeout=120,
                              check=False, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, code, done.stdout.decode(errors="replace")
                         + done.stderr.decode(errors="replace"))
        return done

    def rows(self, *args):
        """Returns the lines that a verb prints."""
        return self.tgm(*args).stdout.decode().splitlines()

    def digests(self, path):
        """Returns the digests of all objects of a file, message by message."""
        listed = json.loads(self.tgm("ls", path, "--json").stdout)
        return [[o["xxh3"] for o in m["objects"]] for m in listed["messages"]]

    def test_every_verb_has_an_example(self):
        for verb in ("info", "ls", "dump", "get", "set", "copy", "merge", "split", "reshuffle", "validate", "export", "show",
                     "doctor"):
            self.assertIn("Example:\n  weir tgm " + verb, self.tgm(verb, "--help").stdout.decode())

    def test_info_counts_messages(self):
        text = self.tgm("info", SUITE / "layout/two.tgm").stdout.decode()
        size = (SUITE / "layout/two.tgm").stat().st_size
        self.assertEqual(text, f"File: {SUITE / 'layout/two.tgm'}\n  Messages: 2\n  Size: {size} bytes\n  Version: 3\n\n")
        self.assertEqual(json.loads(self.tgm("info", "--json", SUITE / "layout/two.tgm").stdout)[0]["messages"], 2)

    def test_keys_are_listed_and_got(self):
        self.assertEqual(self.rows("ls", "-p", "name,absent", SUITE / "layout/stream_base.tgm"), ["name\tabsent", "late\tN/A"])
        self.assertEqual(json.loads(self.tgm("ls", "-p", "name", "-j", SUITE / "layout/stream.tgm").stdout), {"name": "late"})
        self.assertEqual(self.rows("get", "-p", "name,extra.run,version", SUITE / "layout/stream.tgm"), ["late conformance 3"])
        self.assertEqual(self.rows("get", "-p", "name", "-w", "name!=late", SUITE / "layout/stream.tgm"), [])
        self.assertIn(b"cannot find key", self.tgm("get", "-p", "nowhere", SUITE / "layout/stream.tgm", code=3).stderr)
        self.tgm("get", "-p", "name", "-w", "nonsense", SUITE / "layout/stream.tgm", code=2)

    def test_messages_are_dumped_as_text_and_as_json(self):
        text = self.tgm("dump", SUITE / "layout/two.tgm").stdout.decode()
        self.assertEqual(text.count("=== Message "), 2)
        self.assertRegex(text, r"(?m)^=== Message 1 ===\nversion: 3\nobjects: \d+\n  object\[0\]: type=ntensor, dtype=\w+, shape=\[")
        whole = json.loads(self.tgm("dump", "-j", SUITE / "layout/stream.tgm").stdout)
        self.assertEqual((whole["version"], whole["extra"]), (3, {"run": "conformance"}))
        self.assertIn("late", [entry.get("name") for entry in whole["base"]])
        self.assertEqual([o["type"] for o in whole["objects"]], ["ntensor", "ntensor"])
        self.assertEqual(json.loads(self.tgm("dump", "-j", "-p", "name", SUITE / "layout/stream.tgm").stdout), {"name": "late"})
        self.assertEqual(self.rows("dump", "-w", "name=none", SUITE / "layout/stream.tgm"), [])
        self.assertEqual(len(self.rows("dump", "--limit", 1, SUITE / "layout/stream.tgm")), 3)
        self.tgm("dump", SUITE / "damage/bad_payload.tgm", code=4)

    def complete(self, *words):
        """Returns the completions that bash offers behind `weir WORDS`."""
        script = 'source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));' \
                 '_weir weir "${@: -1}"; printf "%s\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", WEIR, "weir", *words], cwd=self.folder, capture_output=True,
                              text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_verbs_options_and_files(self):
        (self.folder / "value.tgm").write_bytes(b"")
        self.assertEqual(self.complete("tgm", "va"), ["validate", "value.tgm"])
        self.assertEqual(self.complete("tgm", "validate", "--q"), ["--quick"])
        self.assertEqual(self.complete("tgm", "merge", "--thr"), ["--threads"])
        self.assertIn("--strategy", self.complete("tgm", "merge", "x.tgm", "--"))
        self.assertEqual(self.complete("tgm", "validate", "value.tgm", "value"), ["value.tgm"])
        self.assertEqual(self.complete("compl"), ["completion"])
        self.assertTrue({"ls", "dump", "doctor"} <= set(self.complete("tgm", "")))
        other = subprocess.run([WEIR, "completion", "tcsh"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(other.returncode, 2)
        self.assertIn("expected bash, zsh or fish", other.stderr)
        self.assertIn('found "tcsh"', other.stderr)

    def test_fish_completes_verbs_options_and_files(self):
        script = self.script_for("fish")
        (self.folder / "value.tgm").write_bytes(b"")

        def offered(line):
            return self.fish_offers(script, line)

        self.assertEqual(offered("weir tgm va"), ["validate"])
        self.assertEqual(offered("weir tgm --threads 2 validate --q"), ["--quick"])
        self.assertIn("--strategy", offered("weir tgm merge x.tgm --"))
        self.assertEqual(offered("weir tgm validate value"), ["value.tgm"])
        self.assertTrue({"tgm", "doctor", "completion"} <= set(offered("weir ")))
        self.assertNotIn("tgm", offered("weir tgm "))

    def test_zsh_completes_verbs_options_and_files(self):
        script = self.script_for("zsh")
        (self.folder / "value.tgm").write_bytes(b"")
        for typed, whole in (("weir tgm vali", "weir tgm validate "), ("weir tgm --threads 2 merge --str", "weir tgm --threads 2 merge --strategy "),
                             ("weir tgm validate val", "weir tgm validate value.tgm "), ("weir compl", "weir completion ")):
            self.assertEqual(self.zsh_line(script, typed), whole)

    def test_set_keeps_payloads_and_digests(self):
        self.tgm("set", "-s", "station=Kiel,extra.run=2", SUITE / "codecs/codecs.tgm", "out.tgm")
        self.assertEqual(self.rows("get", "-p", "station,extra.run", "out.tgm"), ["Kiel 2"])
        self.assertEqual(self.digests("out.tgm"), self.digests(SUITE / "codecs/codecs.tgm"))
        self.assertIn(b"hash verified", self.tgm("validate", "--full", "out.tgm").stdout)
        for key in ("shape=3", "_reserved_.uuid=x", "objects.0.sp_bits_per_value=3", "szip_rsi=1"):
            self.tgm("set", "-s", key, SUITE / "codecs/codecs.tgm", "never.tgm", code=2)
        self.assertFalse((self.folder / "never.tgm").exists())
        said = json.loads(self.tgm("set", "--json", "-s", "a=b", SUITE / "layout/two.tgm", "two.tgm").stdout)
        self.assertEqual(said, {"out": "two.tgm", "messages": 2, "changed": 2})
        self.tgm("set", "-s", "a=b", "-w", "name=none", SUITE / "codecs/codecs.tgm", "same.tgm")
        self.assertEqual((self.folder / "same.tgm").read_bytes(), (SUITE / "codecs/codecs.tgm").read_bytes())

    def test_copies_are_the_same_bytes_and_templates_are_filled(self):
        self.tgm("copy", SUITE / "layout/two.tgm", "copy.tgm")
        self.assertEqual((self.folder / "copy.tgm").read_bytes(), (SUITE / "layout/two.tgm").read_bytes())
        for _ in range(2):
            said = self.tgm("copy", SUITE / "layout/stream.tgm", "[name]-[absent].tgm", "--json").stdout
            self.assertEqual(json.loads(said), {"out": ["late-unknown.tgm"], "messages": 1})
        self.assertEqual((self.folder / "late-unknown.tgm").read_bytes(), 2 * (SUITE / "layout/stream.tgm").read_bytes())

    def test_every_sound_file_can_be_encoded_again(self):
        for name, entry in MANIFEST.items():
            if entry["sound"]:
                with self.subTest(name):
                    self.tgm("copy", "--recode", SUITE / name, "again.tgm")
                    self.assertEqual(self.digests("again.tgm"), self.digests(SUITE / name))
                    self.tgm("validate", "again.tgm")

    def test_masks_are_written_as_asked_for(self):
        raw, first = (SUITE / "layout/hash_none.tgm").read_bytes(), bytes.fromhex("0000000000406f40")
        nan, up, down = (struct.pack("<d", float(v)) for v in ("nan", "inf", "-inf"))
        (self.folder / "x.tgm").write_bytes(raw.replace(first, nan))
        self.tgm("copy", "--recode", "x.tgm", "y.tgm")
        self.assertIn(b"nan_detected", self.tgm("validate", "--full", "y.tgm", code=4).stderr)
        for args, env in ((("copy", "--allow-nan"), {}), (("--allow-nan", "copy"), {}), (("copy",), {"TENSOGRAM_ALLOW_NAN": "1"})):
            self.tgm(*args, "--recode", "x.tgm", "y.tgm", env=env)
            self.tgm("validate", "--full", "y.tgm")
            self.assertEqual(self.digests("y.tgm"), self.digests("x.tgm"))
            self.assertEqual(self.methods("y.tgm"), ["none"], "one byte is below the threshold")
        at = raw.index(first)
        (self.folder / "x.tgm").write_bytes(raw[:at] + nan + up + down + raw[at + 24:])
        self.tgm("--allow-inf", "--allow-nan", "copy", "--recode", "--small-mask-threshold", 0, "--nan-mask-method", "rle",
                 "--pos-inf-mask-method", "zstd", "--neg-inf-mask-method", "lz4", "x.tgm", "y.tgm")
        self.assertEqual(self.methods("y.tgm"), ["rle", "zstd", "lz4"])
        self.tgm("copy", "--recode", "--nan-mask-method", "roaring", "y.tgm", "z.tgm")
        self.assertEqual(self.methods("z.tgm"), ["roaring", "zstd", "lz4"], "what is not asked for stays")
        self.assertEqual(self.digests("z.tgm"), self.digests("x.tgm"))
        self.tgm("copy", "--recode", "--nan-mask-method", "blosc2", "x.tgm", "z.tgm", code=2)
        self.tgm("copy", "--recode", "x.tgm", "z.tgm", code=2, env={"TENSOGRAM_SMALL_MASK_THRESHOLD": "many"})

    def methods(self, path):
        """Returns the methods of the masks in a file, in the order nan, inf+, inf-."""
        return [m.decode() for m in re.findall(rb"fmethod[c-g](none|rle|roaring|lz4|zstd)", (self.folder / path).read_bytes())]

    def test_threads_do_not_change_the_payloads(self):
        self.tgm("copy", "--recode", SUITE / "codecs/codecs.tgm", "one.tgm")
        self.tgm("--threads", 3, "copy", "--recode", SUITE / "codecs/codecs.tgm", "three.tgm")
        stored = [json.loads(self.tgm("ls", name, "--json").stdout)["messages"] for name in ("one.tgm", "three.tgm")]
        self.assertEqual(*[[o for m in messages for o in m["objects"]] for messages in stored])

    def test_merge_split_and_reshuffle_keep_objects(self):
        said = self.rows("merge", SUITE / "layout/two.tgm", SUITE / "layout/stream.tgm", "-o", "all.tgm")
        self.assertEqual(said, ["Merged 4 objects from 2 file(s) into all.tgm (strategy: first)"])
        one = [d for m in self.digests(SUITE / "layout/two.tgm") + self.digests(SUITE / "layout/stream.tgm") for d in m]
        self.assertEqual(self.digests("all.tgm"), [one])
        self.assertEqual(self.rows("split", "all.tgm", "-o", "part.tgm"), ["Split into 4 message(s)"])
        parts = sorted(self.folder.glob("part_*.tgm"))
        self.assertEqual([p.name for p in parts], [f"part_{i:04}.tgm" for i in range(4)])
        self.assertEqual([self.digests(p)[0][0] for p in parts], one)
        self.tgm("reshuffle", SUITE / "layout/stream.tgm", "-o", "whole.tgm")
        self.assertEqual(self.digests("whole.tgm"), self.digests(SUITE / "layout/stream.tgm"))
        self.assertEqual(self.rows("get", "-p", "name", "whole.tgm"), ["late"])
        self.assertEqual(json.loads(self.tgm("split", "all.tgm", "-o", "part.tgm", "--json").stdout),
                         {"out": [f"part_{i:04}.tgm" for i in range(4)]})
        self.assertEqual(json.loads(self.tgm("merge", "all.tgm", "-o", "x.tgm", "--json").stdout)["objects"], 4)
        self.assertEqual(json.loads(self.tgm("reshuffle", "all.tgm", "-o", "x.tgm", "--json").stdout)["messages"], 1)
        self.tgm("set", "-s", "extra.run=other", SUITE / "layout/stream.tgm", "other.tgm")
        self.tgm("merge", SUITE / "layout/stream.tgm", "other.tgm", "-o", "x.tgm", "-s", "error", code=2)
        self.tgm("merge", SUITE / "layout/stream.tgm", "other.tgm", "-o", "x.tgm", "-s", "last")
        self.assertEqual(self.rows("get", "-p", "extra.run", "x.tgm"), ["other"])

    def test_verdicts_are_those_of_the_suite(self):
        for name, entry in MANIFEST.items():
            with self.subTest(name):
                self.tgm("validate", SUITE / name, code=0 if entry["sound"] else 4)
        report = json.loads(self.tgm("validate", "--json", SUITE / "damage/bad_payload.tgm", code=4).stdout)
        self.assertEqual(report[0]["status"], "failed")
        codes = [i["code"] for m in report[0]["message_reports"] for i in m["issues"]]
        self.assertIn("hash_mismatch", codes)

    def test_an_empty_file_fails_with_a_reason(self):
        (self.folder / "empty.tgm").write_bytes(b"")
        said = self.tgm("validate", "empty.tgm", code=4).stderr.decode()
        self.assertIn("0 bytes with no valid messages", said)
        self.assertIn("FAILED (1 error,", said)
        report = json.loads(self.tgm("validate", "--json", "empty.tgm", code=4).stdout)[0]
        self.assertEqual([i["length"] for i in report["file_issues"]], [0])

    def test_checksum_decodes_nothing_and_excludes_other_levels(self):
        raw = (SUITE / "layout/hash_none.tgm").read_bytes()
        self.assertEqual(raw.count(b"compressiondnone"), 1)
        (self.folder / "x.tgm").write_bytes(raw.replace(b"compressiondnone", b"compressiondzstd"))
        self.assertIn(b"decode_pipeline_failed", self.tgm("validate", "x.tgm", code=4).stderr)
        self.tgm("validate", "--checksum", "x.tgm")
        self.tgm("validate", "--checksum", SUITE / "damage/bad_payload.tgm", code=4)
        for pair in (("--checksum", "--full"), ("--checksum", "--level", "fidelity"), ("--checksum", "--quick"), ("--quick", "--full"),
                     ("--full", "--level", "structure")):
            self.assertIn(b"excludes", self.tgm("validate", *pair, "x.tgm", code=2).stderr)

    def npy(self, *args):
        """Exports an object as a NumPy file and returns its header and its data."""
        self.tgm("export", *args, "out.npy")
        content = (self.folder / "out.npy").read_bytes()
        self.assertEqual(content[:8], b"\x93NUMPY\x01\x00")
        size, = struct.unpack("<H", content[8:10])
        self.assertEqual((10 + size) % 64, 0)
        return ast.literal_eval(content[10:10 + size].decode()), content[10 + size:]

    def test_objects_leave_as_numpy_files(self):
        head, data = self.npy(SUITE / "types/dtypes_big.tgm", "float64")
        self.assertEqual((head["descr"], head["shape"], len(data)), ("<f8", (2, 5), 80))
        head, data = self.npy(SUITE / "types/dtypes_little.tgm", "bfloat16")
        self.assertEqual((head["descr"], len(data)), ("<f4", 40))
        head, data = self.npy(SUITE / "codecs/bitmask.tgm", "roaring")
        self.assertEqual((head["descr"], head["shape"]), ("|u1", (1003,)))
        self.assertLessEqual(set(data), {0, 1})
        self.tgm("export", SUITE / "codecs/codecs.tgm", "nobody", "x.npy", code=3)
        self.tgm("export", SUITE / "codecs/codecs.tgm", "0", "x.npy", "--message", "1", code=3)

    def test_an_object_is_drawn(self):
        text = self.tgm("show", SUITE / "types/dtypes_little.tgm", "--object", "float32", "-o", "x.png").stdout.decode()
        self.assertIn("\u2580", text)
        self.assertIn("float32 [2, 5] from", text)
        self.tgm("export", SUITE / "masks/mask_rle.tgm", "0", "x.npy")
        npy = (self.folder / "x.npy").read_bytes()
        finite = [v for v, in struct.iter_unpack("<e", npy[10 + struct.unpack("<H", npy[8:10])[0]:]) if abs(v) < 1e9]
        said = json.loads(self.tgm("show", "--json", SUITE / "masks/mask_rle.tgm").stdout)
        self.assertEqual((said["lowest"], said["highest"]), (min(finite), max(finite)))
        png = (self.folder / "x.png").read_bytes()
        self.assertEqual(png[:8], b"\x89PNG\r\n\x1a\n")
        self.assertEqual(struct.unpack(">II", png[16:24]), (5, 2))

    def test_doctor_tries_every_codec(self):
        found = json.loads(self.tgm("doctor", "--json").stdout)
        self.assertTrue(all(t["outcome"] == "ok" for t in found["self_test"]), found)
        self.assertEqual([f["state"] for f in found["features"] if f["name"] == "sz3"], ["off"])
        text = self.rows("doctor")
        self.assertLess({"Build", "Compiled-in features", "Self-test"}, set(text))
        self.assertEqual(text[-1], "Status: HEALTHY")
        self.assertRegex("\n".join(text), r"(?m)^  zstd +on libzstd \d")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
