#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests plug-ins with the program `weir`: `plugins_test.py WEIR SOURCE_DIR [unittest arguments]`. The folder of the
plug-ins is in the environment variable WEIR_PLUGINS.
"""
import os
import shutil
from pathlib import Path

from black_box_case import SOURCE, Case, main

BUILT = Path(os.environ["WEIR_PLUGINS"])
MARK = b"weir plug-in stamp 1: "


class Plugins(Case):
    """Plug-ins that are loaded, and damaged ones that are refused."""

    def setUp(self):
        super().setUp()
        shutil.copy(SOURCE + "/demos/plugin/pipeline.toml", self.folder)
        self.plugin = self.folder / "running_mean.so"
        shutil.copy(BUILT / "running_mean.so", self.plugin)

    def refusal(self, name, code):
        """Returns the message for a plug-in of this folder that is refused."""
        message = self.error("stages", "--plugin", name, code=code)
        self.assertIn(str(self.folder / name) if (self.folder / name).exists() else name, message)
        return message

    def test_a_pipeline_file_uses_a_stage_of_a_plug_in_beside_it(self):
        self.weir("run", "pipeline.toml", "--out", "whole")
        whole = (self.folder / "means.tgm").read_bytes()
        self.assertGreater(len(whole), 1000 * 64 * 4)
        (self.folder / "elsewhere").mkdir()
        self.weir("run", self.folder / "pipeline.toml", "--out", self.folder / "again")
        self.assertEqual((self.folder / "means.tgm").read_bytes(), whole)

    def test_a_killed_run_finds_its_plug_in_when_it_is_resumed(self):
        self.weir("run", "pipeline.toml", "--out", "whole", "--set", "numbers.count=20000")
        whole = (self.folder / "means.tgm").read_bytes()
        self.kill_after_checkpoint("r", "run", "pipeline.toml", "--out", "r", "--set", "numbers.count=20000")
        self.weir("resume", "r")
        self.assertEqual((self.folder / "means.tgm").read_bytes(), whole)

    def test_a_plug_in_of_the_command_line_is_found_at_a_resume(self):
        text = (self.folder / "pipeline.toml").read_text()
        (self.folder / "pipeline.toml").write_text("\n".join(l for l in text.split("\n") if not l.startswith("plugins")))
        self.assertIn("demo.running_mean", self.error("run", "pipeline.toml", code=2))
        self.weir("run", "pipeline.toml", "--out", "r", "--plugin", "running_mean.so")
        self.assertIn("had finished before", self.weir("resume", "r").stdout.decode())
        for verb in ("check", "graph"):
            self.assertIn("demo.running_mean", self.weir(verb, "pipeline.toml", "--plugin", "running_mean.so").stdout.decode())

    def test_a_stage_of_a_plug_in_works_in_a_child_process(self):
        self.weir("run", "pipeline.toml", "--out", "whole")
        whole = (self.folder / "means.tgm").read_bytes()
        for host in ("own", "process"):
            self.weir("run", "pipeline.toml", "--out", host, "--set", f"mean.host={host}")
            self.assertEqual((self.folder / "means.tgm").read_bytes(), whole, host)

    def test_stages_and_inspect_know_the_stages_of_a_plug_in(self):
        self.assertIn("demo.running_mean", self.weir("stages", "--plugin", "running_mean.so").stdout.decode())
        self.assertIn("elements of an item",
                      self.weir("inspect", "demo.running_mean", "--plugin", "running_mean.so").stdout.decode())
        self.assertIn("found none of that name", self.error("inspect", "demo.running_mean", code=2))

    def test_the_plug_in_of_the_guide_doubles_items(self):
        for use in ("demo.twice", "elementwise type=f32[64] op=multiply operand=2"):
            self.weir("pipe", f"generator count=9 shape=[64] ! {use} ! tgm.write path={use[:4]}.tgm", "--plugin", BUILT / "twice.so")
        self.assertEqual((self.folder / "demo.tgm").read_bytes(), (self.folder / "elem.tgm").read_bytes())

    def test_an_error_of_a_plug_in_stops_the_run(self):
        message = self.error("run", "pipeline.toml", "--set", "mean.length=63", code=2)
        self.assertIn("expected items of the length in the settings", message)
        self.assertIn("mean", message)

    def test_a_missing_file_is_refused(self):
        self.assertIn("expected a file, found none", self.refusal("none.so", code=3))

    def test_a_file_that_is_no_shared_object_is_refused(self):
        (self.folder / "text.so").write_text("[[stage]]\n")
        self.assertIn("expected a shared object or a file that ends in .py", self.refusal("text.so", code=4))
        (self.folder / "empty.so").write_text("")
        self.assertIn("expected a shared object", self.refusal("empty.so", code=4))

    def test_a_cut_shared_object_is_refused(self):
        content = self.plugin.read_bytes()
        end = content.index(MARK) + 600
        for size in (10, 100, end, len(content) // 2):
            (self.folder / "cut.so").write_bytes(content[:size])
            self.assertIn(f"a file of {size} bytes" if size != 100 else "table of segments", self.refusal("cut.so", code=4))

    def test_a_shared_object_without_stages_is_refused_before_it_is_loaded(self):
        shutil.copy(BUILT / "plain.so", self.folder)
        self.assertIn("WEIR_STAGES", self.refusal("plain.so", code=3))

    def test_a_plug_in_without_its_function_is_refused(self):
        content = self.plugin.read_bytes()
        (self.folder / "nameless.so").write_bytes(content.replace(b"weir_stages_v1", b"weir_stages_v0"))
        self.assertIn("expected the function weir_stages_v1", self.refusal("nameless.so", code=3))

    def test_a_plug_in_of_another_build_is_refused_with_both_stamps(self):
        content = self.plugin.read_bytes()
        (self.folder / "other.so").write_bytes(content.replace(MARK + b"Weir 0.1.0", MARK + b"Weir 0.0.9"))
        message = self.refusal("other.so", code=4)
        self.assertIn("BuildMismatch", self.weir("stages", "--plugin", "other.so", code=4).stderr.decode())
        self.assertRegex(message, r'expected the build "Weir 0\.1\.0, .*", found "Weir 0\.0\.9, .*"')
        self.assertIn("rebuild the plug-in", message)
        # A file that names it has its place in the message.
        (self.folder / "pipeline.toml").write_text((self.folder / "pipeline.toml").read_text().replace("running_mean.so", "other.so"))
        message = self.error("run", "pipeline.toml", code=4)
        self.assertIn("pipeline.toml:3:11", message)
        self.assertRegex(message, r'expected the build "Weir 0\.1\.0, .*", found "Weir 0\.0\.9, .*"')

    def test_a_plug_in_that_throws_is_refused_with_its_text(self):
        shutil.copy(BUILT / "throwing.so", self.folder)
        self.assertIn('expected no exception, found "no licence server"', self.refusal("throwing.so", code=2))

    def test_two_plug_ins_with_one_name_are_refused_with_both_files(self):
        shutil.copy(self.plugin, self.folder / "copy.so")
        message = self.error("stages", "--plugin", "running_mean.so", "--plugin", "copy.so", code=3)
        self.assertIn('"demo.running_mean"', message)
        self.assertIn(str(self.folder / "copy.so"), message)
        self.assertIn(str(self.plugin), message)

    def test_a_plug_in_cannot_replace_a_stage_of_the_program(self):
        shutil.copy(BUILT / "shadow.so", self.folder)
        message = self.refusal("shadow.so", code=3)
        self.assertIn('"generator" and one of the program', message)

    def test_a_plug_in_that_is_named_twice_is_loaded_once(self):
        os.symlink(self.plugin, self.folder / "link.so")
        self.weir("run", "pipeline.toml", "--plugin", "running_mean.so", "--plugin", "link.so")

    def test_a_job_that_learns_from_text_refuses_plug_ins(self):
        self.assertIn("learns from text", self.error("run", SOURCE + "/demos/prose/prose.toml", "--plugin", "running_mean.so", code=2))


main()
