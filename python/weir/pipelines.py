# SPDX-License-Identifier: Apache-2.0
"""Pipelines that a Python program builds. The program `weir` checks and runs them: a pipeline is a TOML file that is written here."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from . import loading
from .errors import Error, invalid, nearest
from .stage import description_of

HERE = os.path.dirname(os.path.abspath(__file__))
BARE = re.compile(r"[A-Za-z0-9_-]+")
# Exit codes of `weir`: the family of the error.
FAMILIES = {2: "invalid_argument", 3: "not_found", 4: "corrupt", 5: "io", 6: "failed", 70: "internal"}


def program():
    """Returns the path of the program `weir`: that of the environment variable WEIR_PROGRAM, of the build or the installation that this
    package belongs to, or of PATH."""
    chosen = os.environ.get("WEIR_PROGRAM")
    if chosen:
        return chosen
    folder = HERE
    for _ in range(5):
        folder = os.path.dirname(folder)
        for place in ("bin/weir", "build/weir"):
            if os.access(os.path.join(folder, place), os.X_OK):
                return os.path.join(folder, place)
    found = shutil.which("weir")
    if found is None:
        raise Error("not_found", "cannot find the program weir: expected it beside this package or in PATH, found none; set WEIR_PROGRAM "
                    "to its path")
    return found


def _value(value, where):
    """Returns a value as TOML."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        value = value.item()  # a scalar of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        if value != value or value in (float("inf"), float("-inf")):
            raise invalid(f"{where}: expected a finite number, found {value}")
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(v, where) for v in value)}]"
    raise invalid(f"{where}: expected a number, a text, True, False, or a list of them, found {type(value).__name__}")


def _key(text):
    return text if BARE.fullmatch(text) else json.dumps(text)


class Node:
    """A stage of a pipeline, or one of its ports: `a["y"]`."""

    def __init__(self, owner, name, port=None):
        self._owner, self.name, self.port = owner, name, port

    def __getitem__(self, port):
        about = self._owner.stages[self.name].about
        names = [] if about is None else [p.name for p in about.ports]
        if names and port not in names and port not in [f"failed_{p.name}" for p in about.inlets]:
            raise invalid(f"stage {self.name!r}: expected a port ({', '.join(names)}), found {port!r}{nearest(str(port), names)}")
        return Node(self._owner, self.name, port)

    def __rshift__(self, to):
        self._owner.connect(self, to)
        return Node(self._owner, to.name)

    def feed_back(self, to, delay=1):
        """Adds a feedback edge: `to` reads with item n what this stage has made for item n - delay."""
        self._owner.connect(self, to, delay)


class _Stage:
    def __init__(self, use, about, keys, settings):
        self.use, self.about, self.keys, self.settings, self.edges = use, about, keys, settings, []


