# SPDX-License-Identifier: Apache-2.0
"""Tests of bench/run.py with made-up programs: patterns, table, summary and exit code; and of what bench/models prepares."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = """#!/bin/sh
if [ "$1" = --list ]; then echo {prefix}_good; echo {prefix}_bad; exit 0; fi
for id in "$@"; do case $id in
  *_good) echo '{{"id": "'$id'", "value": 2, "unit": "ns", "bar": 3, "sense": "<=", "holds": true, "peer": 4}}' ;;
  *_bad) echo '{{"id": "'$id'", "value": 5, "unit": "ns", "bar": 3, "sense": "<=", "holds": false, "peer": null}}' ;;
esac; done
exit {code}
"""

NOISY = """#!/bin/sh
if [ "$1" = --list ]; then echo {prefix}_ns; exit 0; fi
echo '{{"id": "{prefix}_ns", "value": 9, "unit": "ns", "bar": null, "sense": null, "holds": true, "peer": null,' \
  '"samples": {{"quiet": 1, "taken": 72, "enough": false}}}}'
"""

LONELY = """#!/bin/sh
if [ "$1" = --list ]; then echo {prefix}_ratio; exit 0; fi
echo '{{"id": "{prefix}_ratio", "value": null, "unit": "ratio", "bar": null, "sense": null, "holds": true, "peer": null}}'
"""


TURNS = """#!/bin/sh
if [ "$1" = --list ]; then echo {prefix}_open_ratio; echo {prefix}_decided_ratio; exit 0; fi
for id in "$@"; do case $id in *_open_*) bar='null, "sense": null' ;; *) bar='0.9, "sense": ">="' ;; esac
  echo '{{"id": "'$id'", "value": 0.95, "unit": "ratio", "bar": '$bar', "holds": true, "peer": 1,' \
    '"samples": {{"quiet": 1, "taken": 64, "enough": false}}, "interval": [0.92, 0.97]}}'
