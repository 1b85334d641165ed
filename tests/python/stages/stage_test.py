# SPDX-License-Identifier: Apache-2.0
"""What a class says of itself, and the messages about its mistakes: `stage_test.py [unittest arguments]`."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import weir
from weir.types import PortType

HERE = pathlib.Path(__file__).resolve().parent


class Decorator(unittest.TestCase):
    def refused(self, words, ports, members, **more):
        with self.assertRaises(weir.Error) as caught:
            weir.stage("demo.a", **ports, **more)(type("Demo", (), members))
        self.assertEqual(caught.exception.code, "invalid_argument")
        for word in ("stage Demo", *words):
            self.assertIn(word, str(caught.exception))

    def test_the_last_port_of_a_stage_is_its_outlet(self):
        @weir.stage("demo.a", a="f32[n]", b="f32[n]", y="f32[n]")
        class Demo:
            def on_item(self, a, b, y):
                pass
        about = Demo.__weir__
        self.assertEqual([(p.name, p.inlet) for p in about.ports], [("a", True), ("b", True), ("y", False)])

    def test_marked_ports_are_the_outlets(self):
        @weir.stage("demo.a", low=weir.out("f32[n]"), x="f32[n]", high=weir.out("u8[?]"))
        class Demo:
            def on_item(self, x, low):
                return np.zeros(2, np.uint8)
        self.assertEqual([p.name for p in Demo.__weir__.outlets], ["low", "high"])
        self.assertEqual(Demo.__weir__.given, (0,))

    def test_ports_of_a_source_are_outlets_and_those_of_a_sink_inlets(self):
        @weir.stage("demo.a", y="f32[4]")
        class Source:
            at: int = weir.state(0)

            def next(self, y):
                return False

        @weir.stage("demo.b", x="f32[4]")
        class Sink:
            def put(self, x):
                pass

            def settle(self):
                return 0

            def rewind(self, offset):
                pass
        self.assertEqual((Source.__weir__.face, Sink.__weir__.face), ("source", "sink"))
        self.assertFalse(Source.__weir__.ports[0].inlet)
        self.assertTrue(Sink.__weir__.ports[0].inlet)

    def test_a_misspelt_function_is_named_with_the_nearest_face(self):
        self.refused(["exactly one of on_item", "on_itme", "did you mean 'on_item'"], {"x": "f32[n]", "y": "f32[n]"},
                     {"on_itme": lambda self, x, y: None})

    def test_parameters_that_are_no_ports_are_refused_with_the_expected_ones(self):
        self.refused(["on_item", "(self, x, y)", "(self, y, x)"], {"x": "f32[n]", "y": "f32[n]"},
                     {"on_item": lambda self, y, x: None})
        self.refused(["(self, x, y)", "(self, x, y, z)"], {"x": "f32[n]", "y": "f32[n]"}, {"on_item": lambda self, x, y, z: None})

    def test_a_wrong_type_is_shown_with_its_port(self):
        for text, words in (("f32", "extents in brackets"), ("g32[n]", "'g32[n]'"), ("f32[N]", "'N'"), ("bf16[n]", "NumPy has"),
                            ("f32[-1]", "'-1'"), (7, "found 7"), ("f32[n,]", "''")):
            self.refused(["port 'x'", words], {"x": text, "y": "f32[n]"}, {"on_item": lambda self, x, y: None})

    def test_a_stage_has_an_inlet_and_an_outlet(self):
        self.refused(["an inlet and behind it an outlet", "'x' alone"], {"x": "f32[n]"}, {"on_item": lambda self, x: None})
        self.refused(["at least one"], {}, {"on_item": lambda self: None})
        self.refused(["inlets", "found 0"], {"y": weir.out("f32[2]")}, {"on_item": lambda self, y: None})

    def test_an_outlet_of_unknown_shape_needs_a_function_or_a_result(self):
        self.refused(["outlet 'y'", "shape(self, x)", "f32[m]"], {"x": "f32[n]", "y": "f32[m]"}, {"on_item": lambda self, x, y: None})
        weir.stage("demo.a", x="f32[n]", y="f32[m]")(type("Demo", (), {"on_item": lambda self, x: None}))
        weir.stage("demo.a", x="f32[n]", y="f32[m]")(
            type("Demo", (), {"on_item": lambda self, x, y: None, "shape": lambda self, x: 3}))

    def test_a_source_says_by_numbers_where_it_goes_on(self):
        self.refused(["1 to 8 numbers", "found 0"], {"y": "f32[2]"}, {"next": lambda self, y: False})
        self.refused(["1 to 8 numbers", "'a'"], {"y": "f32[2]"}, {"next": lambda self, y: False, "a": weir.state(np.zeros(2))})

    def test_a_sink_can_be_cut(self):
        self.refused(["rewind in a sink"], {"x": "f32[n]"}, {"put": lambda self, x: None, "settle": lambda self: 0})

    def test_members_of_another_face_are_refused(self):
        self.refused(["only open, shape, report", "settle"], {"x": "f32[n]", "y": "f32[n]"},
                     {"on_item": lambda self, x, y: None, "settle": lambda self: 0})
        self.refused(["open(self) prepares a stage", "__init__"], {"x": "f32[n]", "y": "f32[n]"},
                     {"on_item": lambda self, x, y: None, "__init__": lambda self: None})

    def test_a_stateless_stage_has_no_state(self):
        self.refused(["stateless", "found seen"], {"x": "f32[n]", "y": "f32[n]"},
                     {"on_item": lambda self, x, y: None, "seen": weir.state(0)}, stateless=True)

    def test_wrong_settings_are_named(self):
        members = {"on_item": lambda self, x, y: None}
        ports = {"x": "f32[n]", "y": "f32[n]"}
        self.refused(["setting 'a'", "default", "from 1 to 2", "found 3"], ports, {**members, "a": weir.setting(3, low=1, high=2)})
        self.refused(["setting 'a'", "annotation or a default"], ports, {**members, "a": weir.setting()})
        self.refused(["setting 'window'", "not a key of every stage"], ports, {**members, "window": weir.setting(3)})
        self.refused(["setting 'a'", "path=\"input\""], ports, {**members, "a": weir.setting(3, path="input")})
        self.refused(["setting 'a'", "finite"], ports, {**members, "a": weir.setting(3.0, low=float("-inf"))})
        self.refused(["state 'a'", "a number, a text or a NumPy array"], ports, {**members, "a": weir.state([1])})

    def test_the_name_and_the_class_are_checked(self):
        for name in ("", "a b", 7, ".a"):
            with self.assertRaisesRegex(weir.Error, "expected a name such as"):
                weir.stage(name, x="f32[n]")
        with self.assertRaisesRegex(weir.Error, "expected a class under the decorator, found function"):
            weir.stage("demo.a", x="f32[n]", y="f32[n]")(lambda: None)

    def test_objects_have_their_own_settings_and_state(self):
        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            many: list[int] = weir.setting([1, 2], doc="numbers")
            scale: float = weir.setting(2, low=0)
            sums: np.ndarray = weir.state(np.zeros(2))

            def on_item(self, x, y):
                pass
        one, two = Demo(many=[3]), Demo(scale=1)
        one.sums += 1
        self.assertEqual((one.many, two.many, two.scale, one.scale, two.sums.tolist()), ([3], [1, 2], 1.0, 2.0, [0, 0]))
        self.assertIsInstance(one.scale, float)
        with self.assertRaisesRegex(weir.Error, "did you mean 'scale'"):
            Demo(scales=1)
        with self.assertRaisesRegex(weir.Error, "setting 'scale': expected a number from 0, found -1"):
            Demo(scale=-1)

    def test_a_required_setting_is_given(self):
        @weir.stage("demo.a", x="f32[n]", y="f32[n]")
        class Demo:
            file: str = weir.setting(path="input")

            def on_item(self, x, y):
                pass
        with self.assertRaisesRegex(weir.Error, "setting 'file': expected a text, found none"):
            Demo()
        self.assertEqual(Demo(file=pathlib.Path("a")).file, "a")

    def test_annotations_may_be_texts(self):
        members = {"on_item": lambda self, x, y: None, "a": weir.setting(1), "b": weir.setting([1]),
                   "__annotations__": {"a": "float", "b": "list[int]"}}
        one = weir.stage("demo.a", x="f32[n]", y="f32[n]")(type("Demo", (), members))(a=2, b=3)
        self.assertEqual((repr(one.a), one.b), ("2.0", [3]))

    def test_types_are_read_and_printed_as_in_cpp(self):
        for text in ("f32[n,384]", "u8[?]", "f64[]", "any", "c128[2,?,z]"):
            self.assertEqual(str(PortType(text, "port")), text)
        self.assertEqual(str(PortType("f32[ n , 4 ]", "port")), "f32[n,4]")


class Describe(unittest.TestCase):
    def describe(self, text, name="stages.py", python=("-B",), environment=None):
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            file = pathlib.Path(folder) / name
            file.write_text(text)
            done = subprocess.run([sys.executable, *python, "-m", "weir.describe", file], capture_output=True, text=True, check=False,
                                  env=environment)
        return done.returncode, json.loads(done.stdout), done.stderr

    def test_the_description_of_the_example_is_that_of_the_golden_file(self):
        text = (HERE / "example.py").read_text()
        status, found, _ = self.describe(text)
        self.assertEqual(status, 0)
        self.assertEqual(found, json.loads((HERE / "example.json").read_text()))

    def test_what_the_file_prints_is_no_part_of_the_description(self):
        text = "print('hello')\n" + (HERE / "example.py").read_text()
        status, found, errors = self.describe(text)
        self.assertEqual((status, errors), (0, "hello\n"))
        self.assertEqual(len(found["stages"]), 3)

    def test_mistakes_have_code_and_line(self):
        good = (HERE / "example.py").read_text()
        twice = good + good[good.index("@weir.stage"):]
        for text, code, line, words in (
                ("a = (\n", "invalid_argument", 1, "syntax error"),
                ("import os\n\nnothing_known\n", "invalid_argument", 3, "NameError: name 'nothing_known' is not defined"),
                ("import os\n", "invalid_argument", None, "a class with the decorator weir.stage, found none"),
                ("import sys\nsys.exit(3)\n", "invalid_argument", 2, "SystemExit: 3"),
                ("import weir\n@weir.stage('a', x='f32[n]')\nclass A:\n  pass\n", "invalid_argument", 2, "exactly one of on_item"),
                (twice, "already_exists", None, "found 'demo.unit_rows' at the lines 10 and ")):
            status, found, _ = self.describe(text)
            self.assertEqual((status, found["error"]["code"], found["error"].get("line")), (1, code, line), found)
            self.assertIn(words, found["error"]["message"])

    def test_without_numpy_the_package_is_named(self):
        # Neither the packages of the system nor those of a user.
        root = str(pathlib.Path(weir.__file__).resolve().parents[1])
        status, found, _ = self.describe("import weir\n", python=("-B", "-S"), environment={"PYTHONPATH": root})
        self.assertEqual((status, found["error"]["code"]), (1, "unsupported"))
        self.assertIn("Debian package python3-numpy", found["error"]["message"])

    def test_a_pipeline_does_not_run_while_its_file_is_described(self):
        text = "import weir\np = weir.pipeline('a')\np.add('a', 'null')\np.run('r')\n"
        _, found, _ = self.describe(text)
        self.assertIn("if __name__ == \"__main__\":", found["error"]["message"])


if __name__ == "__main__":
    unittest.main()
