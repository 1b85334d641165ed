# SPDX-License-Identifier: Apache-2.0
"""Tests of scripts/install-packages with made-up dpkg-query, apt-get, id and sudo, and of the list of packages."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "install-packages"
LIST = ROOT / "scripts" / "packages.txt"
# Packages that CMake looks for, and the Debian package that provides each.
BRINGS = {
    "Boost": "libboost-context-dev", "CAF": "libcaf-dev", "CLI11": "libcli11-dev", "CURL": "libcurl4-openssl-dev", "ConcurrentQueue": "libconcurrentqueue-dev",
    "GTest": "libgtest-dev", "Libcbor": "libcbor-dev", "Python3": "python3", "Threads": "g++",
    "Xxhash": "libxxhash-dev", "ZLIB": "zlib1g-dev", "benchmark": "libbenchmark-dev",
    "Blosc": "libblosc-dev", "Libaec": "libaec-dev", "Lz4": "liblz4-dev", "PNG": "libpng-dev", "Zfp": "libzfp-dev",
    "Sodium": "libsodium-dev", "Uring": "liburing-dev", "Pcre2": "libpcre2-dev", "Utf8proc": "libutf8proc-dev", "dnnl": "libdnnl-dev", "fmt": "libfmt-dev", "nlohmann_json": "nlohmann-json3-dev",
    "spdlog": "libspdlog-dev", "tl-expected": "libexpected-dev", "tomlplusplus": "libtomlplusplus-dev",
    "zstd": "libzstd-dev",
}
# Header-only libraries, which CMake does not look for.
HEADERS = {"toml++/": "libtomlplusplus-dev"}
# Packages that come with the compiler or with CMake.
RUNTIMES = {"libclang-rt-14-dev"}
# Packages that only benchmarks use, if they are installed.
PEERS = {"libopenmpi-dev", "libmpich-dev", "libtbb-dev", "libomp-14-dev", "libstarpu-dev", "libisal2", "libdeflate0"}
NEEDED = ("sh", "awk", "mktemp", "rm", "tail", "dirname", "env")


class InstallPackages(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.bin = pathlib.Path(self.temp.name)
        for name in NEEDED:
            found = next(f"{p}/{name}" for p in ("/usr/bin", "/bin") if os.path.exists(f"{p}/{name}"))
            (self.bin / name).symlink_to(found)

    def tearDown(self):
        self.temp.cleanup()

    def fake(self, name, body):
        path = self.bin / name
        path.write_text("#!/bin/sh\n" + body + "\n")
        path.chmod(0o755)

    def machine(self, installed, user_id):
        """A Debian system on which `installed` says yes or no for "$package"."""
        self.fake("dpkg-query", f'package="$3"; {installed} && echo "installed "')
        self.fake("id", f"echo {user_id}")
        self.fake("apt-get", f'echo "$@" >> {self.bin}/calls')

    def run_script(self, *groups):
        return subprocess.run([str(SCRIPT), *groups], capture_output=True, text=True, check=False,
                              env={"PATH": str(self.bin)}, stdin=subprocess.DEVNULL)

    def calls(self):
        path = self.bin / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def test_touches_nothing_when_nothing_is_missing(self):
        self.machine("true", 1000)
        done = self.run_script("build", "demo")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(self.calls(), [])

    def test_prints_one_apt_line_and_exits_2_without_root_and_sudo(self):
        self.machine('[ "$package" != libfmt-dev ]', 1000)
        done = self.run_script("build")
        self.assertEqual(done.returncode, 2)
        lines = [l for l in done.stderr.splitlines() if l.startswith("apt-get install")]
        self.assertEqual(lines, ["apt-get install -y --no-install-recommends libfmt-dev"])
        self.assertEqual(self.calls(), [])

    def test_root_installs_only_what_is_missing_and_says_which(self):
        self.machine('[ "$package" != cmake ] && [ "$package" != perl ]', 0)
        done = self.run_script("build", "demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("installing cmake perl", done.stdout)
        self.assertEqual(self.calls(), ["update", "install -y --no-install-recommends cmake perl"])

    def test_uses_sudo_where_it_asks_nothing(self):
        self.machine('[ "$package" != cmake ]', 1000)
        self.fake("sudo", f'[ "$1" = -n ] && exit 0; echo sudo >> {self.bin}/calls; exec "$@"')
        done = self.run_script("build")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(), ["sudo", "update", "sudo", "install -y --no-install-recommends cmake"])

    def test_a_failing_apt_exits_2(self):
        self.machine("false", 0)
        self.fake("apt-get", "echo no network >&2; exit 100")
        done = self.run_script("build")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no network", done.stderr)

    def test_does_nothing_on_another_system(self):
        done = self.run_script("build")
        self.assertEqual(done.returncode, 0)
        self.assertIn("no Debian", done.stdout)

    def test_every_line_of_the_list_has_package_group_and_reason(self):
        for line in LIST.read_text().splitlines():
            if line and not line.startswith("#"):
                package, group, reason = line.split(None, 2)
                self.assertRegex(package, r"^[a-z0-9][a-z0-9+.-]+$")
                self.assertIn(group, ("bench", "build", "demo", "docs", "lint", "soak", "test"))
                self.assertGreater(len(reason), 3)

    def test_everything_that_cmake_requires_is_in_the_list_and_nothing_else(self):
        listed = {l.split()[0] for l in LIST.read_text().splitlines() if l and not l.startswith("#")}
        asked = set()
        for path in ROOT.glob("*/**/CMakeLists.txt"):
            top = path.relative_to(ROOT).parts
            outside = top[:3] == ("tests", "consumer", "project") or top[:2] == ("demos", "plugin")
            if not top[0].startswith("build") and not outside:
                asked |= set(re.findall(r"find_package\(\s*([\w-]+)[^)]*REQUIRED", path.read_text()))
        asked |= {"GTest"}
        self.assertEqual(sorted(a for a in asked if BRINGS.get(a) not in listed), [])
        included = {brings for path in ROOT.glob("tools/**/*.[ch]pp") for header, brings in HEADERS.items()
                    if f"#include <{header}" in path.read_text()}
        libraries = {p for p in listed if p.startswith("lib") or p.endswith("-dev")}
        self.assertEqual(sorted(libraries - {BRINGS.get(a) for a in asked} - included - RUNTIMES - PEERS), [])


if __name__ == "__main__":
    unittest.main()