done
"""


class BenchCase(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temp.name)
        (self.folder / "bin").mkdir()
        self.program("alpha", 0)
        self.program("beta", 0)

    def tearDown(self):
        self.temp.cleanup()

    def program(self, prefix, code):
        path = self.folder / "bin" / prefix
        path.write_text(FAKE.format(prefix=prefix, code=code))
        path.chmod(0o755)

    def peers_folder(self, name, text, folder="peers"):
        path = self.folder / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(prefix=name, code=0))
        path.chmod(0o755)
        return str(path.parent)

    def run_bench(self, only, *words, **environment):
        self.done = subprocess.run(
            [sys.executable, str(ROOT / "bench" / "run.py"), "--no-prose", "--programs",
             str(self.folder / "bin"), "--only", only, "--out", str(self.folder / "s" / "summary.json"), *words],
            capture_output=True, text=True, check=False, env={**os.environ, **environment})
        summary = self.folder / "s" / "summary.json"
        return json.loads(summary.read_text()) if summary.exists() else None


class BenchRun(BenchCase):
    def test_writes_every_row_with_all_fields(self):
        rows = self.run_bench("")
        self.assertEqual([r["id"] for r in rows], ["alpha_good", "alpha_bad", "beta_good", "beta_bad"])
        for row in rows:
            self.assertLessEqual({"id", "value", "unit", "bar", "holds", "peer"}, set(row))

    def test_patterns_choose_rows(self):
        self.assertEqual([r["id"] for r in self.run_bench("beta_*,alpha_good")],
                         ["alpha_good", "beta_good", "beta_bad"])

    def test_a_bar_that_fails_is_printed_and_does_not_change_the_exit_code(self):
        self.run_bench("alpha_*")
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertRegex(self.done.stdout, r"alpha_bad .* <= 3 +FAILS")
        self.assertIn("2 rows, 1 below their bar", self.done.stdout)

    def test_a_program_that_fails_changes_the_exit_code(self):
        self.program("gamma", 3)
        self.run_bench("gamma_*")
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("gamma ended with 3", self.done.stderr)

    def test_a_pattern_without_a_row_is_an_error_even_beside_one_that_has_rows(self):
        self.assertIsNone(self.run_bench("alpha_*,delta_*"))
        self.assertNotEqual(self.done.returncode, 0)
        self.assertIn("no id matches 'delta_*'", self.done.stderr)

    def test_a_row_that_is_required_and_that_no_program_has_is_an_error_of_a_run_of_all_rows(self):
        required = self.folder / "required.txt"
        required.write_text("# rows\nalpha_good\n\ndelta_ns  # a remark\n")
        self.run_bench("", "--required", str(required))
        self.assertEqual(self.done.returncode, 1)
        self.assertIn("no program has the row delta_ns", self.done.stderr)
        self.assertNotIn("alpha_good", self.done.stderr)
        self.run_bench("alpha_*", "--required", str(required))
        self.assertEqual(self.done.returncode, 0, self.done.stderr)

    def test_a_ratio_without_its_peer_has_no_verdict(self):
        self.peers_folder("lonely", LONELY, folder="bin")
        row = self.run_bench("lonely_ratio")[0]
        self.assertEqual((row["value"], row["peer"], row["holds"]), (None, None, True))
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertRegex(self.done.stdout, r"lonely_ratio .* no peer")

    def test_programs_of_the_peers_folder_join(self):
        rows = self.run_bench("omega_good", WEIR_BENCH_PEERS=self.peers_folder("omega", FAKE))
        self.assertEqual([r["id"] for r in rows], ["omega_good"])

    def test_a_peers_folder_without_programs_is_an_error(self):
        self.assertIsNone(self.run_bench("", WEIR_BENCH_PEERS=str(self.folder / "nothing")))
        self.assertIn("expected a folder with programs, found none", self.done.stderr)

    def test_the_peer_in_ray_joins_where_a_python_with_ray_is_named(self):
        packages = self.folder / "packages"
        packages.mkdir()
        without = self.run_bench("alpha_good", WEIR_BENCH_RAY=sys.executable, PYTHONPATH=str(packages))
        self.assertEqual([r["id"] for r in without], ["alpha_good"])
        self.run_bench("", "--list", WEIR_BENCH_RAY=sys.executable, PYTHONPATH=str(packages))
        self.assertNotIn("ray__pipe_python_us", self.done.stdout)
        (packages / "ray.py").write_text("")
        self.run_bench("", "--list", WEIR_BENCH_RAY=sys.executable, PYTHONPATH=str(packages))
        self.assertIn("ray__pipe_python_us", self.done.stdout)

    def test_a_row_without_enough_quiet_samples_has_no_verdict(self):
        self.peers_folder("noisy", NOISY, folder="bin")
        row = self.run_bench("noisy_ns")[0]
        self.assertTrue(row["holds"])
        self.assertRegex(self.done.stdout, r"noisy_ns .* no verdict +median of 1 quiet of 72")
        self.assertIn("1 without a verdict because the machine was busy", self.done.stdout)

    def test_an_interval_beside_the_bar_gives_a_verdict_without_quiet_samples(self):
        self.peers_folder("turns", TURNS, folder="bin")
        rows = self.run_bench("turns_*")
        self.assertEqual([row["interval"] for row in rows], [[0.92, 0.97]] * 2)
        self.assertRegex(self.done.stdout, r"turns_decided_ratio .* holds .*all in turn: 0.92 to 0.97")
        self.assertRegex(self.done.stdout, r"turns_open_ratio .* no verdict .*all in turn: 0.92 to 0.97")
        self.assertIn("1 without a verdict because the machine was busy", self.done.stdout)


PEERS = """#!/bin/sh
if [ "$1" = --list ]; then
  echo empty_chain_2_ns empty_indep_2_ns libomp_chain_2_ns libomp_indep_2_ns
  echo openmp_chain_2_ns openmp_indep_2_ns replay_chain_1_ns replay_chain_2_ns tbb_flow_chain_2_ns; exit 0
