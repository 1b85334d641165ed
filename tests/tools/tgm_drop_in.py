#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `weir tgm` with the input of programs that call the reference's command line: `tgm_drop_in.py WEIR SOURCE_DIR`.

The input has damaged and empty files, codecs that are not built, fields that this project does not interpret, and options
anywhere on the line.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from made_messages import message, parse

WEIR = os.path.abspath(sys.argv[1])
SUITE = Path(sys.argv[2]).resolve() / "tests" / "conformance" / "tensogram"
FLOATS = struct.pack("<6f", *range(6))
# An object of another writer: column-major strides, an unknown key, an unknown field of a mask, a type of its own.
FOREIGN = {"shape": [2, 3], "strides": [1, 2], "type": "field", "owner": {"name": "x", "keys": [1, 2]}, "tag": b"\1\2"}


class Case(unittest.TestCase):
    """A test in a folder of its own, with helpers that call `weir tgm` there."""
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="weir-tgm-")
        self.folder = Path(temporary.name)
        self.addCleanup(temporary.cleanup)

    def tgm(self, *args, code=0, env=None, stdin=b""):
        """Runs a verb, checks its exit code, and returns the process with `text` and `said` from its two outputs."""
        done = subprocess.run([WEIR, "tgm", *map(str, args)], cwd=self.folder, capture_output=True, timeout=120, check=False,
                              input=stdin, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, code, (args, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")))
        done.text, done.said = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return done

    def write(self, name, content):
        """Writes a file and returns its name."""
        (self.folder / name).write_bytes(content)
        return name

    def content(self, name):
        """Returns the bytes of a file."""
        return (self.folder / name).read_bytes()

    def rewrites(self, name):
        """Yields each verb that makes new messages, and the file that it writes from `path`."""
        for verb, *args in (("set", "-s", "a=b", name, "set.tgm"), ("merge", name, "-o", "merge.tgm"),
                            ("split", name, "-o", "split.tgm"), ("reshuffle", name, "-o", "reshuffle.tgm"),
                            ("copy", "--recode", name, "copy.tgm")):
            self.tgm(verb, *args)
            paths = sorted(self.folder.glob("split_*.tgm")) if verb == "split" else [self.folder / f"{verb}.tgm"]
            yield verb, [m for path in paths for m in parse(path.read_bytes())]


class EmptyFiles(Case):
    """Files without a message, or with nothing but a damaged one."""
    def test_every_verb_but_validate_takes_a_file_without_a_message(self):
        self.write("e.tgm", b"")
        for args, text in ((("ls", "e.tgm"), ""), (("ls", "-p", "name", "e.tgm"), "name\n"), (("ls", "-p", "a", "-j", "e.tgm"), ""),
                           (("dump", "e.tgm"), ""), (("dump", "--limit", 1, "e.tgm"), ""), (("get", "-p", "name", "e.tgm"), ""),
                           (("copy", "e.tgm", "copy.tgm"), ""), (("copy", "e.tgm", "[name].tgm"), ""), (("set", "-s", "a=b", "e.tgm", "set.tgm"), ""),
                           (("reshuffle", "e.tgm", "-o", "r.tgm"), "Reshuffled 0 message(s) from e.tgm to r.tgm\n"),
                           (("split", "e.tgm", "-o", "s.tgm"), "Split into 0 message(s)\n"),
                           (("merge", "e.tgm", "-o", "m.tgm"), "Merged 0 objects from 1 file(s) into m.tgm (strategy: first)\n")):
            with self.subTest(args):
                done = self.tgm(*args)
                self.assertEqual((done.text, done.said), (text, ""))
        self.assertEqual({p.name: p.stat().st_size for p in self.folder.iterdir() if p.name != "m.tgm"},
                         {"e.tgm": 0, "copy.tgm": 0, "set.tgm": 0, "r.tgm": 0})
        self.assertEqual([len(m["objects"]) for m in parse(self.content("m.tgm"))], [0])
        self.assertEqual(json.loads(self.tgm("ls", "-j", "e.tgm").text), {"file": "e.tgm", "messages": []})
        self.assertEqual(json.loads(self.tgm("copy", "-j", "e.tgm", "[name].tgm").text), {"out": [], "messages": 0})
        self.tgm("validate", "e.tgm", code=4)

    def test_a_verb_that_needs_an_object_fails_on_a_file_without_one(self):
        self.write("e.tgm", b"")
        for args in (("export", "e.tgm", 0, "x.npy"), ("show", "e.tgm"), ("dump", "--object", 0, "e.tgm")):
            self.assertIn("expected a Tensogram message, found none in 0 bytes", self.tgm(*args, code=4).said)

    def test_bytes_that_belong_to_no_message_are_named(self):
        self.write("noise.tgm", b"x" * 100)
        self.assertEqual(self.tgm("copy", "noise.tgm", "out.tgm").said, "weir: noise.tgm:0: ignored 100 bytes: they belong to no message\n")
        self.assertEqual(self.content("out.tgm"), b"")
        self.tgm("validate", "noise.tgm", code=4)

    def test_a_file_that_holds_nothing_but_a_damaged_message_fails_every_verb(self):
        whole = message([({"shape": [6]}, FLOATS)])
        for name, content in (("cut.tgm", whole[:-40]), ("start.tgm", b"X" + whole[1:]), ("end.tgm", whole[:-1] + b"X")):
            self.write(name, content)
            for args in (("ls", name), ("ls", "-p", "a", name), ("get", "-p", "version", name), ("dump", name), ("copy", name, "x.tgm"),
                         ("set", "-s", "a=b", name, "x.tgm"), ("merge", name, "-o", "x.tgm"), ("split", name, "-o", "x.tgm"),
                         ("reshuffle", name, "-o", "x.tgm")):
                with self.subTest(args):
                    self.assertIn(f'cannot read "{name}": expected a Tensogram message, found none in {len(content)} bytes', self.tgm(*args, code=4).said)
            self.assertFalse((self.folder / "x.tgm").exists())
            self.assertRegex(self.tgm("copy", "--skip-damaged", name, "out.tgm", code=4).said, rf"^weir: {name}:0: skipped {len(content)} bytes: .+\n$")
            self.assertEqual(self.content("out.tgm"), b"")

    def test_no_file_is_no_output(self):
        for args, text in ((("info",), ""), (("ls",), "version\n"), (("ls", "-j", "-p", "a"), ""), (("dump",), ""), (("get", "-p", "a"), "")):
            self.assertEqual(self.tgm(*args).text, text)
        for args in (("validate",), ("merge", "-o", "x.tgm"), ("export",), ("show",), ("copy",)):
            self.assertIn("FILE is required", self.tgm(*args, code=2).said)


class Damage(Case):
    """Files of three messages of which the second one is damaged."""
    def setUp(self):
        super().setUp()
        one = (SUITE / "layout/two.tgm").read_bytes()[:504]
        self.sound = [one, (SUITE / "layout/hash_both.tgm").read_bytes(), (SUITE / "layout/stream_base.tgm").read_bytes()]

    def flipped(self, content, at):
        """Returns bytes with one bit flipped."""
        return content[:at] + bytes([content[at] ^ 4]) + content[at + 1:]

    def saved(self, middle, reason, code=4):
        """Copies a file whose second message is `middle` and returns the messages on standard error."""
        first, _, last = self.sound
        self.write("d.tgm", first + middle + last)
        done = self.tgm("copy", "--skip-damaged", "d.tgm", "out.tgm", code=code)
        self.assertEqual(self.content("out.tgm"), first + last)
        self.assertRegex(done.said, rf"^weir: d\.tgm:504: skipped (message 1 of )?{len(middle)} bytes: {reason}\n$")
        return done

    def test_sound_messages_are_saved_whatever_is_wrong_with_their_neighbour(self):
        middle = self.sound[1]
        metadata, payload = middle.index(b"dbase"), middle.rindex(b"\0\0\0\0\0\x40\x6f\x40")
        self.saved(self.flipped(middle, metadata), "cannot trust .*: expected digest .*, found .*")
        self.saved(self.flipped(middle, payload), "cannot trust object: expected digest .*, found .*")
        self.saved(self.flipped(middle, 0), "they belong to no message")
        self.saved(self.flipped(middle, 9), ".*version.*")
        self.saved(self.flipped(middle, len(middle) - 1), ".*")
        self.saved(middle[:-100], ".*")
        self.saved(b"between", "they belong to no message")

    def test_an_object_without_a_digest_is_decoded_to_see_whether_it_is_sound(self):
        self.saved(message([({"shape": [6], "compression": "zstd"}, b"not a frame")]), "cannot .*")
        self.saved(message([({"shape": [6], "compression": "brotli"}, FLOATS)]), "cannot run compression: .*")
        self.write("d.tgm", message([({"shape": [6]}, FLOATS)]) + message([({"shape": [6], "compression": "sz3"}, b"whatever")]))
        self.tgm("copy", "--skip-damaged", "d.tgm", "out.tgm")
        self.assertEqual(self.content("out.tgm"), self.content("d.tgm"))

    def test_a_flipped_bit_costs_no_more_than_its_message(self):
        seed = random.SystemRandom().getrandbits(32)
        draw = random.Random(seed)
        first, middle, last = self.sound
        for _ in range(60):
            at = draw.randrange(len(middle))
            broken = middle[:at] + bytes([middle[at] ^ 1 << draw.randrange(8)]) + middle[at + 1:]
            self.write("d.tgm", first + broken + last)
            # A copy accepts the digests of old writers, which no flag of their frame announces; so does `--legacy`.
            judged = subprocess.run([WEIR, "tgm", "validate", "--legacy", "d.tgm"], cwd=self.folder, capture_output=True, timeout=60, check=False)
            with self.subTest(seed=seed, at=at):
                self.tgm("copy", "--skip-damaged", "d.tgm", "out.tgm", code=judged.returncode)
                self.assertEqual(self.content("out.tgm"), first + (broken if judged.returncode == 0 else b"") + last)

    def test_a_copy_says_what_it_skipped_as_json_too(self):
        self.write("d.tgm", self.sound[0] + b"x" + self.flipped(self.sound[1], 40) + self.sound[2])
        said = json.loads(self.tgm("copy", "--skip-damaged", "--json", "d.tgm", "out.tgm", code=4).text)
        self.assertEqual(said, {"out": ["out.tgm"], "messages": 2, "skipped": 2})
        said = json.loads(self.tgm("copy", "--skip-damaged", "--json", "out.tgm", "again.tgm").text)
        self.assertEqual(said, {"out": ["again.tgm"], "messages": 2, "skipped": 0})

    def test_messages_that_are_not_chosen_are_not_judged_by_their_payload(self):
        payload = self.sound[1].rindex(b"\0\0\0\0\0\x40\x6f\x40")
        self.write("d.tgm", self.flipped(self.sound[1], payload) + self.sound[2])
        self.tgm("copy", "--skip-damaged", "-w", "name=late", "d.tgm", "out.tgm")
        self.assertEqual(self.content("out.tgm"), self.sound[2])

    def test_lists_go_on_behind_a_damaged_message(self):
        middle = self.sound[1]
        payload = middle.rindex(b"\0\0\0\0\0\x40\x6f\x40")
        self.write("d.tgm", self.sound[0] + self.flipped(middle, payload) + self.sound[2])
        self.assertEqual(self.tgm("get", "-p", "version", "--skip-damaged", "d.tgm").text, "3\n3\n3\n")
        done = self.tgm("ls", "--skip-damaged", "d.tgm", code=4)
        self.assertRegex(done.said, r"^weir: d\.tgm:504: skipped message 1 of \d+ bytes: cannot trust object: .*\n$")
        self.assertEqual([line.split()[1] for line in done.text.splitlines() if line.startswith("message")], ["0", "2"])
        listed = json.loads(self.tgm("ls", "-j", "--skip-damaged", "d.tgm", code=4).text)
        self.assertEqual([m["offset"] for m in listed["messages"]], [0, 504 + len(middle)])
        self.write("d.tgm", self.sound[0] + self.flipped(middle, middle.index(b"dbase")) + self.sound[2])
        for args, text in ((("get", "-p", "version"), "3\n3\n"), (("ls", "-p", "version"), "version\n3\n3\n")):
            done = self.tgm(*args, "--skip-damaged", "d.tgm", code=4)
            self.assertEqual(done.text, text)
            self.assertRegex(done.said, r"^weir: d\.tgm:504: skipped message 1 of \d+ bytes: .*\n$")

    def test_without_the_option_damage_ends_the_verb_and_nothing_is_written(self):
        middle = self.sound[1]
        self.write("d.tgm", self.sound[0] + self.flipped(middle, middle.index(b"dbase")) + self.sound[2])
        self.assertIn("at d.tgm:504", self.tgm("copy", "d.tgm", "out.tgm", code=4).said)
        self.assertFalse((self.folder / "out.tgm").exists())
        for args in (("ls",), ("ls", "-p", "a"), ("get", "-p", "version"), ("dump",)):
            self.tgm(*args, "d.tgm", code=4)


class ForeignFields(Case):
    """Keys and fields that this project does not interpret pass through every verb unchanged."""

    def test_strides_and_unknown_fields_survive_every_verb_that_writes(self):
        compressed = {"shape": [6], "compression": "none", "strides": [3], "note": "-1"}
        self.write("f.tgm", message([(FOREIGN, FLOATS), (compressed, FLOATS)], [{"name": "x", "owner": [1, {"deep": b"\0"}]}, {}]))
        for verb, messages in self.rewrites("f.tgm"):
            with self.subTest(verb):
                objects = [o for m in messages for o in m["objects"]]
                self.assertEqual([payload for _, payload in objects], [FLOATS, FLOATS])
                for (found, _), wanted in zip(objects, (FOREIGN, compressed)):
                    self.assertEqual({k: found[k] for k in wanted}, wanted)
                base = [b for m in messages for b in m["metadata"]["base"]]
                self.assertEqual([b["_reserved_"]["tensor"]["strides"] for b in base], [[1, 2], [3]])
                self.assertEqual(base[0]["owner"], [1, {"deep": b"\0"}])

    def test_unknown_fields_of_masks_stay_where_no_mask_is_made_anew(self):
        masked = {"shape": [6], "masks": {"nan": {"method": "none", "offset": 24, "length": 1, "note": "x"}}}
        self.write("f.tgm", message([(masked, FLOATS + b"\x20"), ({"shape": [6]}, FLOATS)]))
        for verb, messages in self.rewrites("f.tgm"):
            if verb != "copy":
                self.assertEqual(messages[0]["objects"][0][0]["masks"], masked["masks"], verb)

    def test_strides_are_shown(self):
        self.write("f.tgm", message([(FOREIGN, FLOATS)]))
        shown, = json.loads(self.tgm("dump", "-j", "f.tgm").text)["objects"]
        self.assertEqual((shown["shape"], shown["strides"], shown["owner"]), ([2, 3], [1, 2], {"name": "x", "keys": [1, 2]}))

    def test_the_kept_reproducer_keeps_its_strides(self):
        kept = SUITE.parents[3] / "shared" / "audit" / "tensogram" / "strides.tgm"
        if not kept.exists():
            self.skipTest(f"{kept} is not there")
        wanted = [d["strides"] for m in parse(kept.read_bytes()) for d, _ in m["objects"]]
        for verb, messages in self.rewrites(kept):
            self.assertEqual([d["strides"] for m in messages for d, _ in m["objects"]], wanted, verb)


class UnbuiltCodec(Case):
    """Messages with an object whose compression this build does not have."""
    SZ3 = {"shape": [6], "compression": "sz3", "sz3_error_bound_mode": "abs", "sz3_error_bound": 1}

    def setUp(self):
        super().setUp()
        self.write("s.tgm", message([({"shape": [6]}, FLOATS), (self.SZ3, b"an sz3 stream")], [{"name": "plain"}, {"name": "packed"}]))

    def test_it_is_listed_and_dumped_without_its_elements(self):
        listed, = json.loads(self.tgm("ls", "-j", "s.tgm").text)["messages"]
        self.assertEqual([(o["name"], o["compression"], o["bytes"], o["stored_bytes"], o["xxh3"] is None) for o in listed["objects"]],
                         [("plain", "none", 24, 24, False), ("packed", "sz3", 24, 13, True)])
        self.assertIn('"sz3"', listed["objects"][1]["problem"])
        self.assertIsNone(listed["digest"])
        text = self.tgm("ls", "s.tgm").text
        self.assertRegex(text, r"(?m)^    1  packed +float32 +\[6\] +24 B  sz3 +-$")
        self.assertRegex(text, r"(?m)^  no digest over names, shapes and bytes; object 1: .*sz3")
        done = self.tgm("dump", "s.tgm")
        self.assertIn("object[1]: type=ntensor, dtype=float32, shape=[6]", done.text)
        self.assertRegex(done.said, r"^weir: s\.tgm:0: object 1 was not decoded: .*sz3")
        self.assertEqual(json.loads(self.tgm("dump", "-j", "s.tgm").text)["objects"][1]["sz3_error_bound_mode"], "abs")
        self.assertEqual(self.tgm("get", "-p", "name", "s.tgm").text, "plain\n")
        self.assertIn("pipeline_not_built", self.tgm("validate", "--full", "s.tgm").said)

    def test_it_goes_through_every_verb_as_it_is_stored(self):
        for verb, messages in self.rewrites("s.tgm"):
            with self.subTest(verb):
                found, payload = [o for m in messages for o in m["objects"]][1]
                self.assertEqual(payload, b"an sz3 stream")
                self.assertEqual({k: found[k] for k in self.SZ3}, self.SZ3)
        self.assertRegex(self.tgm("copy", "--recode", "s.tgm", "x.tgm").said,
                         "^weir: message 0, object 1: stays as it is stored, since it cannot be decoded: .*sz3")
        self.tgm("reshuffle", "--allow-nan", "s.tgm", "-o", "x.tgm")
        self.assertEqual(parse(self.content("x.tgm"))[0]["objects"][1][1], b"an sz3 stream")
        self.tgm("copy", "s.tgm", "x.tgm")
        self.assertEqual(self.content("x.tgm"), self.content("s.tgm"))

    def test_its_elements_are_refused_and_those_of_its_neighbours_are_not(self):
        self.tgm("export", "s.tgm", "plain", "x.npy")
        self.tgm("dump", "--object", "plain", "s.tgm")
        for args in (("export", "s.tgm", "packed", "x.npy"), ("dump", "--object", "packed", "s.tgm"), ("show", "--object", 1, "s.tgm")):
            self.assertIn('found "sz3"', self.tgm(*args, code=2).said)

    def test_damage_to_it_is_found_without_decoding_it(self):
        self.tgm("merge", "s.tgm", "-o", "h.tgm")
        content = self.content("h.tgm")
        self.tgm("ls", "h.tgm")
        self.write("h.tgm", content.replace(b"an sz3 stream", b"an sz3 strean"))
        for args in (("ls", "h.tgm"), ("dump", "h.tgm"), ("set", "-s", "a=b", "h.tgm", "x.tgm"), ("merge", "h.tgm", "-o", "x.tgm"),
                     ("split", "h.tgm", "-o", "x.tgm"), ("reshuffle", "h.tgm", "-o", "x.tgm"), ("copy", "--recode", "h.tgm", "x.tgm"),
                     ("copy", "--skip-damaged", "h.tgm", "x.tgm"), ("validate", "h.tgm")):
            self.assertIn("expected digest", self.tgm(*args, code=4).said, args)


class Texts(Case):
    """Texts of errors and of lists."""
    def test_set_says_which_part_of_a_key_is_missing(self):
        one = self.write("one.tgm", message([({"shape": [6]}, FLOATS)]))
        for key, code, text in (
                ("extra=1", 2, 'cannot set "extra": expected a key of the message, as in extra.name, found none'),
                ("_extra_=1", 2, 'cannot set "_extra_": expected a key of the message, as in extra.name, found none'),
                ("objects=1", 2, 'cannot set "objects": expected an object and a key, as in objects.0.name, found none'),
                ("objects.0=1", 2, 'cannot set "objects.0": expected a key of the object, as in objects.0.name, found none'),
                ("objects.first.k=1", 2, 'cannot set "objects.first.k": expected the number of an object behind "objects", found "first"'),
                ("objects.1.k=1", 3, 'cannot set "objects.1.k": expected the number of an object below 1, found 1'),
                ("objects.0.masks.nan=1", 2, 'cannot set "objects.0.masks.nan": expected a key of metadata, found one that says how the '
                 "payload is read or who wrote it"),
                ("objects.0.shape.x.y=1", 2, 'cannot set "objects.0.shape.x.y": expected a key of metadata, found one that says how the '
                 "payload is read or who wrote it"),
                ("extra.=1", 2, 'cannot set "extra.": expected a name between all dots, found none'),
                ("a..b=1", 2, 'cannot set "a..b": expected a name between all dots, found none'),
                ("a", 2, 'cannot set: expected KEY=VALUE, found "a"')):
            self.assertEqual(self.tgm("set", "-s", key, one, "x.tgm", code=code).said.splitlines()[0], "weir: " + text)
        self.assertFalse((self.folder / "x.tgm").exists())
        self.tgm("set", "-s", "objects.0.k=1, extra.run = 2", one, "x.tgm")
        made, = parse(self.content("x.tgm"))
        self.assertEqual((made["objects"][0][0]["k"], made["metadata"]["_extra_"]), ("1", {"run": "2"}))

    def test_a_magic_number_anywhere_in_other_bytes_is_a_damaged_message(self):
        for before in (0, 7, (1 << 20) - 7, (1 << 20) - 1, 1 << 20, (2 << 20) - 9):
            name = self.write("other.bin", b"." * before + b"TENSOGRM" + b"." * 100)
            self.tgm("ls", name, code=4)
        self.tgm("ls", self.write("other.bin", b"." * (3 << 20)), code=0)

    def test_get_names_the_key_and_the_message(self):
        self.write("two.tgm", message([], extra={"name": "a"}) + message([], extra={"mode": "b"}))
        done = self.tgm("get", "-p", "name", "two.tgm", code=3)
        self.assertEqual(done.text, "a\n")
        self.assertIn('weir: cannot find key "name" in message 1 of "two.tgm": expected it in base or _extra_, found it in neither', done.said)

    def test_a_wrong_clause_ends_ls_before_it_prints(self):
        self.write("one.tgm", message([]))
        done = self.tgm("ls", "-w", "bad", "one.tgm", code=2)
        self.assertEqual(done.text, "")
        self.assertIn("expected KEY=VALUE/... or KEY!=VALUE/...", done.said)

    def test_keys_may_stand_behind_spaces(self):
        self.write("one.tgm", message([], extra={"a": "1", "b": "2"}))
        self.assertEqual(self.tgm("ls", "-p", "a, b", "one.tgm").text, "a\tb\n1\t2\n")
        self.assertEqual(self.tgm("get", "-p", " a , b", "one.tgm").text, "1 2\n")


class Options(Case):
    """Options that the reference implementation accepts anywhere on the line and from the environment."""
    NAN, UP, DOWN = (struct.pack("<f", float(v)) for v in ("nan", "inf", "-inf"))

    def non_finite(self):
        """Writes a file with two objects that need masks and have none, and one that needs none."""
        payload = self.NAN + FLOATS[4:] + self.UP + self.DOWN
        return self.write("nan.tgm", message([({"shape": [8]}, payload), ({"shape": [6]}, FLOATS), ({"shape": [1]}, self.NAN)]))

    def verbs(self, name):
        """Returns the commands that write the file again, and the paths of their outputs."""
        return ((("merge", name, "-o", "m.tgm"), ["m.tgm"]), (("reshuffle", name, "-o", "r.tgm"), ["r.tgm"]),
                (("set", "-s", "a=b", name, "s.tgm"), ["s.tgm"]), (("split", name, "-o", "p.tgm"), [f"p_000{i}.tgm" for i in range(3)]),
                (("copy", "--recode", name, "c.tgm"), ["c.tgm"]))

    def masks(self, paths):
        """Returns the methods of the masks of all objects in files."""
        return [{kind: mask["method"] for kind, mask in d.get("masks", {}).items()}
                for path in paths for m in parse(self.content(path)) for d, _ in m["objects"]]

    def test_every_verb_that_writes_puts_values_into_masks_if_allowed(self):
        name = self.non_finite()
        digests = [[o["xxh3"] for o in m["objects"]] for m in json.loads(self.tgm("ls", "-j", name).text)["messages"]]
        both = {"nan": "none", "inf+": "none", "inf-": "none"}
        for args, paths in self.verbs(name):
            with self.subTest(args[0]):
                self.tgm(*args)
                self.assertEqual(self.masks(paths), [{}, {}, {}])
                stored = [payload for m in parse(self.content(name)) for _, payload in m["objects"]]
                self.assertEqual([p for path in paths for m in parse(self.content(path)) for _, p in m["objects"]], stored)
                self.tgm(*args, "--allow-nan", "--allow-inf")
                self.assertEqual(self.masks(paths), [both, {}, {"nan": "none"}])
                self.assertEqual([o["xxh3"] for path in paths for m in json.loads(self.tgm("ls", "-j", path).text)["messages"]
                                  for o in m["objects"]], digests[0], "the elements are the same")
                for path in paths:
                    self.tgm("validate", "--full", path)

    def test_options_stand_anywhere_or_in_the_environment(self):
        name = self.non_finite()
        nan, inf = {"nan": "rle"}, {"inf+": "lz4", "inf-": "zstd"}
        methods = ("--nan-mask-method", "rle", "--pos-inf-mask-method=lz4", "--neg-inf-mask-method", "zstd", "--small-mask-threshold", 0)
        rest = ("reshuffle", name, "-o", "r.tgm")
        environment = {"TENSOGRAM_ALLOW_NAN": "yes", "TENSOGRAM_ALLOW_INF": "on", "TENSOGRAM_NAN_MASK_METHOD": "rle",
                       "TENSOGRAM_POS_INF_MASK_METHOD": "lz4", "TENSOGRAM_NEG_INF_MASK_METHOD": "zstd",
                       "TENSOGRAM_SMALL_MASK_THRESHOLD": "0", "TENSOGRAM_THREADS": "2"}
        for args, env, first in (((*methods, "--allow-nan", "--allow-inf", *rest), {}, {**nan, **inf}),
                                 ((*rest, *methods, "--allow-nan=true", "--allow-inf=1"), {}, {**nan, **inf}),
                                 ((rest[0], *methods, "--allow-nan", *rest[1:], "--threads", 2), {}, nan),
                                 ((*rest, *methods, "--allow-inf=y"), {}, inf),
                                 (rest, environment, {**nan, **inf}),
                                 ((*rest, "--allow-nan=false"), environment, inf),
                                 (("--allow-nan=no", "--allow-inf=OFF", *rest), environment, {}),
                                 ((*rest, "--nan-mask-method", "lz4"), environment, {"nan": "lz4", **inf}),
                                 (rest, {**environment, "TENSOGRAM_ALLOW_NAN": "0"}, inf)):
            with self.subTest(args, env=env):
                self.tgm(*args, env=env)
                self.assertEqual(self.masks(["r.tgm"]), [first, {}, {k: v for k, v in first.items() if k == "nan"}])

    def test_masks_that_are_there_change_only_if_another_method_is_asked_for(self):
        self.tgm("reshuffle", "--allow-nan", "--allow-inf", "--small-mask-threshold", 0, self.non_finite(), "-o", "masked.tgm")
        self.tgm("reshuffle", "--allow-nan", "masked.tgm", "-o", "same.tgm")
        self.assertEqual([m["objects"] for m in parse(self.content("same.tgm"))], [m["objects"] for m in parse(self.content("masked.tgm"))])
        self.tgm("reshuffle", "--allow-nan", "--nan-mask-method", "rle", "masked.tgm", "-o", "other.tgm")
        self.assertEqual(self.masks(["other.tgm"]), [{"nan": "rle", "inf+": "roaring", "inf-": "roaring"}, {}, {"nan": "rle"}])

    def test_wrong_values_are_usage_errors(self):
        name = self.non_finite()
        for args, env in ((("--allow-nan=maybe",), {}), (("--nan-mask-method", "blosc2"), {}), (("--threads", "many"), {}), (("--threads", "-1"), {}),
                          (("--max-object-bytes", "3 parsec"), {}), ((), {"TENSOGRAM_THREADS": "x"}), ((), {"TENSOGRAM_NAN_MASK_METHOD": "bogus"})):
            self.assertTrue(self.tgm("reshuffle", name, "-o", "never.tgm", *args, env=env, code=2).said)
        self.assertFalse((self.folder / "never.tgm").exists())

    def test_the_environment_of_the_verbs_is_nothing_to_other_commands(self):
        for value in ("2", "x"):
            done = subprocess.run([WEIR, "completion", "bash"], capture_output=True, timeout=60, check=False, env={**os.environ, "TENSOGRAM_THREADS": value})
            self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_no_verb_decodes_an_object_beyond_the_limit(self):
        packed = self.write("packed.tgm", message([({"shape": [1 << 20], "compression": "rle", "dtype": "bitmask"}, b"\0\x10\0\0\0\x80\x80\x40")]))
        self.tgm("dump", packed)
        for args in (("ls",), ("dump",), ("dump", "--limit", 1), ("dump", "--object", 0), ("copy", "--recode", packed, "x.tgm"), ("show",),
                     ("copy", "--skip-damaged", packed, "x.tgm"), ("validate",), ("validate", "--full"), ("export", packed, 0, "x.npy")):
            with self.subTest(args):
                line = args if packed in args else (*args, packed)
                self.tgm(*line, "--max-object-bytes", "128KiB")
                done = self.tgm("--max-object-bytes", "127KiB", *line, code=4)
                self.assertRegex(done.said, "expected at most 130048 decoded bytes, found 131072")

    def test_a_drawing_takes_no_more_memory_than_the_elements(self):
        bits = 1 << 26  # 8 MiB as bits, 512 MiB as doubles
        name = self.write("bits.tgm", message([({"shape": [bits], "compression": "rle", "dtype": "bitmask"},
                                                struct.pack(">I", bits) + b"\0\x80\x80\x80\x20")]))
        with subprocess.Popen([WEIR, "tgm", "show", name], cwd=self.folder, stdout=subprocess.PIPE) as run:
            text = run.stdout.read().decode()
            _, status, used = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0)
        self.assertIn(f"bitmask [{bits}] from 0 to 0", text)
        self.assertLess(used.ru_maxrss, 400 << 10, "KiB")

    def test_the_version_says_which_format_it_is(self):
        for args in (("--version",), ("ls", "--version")):
            self.assertRegex(self.tgm(*args).text, r"^weir tgm \d+\.\d+\.\d+, Tensogram wire format 3\n$")

    def test_threads_are_taken_by_every_verb(self):
        name = self.write("one.tgm", message([({"shape": [6]}, FLOATS)]))
        for args in (("info", name), ("ls", name), ("ls", "-p", "a", name), ("get", "-p", "version", name), ("dump", name), ("validate", name),
                     ("export", name, 0, "x.npy"), ("show", name), ("doctor",), *(args for args, _ in self.verbs(name))):
            self.assertEqual(self.tgm(*args, "--threads", 2).text, self.tgm("--threads=1", *args).text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
