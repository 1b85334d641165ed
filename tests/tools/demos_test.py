# SPDX-License-Identifier: Apache-2.0
"""Tests the demos in demos/pipelines that read and write Tensogram files.

demos_test.py WEIR FIELDS SOURCE_DIR SUITE  runs the tests of a suite: Fields, Archive, Images, Live or Fixture
demos_test.py WEIR FIELDS SOURCE_DIR kill DEMO KILLS [HOST]
    kills fields, archive, images or python with SIGKILL at random instants; every stage of the file works on HOST, which is own or process
"""
import array
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import kills  # noqa: E402  (the folder is known only now)

WEIR, FIELDS, SOURCE = (pathlib.Path(p).resolve() for p in sys.argv[1:4])
DEMOS = SOURCE / "demos" / "pipelines"
WEIGHT, THRESHOLD = 1 / 16, 4  # defaults of demos/pipelines/fields/stages.hpp
# The duration of a run and its rate differ from run to run.
RATE = re.compile(r"in [0-9.]+ m?s, [0-9,]+ items/s")


def call(*words, cwd=None):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, cwd=cwd, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def messages(path):
    """Returns the attributes and the elements of the first object of all messages of a file. The metadata of the object follow those
    of the message, as tgm.read does it."""
    lines = [json.loads(line) for line in call(WEIR, "tgm", "dump", "--limit", 0, path).splitlines()]
    extras = [line["extra"] for line in lines if "message" in line]
    objects = [line for line in lines if line.get("object") == 0]
    assert len(extras) == len(objects)
    return [({**scalars(line["metadata"]), **extra}, array.array("f", flat(line["values"]))) for extra, line in zip(extras, objects)]