fi
row() { echo '{"id": "'$1'", "value": '$2', "unit": "ns", "bar": null, "sense": null, "holds": true, "peer": null,'\
 '"elsewhere": '$3'}'; }
for id in "$@"; do case $id in
  empty_*) row $id 200 100 ;; openmp_chain*) row $id 500 null ;; openmp_*) row $id 40 null ;;
  libomp_*) row $id 780 null ;; tbb_flow_*) row $id 80 null ;;
  replay_*_1_ns) row $id 23 20 ;; replay_*) row $id 40 25 ;;
esac; done
"""
FURTHER = """#!/bin/sh
if [ "$1" = --list ]; then echo quick__chain_2_ns static_quick__chain_2_ns; exit 0; fi
for id in "$@"; do
  echo '{{"id": "'$id'", "value": 32, "unit": "ns", "bar": null, "sense": null, "holds": true, "peer": null}}'
done
"""


class Ratios(BenchCase):
    def program(self, prefix, code):
        path = self.folder / "bin" / prefix
        path.write_text(PEERS if prefix == "alpha" else FAKE.format(prefix=prefix, code=code))
        path.chmod(0o755)

    def ratios(self, only, **environment):
        return {r["id"]: r for r in self.run_bench(only, **environment)}

    def test_the_best_peer_of_the_same_run_decides(self):
        rows = self.ratios("*_chain_*")
        self.assertEqual(rows["ratio_empty_chain_2"]["peer"], 500)
        self.assertEqual(rows["ratio_empty_chain_2"]["value"], 0.4)
        self.assertEqual(rows["ratio_empty_chain_2"]["bar"], 0.8)
        self.assertTrue(rows["ratio_empty_chain_2"]["holds"])
        self.assertEqual(rows["ratio_replay_chain_2"]["peer"], 80)
        self.assertEqual(rows["ratio_replay_chain_2"]["value"], 0.5)

    def test_a_peer_that_runs_tasks_where_they_are_created_does_not_count(self):
        rows = self.ratios("*_chain_*,*_indep_*")
        self.assertEqual(rows["ratio_empty_indep_2"]["peer"], 780)

    def test_a_figure_of_another_machine_is_shown_and_not_judged(self):
        rows = self.ratios("empty_*,replay_*")
        self.assertEqual(rows["ratio_empty_chain_2"]["value"], 2)
        self.assertEqual(rows["ratio_empty_chain_2"]["elsewhere"], 100)
        self.assertIsNone(rows["ratio_empty_chain_2"]["bar"])
        self.assertIsNone(rows["ratio_empty_chain_2"]["peer"])
        self.assertTrue(rows["ratio_empty_chain_2"]["holds"])
        self.assertIsNone(rows["ratio_replay_chain_1"]["bar"])

    def test_peers_of_the_folder_are_compared_with_each_in_its_place(self):
        rows = self.ratios("*_chain_*", WEIR_BENCH_PEERS=self.peers_folder("quick", FURTHER))
        self.assertEqual(rows["ratio_empty_chain_2"]["peer"], 32)
        self.assertFalse(rows["ratio_empty_chain_2"]["holds"])
        self.assertEqual(rows["ratio_replay_chain_2"]["peer"], 32)
        self.assertFalse(rows["ratio_replay_chain_2"]["holds"])

PIPES = """#!/bin/sh
if [ "$1" = --list ]; then
  echo pipe_hop_ns pipe_item_ns pipe_work_2_us tbb_serial__pipe_hop_ns tbb_serial__pipe_item_ns
  echo tbb_parallel__pipe_item_ns tbb_flow__pipe_work_2_us; exit 0
