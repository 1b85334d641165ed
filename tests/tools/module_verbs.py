#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs of `weir module` from outside: `module_verbs.py WEIR SOURCE_DIR KERNELS_FATBIN`."""
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WEIR = os.path.abspath(sys.argv[1])
GOLDEN = Path(sys.argv[2]).resolve() / "tests" / "tessera" / "module" / "golden.hex"
KERNELS = os.path.abspath(sys.argv[3])

DESCRIPTION = """
sources = ["alpha.cpp"]
explain = '{"tiles":[16,64]}'
[policy]
deterministic = false
fast_math = true
seed = 77
[[kernel]]
name = "alpha"
symbol = "alpha_v1"
parameters = ["const fp32* x", "out void* y", "constant bf16 *table", "fp64* z", "int8 n", "opaque:20 options"]
block = [8, 4]
most_threads = 64
shared_bytes = 512
flags = ["deterministic", "per_thread"]
targets = ["x86-64-v1"]
[[kernel]]
name = "beta"
[[code]]
arch = "x86-64-v1"
file = "alpha-v1.so"
[[code]]
kind = "ptx"
arch = "compute_80"
file = "alpha.ptx"
[[plan]]
collective = "all_reduce"
dtype = "fp32"
axis = "dp"
algorithm = "ring"
chunk_bytes = 65536
"""