class Pipeline:
    """A graph of stages that is being built, see `pipeline`."""

    def __init__(self, name):
        if not isinstance(name, str) or not name:
            raise invalid(f"pipeline: expected a name, found {name!r}")
        self.name, self.stages, self.files = name, {}, os.getcwd()

    def add(self, name, use, /, *, window=None, host=None, on_error=None, max_failures=None, **settings):
        """Adds a stage: `use` is a class with the decorator `weir.stage`, or the name of a stage of `weir stages`. The other arguments are
        the keys of a stage in TOML, and its settings. Relative paths belong to the folder in which the pipeline was made."""
        if name in self.stages:
            raise Error("already_exists", f"pipeline {self.name!r}: expected a new name of a stage, found {name!r} twice")
        about = None if isinstance(use, str) else description_of(use)
        where = f"pipeline {self.name!r}, stage {name!r}"
        if about is not None:
            self._check(about, settings, where)
        keys = {"window": window, "host": host, "on_error": on_error, "max_failures": max_failures}
        lines = {k: _value(v, f"{where}: setting {k!r}") for k, v in settings.items()}
        self.stages[name] = _Stage(use if about is None else about.name, about, {k: v for k, v in keys.items() if v is not None}, lines)
        return Node(self, name)

    @staticmethod
    def _check(about, settings, where):
        for key, value in settings.items():
            if key not in about.settings:
                raise Error("unknown_key", f"{where}: expected a setting of {about.cls.__qualname__} "
                            f"({', '.join(about.settings) or 'it has none'}), found {key!r}{nearest(key, about.settings)}")
            settings[key] = about.settings[key].check(value, f"{where}: setting {key!r}")

    def connect(self, begin, end, delay=None):
        """Adds an edge from an outlet to an inlet; `a >> b` does the same. The name of a port may be left out if there is only one."""
        for one in (begin, end):
            if not isinstance(one, Node) or one._owner is not self:
                raise invalid(f"pipeline {self.name!r}: expected stages of this pipeline at both ends of an edge, found {one!r}")
        inlet = end.port
        about = self.stages[end.name].about
        if inlet is None and about is not None and len(about.inlets) == 1:
            inlet = about.inlets[0].name
        self.stages[end.name].edges.append((inlet, f"{begin.name}.{begin.port}" if begin.port else begin.name, delay))

    def toml(self, *, workers=None, every=None, seed=None, keep=None, restarts=None, deadline=None):
        """Returns the pipeline as a file for `weir run`, with the keys of the tables `run` and `checkpoint` that are given."""
        out = [f"name = {_value(self.name, 'name')}", f"files = {_value(self.files, 'files')}"]
        plugins = sorted({file_of(s.about.cls) for s in self.stages.values() if s.about is not None})
        if plugins:
            out.append(f"plugins = {_value(plugins, 'plugins')}")
        for table, keys in (("run", {"workers": workers, "seed": seed, "restarts": restarts, "deadline": deadline}), ("checkpoint", {"every": every, "keep": keep})):
            lines = [f"{k} = {_value(v, k)}" for k, v in keys.items() if v is not None]
            out += ["", f"[{table}]", *lines] if lines else []
        for name, one in self.stages.items():
            out += ["", "[[stage]]", f"name = {_value(name, 'name')}", f"use = {_value(one.use, 'use')}"]
            out += [f"{k} = {_value(v, k)}" for k, v in one.keys.items()]
            out += [f"{'.'.join(map(_key, k.split('.')))} = {v}" for k, v in one.settings.items()]
            out += self._edges(name, one)
        return "\n".join(out) + "\n"

    def _edges(self, name, one):
        named = [(i, b) for i, b, delay in one.edges if delay is None and i is not None]
        plain = [b for i, b, delay in one.edges if delay is None and i is None]
        loops = [(i, b, delay) for i, b, delay in one.edges if delay is not None]
        inlets = [i for i, _, _ in one.edges if i is not None]
        if len(plain) + bool(named) > 1 or len(inlets) != len(set(inlets)) or any(i is None for i, _, _ in loops):
            raise invalid(f"pipeline {self.name!r}, stage {name!r}: expected one edge for each inlet, and its name if there are several, found "
                          f"edges from {', '.join(b for _, b, _ in one.edges)} to {', '.join(str(i or '?') for i, _, _ in one.edges)}")
        if len({delay for _, _, delay in loops}) > 1:
            raise invalid(f"pipeline {self.name!r}, stage {name!r}: expected feedback edges of one delay, found several")
        out = [f"from = {_value(b, 'from')}" for b in plain]
        if named:
            out.append(f"inlets = {{ {', '.join(f'{_key(i)} = {_value(b, i)}' for i, b in named)} }}")
        if loops:
            out.append(f"loop = {{ {', '.join(f'{_key(i)} = {_value(b, i)}' for i, b, _ in loops)}, delay = {loops[0][2]} }}")
        return out

    def check(self):
        """Checks the pipeline and returns its plan as a dictionary, as `weir check --json` prints it: types, windows, the bound on memory,
        the guarantee."""
        return self._call("check", [], self.toml())

    def run(self, folder, **keys):
        """Runs the pipeline in a new folder and returns its metrics as a dictionary. `keys` are those of `toml`: `every` are the items or the
        time between checkpoints, such as "1000 items" or "30 s"; with `restarts=1` the run goes back to its last checkpoint once if a
        child process has died. Ctrl-C makes a last checkpoint and ends the run."""
        return self._call("run", ["--out", os.fspath(folder)], self.toml(**keys))

    def resume(self, folder, *, workers=None, every=None):
        """Continues the run of a folder behind its last checkpoint and returns its metrics. The folder holds the pipeline; a stage class may
        have changed in the meantime only as `weir resume` allows it."""
        sets = {"run.workers": workers, "checkpoint.every": every}
        words = [w for k, v in sets.items() if v is not None for w in ("--set", f"{k}={_value(v, k)}")]
        return self._call("resume", [os.fspath(folder), *words], None)

    def _call(self, verb, words, text):
        if loading.loading:
            raise invalid(f"pipeline {self.name!r}: cannot {verb} it while its file is loaded for its stages: put the call under "
                          "if __name__ == \"__main__\":")
        with tempfile.TemporaryDirectory(prefix="weir-") as folder:
            if text is not None:
                file = os.path.join(folder, self.name_of_file())
                with open(file, "w", encoding="utf-8") as to:
                    to.write(text)
                words = [file, *words]
            return _weir([verb, *words, "--json"])

    def name_of_file(self):
        """Returns a name for the file that messages show."""
        return re.sub(r"[^A-Za-z0-9_.-]", "_", self.name) + ".toml"


def file_of(cls):
    """Returns the absolute path of the file of a stage class, which the child process of the stage loads."""
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    if file is None or "<locals>" in cls.__qualname__:
        raise invalid(f"stage {cls.__qualname__}: expected a class at the top of a file, which the child process can load, found "
                      f"{'a class in a function' if file else 'a class without a file'}")
    return os.path.abspath(file)


def _weir(words):
    """Calls the program and returns what it prints as JSON."""
    environment = {"WEIR_PYTHON": sys.executable, "WEIR_PYTHON_PATH": os.path.dirname(HERE), **os.environ}
    child = subprocess.Popen([program(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    interrupted = None
    while True:
        try:
            out, errors = child.communicate()
            break
        except KeyboardInterrupt as pressed:  # the terminal tells the child, too, which makes a last checkpoint
            interrupted = pressed
    if interrupted is not None:
        raise interrupted
    if child.returncode != 0:
        _, _, message = errors.partition("weir: ")
        raise Error(FAMILIES.get(child.returncode, "failed"), (message or errors or f"weir ended with {child.returncode}").rstrip())
    return json.loads(out)


def pipeline(name):
    """Begins a pipeline: `p = weir.pipeline("two")`, `a = p.add("read", "tgm.read", path="in.tgm")`, `a >> p.add("unit", UnitRows)`,
    `p.run("runs/two")`."""
    return Pipeline(name)
