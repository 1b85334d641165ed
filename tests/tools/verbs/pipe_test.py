#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `weir pipe` between the pipes of a shell: `pipe_test.py WEIR SOURCE_DIR [unittest arguments]`."""
import os
import re
import subprocess
import time
from pathlib import Path

from black_box_case import SOURCE, WEIR, Case, Shells, main

BUILT = Path(os.environ["WEIR_PLUGINS"])
TWICE = "elementwise type='f32[64]' op=multiply operand=2"
NEGATE = "elementwise type='f32[64]' op=negate"


class Pipe(Shells, Case):
    """Pipelines of one line."""

    def shell(self, line, code=0):
        """Runs a line of bash in which $weir is the program, and returns the completed process."""
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, capture_output=True, timeout=60,
                              check=False, env={**os.environ, "weir": WEIR})
        self.assertEqual(done.returncode, code, done.stderr.decode())
        return done

    def messages(self, count=300):
        """Writes a.tgm."""
        self.weir("pipe", f"generator count={count} shape=[64] ! tgm.write path=a.tgm")

    def test_a_line_writes_what_its_file_writes(self):
        line = "generator count=50 shape=[8, 8] kind=philox ! tgm.write path=b.tgm"
        self.weir("pipe", line)
        first = (self.folder / "b.tgm").read_bytes()
        (self.folder / "line.toml").write_bytes(self.weir("pipe", line, "--toml").stdout)
        (self.folder / "b.tgm").unlink()
        self.weir("run", "line.toml")
        self.assertEqual((self.folder / "b.tgm").read_bytes(), first)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir() if p.is_dir()), ["runs"])

    def test_processes_in_a_shell_pipe_write_the_bytes_of_one_process(self):
        self.messages()
        self.weir("pipe", f"tgm.read path=a.tgm ! {TWICE} ! {NEGATE} ! tgm.write path=one.tgm")
        done = self.shell(f'$weir pipe "- ! {TWICE} ! -" < a.tgm | $weir pipe "- ! {NEGATE} ! tgm.write path=b.tgm"')
        self.assertEqual(done.stdout, b"")
        self.assertEqual((self.folder / "b.tgm").read_bytes(), (self.folder / "one.tgm").read_bytes())
        done = self.shell(f'$weir pipe --workers 2 "- ! {TWICE} ! {NEGATE} ! -" < a.tgm')
        self.assertEqual(done.stdout, (self.folder / "one.tgm").read_bytes())
        self.assertEqual(done.stderr, b"")

    def test_a_reader_that_leaves_ends_the_line_well(self):
        done = self.shell('$weir pipe "generator count=100000000 shape=[64] ! -" | head -c 100 | wc -c')
        self.assertEqual(done.stdout.strip(), b"100")
        self.assertEqual(done.stderr, b"")

    def test_messages_leave_before_the_input_ends(self):
        child = subprocess.Popen([WEIR, "pipe", "- ! -"], cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.messages(3)
        child.stdin.write((self.folder / "a.tgm").read_bytes())
        child.stdin.flush()
        self.assertTrue(os.read(child.stdout.fileno(), 100).startswith(b"TENSOGRM"))
        child.stdin.close()
        child.stdout.read()
        child.stdout.close()
        self.assertEqual(child.wait(), 0)

    def test_words_of_a_shell_are_one_line(self):
        self.weir("pipe", "generator", "count=5", "shape=[2, 3]", "!", "tgm.write", "path=with blank.tgm")
        self.assertTrue((self.folder / "with blank.tgm").exists())

    def test_a_line_becomes_a_file(self):
        line = (r"""generator name=n shape=[2] ! select modulo=2 name="the-split" ! null from="the-split.y1" window='8 items' """
                r"""! merge inlets={ a = "the-split.y0", b = "x" } object=a\ b ! null""")
        self.assertEqual(self.weir("pipe", line, "--toml").stdout.decode().split("[set]")[0],
                         '[[stage]]\nuse = "generator"\nname = "n"\nshape = [2]\n\n'
                         '[[stage]]\nuse = "select"\nmodulo = 2\nname = "the-split"\n\n'
                         '[[stage]]\nname = "null"\nuse = "null"\nfrom = "the-split.y1"\nwindow = "8 items"\n\n'
                         '[[stage]]\nname = "merge"\nuse = "merge"\ninlets = { a = "the-split.y0", b = "x" }\nobject = "a b"\n\n'
                         '[[stage]]\nname = "null-2"\nuse = "null"\n')

    def test_mistakes_are_refused_at_their_column(self):
        for line, column, text in (
                ("generator ! ", 13, "expected the name of a stage, found the end"),
                ("! null", 1, 'expected the name of a stage, found "!"'),
                ("generator count ! null", 11, 'expected KEY=VALUE or " ! ", found "count"'),
                ("generator shape=[2 ! null", 17, "found no end of it"),
                ("generator shape=[2]x ! null", 17, "found 'x' behind it"),
                ("generator count=1 count=2 ! null", 19, "expected each key once"),
                ("generator ! - ! null", 13, 'expected "-" as the first stage'),
                ("generater ! null", 1, 'did you mean "generator"?'),
                ("generator ! null cont=4", 23, "expected"),
                ("generator count=-4 ! null", 17, "expected an integer from 0"),
                ('generator window="many" ! null', 18, "expected items or bytes"),
                ("count=4 ! null", 1, "expected the name of a stage")):
            message = self.error("pipe", line, code=2)
            self.assertIn(f"column {column}", message, line)
            self.assertIn(text, message, line)
        self.assertEqual(list(self.folder.glob("runs")), [])

    def test_a_folder_makes_a_run_that_can_be_resumed(self):
        line = "generator count=30000 shape=[4] ! tgm.write path={}.tgm"
        self.weir("pipe", line.format("whole"))
        child = self.start("pipe", line.format("b"), "--folder", "r")
        while child.poll() is None and not (self.folder / "r" / "metrics.json").exists():
            time.sleep(0.01)
        child.terminate()
        out, err = child.communicate()
        self.assertEqual((child.returncode, out), (0, b""), err)
        self.assertIn(b"run folder r", err)
        self.weir("resume", "r", "--set", "run.workers=2")
        self.assertEqual((self.folder / "b.tgm").read_bytes(), (self.folder / "whole.tgm").read_bytes())

    def test_a_missing_input_and_a_damaged_one_are_errors(self):
        self.error("pipe", "tgm.read path=none.tgm ! null", code=3)
        self.messages()
        content = (self.folder / "a.tgm").read_bytes()
        (self.folder / "cut.tgm").write_bytes(content[:len(content) // 2 + 5])
        self.shell('$weir pipe "- ! -" < cut.tgm >/dev/null', code=4)

    def test_a_line_uses_a_plug_in(self):
        self.weir("pipe", "generator count=20 shape=[4] ! demo.running_mean length=4 ! tgm.write path=b.tgm",
                  "--plugin", BUILT / "running_mean.so")
        self.assertTrue((self.folder / "b.tgm").exists())

    def test_the_lines_of_the_guide_run(self):
        page = (Path(SOURCE) / "docs" / "pipelines.md").read_text()
        lines = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
        self.assertIn("weir prove", lines)
        self.shell(f'weir() {{ "$weir" "$@"; }}; set -e; {lines}')

    def test_the_files_of_the_guide_run(self):
        page = (Path(SOURCE) / "docs" / "pipelines.md").read_text()
        files = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(files), 3)
        for number, text in enumerate(files):
            (self.folder / f"{number}.toml").write_text(text)
            self.assertIn("finished", self.weir("run", f"{number}.toml", "--out", f"r{number}").stdout.decode())
        self.weir("pipe", "generator count=5000 shape=[64] element=f64 ! elementwise type=f64[64] op=multiply operand=2 "
                  "! tgm.write path=line.tgm")
        self.assertEqual((self.folder / "doubles.tgm").read_bytes(), (self.folder / "line.tgm").read_bytes())

    def test_every_example_of_the_guide_is_in_a_language_that_a_test_runs(self):
        page = (Path(SOURCE) / "docs" / "pipelines.md").read_text()
        opened = re.findall(r"^```(.*)$", page, re.MULTILINE)[::2]
        # `guide_test.cpp` compares C++ with programs that are built, and `docs_test.py` runs Python. The text is one table of other projects.
        self.assertEqual({kind: opened.count(kind) for kind in opened},
                         {"cpp": 3, "toml": 3, "python": 3, "toml python": 1, "sh": 2, "text": 1})

    def test_the_pipeline_of_the_readme_prints_what_the_readme_says(self):
        readme = (Path(SOURCE) / "README.md").read_text()
        text, printed = re.search(r"^```toml\n(.*?)^```\n.*?^```\n(.*?)^```", readme, re.MULTILINE | re.DOTALL).groups()
        self.assertLessEqual(len(text.splitlines()), 15)
        (self.folder / "doubles.toml").write_text(text)
        times = re.compile(r" in .* s, .* items/s")
        self.assertEqual(times.sub("", self.weir("run", "doubles.toml").stdout.decode()), times.sub("", printed))
        self.weir("resume", "runs/doubles-1")
        self.weir("pipe", "generator count=10000 ! elementwise type=f32[1] op=multiply operand=2 ! tgm.write path=one.tgm")
        self.assertEqual((self.folder / "doubles.tgm").read_bytes(), (self.folder / "one.tgm").read_bytes())
        # What the README says of `weir prove` holds for its pipeline.
        self.assertIn("weir prove doubles.toml", readme)
        self.assertRegex(self.weir("prove", "doubles.toml").stdout.decode(), r"proved: the outputs of \d+ variants are equal")

    def test_the_picture_of_the_readme_is_that_of_its_pipeline(self):
        readme = (Path(SOURCE) / "README.md").read_text()
        (self.folder / "doubles.toml").write_text(re.search(r"^```toml\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[1])
        self.weir("graph", "doubles.toml", "-o", "doubles.svg")
        drawn = (self.folder / "doubles.svg").read_text()
        self.assertEqual(drawn, (Path(SOURCE) / "docs" / "pictures" / "doubles.svg").read_text(),
                         "draw it again: weir graph doubles.toml -o docs/pictures/doubles.svg")

    def complete(self, *words):
        """Returns the completions that bash offers behind `weir WORDS`."""
        script = 'source <("$1" completion bash); shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1));' \
                 '_weir weir "${@: -1}"; printf "%s\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", WEIR, "weir", *words], cwd=self.folder, capture_output=True,
                              text=True, timeout=60, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.rstrip("\n").split("\n")

    def keys_of_every_stage(self):
        """Returns the keys that the guide gives every stage in a line."""
        guide = (Path(SOURCE) / "docs" / "pipelines.md").read_text()
        table = re.search(r"^Each `\[\[stage\]\]` has these keys.*?\| `.*?\n\n", guide, re.MULTILINE | re.DOTALL)[0]
        keys = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) - {"use"}
        self.assertTrue({"name", "from", "inlets", "loop", "window", "on_error", "max_failures", "host"} <= keys, keys)
        return keys

    def test_fish_completes_stages_and_their_keys(self):
        script = self.script_for("fish")
        for line, offers in (("inspect tgm.wr", ["tgm.write"]), ("pipe tgm.wr", ["tgm.write"]), ("pipe generator co", ["count="]),
                             ("pipe generator count=4 ! elementw", ["elementwise"]),
                             ("pipe generator ! elementwise oper", ["operand="])):
            self.assertEqual(self.fish_offers(script, f"weir {line}"), offers, line)
        self.assertEqual(set(self.fish_offers(script, "weir pipe null ")), {f"{key}=" for key in self.keys_of_every_stage()} | {"!"})

    def test_zsh_completes_stages_and_their_keys(self):
        script = self.script_for("zsh")
        for typed, whole in (("inspect tgm.wri", "inspect tgm.write "), ("pipe tgm.wri", "pipe tgm.write "),
                             ("pipe generator cou", "pipe generator count="),
                             ("pipe generator count=4 ! elementw", "pipe generator count=4 ! elementwise "),
                             ("pipe generator ! elementwise oper", "pipe generator ! elementwise operand="),
                             *((f"pipe null {key[:-1]}", f"pipe null {key}=") for key in ("inlets", "on_error", "max_failures", "host"))):
            self.assertEqual(self.zsh_line(script, f"weir {typed}"), f"weir {whole}")

    def test_bash_completes_stages_and_their_keys(self):
        self.assertEqual(self.complete("inspect", "tgm.wr"), ["tgm.write"])
        self.assertEqual(self.complete("pipe", "tgm.wr"), ["tgm.write"])
        self.assertEqual(self.complete("pipe", "generator", "co"), ["count="])
        self.assertEqual(self.complete("pipe", "generator", "count=4", "!", "elementw"), ["elementwise"])
        self.assertEqual(self.complete("pipe", "generator", "!", "elementwise", "oper"), ["operand="])
        self.assertEqual(self.complete("pipe", "generator ! elementw"), ["generator ! elementwise"])
        self.assertEqual(self.complete("pipe", "generator count=4 ! tgm.write pa"), ["generator count=4 ! tgm.write path="])
        (self.folder / "days.tgm").touch()
        self.assertEqual(self.complete("pipe", "tgm.read", "path", "=", "da"), ["days.tgm"])
        self.assertEqual(self.complete("pipe", "'generator ! tgm.write path=da"), ["generator ! tgm.write path=days.tgm"])
        self.assertIn("generator", self.complete("pipe", ""))
        # The keys of every stage are those of the guide, and completion offers each of them behind any stage.
        keys = self.keys_of_every_stage()
        self.assertEqual(set(self.complete("pipe", "null", "")), {f"{key}=" for key in keys} | {"!"})
        for key in keys:
            self.assertEqual(self.complete("pipe", "null", key), [f"{key}="])
        self.assertIn("--toml", self.complete("pipe", "--"))


main()