def scalars(metadata, prefix=""):
    """Returns the scalars of the metadata of an object; those in maps have names with dots."""
    found = {}
    for key, value in metadata.items():
        if key.startswith("_") or (key == "name" and not prefix):
            continue
        if isinstance(value, dict):
            found.update(scalars(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            found[prefix + key] = value
    return found


def flat(values):
    """Returns the numbers of nested lists."""
    if values and isinstance(values[0], list):
        return [one for part in values for one in flat(part)]
    return values


def heat_waves(fields):
    """Computes what the stages of the demo fields write, item by item. Elements are rounded as in the demo."""
    points = len(fields[0][1])
    mean, level = [0.0] * points, [0.0] * points
    record, exceedances, written = 0.0, 0, []
    for number, (extra, x) in enumerate(fields):
        mean = [m + (v - m) / (number + 1) for m, v in zip(mean, x)]
        anomaly = array.array("f", [v - m for m, v in zip(mean, x)])
        level = [n + WEIGHT * (v - n) for n, v in zip(level, anomaly)]
        smooth = array.array("f", level)
        largest = max(smooth)
        record = max(record, largest)
        above = sum(v > THRESHOLD for v in smooth)
        exceedances += above
        if above:
            written.append(({**extra, "message": number, "largest": largest, "point": smooth.index(largest),
                             "record": record, "exceedances": exceedances}, smooth))
    return written


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def same_messages(self, found, expected):
        """Compares lists of messages. A message of assertEqual on lists of that size would take half a minute."""
        self.assertEqual(len(found), len(expected))
        for number, (one, other) in enumerate(zip(found, expected)):
            self.assertEqual(one[0], other[0], f"attributes of message {number}")
            self.assertTrue(one[1] == other[1], f"elements of message {number} differ")

    def follow_readme(self, demo):
        """Runs the commands of the README below this test's folder and compares what they print."""
        root = self.folder / "root"
        for name, target in {"build/weir": WEIR, "build/release/demos/fields": FIELDS, "demos": SOURCE / "demos"}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(target)
        text = (DEMOS / demo / "README.md").read_text(encoding="utf-8").replace("/tmp/", f"{self.folder}/")
        blocks = re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        self.assertTrue(blocks)
        for block in blocks:
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                printed = call("sh", "-c", command, cwd=root)
                self.assertEqual(RATE.sub("", printed), RATE.sub("", expected), command)


class Fields(Case):
    def test_its_output_is_that_of_a_serial_loop(self):
        call(FIELDS, self.folder)
        read = messages(self.folder / "weather.tgm")
        self.assertEqual(len(read), 720)
        self.assertEqual(read[700][0], {"hour": 700, "param": "2t"})
        self.same_messages(messages(self.folder / "waves.tgm"), heat_waves(read))

    def test_its_readme_says_what_it_prints(self):
        self.follow_readme("fields")

    def test_its_errors_say_what_to_change(self):
        wrong = subprocess.run([FIELDS, self.folder, self.folder / "none.tgm", "4"], capture_output=True, text=True, check=False)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("none.tgm", wrong.stderr)
        call(FIELDS, self.folder)
        wrong = subprocess.run([FIELDS, self.folder / "other", self.folder / "weather.tgm", "4"], capture_output=True, text=True,
                               check=False)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("expected a tensor of type f32[4], found f32[1152]", wrong.stderr)


class Fixture(Case):
    def test_a_file_of_another_implementation_gives_what_a_serial_loop_gives(self):
        top = pathlib.Path(os.environ.get("WEIR_FIXTURES", SOURCE / ".." / "shared" / "fixtures"))
        path = top / "tensogram" / "thousand-msg.tgm"
        if not path.exists():
            self.skipTest(f"fixtures are absent: {path} does not exist; set WEIR_FIXTURES to their folder")
        call(FIELDS, self.folder, path, 4)
        read = messages(path)
        self.assertEqual(len(read), 1000)
        written = messages(self.folder / "waves.tgm")
        self.assertGreater(len(written), 900)
        self.same_messages(written, heat_waves(read))


def make_archives(folder, old=2400, new=2400):
    """Makes the two archives that archive.toml reads, as its README says."""
    for name in ("inputs.toml", "archive.toml"):
        shutil.copy(DEMOS / "archive" / name, folder / name)
    call(WEIR, "run", folder / "inputs.toml", "--out", folder / "run-inputs",
         "--set", f"old_numbers.count={old}", "--set", f"new_numbers.count={new}")
    for unit, archive in (("kelvin", "old"), ("celsius", "new")):
        call(WEIR, "tgm", "set", "-s", f"extra.archive={archive}", folder / f"{unit}.tgm", folder / f"{archive}.tgm")


class Archive(Case):
    def test_its_output_is_that_of_a_serial_loop(self):
        make_archives(self.folder, 240, 250)
        call(WEIR, "run", self.folder / "archive.toml", "--out", self.folder / "run")
        offset = array.array("f", [273.15])[0]
        hours = []
        for extra, x in messages(self.folder / "old.tgm"):
            hours.append((extra, [v - offset for v in x]))
        hours += messages(self.folder / "new.tgm")
        self.assertEqual(len(hours), 490)
        days = []
        for first in range(0, 480, 24):
            x = [min(max(v, -15), 15) for _, hour in hours[first:first + 24] for v in array.array("f", hour)]
            days.append(({"archive": "old" if first < 240 else "new", "message": first % 240}, array.array("f", x)))
        self.same_messages(messages(self.folder / "days.tgm"), days)

    def test_its_picture_is_what_weir_draws(self):
        toml, svg = DEMOS / "archive" / "archive.toml", DEMOS / "archive" / "archive.svg"
        self.assertEqual(svg.read_text(encoding="utf-8"), call(WEIR, "graph", toml),
                         f"draw it again: weir graph {toml} -o {svg}")

    def test_its_readme_says_what_it_prints(self):
        self.follow_readme("archive")


READ_AGAIN = """[[stage]]
name = "images"
use = "png.read"
path = "dark"
[[stage]]
name = "file"
use = "tgm.write"
path = "again.tgm"
"""


class Images(Case):
    def test_its_images_and_messages_are_those_of_a_loop(self):
        for name in ("inputs", "images"):
            shutil.copy(DEMOS / "images" / f"{name}.toml", self.folder)
            call(WEIR, "run", self.folder / f"{name}.toml", "--out", self.folder / f"run-{name}")
        (self.folder / "again.toml").write_text(READ_AGAIN, encoding="utf-8")
        call(WEIR, "run", self.folder / "again.toml", "--out", self.folder / "run-again")
        size = 48 * 64 * 3
        expected = [array.array("f", ((n * size + i) % 256 // 2 for i in range(size))) for n in range(12)]
        for file, name in (("dark.tgm", "{}.png"), ("again.tgm", "{:03}.png")):
            found = messages(self.folder / file)
            self.assertEqual([extra["file"] for extra, _ in found], [name.format(n) for n in range(12)])
            self.assertTrue([x for _, x in found] == expected, file)

    def test_its_picture_is_what_weir_draws(self):
        toml, svg = DEMOS / "images" / "images.toml", DEMOS / "images" / "images.svg"
        self.assertEqual(svg.read_text(encoding="utf-8"), call(WEIR, "graph", toml),
                         f"draw it again: weir graph {toml} -o {svg}")

    def test_its_readme_says_what_it_prints(self):
        self.follow_readme("images")


class Live(Case):
    def test_its_picture_is_what_weir_draws(self):
        toml, svg = DEMOS / "live" / "live.toml", DEMOS / "live" / "live.svg"
        self.assertEqual(svg.read_text(encoding="utf-8"), call(WEIR, "graph", toml),
                         f"draw it again: weir graph {toml} -o {svg}")

    def test_its_readme_says_what_it_prints(self):
        self.follow_readme("live")


def on_host(toml, host):
    """Returns the options that give every stage of a file a host."""
    stages = re.findall(r'^\[\[stage\]\]\nname = "(\w+)"', toml.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(stages) > 3
    return [word for stage in stages if host for word in ("--set", f"{stage}.host={host}")]


def run_or_resume(folder, toml, *options):
    """Returns the command that begins the run of a folder, or continues it."""
    if os.path.exists(f"{folder}/run/pipeline.toml"):
        return [WEIR, "resume", f"{folder}/run"]
    return [WEIR, "run", f"{folder}/{toml}", *options, "--out", f"{folder}/run"]


def kill_images(number, host):
    options = on_host(DEMOS / "images" / "images.toml", host)

    def prepare(folder):
        os.mkdir(folder)
        for name in ("inputs", "images"):
            shutil.copy(DEMOS / "images" / f"{name}.toml", folder)
        call(WEIR, "run", f"{folder}/inputs.toml", "--out", f"{folder}/run-inputs")

    def extract(folder):
        """Puts all outputs into one file."""
        names = sorted(os.listdir(f"{folder}/dark"))
        parts = [pathlib.Path(folder, "dark", name).read_bytes() for name in names]
        pathlib.Path(folder, "all").write_bytes("\n".join(names).encode() + b"".join(parts) +
                                                pathlib.Path(folder, "dark.tgm").read_bytes())

    kills.compare_after_kills(lambda folder: run_or_resume(folder, "images.toml", *options), "all", number, prepare, extract)


def kill_archive(number, host):
    options = on_host(DEMOS / "archive" / "archive.toml", host)
    with tempfile.TemporaryDirectory() as inputs:
        made = pathlib.Path(inputs)
        make_archives(made)

        def prepare(folder):
            os.mkdir(folder)
            for name in ("archive.toml", "old.tgm", "new.tgm"):
                os.symlink(made / name, f"{folder}/{name}")

        def command(folder):
            return run_or_resume(folder, "archive.toml", "--set", f"files={folder}", *options)

        kills.compare_after_kills(command, "days.tgm", number, prepare)


def kill_python(number, host):
    options = on_host(DEMOS / "python" / "python.toml", host)

    def prepare(folder):
        os.mkdir(folder)
        for name in ("python.toml", "unit_rows.py"):
            shutil.copy(DEMOS / "python" / name, folder)

    kills.compare_after_kills(lambda folder: run_or_resume(folder, "python.toml", *options), "peaks.tgm", number, prepare)


if __name__ == "__main__":
    if sys.argv[4] == "kill" and sys.argv[5] == "fields":
        kills.compare_after_kills(lambda folder: [FIELDS, folder], "waves.tgm", sys.argv[6])
    elif sys.argv[4] == "kill":
        kill = {"archive": kill_archive, "images": kill_images, "python": kill_python}[sys.argv[5]]
        kill(sys.argv[6], sys.argv[7] if len(sys.argv) > 7 else "")
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