class Verbs(unittest.TestCase):
    """Tests in a folder with a description of two kernels and the files that it names."""
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="weir-module-")
        self.folder = Path(self.temporary.name)
        self.addCleanup(self.temporary.cleanup)
        (self.folder / "in").mkdir()
        for name in ("alpha.cpp", "alpha-v1.so", "alpha.ptx", "alpha-v3.so"):
            (self.folder / "in" / name).write_text("content of " + name)
        (self.folder / "in" / "alpha.toml").write_text(DESCRIPTION)

    def module(self, *args, code=0, **environment):
        """Runs a verb of `weir module`, checks its exit code, and returns what it printed."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("TESS_")} | environment
        done = subprocess.run([WEIR, "module", *map(str, args)], cwd=self.folder, capture_output=True, timeout=60,
                              check=False, text=True, env=env)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def facts(self, *args):
        """Returns the JSON that a verb prints."""
        return json.loads(self.module(*args, "--json").stdout)

    def build(self, out="alpha.fatbin", *args):
        """Builds the described module."""
        return self.module("build", "in/alpha.toml", out, *args)

    def refuses(self, before, after, *words, code=2):
        """Checks that the description does not build if one text is replaced by another."""
        self.assertIn(before, DESCRIPTION)
        (self.folder / "in" / "alpha.toml").write_text(DESCRIPTION.replace(before, after, 1))
        said = self.module("build", "in/alpha.toml", "refused.fatbin", code=code).stderr
        for word in words:
            self.assertIn(word, said)
        self.assertFalse((self.folder / "refused.fatbin").exists())

    def test_every_verb_has_an_example(self):
        for verb in ("build", "ls", "explain", "verify", "sign", "keygen"):
            self.assertIn("Example:\n  weir module " + verb, self.module(verb, "--help").stdout)

    def test_what_was_described_is_explained(self):
        self.build("alpha.fatbin", "--so", "x86-64-v3=in/alpha-v3.so")
        said = self.facts("explain", "alpha.fatbin")
        alpha, beta = said["kernels"]
        self.assertEqual([p["offset"] for p in alpha["parameters"]], [0, 8, 16, 24, 32, 40])
        self.assertEqual([p.get("direction") for p in alpha["parameters"]], ["in", "out", "in", "inout", None, None])
        self.assertEqual([p.get("space") for p in alpha["parameters"]], [1, 1, 4, 1, None, None])
        self.assertEqual([p["dtype"] for p in alpha["parameters"]], ["fp32", None, "bf16", "fp64", "int8", None])
        self.assertEqual((alpha["argument_bytes_used"], alpha["argument_bytes"]), (60, 64))
        self.assertEqual((alpha["symbol"], alpha["default_block"], alpha["most_threads"], alpha["shared_bytes"]),
                         ("alpha_v1", [8, 4, 0], 64, 512))
        self.assertEqual((alpha["flags"], alpha["targets"]), (["deterministic", "per_thread"], [0]))
        self.assertEqual((beta["symbol"], beta["flags"], beta["targets"]), ("beta", [], [0, 1, 2]))
        self.assertEqual([(s["kind"], s["arch"], s["selected"]) for s in said["sections"]],
                         [("CPU_SO", "x86-64-v1", False), ("PTX", "compute_80", False), ("CPU_SO", "x86-64-v3", False)])
        self.assertEqual((said["policy"]["deterministic"], said["policy"]["fast_math"], said["policy"]["seed"]),
                         (False, True, 77))
        self.assertEqual((said["plans"][0]["algorithm"], said["plans"][0]["dtype"], said["plans"][0]["axis"]),
                         ("ring", "fp32", "dp"))
        self.assertEqual((said["explain"], said["abi"]), ({"tiles": [16, 64]}, [1, 0]))
        source = (self.folder / "in" / "alpha.cpp").read_bytes()
        self.assertEqual(said["source_hash"], hashlib.sha256(len(source).to_bytes(8, "little") + source).hexdigest())
        self.assertEqual(said, json.loads(self.module("explain", "alpha.fatbin").stdout))

    def test_a_build_can_be_repeated_byte_for_byte(self):
        self.module("keygen", "k")
        self.build("a.fatbin", "--key", "k")
        self.build("b.fatbin", "--key", "k")
        self.assertEqual((self.folder / "a.fatbin").read_bytes(), (self.folder / "b.fatbin").read_bytes())
        said = self.module("build", "in/alpha.toml", "a.fatbin", code=3).stderr
        self.assertIn("--force", said)
        self.build("a.fatbin", "--force")
        self.assertNotEqual((self.folder / "a.fatbin").read_bytes(), (self.folder / "b.fatbin").read_bytes())

    def test_code_for_gpus_is_packed_by_its_ending(self):
        (self.folder / "k.ptx").write_text(".version 6.3\n.target sm_75\n.address_size 64\n")
        (self.folder / "k.cubin").write_bytes(b"\x7fELF")
        self.build("g.fatbin", "--gpu", "k.ptx", "--gpu", "sm_90=k.cubin", "--gpu", "compute_86=k.ptx")
        sections = [(s["kind"], s["arch"]) for s in self.facts("explain", "g.fatbin")["sections"]]
        self.assertEqual(sections[2:], [("PTX", "sm_75"), ("CUBIN", "sm_90"), ("PTX", "compute_86")])
        for bad in ("k.cubin", "=k.ptx", "alpha.toml", "sm_75=k.so"):
            self.module("build", "in/alpha.toml", "refused.fatbin", "--gpu", bad, code=2)
        (self.folder / "said.ptx").write_text("// .version 9.0\n// .target sm_10\n/* .target sm_20 */\n"
                                              ".version 6.3\n.target/**/sm_80,debug\n.address_size 64\n")
        self.build("s.fatbin", "--gpu", "said.ptx")
        self.assertEqual(self.facts("explain", "s.fatbin")["sections"][2]["arch"], "sm_80")
        (self.folder / "bad.ptx").write_text("// .target sm_75")
        self.assertIn(".target", self.module("build", "in/alpha.toml", "r.fatbin", "--gpu", "bad.ptx", code=2).stderr)

    def test_a_cuda_source_is_compiled_where_nvcc_is_found(self):
        source = self.folder / "k.cu"
        source.write_text('extern "C" __global__ void k(float* x) { x[0] = x[0] * x[1] + x[2]; }\n')
        said = self.module("build", "in/alpha.toml", "n.fatbin", "--gpu", "k.cu", code=3, PATH="/nowhere", CUDA_HOME="/nowhere").stderr
        self.assertIn("nvcc", said)
        if shutil.which("nvcc") is None:
            return
        self.build("g.fatbin", "--gpu", "compute_86=k.cu")
        self.assertEqual([(s["kind"], s["arch"]) for s in self.facts("explain", "g.fatbin")["sections"]][2:], [("PTX", "compute_86")])
        image = (self.folder / "g.fatbin").read_bytes()
        self.assertIn(b".target sm_86", image)
        self.assertNotIn(b"fma.rn", image)
        said = self.module("build", "in/alpha.toml", "t.fatbin", "--gpu", "k.cu", code=5, TMPDIR="/nowhere").stderr
        self.assertIn("TMPDIR", said)
        self.assertEqual(list(self.folder.glob("weir-nvcc-*")), [])
        # nvcc would take a name that begins with a dash for an option.
        source.rename(self.folder / "-k.cu")
        self.build("d.fatbin", "--gpu", "compute_86=-k.cu")
        self.assertEqual(self.facts("explain", "d.fatbin")["content_hash"], self.facts("explain", "g.fatbin")["content_hash"])
        source.write_text("no source\n")
        self.assertIn("k.cu", self.module("build", "in/alpha.toml", "r.fatbin", "--gpu", "k.cu", code=2).stderr)

    def test_slips_of_the_pen_are_named(self):
        self.refuses("shared_bytes", "shared_byte", "shared_bytes", "kernel[0]", "line 14")
        self.refuses("[policy]", "[policy_]", "policy")
        self.refuses('"per_thread"', '"per_threads"', "per_thread")
        self.refuses('"const fp32* x"', '"const fp33* x"', "fp32")
        self.refuses('"const fp32* x"', '"const fp32 x"', "TYPE")
        self.refuses('"const fp32* x"', '"x"', "a type and a name")
        self.refuses('"const fp32* x"', '3', "strings")
        self.refuses("opaque:20", "opaque:0", "bytes")
        self.refuses("opaque:20", "opaque:x", "BYTES")
        self.refuses("most_threads = 64", "most_threads = 4", "threads")
        self.refuses("most_threads = 64", "most_threads = -4", "number")
        self.refuses("most_threads = 64", "most_threads = 4294967296", "number")
        self.refuses("block = [8, 4]", "block = [8, 4, 1, 1]", "three")
        self.refuses('name = "beta"', 'name = "alpha"', "alpha twice")
        self.refuses('name = "beta"', 'name = "be-ta"', "identifier")
        self.refuses('["x86-64-v1"]', '["x86-64-v2"]', "x86-64-v2")
        self.refuses('"ptx"', '"ptxx"', "PTX")
        self.refuses('"ring"', '"rings"', "ring")
        self.refuses('"ring"', '""', "known word", "plan[0].algorithm")
        self.refuses('"all_reduce"', '""', "known word", "plan[0].collective")
        self.refuses('dtype = "fp32"', 'dtype = ""', "known word", "plan[0].dtype")
        self.refuses("[16,64]}", "[16,64}", "JSON")
        self.refuses("sources = [", "sources = ", "TOML")
        self.refuses("alpha.ptx", "absent.ptx", "absent.ptx", code=3)
        for bad in ("=in/alpha-v3.so", "x86-64-v3", "x86-64-v3="):
            self.module("build", "in/alpha.toml", "refused.fatbin", "--so", bad, code=2)

    def test_kernels_and_code_are_listed(self):
        self.build()
        rows = self.module("ls", "alpha.fatbin").stdout.splitlines()
        self.assertRegex(rows[0], r"^alpha\.fatbin: ABI 1\.0, .* KiB, not signed$")
        self.assertIn("  alpha(const fp32* x, out void* y, constant bf16* table, fp64* z, int8 n, opaque:20 options): 64 bytes",
                      rows)
        self.assertIn("  beta(): 0 bytes", rows)
        self.assertTrue(any(r.startswith("  PTX compute_80 ") for r in rows), rows)
        self.assertEqual(self.facts("ls", "alpha.fatbin"), self.facts("explain", "alpha.fatbin"))

    def test_the_demos_kernels_are_listed(self):
        said = self.facts("ls", KERNELS)
        fused = said["kernels"][0]
        self.assertEqual((fused["name"], fused["argument_bytes_used"], fused["argument_bytes"]),
                         ("flash_attention_fused", 0x34, 0x38))
        self.assertEqual(self.facts("verify", KERNELS)["sound"], True)

    def test_what_another_program_has_written_is_read(self):
        name, data = GOLDEN.read_text().splitlines()[1].split()
        (self.folder / name).write_bytes(bytes.fromhex(data))
        said = self.facts("verify", name)
        self.assertEqual((said["sound"], said["trusted"]), (True, False))
        self.assertEqual(said["content_hash"], data[144:208])

    def test_a_signature_counts_if_its_key_does(self):
        self.build()
        self.module("keygen", "ours")
        self.module("keygen", "theirs")
        ours = (self.folder / "ours.pub").read_text().strip()
        self.assertEqual(self.facts("verify", "alpha.fatbin"), {"file": "alpha.fatbin", "sound": True, "key": None,
                         "trusted": False, "content_hash": self.facts("explain", "alpha.fatbin")["content_hash"]})
        self.module("verify", "alpha.fatbin", "--require", "--trusted", "ours.pub", code=4)
        self.module("sign", "alpha.fatbin", "--key", "theirs", "--out", "b.fatbin")
        self.module("verify", "b.fatbin", "--require", "--trusted", "ours.pub", code=4)
        self.module("sign", "b.fatbin", "--key", "ours")
        self.assertIn("trusted", self.module("verify", "b.fatbin", "--require", "--trusted", "ours.pub").stdout)
        self.module("verify", "b.fatbin", "--require", TESS_TRUSTED_KEYS=ours)
        self.module("verify", "b.fatbin", "--require", code=4)
        self.assertEqual(self.facts("explain", "b.fatbin")["signature"], {"state": "valid", "key": ours})
        self.assertEqual(self.facts("explain", "b.fatbin")["kernels"], self.facts("explain", "alpha.fatbin")["kernels"])
        self.module("verify", "b.fatbin", "--trusted", "nowhere", code=2)

    def test_a_signed_module_replaces_no_other_file_unless_it_must(self):
        self.build()
        self.module("keygen", "k")
        (self.folder / "notes.txt").write_text("notes")
        said = self.module("sign", "alpha.fatbin", "--key", "k", "--out", "notes.txt", code=3).stderr
        self.assertIn("notes.txt", said)
        self.assertIn("--force", said)
        self.assertEqual((self.folder / "notes.txt").read_text(), "notes")
        self.module("sign", "alpha.fatbin", "--key", "k", "--out", "notes.txt", "--force")
        self.assertEqual(self.facts("verify", "notes.txt")["sound"], True)

    def test_damage_is_found(self):
        self.module("keygen", "k")
        self.build("a.fatbin", "--key", "k")
        good = (self.folder / "a.fatbin").read_bytes()
        for offset in range(0, len(good), len(good) // 40):
            (self.folder / "bad").write_bytes(good[:offset] + bytes([good[offset] ^ 4]) + good[offset + 1:])
            done = subprocess.run([WEIR, "module", "verify", "bad"], cwd=self.folder, capture_output=True, check=False)
            self.assertIn(done.returncode, (2, 4), offset)
        for offset in (0, 7, 100, len(good) - 1):
            (self.folder / "bad").write_bytes(good[:offset])
            for verb in ("ls", "explain", "verify"):
                self.module(verb, "bad", code=4)
        self.module("sign", "bad", "--key", "k", code=4)
        self.module("ls", "absent", code=3)

    def test_a_secret_key_is_for_its_owner_and_never_replaced(self):
        said = self.facts("keygen", "k")
        secret = self.folder / "k"
        self.assertEqual(stat.S_IMODE(secret.stat().st_mode), 0o600)
        self.assertEqual((self.folder / "k.pub").read_text(), said["key"] + "\n")
        before = secret.read_bytes()
        self.module("keygen", "k", code=3)
        self.assertEqual(secret.read_bytes(), before)
        secret.unlink()
        self.module("keygen", "k", code=3)
        self.assertFalse(secret.exists())
        secret.write_text("no key")
        self.module("build", "in/alpha.toml", "a.fatbin", "--key", "k", code=2)
        secret.write_bytes(before[:64] + b"00" * 32)
        self.build_fails_with_half_a_key()

    def test_no_secret_key_stays_without_its_public_key(self):
        # A link to a file that cannot be made counts as no file until it is written.
        (self.folder / "k.pub").symlink_to("/nonexistent/k.pub")
        self.module("keygen", "k", code=3)
        self.assertFalse((self.folder / "k").exists())
        (self.folder / "k.pub").unlink()
        self.module("keygen", "k")

    def build_fails_with_half_a_key(self):
        """Checks that a key whose second half is wrong signs nothing."""
        self.module("build", "in/alpha.toml", "a.fatbin", "--key", "k", code=2)
        self.assertFalse((self.folder / "a.fatbin").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
