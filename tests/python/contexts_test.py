# SPDX-License-Identifier: Apache-2.0
"""Contexts, modules, errors, and where the library is."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from session import IMAGE, Session, np, ts, main
from tessera import _library


class Contexts(Session):
    def test_describe_their_devices_and_meshes(self):
        self.assertEqual(self.context.device_count(), 8)
        self.assertEqual(self.context.device(3).ordinal, 3)
        self.assertEqual(self.context.device(3).backend, "cpu")
        mesh = self.mesh(8, tp=2, dp=4)
        self.assertEqual(mesh.axes, dict(tp=2, pp=1, dp=4, ep=1))
        self.assertEqual(mesh.coords(5), dict(tp=1, pp=0, dp=2, ep=0))
        self.assertEqual(mesh.group("dp", 1), [1, 3, 5, 7])
        self.assertEqual(mesh.group(), list(range(8)))
        self.assertEqual(ts.version()[:2], (1, 0))
        with self.says(ts.InvalidValue, "expected axes of tp, pp, dp, ep, found xp"):
            ts.mesh(range(2), dict(xp=2))
        with self.assertRaises(ts.InvalidValue):
            ts.mesh([0, 0])

    def test_keep_their_policy(self):
        before = self.context.policy
        self.assertEqual(before, ts.Policy(True, True, True, False))
        self.context.policy = before._replace(stable_reductions=False)
        self.assertEqual(self.context.policy, ts.Policy(False, True, True, False))
        self.assertEqual(ts.init().policy, before)

    def test_write_profiles(self):
        mesh = self.mesh(2)
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            path = os.path.join(folder, "trace.json")
            with ts.Profiler(path):
                ts.launch(self.kernel("empty"), mesh)
                ts.default_stream().synchronize()
            events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
        self.assertTrue(any(e.get("name") == "empty" and e["ph"] == "X" for e in events))
        with self.assertRaises(ts.InvalidValue):
            ts.Profiler(os.path.join(folder, "gone", "trace.json")).stop()

    def test_explain_modules(self):
        module = ts.module.load(IMAGE)
        self.assertIn("flash_attention_fused", json.dumps(json.loads(module.explain())))
        self.assertEqual(len(module.kernel), len(list(module.kernel)))
        with self.assertRaises(KeyError):
            module.kernel["nothing"]
        kernel = module.kernel["saxpy"]
        module.unload()
        with self.assertRaises(ts.InvalidValue):
            ts.launch(kernel, self.mesh(1), args=ts.pack_args(0, 0, 0, 0))
        for damaged in (b"", b"\xca\xfe\xba\xbe", IMAGE[:-1], IMAGE[:100] + b"!" + IMAGE[101:]):
            with self.assertRaises(ts.Error):
                ts.module.load(damaged)

    def test_log_to_a_function(self):
        lines = []
        ts.set_log(lambda level, text: lines.append(text))
        try:
            context = ts.init()
            mesh = ts.Mesh(context, [0], {})
            stream = ts.Stream(mesh)
            context.shutdown()
        finally:
            ts.set_log(None)
        self.assertTrue(any("streams not destroyed" in line for line in lines), lines)
        with self.assertRaises(ts.InvalidValue):
            stream.synchronize()

    def test_that_are_gone_say_so(self):
        context = ts.init()
        mesh = ts.mesh([0])
        context.shutdown()
        context.shutdown()
        with self.says(ts.NotInitialized, "no context: tessera.init() makes one"):
            ts.mesh([0])
        with self.assertRaises(ts.NotInitialized):
            ts.Stream(mesh)

    def test_end_with_the_program_whatever_is_alive(self):
        program = ("import numpy as np, tessera as ts\n"
                   "ctx = ts.init(); mesh = ts.mesh(range(4)); x = ts.array(np.ones(1000)); y = x.view(2)\n"
                   "c = x.__dlpack__(); t = ts.from_dlpack(np.ones(5)); s = ts.Stream(); s.call(lambda: None)\n"
                   "ts.collectives.all_reduce(mesh, x); print('end')\n")
        done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))


class Library(Session):
    def test_is_looked_for_in_the_documented_order(self):
        with tempfile.TemporaryDirectory(prefix="weir-python-") as folder:
            package = pathlib.Path(folder).resolve() / "lib" / "python3" / "dist-packages" / "tessera"
            package.mkdir(parents=True)
            paths = [package / _library.NAME, package.parents[2] / "x86_64-linux-gnu" / _library.NAME]
            before = _library.__file__, os.environ.pop("TESSERA_LIBRARY", None)
            _library.__file__ = str(package / "_library.py")
            try:
                self.assertEqual(_library.candidates(), [_library.NAME])
                for path in paths:
                    path.parent.mkdir(exist_ok=True)
                    path.touch()
                self.assertEqual(_library.candidates(), [*map(str, paths), _library.NAME])
                os.environ["TESSERA_LIBRARY"] = "/some/where.so"
                self.assertEqual(_library.candidates(), ["/some/where.so"])
            finally:
                _library.__file__ = before[0]
                os.environ.pop("TESSERA_LIBRARY", None)
                if before[1] is not None:
                    os.environ["TESSERA_LIBRARY"] = before[1]


if __name__ == "__main__":
    main()
