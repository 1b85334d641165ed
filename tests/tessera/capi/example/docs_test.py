# SPDX-License-Identifier: Apache-2.0
"""`docs_test.py SOURCE_DIR CC LIBRARY_FOLDER FATBIN [FLAG...]`: the examples of docs/tessera.md compile as C99 and run.

A fence says what its block is: `c program` a whole program, `c kernel` a shared object, `c` the body of a function with a context,
a mesh of eight devices, a stream and a module of its own."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, CC, LIBRARIES, FATBIN = sys.argv[1:5]
FLAGS = ["-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/tessera/include", *sys.argv[5:]]
FENCE = re.compile(r"^```c( program| kernel|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETUP = r"""#include <stdio.h>
#include <tessera_ext.h>
static const char* why = "";
#define CHECK(call) do { tessStatus_t s_ = (call); why = #call; if (s_ != TESS_OK) return (int)s_; } while (0)
#define EXPECT(what) do { why = #what; if (!(what)) return 100; } while (0)
"""
MAIN = r"""
static char image[1 << 24];
int main(int argc, char** argv) {
  static int (*const bodies[])(tessContext_t, tessMesh_t, tessStream_t, tessModule_t) = {%s};
  static const int lines[] = {%s};
  FILE* f = fopen(argv[argc - 1], "rb");
  size_t size = f == NULL ? 0 : fread(image, 1, sizeof image, f), i;
  int failed = 0;
  for (i = 0; i < sizeof bodies / sizeof *bodies; ++i) {
    tessContext_t ctx = NULL; tessMesh_t mesh = NULL; tessStream_t stream = NULL; tessModule_t module = NULL;
    int ids[8] = {0, 1, 2, 3, 4, 5, 6, 7}, outcome;
    tessMeshAxes axes = {2, 0, 4, 0};
    if (tessInit(&ctx) || tessMeshCreate(ctx, ids, 8, axes, &mesh) || tessStreamCreate(mesh, 0, &stream) ||
        tessModuleLoad(ctx, image, size, &module)) {
      printf("no session: %%s\n", tessGetLastErrorMessage());
      return 1;
    }
    outcome = bodies[i](ctx, mesh, stream, module);
    if (outcome != 0) {
      printf("docs/tessera.md, block at line %%d: %%s gave %%d: %%s\n", lines[i], why, outcome, tessGetLastErrorMessage());
      failed = 1;
    }
    if (tessShutdown(ctx) != TESS_OK) {
      printf("docs/tessera.md, block at line %%d: no shutdown: %%s\n", lines[i], tessGetLastErrorMessage());
      failed = 1;
    }
  }
  return failed;
}
"""


def run(what, command):
    environment = {**os.environ, "LD_LIBRARY_PATH": LIBRARIES}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    if done.returncode:
        print(f"{what}: {' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        sys.exit(1)


def compiled(folder, name, text, *more):
    source = folder / f"{name}.c"
    source.write_text(text)
    run(name, [CC, *FLAGS, str(source), "-o", str(folder / name), *more])
    return str(folder / name)


def main():
    text = (pathlib.Path(SOURCE) / "docs" / "tessera.md").read_text()
    blocks = [(m.group(1).strip(), text.count("\n", 0, m.start()) + 1, m.group(2)) for m in FENCE.finditer(text)]
    link = [f"-L{LIBRARIES}", "-ltessera"]
    with tempfile.TemporaryDirectory(prefix="weir-docs-") as temporary:
        folder = pathlib.Path(temporary)
        bodies = []
        for kind, line, body in blocks:
            if kind == "program":
                run(f"line {line}", [compiled(folder, f"program_{line}", body, *link)])
            elif kind == "kernel":
                compiled(folder, f"kernel_{line}.so", body, "-shared", "-fPIC")
            else:
                bodies.append((line, body))
        functions = "".join(
            f"static int block_{n}(tessContext_t ctx, tessMesh_t mesh, tessStream_t stream, tessModule_t module) {{\n"
            f"  (void)ctx; (void)mesh; (void)stream; (void)module;\n{{\n{body}}}\n  return 0;\n}}\n" for n, body in bodies)
        names, lines = ", ".join(f"block_{n}" for n, _ in bodies), ", ".join(str(n) for n, _ in bodies)
        run("blocks", [compiled(folder, "blocks", SETUP + functions + MAIN % (names, lines), *link), FATBIN])
    if len(blocks) < 8:
        sys.exit(f"expected at least 8 examples in docs/tessera.md, found {len(blocks)}")


main()
