# SPDX-License-Identifier: Apache-2.0
"""Installs libtensogram, moves it, and builds the programs of tests/consumer/project/tensogram with it: by pkg-config and by
CMake, in C99 and in C++17. Then it runs them.

tensogram_test.py CMAKE BUILD_FOLDER CXX_COMPILER
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE / "project" / "tensogram"
PROTOTYPES = HERE.parent / "conformance" / "tensogram_c" / "prototypes.txt"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic-errors"]


def run(*command, **options):
    """Runs a command and returns its standard output; ends the test if the command fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        print(f"$ {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        sys.exit(f"the command ended with {done.returncode}")
    return done.stdout


def expect(found, expected, what):
    """Ends the test if two values differ."""
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")


def reference_functions():
    """Returns the names of all functions of the reference's interface, without the extensions of this project."""
    names = {line.split("(")[0].split()[-1].lstrip("*") for line in PROTOTYPES.read_text().splitlines()}
    return {name for name in names if not name.startswith("tgm_x_")}


def by_pkg_config(installed, temp, compiler):
    """Builds both programs with the flags of pkg-config. They find the library by LD_LIBRARY_PATH, as is usual for a
    package outside of the system's folders."""
    [found] = installed.glob("lib*/**/pkgconfig/tensogram.pc")
    env = dict(os.environ, PKG_CONFIG_PATH=str(found.parent), LD_LIBRARY_PATH=str(found.parent.parent))
    expect(run("pkg-config", "--modversion", "tensogram", env=env).strip(), "0.24.0", "the version of the package")
    flags = run("pkg-config", "--cflags", "--libs", "tensogram", env=env).split()
    c, cpp = temp / "program-c", temp / "program-cpp"
    run("cc", "-std=c99", *STRICT, PROJECT / "c/main.c", "-o", c, *flags)
    run(compiler, "-std=c++17", *STRICT, PROJECT / "cpp/main.cpp", "-o", cpp, *flags, "-pthread")
    return c, cpp, env


def by_cmake(cmake, installed, temp, language, settings):
    """Builds one program by CMake, which writes the library's folder into the program."""
    build = temp / f"build-{language}"
    run(cmake, "-G", "Ninja", "-S", PROJECT / language, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}",
        "-DCMAKE_BUILD_TYPE=Release", *settings)
    run(cmake, "--build", build)
    return build / "consumer"


def check(program, said, temp, env):
    """Runs a program and checks its output, and that it needs the library by its versioned name."""
    files = temp / f"files-{program.name}-{program.parent.name}"
    files.mkdir()
    expect(run(program, files, env=env).strip(), said, str(program))
    if "[libtensogram.so.0.24]" not in run("readelf", "-d", program):
        sys.exit(f"{program} does not need libtensogram.so.0.24")


def main():
    """Installs the library alone, moves it, and builds and runs both programs in both ways."""
    cmake, build, compiler = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="weir-tensogram-") as folder:
        temp = pathlib.Path(folder)
        run(cmake, "--install", build, "--prefix", temp / "first", "--component", "tensogram")
        installed = (temp / "first").rename(temp / "moved")
        c, cpp, env = by_pkg_config(installed, temp, compiler)
        check(c, "0 failures in C", temp, env)
        check(cpp, "0 failures in C++", temp, env)
        used = {line.split()[-1] for line in run("nm", "-D", "--undefined-only", cpp).splitlines()}
        expect(sorted(reference_functions() - used), [], "functions that the wrapper does not use")
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        check(by_cmake(cmake, installed, temp, "c", []), "0 failures in C", temp, plain)
        check(by_cmake(cmake, installed, temp, "cpp", [f"-DCMAKE_CXX_COMPILER={compiler}"]), "0 failures in C++", temp,
              plain)


main()