fi
for id in "$@"; do case $id in
  pipe_hop_ns) v=15 ;; pipe_item_ns) v=90 ;; pipe_work_2_us) v=32 ;; *_hop_ns) v=40 ;; tbb_serial__*) v=180 ;;
  tbb_parallel__*) v=100 ;; *) v=40 ;; esac
  echo '{"id": "'$id'", "value": '$v', "unit": "ns", "bar": null, "sense": null, "holds": true, "peer": null}'
done
"""
FURTHER_PIPE = """#!/bin/sh
if [ "$1" = --list ]; then echo taskflow__pipe_hop_ns; exit 0; fi
echo '{{"id": "taskflow__pipe_hop_ns", "value": 12, "unit": "ns", "bar": null, "holds": true, "peer": null}}'
"""


class PipeRatios(BenchCase):
    def program(self, prefix, code):
        path = self.folder / "bin" / prefix
        path.write_text(PIPES if prefix == "alpha" else FAKE.format(prefix=prefix, code=code))
        path.chmod(0o755)

    def ratios(self, only, **environment):
        return {r["id"]: r for r in self.run_bench(only, **environment)}

    def test_a_ratio_names_its_peer_or_takes_the_best_one(self):
        rows = self.ratios("*pipe_*")
        self.assertEqual((rows["pipe_hop_ratio_tbb"]["value"], rows["pipe_hop_ratio_tbb"]["peer"]), (0.375, 40))
        self.assertTrue(rows["pipe_hop_ratio_tbb"]["holds"])
        self.assertEqual((rows["pipe_item_ratio"]["value"], rows["pipe_item_ratio"]["peer"]), (0.9, 100))
        self.assertFalse(rows["pipe_item_ratio"]["holds"])

    def test_a_ratio_of_rates_grows_as_the_own_time_shrinks(self):
        row = self.ratios("*pipe_*")["pipe_work_ratio_2"]
        self.assertEqual((row["value"], row["bar"], row["sense"]), (1.25, 1, ">="))
        self.assertTrue(row["holds"])

    def test_without_the_peer_a_ratio_has_no_verdict(self):
        rows = self.ratios("pipe_*")
        self.assertEqual(rows["pipe_hop_ratio_taskflow"]["value"], 1)
        self.assertEqual(rows["pipe_hop_ratio_taskflow"]["elsewhere"], 15)
        self.assertIsNone(rows["pipe_hop_ratio_taskflow"]["bar"])
        self.assertIsNone(rows["pipe_hop_ratio_tbb"]["bar"])
        self.assertNotIn("pipe_work_ratio_2", rows)

    def test_a_pipeline_of_the_peers_folder_joins(self):
        rows = self.ratios("pipe_*,taskflow*", WEIR_BENCH_PEERS=self.peers_folder("taskflow", FURTHER_PIPE))
        self.assertEqual(rows["pipe_hop_ratio_taskflow"]["value"], 1.25)
        self.assertFalse(rows["pipe_hop_ratio_taskflow"]["holds"])


FAKE_WEIR = """#!/usr/bin/env python3
import json, pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
sets = dict(a.split("=", 1) for a in sys.argv if "=" in a)
if len(pathlib.Path(sets["stream.path"]).read_bytes()) != 300000: sys.exit("another text")
out.mkdir()
workers = int(sets["run.workers"])
(out / "metrics.json").write_text(json.dumps({
    "tokens": 299999, "tokens_per_second": 30000 * workers ** 0.75, "engine_overhead": 0.08, "stall_seconds": 0.02,
    "peak_rss_bytes": 90e6, "bits_per_byte": {"cumulative": 2.2, "last_quarter": 1.97},
    "checkpoint_stall_ms": 0.4 if "checkpoint.every_tokens" in sets else 9}))
