# SPDX-License-Identifier: Apache-2.0
"""Installs a build into a folder, moves the folder, builds the project beside this file against it and runs both."""
import os
import pathlib
import subprocess
import sys
import tempfile


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
        sys.exit(f"the command ended with {done.returncode}")
    return done.stdout


def main():
    cmake, build, compiler = sys.argv[1:4]
    project = pathlib.Path(__file__).resolve().parent / "project"
    with tempfile.TemporaryDirectory(prefix="weir-consumer-") as temp:
        first, moved, own = (os.path.join(temp, n) for n in ("first", "moved", "build"))
        run(cmake, "--install", build, "--prefix", first)
        os.rename(first, moved)
        run(cmake, "-G", "Ninja", "-S", str(project), "-B", own, "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_PREFIX_PATH={moved}")
        run(cmake, "--build", own)
        said = run(os.path.join(own, "consumer"))
        if said.split() != ["base", "runtime", "formats", "storage"]:
            sys.exit(f"the consumer said {said!r}, expected one word per library")
        version = run(os.path.join(moved, "bin", "weir"), "--version")
        if "0.1.0" not in version:
            sys.exit(f"the installed command line said {version!r}, expected version 0.1.0")


main()
