# SPDX-License-Identifier: Apache-2.0
"""Tests of the checks, on made-up trees: each complains about what it forbids and about nothing else."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HEAD = "// SPDX-License-Identifier: Apache-2.0\n/// @file\n/// A file.\n"
HEAD_OF_RECORD = "| Date | Status | Area | Supersedes |\n| --- | --- | --- | --- |\n"
SECTIONS_OF_RECORD = "\n## Context\nC.\n\n## Decision\nD.\n\n## Figures\nNone.\n\n## What would change it\nE.\n"
README = "# x\n\n## Does\n\n## Does not\n\n## Read first\n\n## Invariants\n\n## Tests\n"


class Checks(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temp.name)

    def tearDown(self):
        self.temp.cleanup()

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def check(self, name):
        return subprocess.run([sys.executable, str(HERE / f"{name}.py")], capture_output=True, text=True, check=False,
                              env=dict(os.environ, WEIR_LINT_ROOT=str(self.root)))

    def assert_clean(self, name):
        done = self.check(name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_complains(self, name, *texts):
        done = self.check(name)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stdout)

    def test_layers_accept_the_graph(self):
        self.write("models/a.cpp", '#include "weir/runtime/engine.hpp"\n#include <weir/base/error.hpp>\n')
        self.write("actors/b.cpp", "#include <caf/all.hpp>\n// #include <cuda.h>\n")
        self.assert_clean("layers")

    def test_layers_refuse_an_edge_upwards(self):
        self.write("storage/a.cpp", '#include "weir/base/error.hpp"\n#include "weir/formats/cbor.hpp"\n')
        self.assert_complains("layers", "storage/a.cpp:2: storage includes weir/formats/cbor.hpp")

    def test_layers_accept_tessera_above_the_engine_and_the_collectives(self):
        self.write("tessera/a.cpp", '#include "weir/runtime/engine.hpp"\n#include "weir/collective/plan.hpp"\n')
        self.write("models/b.cpp", '#include "weir/tessera/stream/stream.hpp"\n#include "weir/collective/plan.hpp"\n')
        self.write("runtime/collective/include/weir/collective/c.hpp", '#include "weir/runtime/engine.hpp"\n')
        self.assert_clean("layers")

    def test_layers_refuse_an_engine_that_knows_what_stands_on_it(self):
        self.write("runtime/a.cpp", '#include "weir/collective/plan.hpp"\n#include "weir/tessera/stream/stream.hpp"\n')
        self.write("runtime/CMakeLists.txt", "weir_module(runtime DEPENDS weir::base weir::collective)\n")
        self.write("runtime/collective/b.cpp", '#include "weir/tessera/stream/stream.hpp"\n')
        self.assert_complains("layers", "runtime/a.cpp:1: runtime includes weir/collective/plan.hpp",
                              "runtime/a.cpp:2: runtime includes weir/tessera/stream/stream.hpp",
                              "runtime/CMakeLists.txt:1: runtime links weir::collective",
                              "runtime/collective/b.cpp:1: collective includes weir/tessera/stream/stream.hpp")

    def test_layers_refuse_a_public_header_outside_its_librarys_folder(self):
        self.write("runtime/collective/include/weir/runtime/a.hpp", "\n")
        self.assert_complains("layers", "runtime/collective/include/weir/runtime/a.hpp: a public header stands in")

    def test_layers_refuse_caf_outside_actors(self):
        self.write("runtime/a.cpp", "#include <caf/all.hpp>\n")
        self.assert_complains("layers", "<caf/all.hpp> may be included only under actors/")

    def test_layers_refuse_hosts_that_know_the_text_model(self):
        self.write("actors/stages/prose/a.cpp", '#include "stages/prose/b.hpp"\n')
        self.write("pipeline/a.cpp", "// Prose is text.\nint a;\n")
        self.assert_clean("layers")
        self.write("actors/host/a.cpp", 'int a;\nconst char* b = "prose.learn";\n')
        self.assert_complains("layers", "actors/host/a.cpp:2: names the text model")

    def test_layers_refuse_a_link_upwards(self):
        self.write("base/a.cpp", "\n")
        self.write("base/CMakeLists.txt", "weir_module(base DEPENDS weir::runtime)\n")
        self.assert_complains("layers", "base/CMakeLists.txt:1: base links weir::runtime")

    def test_names_accept_one_name_in_two_targets_and_what_other_files_cannot_call(self):
        one = "namespace weir {\nnamespace {\nint code_of(int a) {\n  return a;\n}\n}\n}\n"
        self.write("base/CMakeLists.txt", "")
        self.write("base/a.cpp", one)
        self.write("base/b.cpp", "namespace weir {\nint code_of(long a) {\n  return 1;\n}\nnamespace {\nclass b {\n  int code_of() {\n"
                   "    return 2;\n  }\n};\n}\n}\n")
        self.write("formats/CMakeLists.txt", "")
        self.write("formats/c.cpp", one)
        self.assert_clean("names")

    def test_names_refuse_one_name_in_two_files_of_a_target(self):
        self.write("base/CMakeLists.txt", "")
        self.write("base/a.cpp", "namespace weir {\nnamespace {\nint code_of(int a) {\n  return a;\n}\n}\n}\n")
        self.write("base/src/b.cpp", "namespace weir::b {\nnamespace {\ntemplate <class T>\n[[nodiscard]] T code_of(T a, T b) {\n"
                   "  return a + b;\n}\n}\n}\n")
        self.write("base/src/c.cpp", "static int code_of(char a) {\n  return a;\n}\n")
        self.write("base/d.cpp", "namespace {\nstruct reader : base {\n};\nconstexpr int limit = 3;\n}\n")
        self.write("base/e.cpp", "namespace {\nclass reader final {\n};\nusing t = int;\nconstexpr std::array<int, 2> limit{1};\nconst int limit = 4;\n}\n")
        self.assert_complains("names", "base/e.cpp:2: base/d.cpp of the same target defines reader for itself",
                              "base/e.cpp:6: base/d.cpp of the same target defines limit for itself",
                              "base/src/b.cpp:4: base/a.cpp of the same target defines code_of for itself",
                              "base/src/c.cpp:1: base/a.cpp")

    def test_sizes_accept_a_plain_file(self):
        body = "".join(f"  x += {i};\n" for i in range(55))
        for i in range(15):
            self.write(f"tests/base/f{i}.hpp", HEAD + "#pragma once\n")
            self.write(f"tests/base/f{i}.cpp", HEAD)
        self.write("base/a.cpp", HEAD + "#include <a>\n#define B(c) \\\n  (c)\nnamespace weir {\n" + "\n" * 80 + f"int f(int x) {{\n{body}  return x;\n}}\n}}\n")
        self.assert_clean("sizes")

    def test_sizes_refuse_long_lines_functions_files_and_folders(self):
        body = "".join(f"  x += {i};\n" for i in range(70))
        self.write("base/a.cpp", HEAD + f"namespace weir {{\nint f(int x) {{\n{body}  return x;\n}}\n}}\n")
        self.write("base/b.cpp", HEAD + "// " + "x" * 90 + "\n")
        self.write("base/c.cpp", HEAD + "\n" * 600)
        self.write("base/d.hpp", "#pragma once\n")
        for i in range(16):
            self.write(f"tests/base/f{i}.txt", "")
        self.assert_complains("sizes", "base/a.cpp:5: function of 73 lines", "base/b.cpp:4: 93 columns",
                              "base/c.cpp: 603 lines, limit 600", "base/d.hpp:1: the first line", "tests/base: 16 concepts")

    def test_sizes_see_members_and_lambdas_as_parts_of_their_function(self):
        body = "".join(f"    x += {i};\n" for i in range(30))
        lambdas = f"  auto a = [&] {{\n{body}  }};\n  auto b = [&](int) {{\n{body}  }};\n"
        self.write("base/a.cpp", HEAD + f"struct s {{\n  void f(int x) const {{\n{lambdas}  }}\n}};\n")
        self.assert_complains("sizes", "base/a.cpp:5: function of 66 lines")

    def test_sizes_limit_neither_records_nor_the_rows_of_their_index(self):
        for i in range(16):
            self.write(f"docs/decisions/{i:03}-a.md", "")
        self.write("docs/decisions/README.md", "\n" * 60 + "| [001](001-a.md) |\n" * 20)
        self.assert_clean("sizes")
        self.write("docs/decisions/README.md", "\n" * 61)
        self.assert_complains("sizes", "docs/decisions/README.md: 61 lines, limit 60")

    def test_words_accept_other_words(self):
        self.write("base/a.md", "constraint, restrained, strained, DataLoad, epoxy\n")
        self.write("pipeline/a.md", "the items between two barriers are an epoch\n")
        self.assert_clean("words")

    def test_words_refuse_the_forbidden_ones_in_every_spelling(self):
        self.write("base/a.md", "train_steps\nstopTraining\nDataLoader\ndata_loader\nretrain\nPretrained\n")
        self.assert_complains("words", *(f"base/a.md:{i}:" for i in range(1, 7)))

    def test_words_refuse_other_names_of_machines_and_ranks_in_worlds(self):
        self.write("runtime/world/a.hpp", "host_name\nfirstNode\nhosts\nepoch\na machine, a rank\n")
        self.write("docs/ranks.md", "each node\n")
        self.write("runtime/engine/a.hpp", "the node of a list\n")
        others = ("tests/world/a.cpp", "demos/heat2d/a.hpp", "bench/runtime/ranks/a.cpp", "runtime/include/weir/world_arguments.hpp",
                  "runtime/include/weir/runtime/state/a.hpp")
        for path in others:
            self.write(path, "a shared_window\nthe flight ring\na flightRecorder\nthe window and tasks in flight\n")
        self.assert_complains("words", *(f"runtime/world/a.hpp:{i}:" for i in range(1, 5)), "docs/ranks.md:1:",
                              *(f"{path}:{i}:" for path in others for i in range(1, 4)), "words: 8 checked, 20 complaints")

    def test_messages_accept_the_grammar(self):
        self.write("base/a.cpp", 'return error(errc::torn, fmt::format("cannot read \\"{}\\": expected {} bytes, "\n'
                                 '"found {}", a, b, c));\n')
        self.assert_clean("messages")

    def test_messages_refuse_what_says_nothing(self):
        for text in ("invalid", "Cannot read the file", "cannot read the file.", "invalid dtype in header", "bad file"):
            with self.subTest(text):
                self.write("base/a.cpp", f'return error(errc::torn, "{text}");\n')
                self.assert_complains("messages", "base/a.cpp:1:")

    def test_paths_refuse_what_tests_share(self):
        self.write("tests/base/a.cpp", 'const temp_folder f;  // not testing::TempDir()\nauto p = f / "tmp/x";\n')
        self.assert_clean("paths")
        self.write("tests/base/a.cpp", 'auto p = testing::TempDir() + "x";\nauto q = "/tmp/x";\n')
        self.assert_complains("paths", "tests/base/a.cpp:1: a path that other tests share", "tests/base/a.cpp:2:")

    def test_readmes_want_five_headings_in_every_folder(self):
        for folder in ("base", "formats", "storage", "runtime", "tessera", "models", "actors", "tools", "bench", "tests", "docs"):
            self.write(f"{folder}/README.md", README)
        self.assert_clean("readmes")
        self.write("base/README.md", README.replace("## Invariants\n", ""))
        (self.root / "docs/README.md").unlink()
        self.assert_complains("readmes", "base/README.md: headings are", "docs/README.md: is missing")

    def test_the_tour_names_what_exists(self):
        self.write("base/a.cpp", "int answer() { return 42; }  // question\n")
        self.write("docs/tour.md", "`base/a.cpp · answer` and `base/a.cpp`; see `build/weir`, `DIR/log`\n")
        self.assert_clean("tour")
        self.write("docs/tour.md", "`base/a.cpp · question`\n`base/b.cpp`\n`a · b`\n")
        self.assert_complains("tour", '"question" does not stand in base/a.cpp', '"base/b.cpp" does not exist',
                              '"a" is no path')

    def write_record(self, name, head, title=None, sections=SECTIONS_OF_RECORD):
        self.write(f"docs/decisions/{name}.md", f"# {title or name[:3] + ': T'}\n\n{HEAD_OF_RECORD}| {head} |\n{sections}")

    def write_index(self):
        """Writes the rows that the check prints."""
        done = subprocess.run([sys.executable, str(HERE / "decisions.py"), "--index"], capture_output=True, text=True,
                              check=True, env=dict(os.environ, WEIR_LINT_ROOT=str(self.root)))
        self.write("docs/decisions/README.md", README + done.stdout)
        return done.stdout

    def write_two_records(self):
        self.write_record("101-a", "2026-01-01 | superseded by [102](102-b.md) | map | none")
        self.write_record("102-b", "2026-01-02 | accepted | map | [101](101-a.md)")

    def test_decisions_accept_a_record_that_replaces_another(self):
        self.write_two_records()
        rows = self.write_index()
        self.assertEqual(rows.splitlines()[1], "| [102](102-b.md) | T | 2026-01-02 | accepted | map |")
        self.assert_clean("decisions")

    def test_decisions_refuse_heads_that_are_not_valid(self):
        for head, text in (("2026-13-01 | accepted | map | none", 'the date is "2026-13-01"'),
                           ("2026-01-01 | agreed | map | none", 'the status is "agreed"'),
                           ("2026-01-01 | superseded by 102 | map | none", 'the status is "superseded by 102"'),
                           ("2026-01-01 | accepted | maps | none", 'the area is "maps"'),
                           ("2026-01-01 | accepted | engine | none", 'numbers of the area "engine" begin with 2'),
                           ("2026-01-01 | accepted | map | 100", 'it supersedes "100"'),
                           ("2026-01-01 | accepted | map", "the head is not")):
            with self.subTest(head):
                self.write_record("101-a", head)
                self.write_index()
                self.assert_complains("decisions", "docs/decisions/101-a.md: " + text)

    def test_decisions_refuse_titles_sections_links_and_names(self):
        good = "2026-01-01 | accepted | map | none"
        self.write_record("101-a", good, title="102: T")
        self.write_record("103-b", good, sections=SECTIONS_OF_RECORD.replace("## Figures", "## Numbers"))
        self.write_record("104-c", good, sections=SECTIONS_OF_RECORD.replace("D.\n", ""))
        self.write_record("105-d", good, sections=SECTIONS_OF_RECORD.replace("D.", "[109](109-z.md)"))
        self.write_record("106-e", good)
        self.write_record("106-f", good)
        self.write("docs/decisions/speed.md", "Decided: a page.\n")
        self.write_index()
        self.assert_complains("decisions", "101-a.md: the title has the number 102", "103-b.md: the sections are",
                              '104-c.md: the section "Decision" is empty', '105-d.md: the link to "109-z.md" leads nowhere',
                              "2 records have the number 106", "speed.md: expected a record with the name")

    def test_decisions_refuse_a_replacement_that_only_one_record_names(self):
        self.write_two_records()
        self.write_record("102-b", "2026-01-02 | accepted | map | none")
        self.write_index()
        self.assert_complains("decisions", "101-a.md: 102-b.md does not say that it supersedes this record")
        self.write_two_records()
        self.write_record("101-a", "2026-01-01 | accepted | map | none")
        self.write_index()
        self.assert_complains("decisions", "102-b.md: the status of 101-a.md is not superseded by this record")
        self.write_record("101-a", "2026-01-03 | superseded by [102](102-b.md) | map | none")
        self.write_index()
        self.assert_complains("decisions", "102-b.md: it is older than 101-a.md")

    def test_decisions_want_every_record_once_in_the_index(self):
        self.write_two_records()
        first, second = self.write_index().splitlines()
        for rows, text in (([first], "expected once, found 0 times: " + second),
                           ([first, second, second], "expected once, found 2 times: " + second),
                           ([first, second.replace("accepted", "rejected")], "is the row of no record: "),
                           ([second, first], "the rows are not in the order of the numbers")):
            with self.subTest(text):
                self.write("docs/decisions/README.md", "\n".join(rows) + "\n")
                self.assert_complains("decisions", "docs/decisions/README.md: " + text)
        (self.root / "docs/decisions/README.md").unlink()
        self.assert_complains("decisions", "docs/decisions/README.md: is missing")

    def write_codes(self):
        self.write("base/include/weir/base/error.hpp", HEAD + "namespace weir {\n/// Kinds of failure.\nenum class errc {\n"
                   "  io = 50,\n  torn = 31,  ///< a file ends early\n};\n}\n")
        self.write("runtime/include/c.h", HEAD + "/** Statuses. */\nenum { TESS_OK = 0, TESS_ERR_TIMEOUT };\n")

    def write_header(self, *lines):
        head = HEAD.replace("A file.", "A file. @threads{values}")
        self.write("tools/include/weir/tools/a.hpp", head + "namespace weir {\n" + "\n".join(lines) + "\n}\n")

    def test_comments_accept_codes_of_c_and_of_cpp(self):
        self.write_codes()
        self.write_header("/// Reads a file. What it finds is kept.", "/// @error{torn; the file ends early} @error{io, else}",
                          "/// @error{TESS_ERR_TIMEOUT; it takes too long}", "void read();", "int size;  ///< in bytes")
        self.assert_clean("headers/comments")

    def test_comments_refuse_beginnings_without_a_noun_or_a_verb(self):
        beginnings = ("What", "Who", "Whose", "Whether", "Of", "By", "The same", "Likewise")
        lines = [line for b in beginnings
                 for line in (f"/// {b} x.", "void f();", "/**", f" * {b} x. */", "void f();", "", f"int x;  ///< {b.lower()} x")]
        self.write_header(*lines)
        expected = [f"a.hpp:{5 + 7 * i + below}: the comment begins with" for i in range(len(beginnings)) for below in (0, 2, 6)]
        self.assert_complains("headers/comments", *expected, f"comments: tools: {len(expected)} complaints")

    def test_comments_refuse_errors_without_a_code(self):
        self.write_codes()
        for text in ("@error{as read; twice}", "@error{what fails}", "@error as of read", "@error{missing, x}"):
            with self.subTest(text):
                self.write_header("/// Reads.", f"/// {text}", "void read();")
                self.assert_complains("headers/comments", "a.hpp:6: @error begins with")

    def test_comments_count_the_complaints_of_each_module(self):
        self.write("storage/include/weir/storage/a.hpp", HEAD + "\n/// What x is.\nint x;\n")
        done = self.check("headers/comments")
        self.assertEqual(done.returncode, 1)
        self.assertIn("comments: storage: 1 complaints", done.stdout)

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_accepts_documented_declarations(self):
        self.write_header("/// A box.", "struct box {", "  box() = default;", "  ~box();", "  /// Returns the size in bytes.",
                          "  int size() const;", "  int width = 0;  ///< in cells", " private:", "  int on_;", "  void of(int at);",
                          "};")
        self.assert_clean("headers/reference")

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_refuses_declarations_without_a_comment(self):
        # The kind of what has no comment, and the lines of a header that declare it, one of them on the last line.
        cases = (("function", "int f(int x);"), ("struct", "struct s {};"), ("enum", "enum e { a };"), ("typedef", "using t = int;"),
                 ("variable", "extern int x;"), ("variable", "/// S.", "struct s2 { int x; };"),
                 ("function", "/// S.", "struct s3 { int f(); };"), ("function", "/// C.", "class c {", " public:", "  explicit c(int x);"))
        lines, expected = [], []
        for kind, *declaration in cases:
            lines += declaration
            expected.append((len(lines) + 4, kind))
            if declaration[-1].endswith("c(int x);"):
                lines.append("};")
        self.write_header(*lines)
        done = self.check("headers/reference")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for line, kind in expected:
            self.assertRegex(done.stdout, f'a.hpp:{line}: {kind} "\\w+" has no comment')
        self.assertIn(f"{len(cases)} complaints", done.stdout)

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_refuses_functions_that_are_silent_about_their_errors(self):
        types = ("result<int>", "const result<void>&", "std::future<result<int>>")
        self.write_header(*(line for i, t in enumerate(types) for line in ("/// Reads errors.", f"{t} read{i}();")))
        self.assert_complains("headers/reference", *(f'a.hpp:{6 + 2 * i}: the function "read{i}" returns a result' for i in range(3)))
        said = ("@error{io, no disk}", "Also returns the errors of `f`.", "Also returns the\n/// error of a task.",
                "The error may have any code: it stops the run.", "It never fails.")
        self.write_header("/// A box.", "struct box {", *(line for i, words in enumerate(said)
                                                         for line in (f"  /// Reads. @units{{bytes}}\n  /// {words}",
                                                                      f"  result<int> read{i}();")), "};",
                          "/// A maker.", "using maker = result<int> (*)();", "/// Counts.", "int number_of_results();")
        self.assert_clean("headers/reference")

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_refuses_headers_that_are_silent_about_threads(self):
        for declaration in ("void read();", "struct box {};"):
            self.write("tools/include/weir/tools/a.hpp", HEAD + f"namespace weir {{\n/// Reads.\n{declaration}\n}}\n")
            self.assert_complains("headers/reference", "a.hpp:1: no comment has @threads{...}")
        self.write("tools/include/weir/tools/a.hpp", HEAD + "namespace weir {\n/// A size.\ninline constexpr int size = 3;\n}\n")
        self.assert_clean("headers/reference")

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_refuses_entries_that_are_shown_as_text(self):
        self.write_header("/// Reads.", "///", "/// @@par Error", "void read();")
        self.assert_complains("headers/reference", 'a.hpp:8: an entry in the comment of "read" is shown as text')

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_refuses_names_on_the_list(self):
        names = ("of", "on", "what", "at", "bell", "janitor", "most_bytes", "room", "free_room", "told_")
        self.write_header(*(line for name in names for line in ("/// Does.", f"void {name}();")))
        self.assert_complains("headers/reference", *(f'a.hpp:{6 + 2 * i}: the name "{n}"' for i, n in enumerate(names)))
        self.write_header("/// Does.", *(f"void go({', '.join('int ' + name for name in names)});",))
        self.assert_complains("headers/reference", *(f'a.hpp:6: the name "{name}" (in "go")' for name in names))
        self.write_header("/// Does.", "void memory_source();", "/// Does.", "void go(int openMemorySource);")
        self.assert_complains("headers/reference", 'a.hpp:6: the name "memory_source"', 'a.hpp:8: the name "openMemorySource"')
        self.write("tessera/include/weir/tessera/b.hpp", HEAD + "namespace weir {\n/// Opens. @threads{any}\nvoid session(int port);\n}\n")
        self.assert_complains("headers/reference", 'b.hpp:6: the name "session"', 'b.hpp:6: the name "port"')
        (self.root / "tessera/include/weir/tessera/b.hpp").unlink()
        self.write_header("/// Does.", "void session(int port, int memory, int source_memory);")
        self.assert_clean("headers/reference")
        self.write_header("/// Does.", "void template_of(int position, int almost, int report);")
        self.assert_clean("headers/reference")

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_keeps_names_of_c_functions_and_not_of_their_parameters(self):
        self.write("tools/include/a.h", HEAD + "/** Does. */\nvoid room(int x);\n")
        self.assert_clean("headers/reference")
        self.write("tools/include/a.h", HEAD + "/** Does. */\nvoid room(void* at);\n")
        self.assert_complains("headers/reference", 'a.h:5: the name "at" (in "room")')

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_reference_refuses_what_doxygen_warns_of(self):
        comments = ("Reads @nothing.", "@param y  not there", "@shape without braces", "a </tt> without a beginning")
        self.write_header(*(line for i, c in enumerate(comments)
                            for line in ("/// Reads.", f"/// {c}", f"void read{i}(int x);")))
        self.assert_complains("headers/reference", *(f"a.hpp:{6 + 3 * i}: doxygen: " for i in range(len(comments))))

    @unittest.skipUnless(shutil.which("doxygen"), "doxygen is not installed; `make lint` installs it")
    def test_the_report_counts_comments_declarations_and_includes_upwards(self):
        self.write("base/include/weir/base/a.hpp", HEAD + "\n/// Does.\nvoid f();\nvoid g();\nextern int x;\n")
        self.write("base/a.cpp", '// One.\n#include "weir/formats/a.hpp"\nint x = 0;  // two\n\n/* three\n */\nint y;\n')
        done = self.check("headers/report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| base | 50.0 % | 57.1 % | 57.1 % | 1 of 2 | 1 of 1 | 1 |", done.stdout)
        self.assertIn("| all | 50.0 % | 57.1 % | 57.1 % | 1 of 2 | 1 of 1 | 1 |", done.stdout)


if __name__ == "__main__":
    unittest.main()