"""


class Prose(unittest.TestCase):
    def rows(self, *patterns):
        with tempfile.TemporaryDirectory() as folder:
            weir = pathlib.Path(folder) / "weir"
            weir.write_text(FAKE_WEIR)
            weir.chmod(0o755)
            env = {k: v for k, v in os.environ.items() if k != "WEIR_TORCH_PYTHON"}
            done = subprocess.run([sys.executable, str(ROOT / "bench" / "prose.py"), *patterns],
                                  capture_output=True, text=True, check=False, env={**env, "WEIR": str(weir)})
            self.assertEqual(done.returncode, 0, done.stderr)
            return {r["id"]: r for r in map(json.loads, done.stdout.splitlines())}

    def test_rows_follow_from_the_metrics_of_runs(self):
        rows = self.rows("prose_tokens_per_s", "prose_speedup_2", "prose_bits_*", "prose_stall_s", "checkpoint_*")
        self.assertEqual(rows["prose_tokens_per_s"]["value"], 30000)
        self.assertAlmostEqual(rows["prose_speedup_2"]["value"], 2 ** 0.75, places=4)
        self.assertAlmostEqual(rows["prose_stall_s"]["bar"], 299999 / 30000 / 1000, places=5)
        self.assertEqual(rows["checkpoint_stall_ms"]["value"], 0.4)
        failing = [i for i, r in rows.items() if not r["holds"]]
        self.assertEqual(failing, ["prose_stall_s", "prose_bits_last_quarter"])

    def test_without_the_peer_its_recorded_figure_is_shown_and_not_judged(self):
        row = self.rows("prose_torch_ratio_1")["prose_torch_ratio_1"]
        self.assertIsNone(row["peer"])
        self.assertIsNone(row["bar"])
        self.assertEqual(row["elsewhere"], 22400)
        self.assertAlmostEqual(row["value"], 30000 / 22400, places=4)
        self.assertTrue(row["holds"])


class FilesOfModels(unittest.TestCase):
    """Models are compared only if both sides load one file (bench/models/prepare.py), here with a made-up volume: a folder."""

    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.folder = pathlib.Path(temp.name)
        (self.folder / "models.hn4").mkdir()
        (self.folder / "models.hn4" / "q8").write_text("weights")
        (self.folder / "weir").write_text('#!/bin/sh\ncat "$3/$4"\n')
        (self.folder / "weir").chmod(0o755)
        (self.folder / "prepared.json").write_text("{}")

    def compare(self, tag, content):
        """Compares a tag with a file beside the volume and returns (exit code, what was printed)."""
        (self.folder / "file.gguf").write_text(content)
        call = "import sys; import prepare; print(prepare.same_file(*sys.argv[1:]))"
        paths = [str(self.folder / name) for name in ("weir", "models.hn4")] + [tag, str(self.folder / "file.gguf")]
        done = subprocess.run([sys.executable, "-B", "-c", call, *paths], capture_output=True, text=True, check=False,
                              cwd=ROOT / "bench" / "models")
        return done.returncode, done.stdout + done.stderr

    def test_the_digests_of_one_file_are_equal(self):
        code, said = self.compare("q8", "weights")
        self.assertEqual(code, 0, said)
        digest = hashlib.sha256(b"weights").hexdigest()
        self.assertEqual(said.strip(), str({"sha256": digest, "sha256_of_tag": digest}))
        self.assertTrue((self.folder / "prepared.json").exists())

    def test_a_changed_file_beside_an_old_volume_is_refused(self):
        code, said = self.compare("q8", "other weights")
        self.assertEqual(code, 1)
        for content in (b"weights", b"other weights"):
            self.assertIn(hashlib.sha256(content).hexdigest(), said)
        self.assertFalse((self.folder / "prepared.json").exists(), "rows would be measured with it")

    def test_a_tag_that_cannot_be_read_is_no_equal_file(self):
        code, said = self.compare("q4", "weights")
        self.assertEqual(code, 1)
        self.assertIn("weir hn4 cat ended with 1", said)


if __name__ == "__main__":
    unittest.main()
