# SPDX-License-Identifier: Apache-2.0
"""Installs a build into a folder, moves the folder, builds the project beside this file against it and runs both."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import kills  # noqa: E402  (the folder is known only now)


def run(*command):
    """Runs a command and returns its standard output; ends the test if the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
        sys.exit(f"the command ended with {done.returncode}")
    return done.stdout


def c_programs(source, installed, temp, own):
    """Builds a C program against the Tessera library by pkg-config as C89 and C99, runs these and the one that CMake
    has built, and checks that the library exports only names of its interface."""
    [found] = pathlib.Path(installed).glob("lib/**/pkgconfig/tessera.pc")
    os.environ["PKG_CONFIG_PATH"] = str(found.parent)
    flags = run("pkg-config", "--cflags", "--libs", "tessera").split()
    os.environ["LD_LIBRARY_PATH"] = str(found.parent.parent)
    expected = f"tessera {run('pkg-config', '--modversion', 'tessera').strip()} on 8 devices"
    programs = [os.path.join(own, "tessera")]
    for standard in ("c89", "c99"):
        programs.append(os.path.join(temp, "tessera-" + standard))
        run("cc", f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic-errors", str(source), "-o", programs[-1],
            *flags)
    for each in programs:
        if (said := run(each).strip()) != expected:
            sys.exit(f"{each} said {said!r}, expected {expected!r}")
    exported = run("nm", "-D", "--defined-only", str(found.parent.parent / "libtessera.so.1")).split("\n")
    names = {line.split()[-1] for line in exported if line}
    if foreign := sorted(n for n in names if not n.startswith(("tess", "TESSERA_1"))):
        sys.exit(f"libtessera exports {foreign}, expected names with tess alone")


def programs_of_the_runtime(own):
    """Runs the programs of the task engine, of the collectives and of the streams, and checks that each links only the
    libraries below it: the first two need neither libsodium nor the dynamic loader."""
    for name, above in (("tasks", ("sodium", "-ldl", "weir_collective", "weir_tessera")),
                        ("collective", ("sodium", "-ldl", "weir_tessera")), ("streams", ())):
        if (said := run(os.path.join(own, name)).strip()) != "42":
            sys.exit(f"{name} said {said!r}, expected 42")
        link = run("ninja", "-C", own, "-t", "commands", name).strip().split("\n")[-1]
        if "libweir_runtime.a" not in link:
            sys.exit(f"the link line of {name} is not the last command: {link}")
        if found := [word for word in above if word in link]:
            sys.exit(f"{name} links {found}, expected the libraries below it alone: {link}")
        loaded = run("ldd", os.path.join(own, name))
        wanted = name == "streams"
        if ("libsodium" in loaded) != wanted:
            sys.exit(f"{name} loads {loaded}, expected {'' if wanted else 'no '}libsodium")
        called = run("nm", "-D", "--undefined-only", os.path.join(own, name))
        if ("dlopen" in called) != wanted:
            sys.exit(f"{name} imports {called}, expected {'' if wanted else 'no '}dlopen")


def program_of_a_pipeline(program, temp):
    """Runs a pipeline with a source and a sink of its own, and kills it at random instants."""
    source = pathlib.Path(__file__).resolve().parents[2] / "demos" / "pipelines" / "squares" / "squares.cpp"
    code = [line for line in source.read_text(encoding="utf-8").splitlines() if line.strip() and not line.startswith("//")]
    if len(code) >= 40:
        sys.exit(f"{source} has {len(code)} lines of code, expected fewer than 40")
    squares = os.path.join(temp, "squares")
    for _ in range(2):  # the second run continues from the checkpoint and finds nothing to do
        if (said := run(program, squares).strip()) != "finished":
            sys.exit(f"the pipeline said {said!r}, expected that it has finished")
    if (found := os.path.getsize(os.path.join(squares, "squares"))) != 20000 * 64 * 8:
        sys.exit(f"the pipeline wrote {found} bytes, expected 20000 items of 64 numbers")
    kills.compare_after_kills(lambda folder: [program, folder], "squares", 20)


