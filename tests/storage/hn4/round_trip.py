# SPDX-License-Identifier: Apache-2.0
"""Reads volumes of `weir hn4` with an independent reader: python3 round_trip.py WEIR SOURCE_DIR [soak]"""
import hashlib
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import independent

WEIR, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
SOAK = sys.argv[3:] == ["soak"]
FIXTURES = pathlib.Path(os.environ.get("WEIR_FIXTURES") or SOURCE / ".." / "shared" / "fixtures") / "hn4"
KINDS = (("generic", "128MiB", 512), ("generic", "200MiB", 4096), ("gaming", "1GiB", 512), ("gaming", "1GiB", 4096),
         ("ai", "1TiB", 512), ("ai", "1TiB", 4096), ("archive", "10GiB", 512), ("archive", "10GiB", 4096),
         ("pico", "4MiB", 512), ("system", "128MiB", 512), ("system", "130MiB", 4096), ("usb", "128MiB", 512),
         ("usb", "300MiB", 4096), ("hyper_cloud", "100GiB", 512), ("hyper_cloud", "100GiB", 4096))


def content_of(size, kind):
    """Returns noise, or bytes that compress: runs, slopes and words among noise."""
    noise = random.Random(size).randbytes(min(size, 1 << 16))
    if kind == "noise":
        return (noise * (size // max(len(noise), 1) + 1))[:size]
    parts = (bytes(700), noise[:40], bytes(range(200)), b'{"name":"value"} uint64_t', b"\x07" * 300)
    return (b"".join(parts) * (size // 1265 + 1))[:size]


class Case(unittest.TestCase):
    """A test in a folder of its own, with helpers that run the command line."""
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-hn4-"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def weir(self, *args, stdin=None):
        """Runs a verb of `weir hn4` that must succeed, and returns its output."""
        done = subprocess.run([WEIR, "hn4", *map(str, args)], cwd=self.folder, input=stdin, capture_output=True,
                              timeout=200, check=False)
        self.assertEqual(done.returncode, 0, (args, done.stderr.decode()))
        return done.stdout

    def digest_of(self, volume, tag):
        """Returns the SHA-256 of a tag as the independent reader reads it."""
        sha = hashlib.sha256()
        for piece in volume.stream(tag.encode()):
            sha.update(piece)
        return sha.hexdigest()


@unittest.skipIf(SOAK, "a long test is asked for")
class RoundTrips(Case):
    """Volumes of `weir hn4` that both readers must read alike."""
    def test_every_profile_sector_size_and_number_of_shards(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.round_trip(*kind)

    def round_trip(self, profile, size, sector):
        """Fills a volume with tags of many sizes and compares what both readers return."""
        self.weir("mkfs", "v", "--profile", profile, "--size", size, "--sector", sector, "--force")
        payload = json.loads(self.weir("stat", "v", "--json"))["payload"]
        sizes = (1, payload - 1, payload, payload + 1, 3 * payload + 5) if payload < 1 << 20 else (1, payload + 1)
        counts, stored = itertools.cycle((1, 2, 7, 3)), {}
        for i, (count, size_in, packed) in enumerate(itertools.product((1, 2), sizes, (False, True))):
            if payload > 1 << 20 and i not in (0, 3):
                continue
            shards = min(count * next(counts), size_in)
            tag = f"model:{i}" if i % 2 else f"{profile}/a name that needs a block of its own:{i}"
            content = content_of(size_in, "packed" if packed else "noise")
            self.weir("put", "v", tag, "--shards", shards, *["--compress"] * packed, stdin=content)
            stored[tag] = (shards, content)
        self.weir("put", "v", "gone", stdin=b"1")
        self.weir("rm", "v", "gone")
        volume = independent.Volume(self.folder / "v")
        self.assertEqual(volume.violations(), [])
        for tag, (shards, content) in stored.items():
            self.assertEqual(len(volume.shards(tag.encode())), shards, tag)
            self.assertEqual(self.digest_of(volume, tag), hashlib.sha256(content).hexdigest(), tag)
        tag, (_, content) = max(stored.items(), key=lambda row: len(row[1][1]))
        for more in ((), ("--strict",)):
            self.assertTrue(self.weir("cat", "v", tag, *more) == content, tag)
        self.assertEqual({t["tag"]: (t["shards"], t["size"]) for t in json.loads(self.weir("ls", "v", "--json"))},
                         {tag: (shards, len(content)) for tag, (shards, content) in stored.items()})
        self.assertEqual(json.loads(self.weir("check", "v", "--json"))["findings"], [])
        volume.close()

    def test_compacting_keeps_streams_shards_and_compression(self):
        self.weir("mkfs", "v")
        content = content_of(900_000, "packed")
        for i in range(6):
            self.weir("put", "v", f"t{i}", "--shards", i + 1, "--compress", stdin=content)
        for i in (0, 2, 3):
            self.weir("rm", "v", f"t{i}")
        self.assertEqual(json.loads(self.weir("compact", "v", "--json"))["moved"] > 0, True)
        self.assertEqual(json.loads(self.weir("compact", "v", "--json"))["moved"], 0)
        volume = independent.Volume(self.folder / "v")
        self.assertEqual(volume.violations(), [])
        for i in (1, 4, 5):
            shards = volume.shards(f"t{i}".encode())
            self.assertEqual(len(shards), i + 1)
            self.assertTrue(all(a.kind & independent.COMPRESSED for a in shards))
            self.assertEqual(self.digest_of(volume, f"t{i}"), hashlib.sha256(content).hexdigest())
        volume.close()


@unittest.skipIf(SOAK, "a long test is asked for")
@unittest.skipUnless(FIXTURES.is_dir() and shutil.which("zstd"), "fixtures are absent")
class Oracle(Case):
    """Compares the independent reader with what the reference implementation returned."""

    def test_it_returns_what_the_reference_returned(self):
        for image in json.loads((FIXTURES / "manifest.json").read_text())["images"]:
            if "extents" in image:
                continue
            subprocess.run(["zstd", "-dqf", "--sparse", FIXTURES / image["file"], "-o", self.folder / "v"], check=True)
            volume = independent.Volume(self.folder / "v")
            for tag in image["tags"]:
                with self.subTest(image=image["name"], tag=tag["tag"]):
                    wanted = tag["open_result"] or tag["read_result"]
                    if wanted < 0:
                        with self.assertRaises(independent.Refused) as refused:
                            self.digest_of(volume, tag["tag"])
                        self.assertEqual(refused.exception.code, wanted)
                    else:
                        self.assertEqual(self.digest_of(volume, tag["tag"]), tag["stream_sha256"])
            volume.close()

    def test_it_decodes_what_the_reference_decoded(self):
        for case in json.loads((FIXTURES / "vectors.json").read_text())["tcc_decode"]:
            with self.subTest(case["name"]):
                packed = bytes.fromhex(case["in"])
                if case["result"] < 0:
                    self.assertRaises(ValueError, independent.unpack_tokens, packed, case["cap"])
                else:
                    self.assertEqual(independent.unpack_tokens(packed, case["cap"]).hex(), case["out"])


@unittest.skipUnless(SOAK, "no long test is asked for")
class Soak(Case):
    """Long tests with a large sparse file."""
    def test_a_gibibyte_that_is_mostly_zeros(self):
        sha, size = hashlib.sha256(), (1 << 30) + 12345
        islands = {0: b"first", 300 << 20: random.Random(1).randbytes(5 << 20), size - 4: b"last"}
        with (self.folder / "m").open("wb") as file:
            for at, content in islands.items():
                file.seek(at)
                file.write(content)
        with (self.folder / "m").open("rb") as file:
            for piece in iter(lambda: file.read(1 << 24), b""):
                sha.update(piece)
        for profile, capacity, shards in (("ai", "1TiB", 3), ("generic", "4GiB", 5)):
            self.weir("mkfs", "v", "--profile", profile, "--size", capacity, "--force")
            self.weir("put", "v", "model:sparse", "m", "--shards", shards, "--compress")
            volume = independent.Volume(self.folder / "v")
            self.assertEqual(self.digest_of(volume, "model:sparse"), sha.hexdigest(), profile)
            self.assertEqual(volume.violations(), [], profile)
            volume.close()
            self.weir("export", "v", "model:sparse", "back", "--force")
            with (self.folder / "m").open("rb") as one, (self.folder / "back").open("rb") as other:
                while piece := one.read(1 << 24):
                    self.assertTrue(piece == other.read(1 << 24))
                self.assertEqual(other.read(1), b"")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
