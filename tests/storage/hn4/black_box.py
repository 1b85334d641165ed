# SPDX-License-Identifier: Apache-2.0
"""Tests `weir hn4` from outside: python3 black_box.py WEIR SOURCE_DIR [soak]"""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

WEIR, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
SOAK = sys.argv[3:] == ["soak"]
FIXTURES = pathlib.Path(os.environ.get("WEIR_FIXTURES") or SOURCE / ".." / "shared" / "fixtures") / "hn4"


class Case(unittest.TestCase):
    """A test in a folder of its own, with helpers that run the command line."""
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-hn4-"))

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_weir(self, *args, stdin=None):
        """Runs a verb of `weir hn4` in the folder."""
        return subprocess.run([WEIR, "hn4", *map(str, args)], cwd=self.folder, input=stdin,
                              capture_output=True, timeout=200, check=False)

    def weir(self, *args, stdin=None):
        """Runs a verb that must succeed."""
        done = self.run_weir(*args, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done

    def fails(self, text, *args, stdin=None):
        """Runs a verb that must fail with this text in its error."""
        done = self.run_weir(*args, stdin=stdin)
        self.assertNotEqual(done.returncode, 0, args)
        self.assertIn(text, done.stderr.decode())
        return done

    def listed(self, image):
        """Returns the rows of `weir hn4 ls`."""
        return json.loads(self.weir("ls", image, "--json").stdout)


@unittest.skipIf(SOAK, "a long test is asked for")
class Verbs(Case):
    """Tests of every verb on volumes that `weir hn4` makes."""
    def test_every_profile_is_made_filled_listed_read_and_clean(self):
        for profile, size, sector in (("generic", "128MiB", 512), ("gaming", "1GiB", 4096), ("ai", 1 << 40, 4096),
                                      ("archive", "10GiB", 512), ("pico", "4MiB", 512), ("system", "200MiB", 4096),
                                      ("usb", "128MiB", 512), ("hyper_cloud", "100GiB", 4096)):
            content = random.Random(sector).randbytes(100_000)
            begin = time.monotonic()
            self.weir("mkfs", "v", "--profile", profile, "--size", size, "--sector", sector, "--force")
            self.weir("put", "v", "model:x", "-", "--shards", 3, stdin=content)
            self.assertEqual(self.weir("cat", "v", "model:x").stdout, content)
            self.assertEqual(self.weir("cat", "v", "model:x", "--strict").stdout, content)
            row = self.listed("v")[0]
            self.assertEqual((row["tag"], row["shards"], row["size"]), ("model:x", 3, 100_000))
            report = json.loads(self.weir("check", "v", "--json").stdout)
            self.assertEqual(report["findings"], [])
            self.assertLess(time.monotonic() - begin, 60, profile)

    def test_put_refuses_replaces_and_appends(self):
        self.weir("mkfs", "v")
        self.assertEqual(self.weir("put", "v", "a", stdin=b"one").stdout, b"a: 3 bytes in 1 shard\n")
        self.assertEqual(self.weir("compact", "v").stdout, b"v: 0 moves\n")
        self.assertEqual(self.fails("-0x610", "put", "v", "a", stdin=b"two").returncode, 3)
        self.weir("put", "v", "a", "--append", stdin=b"two")
        self.assertEqual(self.weir("cat", "v", "a").stdout, b"onetwo")
        self.weir("put", "v", "a", "--replace", "--compress", stdin=b"x" * 9000)
        self.assertEqual(self.weir("cat", "v", "a").stdout, b"x" * 9000)
        self.fails("-0x609", "put", "v", "b", stdin=b"")
        self.fails("-0x204", "put", "v", "b" * 256, stdin=b"1")
        self.fails("-0x609", "put", "v", "b", "--shards", 2, stdin=b"1")
        self.fails("-0x100", "put", "v", "b", stdin=bytes(140_000_000))
        self.weir("rm", "v", "a")
        self.fails("-0x200", "cat", "v", "a")
        self.fails("-0x200", "rm", "v", "a")
        self.assertEqual(self.listed("v"), [])

    def test_mkfs_refuses_what_no_profile_is(self):
        self.fails("profile", "mkfs", "w", "--profile", "huge")
        self.fails("sector", "mkfs", "w", "--sector", 1024)
        self.fails("sectors", "mkfs", "w", "--size", (128 << 20) + 1)
        self.fails("capacity", "mkfs", "w", "--profile", "ai", "--size", "1GiB")
        self.assertFalse((self.folder / "w").exists())

    def test_ranges_are_cut_and_refused(self):
        content = random.Random(1).randbytes(50_000)
        self.weir("mkfs", "v")
        self.weir("put", "v", "a", "--shards", 2, stdin=content)
        self.assertEqual(self.weir("cat", "v", "a", "--offset", 4047, "--length", 5000).stdout, content[4047:9047])
        self.assertEqual(self.weir("cat", "v", "a", "--offset", 49_000, "--length", 5000).stdout, content[49_000:])
        self.assertEqual(self.weir("cat", "v", "a", "--offset", 60_000, "--length", 0).stdout, b"")
        self.fails("-0x609", "cat", "v", "a", "--offset", 50_000)
        self.fails("-0x200", "cat", "v", "")

    def test_output_ends_before_the_first_byte_that_could_not_be_had(self):
        content = random.Random(2).randbytes(50_000)
        self.weir("mkfs", "v")
        self.weir("put", "v", "a", stdin=content)
        image = bytearray((self.folder / "v").read_bytes())
        image[image.find(content[20_000:20_032])] ^= 1
        (self.folder / "v").write_bytes(image)
        for more in ((), ("--strict",)):
            done = self.fails("-0x451", "cat", "v", "a", *more)
            self.assertEqual(done.stdout, content[:4048 * 4])
        report = self.run_weir("check", "v", "--json")
        self.assertEqual(report.returncode, 1)
        self.assertEqual([f["kind"] for f in json.loads(report.stdout)["findings"]], ["block"])
        self.run_weir("check", "v", "--map", "m.svg", "--repair", "w")
        self.assertIn(b"<svg", (self.folder / "m.svg").read_bytes())
        self.assertEqual(self.listed("w"), [])

    def lose_a_shard(self, tag, index):
        """Overwrites the directory entry of a live shard with zeros. Returns the slot of the entry."""
        image = bytearray((self.folder / "v").read_bytes())
        at = image.find(b"WERSHRD1")
        while at >= 0:
            entry = image[at - 0x18:at - 0x18 + 128]
            if (entry[0x68:].rstrip(b"\0") == tag.encode() and struct.unpack_from("<H", entry, 0x10)[0] == index
                    and struct.unpack_from("<Q", entry, 0x30)[0] >> 8 & 3 == 1):
                image[at - 0x18:at - 0x18 + 128] = bytes(128)
                (self.folder / "v").write_bytes(image)
                return (at - 0x18 - struct.unpack_from("<Q", image, 0x30)[0] * 512) // 128
            at = image.find(b"WERSHRD1", at + 1)
        self.fail("no such entry")

    def test_a_lost_shard_is_an_error_of_every_reader(self):
        content = random.Random(6).randbytes(9000)
        self.weir("mkfs", "v", "--profile", "pico", "--size", "4MiB")
        self.weir("put", "v", "whole", stdin=b"whole")
        self.weir("put", "v", "a", "--shards", 3, stdin=content)
        slot = self.lose_a_shard("a", 1)
        for verb in (("cat",), ("get",), ("export", "out"), ("stat",), ("bench",), ("cat", "--offset", 10)):
            done = self.fails(f"shard 1 is missing, its entry in directory slot {slot} is gone",
                              verb[0], "v", "a", *verb[1:])
            self.assertEqual((done.returncode, done.stdout), (4, b""), verb)
        self.assertFalse((self.folder / "out").exists())
        for verb in (("cat", "--recover"), ("cat", "--strict"), ("get", "--recover")):
            done = self.weir(verb[0], "v", "a", *verb[1:])
            self.assertEqual(done.stdout, content[:3000] + content[6000:], verb)
            self.assertEqual(b"at byte 3000 of the stream" in done.stderr, "--recover" in verb, verb)
        done = self.run_weir("ls", "v", "--json")
        self.assertEqual((done.returncode, [row["tag"] for row in json.loads(done.stdout)]), (1, ["whole"]))
        self.assertIn(b'tag "a" is not whole and is not listed', done.stderr)
        done = self.run_weir("check", "v", "--json")
        self.assertEqual(json.loads(done.stdout)["lost"], [{"tag": "a", "offset": 3000, "bytes": None}])
        self.assertIn(b"lost    a: an unknown number of bytes from byte 3000 on", self.run_weir("check", "v").stdout)
        self.assertEqual(self.run_weir("compact", "v").returncode, 1)
        self.assertEqual(self.weir("cat", "v", "whole").stdout, b"whole")
        self.fails("-0x610", "put", "v", "a", stdin=content)
        self.weir("put", "v", "a", "--replace", stdin=content)
        self.assertEqual(self.weir("cat", "v", "a").stdout, content)
        self.assertEqual(len(self.listed("v")), 2)
        self.weir("compact", "v")
        self.assertEqual(json.loads(self.weir("check", "v", "--json").stdout)["findings"], [])

    def test_images_of_another_size_are_findings_and_geometry(self):
        self.weir("mkfs", "v")
        self.weir("put", "v", "a", stdin=b"1")
        os.truncate(self.folder / "v", 100 << 20)
        self.assertEqual(self.run_weir("check", "v", "--json").returncode, 1)
        self.fails("-0x608", "cat", "v", "a", "--strict")
        os.truncate(self.folder / "v", 5000)
        self.fails("-0x608", "cat", "v", "a", "--strict")
        self.assertNotIn(self.run_weir("check", "nowhere").returncode, (0, 1))

    def test_imported_files_come_back_and_their_tensors_by_name(self):
        data = random.Random(3).randbytes(4000)
        header = json.dumps({"w.0": {"dtype": "F32", "shape": [10, 50], "data_offsets": [0, 2000]},
                             "w.1": {"dtype": "F16", "shape": [1000], "data_offsets": [2000, 4000]}}).encode()
        file = self.folder / "m.safetensors"
        file.write_bytes(struct.pack("<Q", len(header)) + header + data)
        self.weir("mkfs", "v")
        self.weir("import", "v", "model:m", file)
        self.weir("export", "v", "model:m", "back")
        self.assertEqual((self.folder / "back").read_bytes(), file.read_bytes())
        self.assertEqual(self.weir("get", "v", "model:m", "--tensor", "w.1").stdout, data[2000:])
        about = json.loads(self.weir("stat", "v", "model:m", "--json").stdout)
        self.assertEqual([t["name"] for t in about["tensors"]], ["w.0", "w.1"])
        self.fails("w.1", "get", "v", "model:m", "--tensor", "w1")
        file.write_bytes(file.read_bytes()[:-1])
        self.fails("-0x401", "import", "v", "model:n", file)
        # cut inside its header, so that only the name of the file shows the format
        file.write_bytes(file.read_bytes()[:40])
        self.fails("-0x401", "import", "v", "model:n", file)
        self.weir("put", "v", "model:n", file)

    def test_a_killed_put_leaves_the_old_or_the_new_stream(self):
        old, new = random.Random(4).randbytes(9_000_000), random.Random(5).randbytes(30_000_000)
        (self.folder / "new").write_bytes(new)
        self.weir("mkfs", "v")
        self.weir("put", "v", "a", stdin=old)
        self.weir("put", "v", "b", stdin=b"neighbour")
        for i in range(6):
            put = subprocess.Popen([WEIR, "hn4", "put", "v", "a", "new", "--replace", "--shards", "4"],
                                   cwd=self.folder, stdout=subprocess.DEVNULL)
            time.sleep(0.004 * (i + 1))
            put.send_signal(signal.SIGKILL)
            put.wait()
            self.assertIn(self.weir("cat", "v", "a").stdout, (old, new))
            self.assertEqual(self.weir("cat", "v", "b").stdout, b"neighbour")
            self.assertEqual(json.loads(self.weir("check", "v", "--json").stdout)["findings"], [])


@unittest.skipUnless(SOAK, "no long test is asked for")
class Soak(Case):
    """Long tests with a large file."""
    def digest(self, *args):
        """Returns the SHA-256 of what a verb prints, without keeping the output in memory."""
        with subprocess.Popen([WEIR, "hn4", *args], cwd=self.folder, stdout=subprocess.PIPE) as out:
            sha = hashlib.sha256()
            for piece in iter(lambda: out.stdout.read(1 << 20), b""):
                sha.update(piece)
        self.assertEqual(out.returncode, 0)
        return sha.hexdigest()

    def test_a_model_of_2_gib_survives_kills_in_the_middle_of_puts(self):
        data = 2 << 30
        header = json.dumps({"wq": {"dtype": "F32", "shape": [data // 4096, 1024], "data_offsets": [0, data]}}).encode()
        sha, tensor = hashlib.sha256(struct.pack("<Q", len(header)) + header), hashlib.sha256()
        with (self.folder / "m").open("wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            for i in range(data >> 24):
                piece = random.Random(i).randbytes(1 << 24)
                sha.update(piece)
                tensor.update(piece)
                file.write(piece)
        self.weir("mkfs", "v", "--profile", "gaming", "--size", "6GiB")
        self.weir("import", "v", "model:big", "m", "--shards", 8)
        self.assertEqual([(t["shards"], t["size"]) for t in self.listed("v")], [(8, 8 + len(header) + data)])
        self.assertEqual(self.digest("cat", "v", "model:big"), sha.hexdigest())
        for i, tag in enumerate(("model:big", "model:other", "model:big")):
            put = subprocess.Popen([WEIR, "hn4", "put", "v", tag, "m", "--replace"], cwd=self.folder,
                                   stdout=subprocess.DEVNULL)
            time.sleep(0.7 + 0.5 * i)
            put.send_signal(signal.SIGKILL)
            put.wait()
            self.assertEqual(json.loads(self.weir("check", "v", "--json").stdout)["findings"], [])
            self.assertEqual(self.digest("cat", "v", "model:big"), sha.hexdigest())
            self.assertEqual(self.digest("get", "v", "model:big", "--tensor", "wq"), tensor.hexdigest())


@unittest.skipIf(SOAK, "a long test is asked for")
@unittest.skipUnless(FIXTURES.is_dir() and shutil.which("zstd"), "fixtures are absent")
class Reference(Case):
    """Tests with volumes that the reference implementation has written."""
    def test_strict_and_default_reads_of_every_tag(self):
        images = json.loads((FIXTURES / "manifest.json").read_text())["images"]
        for image in images:
            if "extents" in image:
                continue
            path = self.folder / "image"
            subprocess.run(["zstd", "-dqf", "--sparse", FIXTURES / image["file"], "-o", path], check=True)
            for tag in image["tags"]:
                with self.subTest(image=image["name"], tag=tag["tag"]):
                    self.strictly(tag)
            path.unlink()

    def strictly(self, tag):
        """Compares a strict read of a tag with the result of the reference implementation."""
        done = self.run_weir("cat", "image", tag["tag"], "--strict")
        wanted = tag["open_result"] or tag["read_result"]
        if wanted < 0:
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"-0x{-wanted:X}", done.stderr.decode())
            return
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertEqual(hashlib.sha256(done.stdout).hexdigest(), tag["stream_sha256"])
        holes = any(b["code"] == 3 for b in tag["block_results"])
        self.assertEqual("SPARSE" in done.stderr.decode(), holes)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