def programs_of_actors(own, folder):
    """Runs the programs that spawn actors without and with CAF."""
    said = run(os.path.join(own, "actors"), folder)
    if not re.fullmatch(r"rows2 is durable: \d+ bytes of the file\nrows300 is durable: \d+ bytes of the file\n"
                        r"the ranks sum to 42\n", said):
        sys.exit(f"the program of actors said {said!r}, expected two durable tensors and a sum of 42")
    said = run(os.path.join(own, "typed_actors"), os.path.join(folder, "tensors.tgm"))
    if said.strip() != "2":
        sys.exit(f"the program of typed actors said {said!r}, expected 2 messages")


def plug_in(cmake, compiler, installed, own, temp):
    """Builds the template of a plug-in against the installation, by CMake and by one call of the compiler, and runs its
    pipeline with the installed program; loads it into a program of the project, too."""
    project = os.path.join(temp, "plugin")
    shutil.copytree(pathlib.Path(__file__).resolve().parents[2] / "demos" / "plugin", project)
    build = os.path.join(project, "build")
    run(cmake, "-G", "Ninja", "-S", project, "-B", build, "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_PREFIX_PATH={installed}")
    run(cmake, "--build", build)
    weir = os.path.join(installed, "bin", "weir")
    toml = os.path.join(project, "pipeline.toml")
    means = os.path.join(project, "means.tgm")
    plugin = os.path.join(project, "running_mean.so")
    run(weir, "run", toml, "--out", os.path.join(project, "r1"))
    first = pathlib.Path(means).read_bytes()
    os.remove(plugin)
    run(compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-I", os.path.join(installed, "include"),
        os.path.join(project, "running_mean.cpp"), "-o", plugin)
    run(weir, "run", toml, "--out", os.path.join(project, "r2"))
    if not first or pathlib.Path(means).read_bytes() != first:
        sys.exit(f"the plug-ins wrote {len(first)} bytes and others, expected the same messages twice")
    if (said := run(os.path.join(own, "plugin_host"), plugin).strip()) != "100":
        sys.exit(f"the program with a plug-in said {said!r}, expected 100 items")
    for name in ("libweir", "libtessera"):
        if name in run("ldd", plugin):
            sys.exit(f"the plug-in links {name}, expected nothing of Weir")


def python_stages(installed, temp):
    """Runs the demo of stages in Python with the installed program and package, if the system's Python has NumPy."""
    if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True, check=False).returncode != 0:
        return
    folder = os.path.join(temp, "python")
    shutil.copytree(pathlib.Path(__file__).resolve().parents[2] / "demos" / "pipelines" / "python", folder)
    run(os.path.join(installed, "bin", "weir"), "run", os.path.join(folder, "python.toml"), "--out", os.path.join(folder, "r1"))
    first = pathlib.Path(folder, "peaks.tgm").read_bytes()
    program = ("import sys; sys.path[:0] = sys.argv[1:3]; import weir, unit_rows; p = weir.pipeline('p')\n"
               "a = p.add('a', 'generator', count=5000, shape=[16, 8], kind='philox')\n"
               "b = p.add('b', 'elementwise', type='f32[16,8]', op='subtract', operand=0.5)\n"
               "c, d = p.add('c', unit_rows.UnitRows, eps=0), p.add('d', unit_rows.Peaks)\n"
               "a >> b >> c >> d >> p.add('e', 'tgm.write', path=sys.argv[2] + '/peaks.tgm')\n"
               "p.run(sys.argv[2] + '/r2')")
    run("/usr/bin/python3", "-B", "-c", program, os.path.join(installed, "lib", "python3", "dist-packages"), folder)
    if not first or pathlib.Path(folder, "peaks.tgm").read_bytes() != first:
        sys.exit(f"the stages in Python wrote {len(first)} bytes and others, expected the same messages twice")


def main():
    """Installs, moves the folder so that no path of the build can be in use, and builds and runs all programs."""
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
        programs_of_the_runtime(own)
        said = run(os.path.join(own, "remote"))
        if "Google storage, which is not built" not in said:
            sys.exit(f"the consumer of remote files said {said!r}, expected a refusal of Google storage")
        c_programs(project / "tessera.c", moved, temp, own)
        program_of_a_pipeline(os.path.join(own, "squares"), temp)
        programs_of_actors(own, temp)
        plug_in(cmake, compiler, moved, own, temp)
        python_stages(moved, temp)
        version = run(os.path.join(moved, "bin", "weir"), "--version")
        if "0.1.0" not in version:
            sys.exit(f"the installed command line said {version!r}, expected version 0.1.0")


main()
