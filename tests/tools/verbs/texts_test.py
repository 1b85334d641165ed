#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `weir embed` and `weir generate` with tiny random models: `texts_test.py WEIR SOURCE_DIR [unittest
arguments]`.
"""
import json
import mmap
import random
import re
import signal
import struct
import sys
from pathlib import Path

from black_box_case import SOURCE, WEIR, Case, main
from terminal import Terminal
from tiny_models import LONG, WIDTH, write_decoder, write_encoder

sys.path.insert(0, SOURCE + "/tests/support")
import kills  # noqa: E402  (the folder is known only now)

class TextCase(Case):
    """A volume with a tiny encoder "e" and a tiny decoder "d"."""

    def setUp(self):
        super().setUp()
        for write, tag in ((write_encoder, "e"), (write_decoder, "d")):
            write(self.folder / tag)
            self.weir("model", "import", tag, "v.hn4", "--tag", tag)

    def write(self, name, content):
        """Writes a file of the working folder."""
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    def read(self, name):
        """Returns the bytes of a file of the working folder."""
        return (self.folder / name).read_bytes()

    def lines(self, name):
        """Returns the values of the lines of JSON of a file."""
        return [json.loads(line) for line in self.read(name).splitlines()]

    def sets(self):
        """Returns the instruction sets of this processor, the best one last."""
        return json.loads(self.weir("doctor", "--json").stdout)["kernels"]["instruction_sets"]

    def embed(self, *args, code=0):
        """Embeds with the model "e" into out.tgm and returns the completed process."""
        return self.weir("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", *args, code=code)

    def generate(self, *args, code=0):
        """Generates with the model "d" into out.jsonl and returns the completed process."""
        return self.weir("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "out.jsonl", *args, code=code)

    def progress_of(self, *args):
        """Runs a command over 51 lines of standard input, and returns the line of progress at a terminal and the output.

        The last line ends when the line of progress was drawn. It is longer than a read of the program (256 KiB), so that the
        others are read before.
        """
        terminal = Terminal(self.folder, *args, "--batch", 1, "--truncate", piped=True)
        self.addCleanup(terminal.child.kill)
        terminal.child.stdin.write(b"the fox\n" * 50 + b"fox " * (80 << 10))
        terminal.child.stdin.flush()
        line = terminal.read_match(r"[1-9]\d* (texts|answers)  [\d,]+ tokens/s")
        printed, _ = terminal.child.communicate()
        self.assertTrue(terminal.read_rest().endswith("\r\x1b[K"), "the line is removed at the end")
        self.assertEqual(terminal.close(), 0)
        return line.rpartition("\x1b[K")[2], printed.decode()


class Embed(TextCase):
    """Embeddings of files of texts."""

    def test_bytes_do_not_depend_on_workers_batches_and_stages(self):
        draw = random.Random(5)
        self.write("a", "".join(" ".join(draw.choices(["the", "foxes", "fox", "."], k=draw.randrange(5))) + "\n"
                                for _ in range(1030)))
        self.write("b.txt", "fox\r\nthe fox.")
        seen = set()
        for workers, batch, stages, kernels in ((1, 1, 1, "x86-64"), (2, 7, 2, "auto"), (2, 32, 3, "auto")):
            done = json.loads(self.embed("a", "b.txt", "--workers", workers, "--batch", batch, "--stages", stages,
                                         "--kernels", kernels, "--json").stdout)
            self.assertEqual((done["rows"], done["width"], done["skipped"]), (1032, WIDTH, 0))
            self.assertEqual(done["instruction_set"], self.sets()[-1] if kernels == "auto" else kernels)
            seen.add(self.read("out.tgm"))
        self.assertEqual(len(seen), 1)
        described = self.weir("tgm", "ls", "out.tgm").stdout.decode()
        for shape in ("[1024, 32]", "[6, 32]", "[2, 32]"):
            self.assertIn(shape, described)
        self.weir("tgm", "validate", "out.tgm")

    def test_bytes_do_not_depend_on_the_number_of_stages(self):
        write_encoder(self.folder / "deep", layers=7)
        self.weir("model", "import", "deep", "v.hn4", "--tag", "deep")
        draw = random.Random(9)
        self.write("a", "".join(" ".join(draw.choices(["the", "foxes", "fox", "."], k=draw.randrange(9))) + "\n"
                                for _ in range(200)))
        seen = set()
        for stages in range(1, 7):
            args = ("embed", "v.hn4", "--tag", "deep", "-o", "out.tgm", "a", "--stages", stages, "--batch", 5 * stages,
                    "--workers", 1 + stages % 3)
            self.assertEqual(self.weir(*args, "--toml").stdout.count(b'use = "bert.layers"'), stages)
            self.weir(*args)
            seen.add(self.read("out.tgm"))
        self.assertEqual(len(seen), 1)

    def test_rows_have_length_1_and_name_their_lines(self):
        self.write("one", '{"t": "the fox", "u": {"t": 1}}\n{"t": ""}\n{"x": [1, {}], "t": "the fox"}\n')
        self.embed("--field", "t", "one")
        self.weir("tgm", "export", "out.tgm", "embeddings", "rows.npy")
        raw = self.read("rows.npy")
        rows = [struct.unpack_from(f"<{WIDTH}f", raw, len(raw) - 4 * WIDTH * (3 - i)) for i in range(3)]
        for row in rows:
            self.assertAlmostEqual(sum(v * v for v in row), 1, places=5)
        self.assertEqual(rows[0], rows[2])
        self.assertNotEqual(rows[0], rows[1])
        described = self.weir("tgm", "dump", "out.tgm").stdout.decode()
        self.assertIn("[1,2,3]", described.replace(" ", ""))

    def test_bad_lines_end_the_run_or_are_listed(self):
        good = '{"t": "fox"}\n'
        bad = [(b'{"t": "\xff"}', "expected UTF-8, found byte 0xff at byte 7 of the line"),
               (b"fox", "expected a JSON object, found no JSON at byte 1 of the line"),
               (b'{"u": "fox"}', 'expected a string under "t", found an object without it'),
               (b'{"t": 5}', 'expected a string under "t", found a number'),
               (b'["t"]', "expected a JSON object, found an array"),
               (b'{"t": "a", "t": "b"}', 'expected "t" once, found it twice'),
               (b'{"t": "a\x00"}', "expected text without NUL, found NUL at byte 8 of the line"),
               (b'{"t": "\\u0000"}', "expected text without NUL, found NUL at byte 0 of the string"),
               (b'{"t": "' + b"fox " * 15 + b'"}',
                "expected at most 16 tokens, found 17; --truncate cuts longer texts"),
               (b'{"t": "' + b"x" * (16 << 20) + b'"}', "expected a line of at most 16 MiB, found a longer one")]
        self.write("docs.jsonl", good.encode() + b"".join(line + b"\n" + good.encode() for line, _ in bad))
        done = json.loads(self.embed("--field", "t", "docs.jsonl", "--skip-bad", "bad.jsonl", "--json").stdout)
        self.assertEqual((done["rows"], done["skipped"]), (len(bad) + 1, len(bad)))
        offset = len(good)
        for number, ((line, reason), found) in enumerate(zip(bad, self.lines("bad.jsonl"))):
            self.assertEqual(found, {"file": "docs.jsonl", "line": 2 * number + 2, "offset": offset,
                                     "reason": "cannot read a document: " + reason})
            offset += len(line) + 1 + len(good)
        (self.folder / "out.tgm").unlink()
        for line, reason in (bad[0], bad[8]):
            self.write("docs.jsonl", good.encode() + line)
            message = self.error("embed", "v.hn4", "--tag", "e", "--field", "t", "docs.jsonl", "-o", "out.tgm", code=4)
            self.assertTrue(message.startswith(f"docs.jsonl:2: cannot read a document: {reason}"), message)
            self.assertFalse((self.folder / "out.tgm").exists())
        self.embed("--field", "t", "docs.jsonl", "--truncate")

    def test_an_empty_file_gives_no_rows(self):
        self.write("empty", "")
        self.assertEqual(self.embed("empty").stdout.decode(),
                         "e: 0 rows of 32 features in out.tgm, 0 lines skipped, 0 texts/s, 0 tokens/s\n")
        self.assertIn("[0, 32]", self.weir("tgm", "ls", "out.tgm").stdout.decode())
        self.weir("tgm", "validate", "out.tgm")

    def test_wrong_use_is_refused(self):
        self.write("a", "fox\n")
        message = self.error("embed", "v.hn4", "a", "-o", "out.tgm", code=2)
        self.assertIn('"d", "e"', message)
        message = self.error("embed", "v.hn4", "--tag", "d", "a", "-o", "out.tgm", code=2)
        self.assertEqual(message, 'cannot use model "d": expected architecture bert, found llama')
        self.error("embed", "v.hn4", "--tag", "e", "nowhere", "-o", "out.tgm", code=3)
        self.assertIn("no input", self.error("embed", "v.hn4", "--tag", "e", "a", "-o", "./a", code=2))
        name = "x" * 250  # too long with the ending of the temporary name
        message = self.error("embed", "v.hn4", "--tag", "e", "a", "-o", name, code=5)
        self.assertIn(f'{name}"', message)
        self.assertNotIn(".tmp", message)
        self.assertEqual(self.read("a"), b"fox\n")
        self.assertFalse((self.folder / "out.tgm").exists())
        self.assertIn("Example", self.weir("embed", "--help").stdout.decode())


    def test_a_run_folder_is_resumed_behind_a_bad_line(self):
        self.write("a", "fox\n" * 50 + "\0\n" + "the fox\n" * 50)
        args = ("a", "--run", "run", "--batch", 4, "--every", "1 items")
        message = self.error("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", *args, code=4)
        self.assertIn("a:51: cannot read a document: expected text without NUL", message)
        message = self.error("resume", "run", code=4)
        self.assertIn("a:51: cannot read a document", message)
        self.assertEqual(self.error("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", *args, code=3)[:23],
                         'cannot begin a run in "')
        # The lines before the bad one were done, and are as they were.
        self.write("a", "fox\n" * 50 + "x\n" + "the fox\n" * 50)
        self.weir("resume", "run")
        resumed = self.read("out.tgm")
        self.embed("a")
        self.assertEqual(self.read("out.tgm"), resumed)
        self.assertFalse([p.name for p in self.folder.iterdir() if p.name.endswith(".tmp")])

    def test_what_was_finished_before_a_bad_line_is_resumed(self):
        # The run is shorter than the default of --every, so that only the bad line leads to a checkpoint.
        good = ["the fox\n", "fox\n"] * 500
        for bad in (0, 41, 995):
            run = f"run{bad}"
            self.write("a", "".join(good[:bad] + ["\0\n"] + good[bad + 1:]))
            message = self.error("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", "a", "--run", run, "--batch", 8, code=4)
            self.assertEqual(message, f"a:{bad + 1}: cannot read a document: expected text without NUL, found NUL at byte 0 of the "
                                      f"line; repair the line, then `weir resume {run}`")
            self.assertEqual(bool(list((self.folder / run / "checkpoint").glob("ck-*.weir"))), bad != 0)
            # A line that is still bad ends the resumed run, and the checkpoint stays.
            message = self.error("resume", run, code=4)
            self.assertIn(f"a:{bad + 1}: ", message)
            self.write("a", "".join(good))
            said = self.weir("resume", run).stdout.decode()
            if bad != 0:
                self.assertIn(f"the checkpoint holds the items before number {bad // 8}", message)
                self.assertIn(f"resumed    at item {bad // 8}, ", said)
            resumed = self.read("out.tgm")
            self.embed("a", "--batch", 8)
            self.assertEqual(self.read("out.tgm"), resumed)

    def test_its_pipeline_is_a_file_that_weir_runs(self):
        self.write("a", "the fox\nfox\n")
        self.embed("a", "--stages", 2)
        expected = self.read("out.tgm")
        (self.folder / "out.tgm").unlink()
        self.write("embed.toml", self.embed("a", "--stages", 2, "--toml").stdout)
        self.assertFalse((self.folder / "out.tgm").exists())
        self.weir("run", "embed.toml", "--out", "run")
        self.assertEqual(self.read("out.tgm"), expected)

    def test_texts_come_from_standard_input_too(self):
        done = self.weir("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", "-", stdin=b"fox\nthe fox\n")
        self.assertIn("e: 2 rows of 32 features in out.tgm, 0 lines skipped, ", done.stdout.decode())

    def test_progress_and_rates_are_shown(self):
        line, printed = self.progress_of("embed", "v.hn4", "--tag", "e", "-o", "out.tgm", "-")
        self.assertIn("texts", line)
        self.assertRegex(printed, r"^e: 51 rows of 32 features in out.tgm, 0 lines skipped, [\d.,]+ texts/s, "
                                  r"[1-9][\d.,]* tokens/s\n$")


class EmbedResumed(TextCase):
    """A run of `weir embed` that is killed once: a short test that is run under AddressSanitizer, too."""

    def test_a_killed_run_gives_the_bytes_of_a_whole_one(self):
        draw = random.Random(11)
        texts = [" ".join(draw.choices(["the", "foxes", "fox", "."], k=draw.randrange(40))) for _ in range(1500)]
        texts[3::50] = ["\0"] * 30
        self.write("a", "\n".join(texts))
        args = ("embed", "v.hn4", "--tag", "e", "a", "--stages", 2, "--batch", 4, "--truncate")
        self.weir(*args, "-o", "whole.tgm", "--skip-bad", "whole.jsonl")
        self.assertEqual([bad["line"] for bad in self.lines("whole.jsonl")], list(range(4, 1501, 50)))
        # With a checkpoint for each item, the run goes on long after its first checkpoint. On a busy machine it may still end before this
        # test sees the checkpoint.
        for attempt in range(10):
            run = f"run{attempt}"
            for name in ("out.tgm", "bad.jsonl"):
                (self.folder / name).unlink(missing_ok=True)
            child = self.start(*args, "-o", "out.tgm", "--skip-bad", "bad.jsonl", "--run", run, "--every", "1 items")
            self.wait_for_checkpoint(run, child)
            child.kill()
            child.communicate()
            if child.returncode != 0:
                break
        self.assertEqual(child.returncode, -signal.SIGKILL)
        self.weir("resume", run, "--set", "checkpoint.every=1000 items")
        self.assertEqual(self.read("out.tgm"), self.read("whole.tgm"))
        self.assertEqual(self.read("bad.jsonl"), self.read("whole.jsonl"))


class Generate(TextCase):
    """Answers to files of prompts."""

    def test_answers_do_not_depend_on_workers_and_batches(self):
        draw = random.Random(6)
        prompts = ["".join(draw.choices("the fox.", k=draw.randrange(1, 50))) for _ in range(12)]
        # Behind a page of equal tokens, prompts use the memory of an earlier batch again.
        prompts[9:] = ["the fox." * 9 + p[:9] for p in prompts[9:]]
        self.write("p", "".join(json.dumps({"q": p}) + "\n" for p in prompts))
        seen = set()
        for workers, batch in ((1, 1), (2, 7)):
            self.generate("--field", "q", "--workers", workers, "--batch", batch, "--max-tokens", 20, "--temperature",
                          1, "--seed", 40)
            seen.add(self.read("out.jsonl"))
        # Memory for two prompts makes batches of two.
        self.generate("--field", "q", "--context-tokens", 128, "--max-tokens", 20, "--temperature", 1, "--seed", 40)
        seen.add(self.read("out.jsonl"))
        # The same memory in bytes: 256 a token. The summary has it in tokens.
        done = self.generate("--field", "q", "--kv-memory", "32KiB", "--max-tokens", 20, "--temperature", 1, "--seed", 40,
                             "--json")
        self.assertEqual(json.loads(done.stdout)["context_tokens"], 128)
        seen.add(self.read("out.jsonl"))
        done = self.generate("--field", "q", "--kernels", "x86-64", "--max-tokens", 20, "--temperature", 1, "--seed", 40)
        self.assertRegex(done.stdout.decode(), r"memory for [0-9,]+ tokens of contexts")
        seen.add(self.read("out.jsonl"))
        self.assertEqual(len(seen), 1)
        answers = self.lines("out.jsonl")
        self.assertEqual([(a["line"], a["seed"]) for a in answers], [(i + 1, i + 40) for i in range(12)])
        for answer, prompt in zip(answers, prompts):
            self.assertIn(answer["finish"], ("stop", "length"))
            if answer["finish"] == "length":
                self.assertEqual(answer["tokens"], 20)
        # A prompt alone with the seed of its line has the same answer.
        self.write("p", prompts[3])
        self.generate("--max-tokens", 20, "--temperature", 1, "--seed", 43)
        self.assertEqual({**self.lines("out.jsonl")[0], "line": 4}, answers[3])
        # Behind the largest seed comes 0, which --seed accepts again.
        self.write("p", "the fox\nthe dog\n")
        self.generate("--max-tokens", 2, "--temperature", 1, "--seed", 2 ** 63 - 1)
        self.assertEqual([a["seed"] for a in self.lines("out.jsonl")], [2 ** 63 - 1, 0])

    def test_memory_is_a_key_of_the_stage_in_a_pipeline(self):
        self.write("p", "the fox.\nfox\n")
        toml = self.generate("--kv-memory", "32KiB", "--max-tokens", 4, "--toml").stdout.decode()
        self.assertIn("kv_memory = 32768\n", toml)
        self.write("p.toml", toml)
        self.weir("run", "p.toml", "--out", "r")
        self.assertEqual(len(self.lines("out.jsonl")), 2)
        for value, code, expected in (
                (16383, 5, "expected at least 16384 bytes, which 64 tokens take, found 16383"),
                (2**44 + 1, 2, "expected an integer from 0 to 17592186044416, found integer 17592186044417")):
            message = self.error("run", "p.toml", "--set", f"answers.kv_memory={value}", "--out", f"r{value}", code=code)
            self.assertIn(expected, message)
            self.assertIn("answers", message)
        # Less than the prompt and its longest answer take is refused with both numbers.
        message = self.error("run", "p.toml", "--set", "answers.kv_memory=16384", "--set", "answers.max_tokens=100",
                             "--out", "small", code=5)
        self.assertRegex(message, r"p:1: cannot answer the prompt: expected memory of keys and values for \d+ tokens, \d+ of the "
                                  r"prompt and up to 100 of its answer, found memory for 64; ")

    def test_prompts_that_never_fit_end_the_run_or_are_listed(self):
        # Memory for 64 tokens. The short prompts have to wait for each other.
        self.write("p", "the fox.\n" + "x" * 80 + "\n\nfox\n" + "y" * 70 + "\nthe fox.\n")
        small = ("--kv-memory", "16KiB", "--max-tokens", 20)
        self.write("good", "the fox.\n" + "x" * 80 + "\nfox\n")
        args = ("generate", "v.hn4", "--tag", "d", "--prompts", "good", "-o", "out.jsonl", "--batch", 1, *small)
        message = self.error(*args, code=5)
        self.assertRegex(message, r"^good:2: cannot answer the prompt: expected memory of keys and values for \d+ tokens, \d+ of the "
                                  r"prompt and up to 20 of its answer, found memory for 64; .*--kv-memory.*--skip-bad")
        self.assertFalse((self.folder / "out.jsonl").exists())
        seen = set()
        for batch in (1, 2, 32):
            done = self.generate("--skip-bad", "bad", "--batch", batch, *small, "--json")
            self.assertEqual((json.loads(done.stdout)["answers"], json.loads(done.stdout)["skipped"]), (3, 3))
            self.assertEqual([a["line"] for a in self.lines("out.jsonl")], [1, 4, 6])
            self.assertEqual([(b["line"], b["offset"]) for b in self.lines("bad")], [(2, 9), (3, 90), (5, 95)])
            self.assertIn("found memory for 64", self.lines("bad")[0]["reason"])
            seen.add(self.read("out.jsonl") + self.read("bad"))
        self.assertEqual(len(seen), 1)
        # In a run folder the memory can be raised at the resume, which goes on with the prompt.
        message = self.error(*args, "--run", "r", code=5)
        self.assertRegex(message, r"^good:2: .*`weir resume r --set answers.kv_memory=BYTES`$")
        said = self.weir("resume", "r", "--set", "answers.kv_memory=32768").stdout.decode()
        self.assertIn("resumed    at item 1, ", said)
        self.assertEqual([a["line"] for a in self.lines("out.jsonl")], [1, 2, 3])

    def test_the_instruction_set_of_a_run_holds_for_all_stages_and_may_change(self):
        self.write("p", "the fox.\nfox\n" * 40)
        toml = self.generate("--kernels", "x86-64", "--max-tokens", 4, "--toml").stdout.decode()
        self.assertIn('[run]\n', toml)
        self.assertIn('kernels = "x86-64"\n', toml)
        # In this process, on a thread of its own, and in a child process.
        for host in ("engine", "own", "process"):
            self.write("p.toml", toml.replace('use = "llama.answers"\n', f'use = "llama.answers"\nhost = "{host}"\n'))
            self.weir("run", "p.toml", "--out", host)
            self.assertEqual(self.used(host), "x86-64")
            (self.folder / "out.jsonl").rename(self.folder / f"{host}.jsonl")
        self.assertEqual(self.read("engine.jsonl"), self.read("process.jsonl"))
        # A run that was killed is resumed with another instruction set.
        self.write("p.toml", toml.replace("lines = 32\n", "lines = 2\n").replace('every = "10 s"', 'every = "1 items"'))
        self.kill_after_checkpoint("r", "run", "p.toml", "--out", "r")
        self.weir("resume", "r", "--set", "run.kernels=auto")
        self.assertEqual(self.read("out.jsonl"), self.read("engine.jsonl"))
        for name in [s for s in ("x86-64", "x86-64-v3", "x86-64-v4") if s not in self.sets()]:
            message = self.error("run", "p.toml", "--out", "no", "--set", f"run.kernels={name}", code=2)
            self.assertIn(f"({', '.join(self.sets())}), found {name}", message)
            self.assertFalse((self.folder / "no").exists())
        message = self.error("run", "p.toml", "--out", "no", "--set", "run.kernels=avx1024", code=2)
        self.assertIn('expected one of "auto" "x86-64" "x86-64-v3" "x86-64-v4"', message)
        self.assertIn("run.kernels", self.error("run", "p.toml", "--out", "no", "--set", "run.kernel=auto", code=2))

    def used(self, run):
        """Returns the instruction set that the answers of a run were computed with."""
        stages = {s["name"]: s for s in self.metrics(run)["stages"]}
        return stages["answers"]["figures"]["instruction_set"]

    def test_bad_prompts_end_the_run_or_are_listed(self):
        self.write("p", b"a\n\n\xc3(\n" + b"x" * LONG + b"\nb\n")
        message = self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "out.jsonl", code=4)
        self.assertTrue(message.startswith("p:2: cannot read a document: expected at least one token, found an empty"),
                        message)
        self.assertFalse((self.folder / "out.jsonl").exists())
        done = self.generate("--skip-bad", "bad", "--max-tokens", 2)
        self.assertIn("2 answers", done.stdout.decode())
        self.assertEqual([a["line"] for a in self.lines("out.jsonl")], [1, 5])
        self.assertEqual([(b["line"], b["offset"]) for b in self.lines("bad")], [(2, 2), (3, 3), (4, 6)])
        done = self.generate("--skip-bad", "bad", "--max-tokens", 2, "--truncate")
        self.assertEqual([a["tokens"] for a in self.lines("out.jsonl") if a["line"] == 4], [1])

    def test_progress_and_rates_are_shown(self):
        line, printed = self.progress_of("generate", "v.hn4", "--tag", "d", "--prompts", "-", "-o", "out.jsonl", "--max-tokens",
                                         4)
        self.assertIn("answers", line)
        self.assertRegex(printed, r"^d: 51 answers of \d+ tokens in out.jsonl, 0 lines skipped, memory for [\d,]+ tokens of "
                                  r"contexts, [\d.,]+ answers/s, [1-9][\d.,]* tokens/s\n$")

    def test_an_empty_file_gives_no_answers(self):
        self.write("p", "")
        self.assertEqual(json.loads(self.generate("--json").stdout)["answers"], 0)
        self.assertEqual(self.read("out.jsonl"), b"")

    def test_wrong_use_is_refused(self):
        self.write("p", "fox\n")
        message = self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "o", "--context-tokens", 1,
                             code=5)
        self.assertIn("--context-tokens", message)
        message = self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "o", "--kv-memory", 16383, code=5)
        self.assertIn("expected at least 16384 bytes, which 64 tokens take, found 16383", message)
        message = self.error("generate", "v.hn4", "--prompts", "p", "-o", "o", code=2)
        self.assertIn('"d", "e"', message)
        self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "o", "--kernels", "avx1024", code=2)
        self.error("generate", "v.hn4", "--tag", "e", "--prompts", "p", "-o", "o", code=2)
        self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", "-o", "o", "--temperature", -1, code=2)
        for out in (("-o", "no/o"), ("-o", "o", "--skip-bad", "no/o"), ("-o", "no/o", "--run", "r")):
            message = self.error("generate", "v.hn4", "--tag", "d", "--prompts", "p", *out, code=3)
            self.assertEqual(message, 'cannot write "no/o": expected the folder "no", found none; make the folder, or choose another '
                                      'file')
        self.assertFalse((self.folder / "r").exists())

    def test_errors_name_no_place_in_a_file_that_the_user_does_not_have(self):
        self.write("p", "fox\n")
        for change, code, expected in ((("--prompts", "nofile"), 3, "/nofile\" in the stage"),
                                       (("--kv-memory", 1 << 45), 2, '"kv_memory"'), (("--every", "often"), 2, '"checkpoint.every"')):
            for run in ((), ("--run", "r")):
                args = {"--prompts": "p", **dict([change])}
                message = self.error("generate", "v.hn4", "--tag", "d", "-o", "o", *(a for pair in args.items() for a in pair), *run,
                                     code=code)
                self.assertIn(expected, message)
                self.assertNotIn("pipeline.toml", message)
                self.assertNotIn("\n  at ", message)

    def test_a_missing_model_is_refused_with_those_that_there_are(self):
        self.write("p", "fox\n")
        for verb, *args in (("embed", "p", "-o", "o"), ("generate", "--prompts", "p", "-o", "o"), ("chat",), ("model verify",),
                            ("model export", "o", "--to", "gguf")):
            message = self.error(*verb.split(), "v.hn4", *args, "--tag", "nope", code=3)
            self.assertEqual(message, 'cannot find model "nope": expected the tag of a model in the volume ("d", "e"), found none of '
                                      'that name')

    def test_commands_of_the_text_model_name_those_of_other_models(self):
        for tag, family, command in (("d", "llama", "chat"), ("e", "bert", "embed")):
            message = self.error("speak", "v.hn4", "--tag", tag, "--prompt", "fox", "--tokens", 1, code=2)
            self.assertRegex(message, f'tag "{tag}" from "v.hn4": expected those of a run, .*, found a {family} model; `weir {command}`')


class Damage(TextCase):
    """Models whose bytes in the volume have changed."""

    def flip(self, volume, tag):
        """Changes a bit in the middle of a tag, also in older copies of its bytes."""
        content = self.weir("hn4", "get", volume, tag).stdout
        middle = len(content) // 2
        # The models are near the begin of the volume, which is sparse.
        with open(self.folder / volume, "r+b") as file, mmap.mmap(file.fileno(), 16 << 20) as stored:
            # A piece of the content may lie in two blocks. A piece of the panels may be one of the weights, too.
            pieces = [content[k:k + 32] for k in range(middle, middle + 256, 32)]
            found = [[m.start() for m in re.finditer(re.escape(piece), stored)] for piece in pieces]
            for at in min(filter(None, found), key=len):
                stored[at] ^= 1

    def test_a_damaged_model_is_refused_before_the_first_token(self):
        self.write("a", "the fox\n" * 50)
        # Blocks of 64 KiB hold panels, those of the volume of the other tests do not.
        self.weir("hn4", "mkfs", "panels.hn4", "--profile", "usb")
        for tag in ("e", "d"):
            self.weir("model", "import", tag, "panels.hn4", "--tag", tag)
        (self.folder / "record.hn4").write_bytes(self.read("v.hn4"))
        for volume, part in (("v.hn4", ""), ("panels.hn4", "/panels"), ("record.hn4", "/model")):
            for tag in ("e", "d"):
                self.flip(volume, tag + part)
            for tag, args in (("e", ("embed", "a", "-o", "out", "--stages", 3)), ("e", ("embed", "a", "-o", "out", "--run", "out.run")),
                              ("d", ("generate", "--prompts", "a", "-o", "out")), ("d", ("chat",))):
                done = self.weir(args[0], volume, "--tag", tag, *args[1:], code=4, stdin=b"hello\n")
                self.assertIn(f'"{tag}{part}"', done.stderr.decode())
                if "--run" not in args:
                    self.assertEqual(done.stdout, b"")
                self.assertFalse([p.name for p in self.folder.iterdir() if p.name.startswith("out")], (volume, args))


PIPELINE = """[run]
workers = 2
[checkpoint]
every = "1 items"
[[stage]]
name = "lines"
use = "text.lines"
files = ["{folder}/a", "{folder}/b"]
lines = 3
[[stage]]
name = "tokens"
use = "text.tokens"
volume = "{folder}/v.hn4"
tag = "e"
truncate = true
bad = "list"
[[stage]]
name = "first"
use = "bert.layers"
volume = "{folder}/v.hn4"
tag = "e"
layers = 1
rows = 256
from = "tokens.texts"
[[stage]]
name = "second"
use = "bert.layers"
volume = "{folder}/v.hn4"
tag = "e"
first = 1
rows = 256
inlets = {{ texts = "tokens.texts", rows = "first" }}
[[stage]]
name = "pool"
use = "bert.pool"
inlets = {{ texts = "tokens.texts", rows = "second" }}
[[stage]]
name = "write"
use = "tgm.embeddings"
path = "out.tgm"
inlets = {{ texts = "tokens.texts", rows = "pool" }}
[[stage]]
name = "skipped"
use = "json.write"
path = "bad.jsonl"
form = "lines"
from = "tokens.bad"
[[stage]]
name = "prompts"
use = "text.tokens"
volume = "{folder}/v.hn4"
tag = "d"
truncate = true
bad = "list"
from = "lines"
[[stage]]
name = "answers"
use = "llama.answers"
volume = "{folder}/v.hn4"
tag = "d"
max_tokens = 6
temperature = 1
from = "prompts.texts"
[[stage]]
name = "lines_of_answers"
use = "json.write"
path = "answers.jsonl"
form = "lines"
from = "answers"
"""


class Kills(TextCase):
    """The pipeline of embeddings and answers, killed at random instants and resumed."""

    def test_outputs_are_those_of_a_run_without_a_kill(self):
        draw = random.Random(7)
        self.write("a", "".join(" ".join(draw.choices(["the", "foxes", "fox", "\0"], [4, 4, 4, 1],
                                                      k=draw.randrange(5))) + "\n" for _ in range(60)))
        self.write("b", "fox\n" * 30)
        weir = [WEIR]

        def prepare(folder):
            Path(folder).mkdir()
            Path(folder, "texts.toml").write_text(PIPELINE.format(folder=self.folder))

        def command(folder):
            if Path(folder, "run", "pipeline.toml").exists():
                return weir + ["resume", f"{folder}/run"]
            return weir + ["run", f"{folder}/texts.toml", "--out", f"{folder}/run"]

        def extract(folder):
            names = ("out.tgm", "bad.jsonl", "answers.jsonl")
            Path(folder, "all").write_bytes(b"".join(Path(folder, name).read_bytes() for name in names))

        kills.compare_after_kills(command, "all", 20, prepare, extract)

    def test_embeddings_are_those_of_a_command_without_a_kill(self):
        draw = random.Random(8)
        self.write("a", "".join(" ".join(draw.choices(["the", "foxes", "fox", "."], k=draw.randrange(9))) + "\n"
                                for _ in range(100)))

        def command(folder):
            if Path(folder, "run", "pipeline.toml").exists():
                return [WEIR, "resume", f"{folder}/run"]
            return [WEIR, "embed", f"{self.folder}/v.hn4", "--tag", "e", f"{self.folder}/a", "-o", f"{folder}/out.tgm", "--run",
                    f"{folder}/run", "--every", "1 items", "--batch", "4", "--stages", "2"]

        kills.compare_after_kills(command, "out.tgm", 20, lambda folder: Path(folder).mkdir())


main()
