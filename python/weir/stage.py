# SPDX-License-Identifier: Apache-2.0
"""The decorator of stages, and what a class says of itself: ports, settings and state.

All mistakes that a class can have are found here, when the file is loaded, and the message names the class and the member.
"""
import hashlib
import inspect
import math
import re
import sys

from . import attributes
from .errors import Error, invalid, nearest, need_numpy, numpy as np
from .types import ELEMENTS, PortType, element_text

MAX_PORTS = 8
# Keys that every stage of a TOML file has.
RESERVED = ("name", "use", "from", "inlets", "window", "on_error", "host", "late", "initial", "loop", "max_failures")
FACES = {"on_item": "item", "next": "source", "put": "sink"}
HOOKS = ("open", "shape", "seek", "settle", "rewind", "verify", "report")
KINDS = {bool: "bool", int: "int", float: "float", str: "str", list[int]: "list[int]", list[float]: "list[float]",
         list[str]: "list[str]"}
NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
REQUIRED = inspect.Parameter.empty
decorated = []  # all classes that the decorator has made stages


class Answer:
    """A constant that a stage returns instead of an item."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"weir.{self.name}"


skip = Answer("skip")                # this number has no item behind the stage
nothing_yet = Answer("nothing_yet")  # the source has no item at the moment


class Outlet:
    """A type that is marked as that of an outlet, see `out`."""

    def __init__(self, text):
        self.text = text


def out(text):
    """Marks the type of an outlet: `weir.out("f32[n]")`. If a class marks one port, it marks all its outlets."""
    return Outlet(text)


class Setting:
    """A setting of a class, see `setting`."""

    def __init__(self, default, facts):
        self.default, self.facts, self.name, self.kind = default, facts, None, None

    @property
    def required(self):
        return self.default is REQUIRED

    def check(self, value, where):
        """Returns a value with the type of the setting, or raises an error that says what is expected."""
        found = self._convert(value)
        low, high, choices = (self.facts[k] for k in ("low", "high", "choices"))
        parts = found if isinstance(found, list) else [found]
        if found is None or any((low is not None and not p >= low) or (high is not None and not p <= high) for p in parts) or (
                choices and any(p not in choices for p in parts)):
            raise invalid(f"{where}: expected {self.expected()}, found {value!r}")
        return found

    def _convert(self, value):
        if self.kind.startswith("list"):
            items = value if isinstance(value, (list, tuple)) else [value]
            made = [self._scalar(self.kind[5:-1], v) for v in items]
            return None if None in made else made
        return self._scalar(self.kind, value)

    @staticmethod
    def _scalar(kind, value):
        if hasattr(value, "__fspath__") and kind == "str":
            return value.__fspath__()
        if isinstance(value, bool) or kind in ("bool", "str"):
            return value if isinstance(value, {"bool": bool, "str": str}.get(kind, ())) else None
        try:
            if kind == "int":
                return value.__index__()
            return float(value) if isinstance(value, (int, float)) and float(value) - float(value) == 0 else None
        except (AttributeError, TypeError, OverflowError):
            return None

    def expected(self):
        """Returns the accepted values in words."""
        if self.facts["choices"]:
            return "one of " + ", ".join(map(str, self.facts["choices"]))
        words = {"bool": "True or False", "int": "an integer", "float": "a number", "str": "a text", "list[int]":
                 "a list of integers", "list[float]": "a list of numbers", "list[str]": "a list of texts"}[self.kind]
        low, high = self.facts["low"], self.facts["high"]
        return words + (f" from {low}" if low is not None else "") + (f" to {high}" if high is not None else "")


def setting(default=REQUIRED, *, low=None, high=None, choices=None, doc="", path=None, may_change=False):
    """Declares a setting: `eps: float = weir.setting(1e-6, low=0, doc="added to the length")`. The annotation is its type (bool, int,
    float, str, or a list of int, float or str); without one it is that of the default. Without a default the setting is required.
    `path="input"` or `path="output"` says that the text names a file that the stage reads or writes; the stage gets it as an absolute
    path. `may_change=True` allows another value when a run is resumed."""
    return Setting(default, {"low": low, "high": high, "choices": None if choices is None else list(choices), "doc": doc,
                             "path": path, "may_change": may_change})


class State:
    """A part of the state of a class, see `state`."""

    def __init__(self, initial):
        self.initial, self.name = initial, None


def state(initial):
    """Declares a number, a text or an array that checkpoints hold: `seen: int = weir.state(0)`. Each stage begins with a copy."""
    return State(initial)


class Port:
    """A port of a class: `name`, `type`, `inlet`."""

    __slots__ = ("name", "type", "inlet")

    def __init__(self, name, kind, inlet):
        self.name, self.type, self.inlet = name, kind, inlet


class Description:
    """Everything that a class says of itself. `given` are the outlets that its function has as parameters, which are views to fill;
    the others are returned."""

    def __init__(self, cls, name, ports, stateless, line):
        self.cls, self.name, self.stateless, self.line = cls, name, stateless, line
        self.where = f"stage {cls.__qualname__}"
        self.doc = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
        self.face, self.function = self._find_face()
        self.ports = self._read_ports(ports)
        self.inlets = [p for p in self.ports if p.inlet]
        self.outlets = [p for p in self.ports if not p.inlet]
        self.given = self._read_parameters()
        self.settings, self.states = self._read_members()
        self._check_hooks()
        self._check_shapes()
        self._check_state()

    def refuse(self, member, expected, found):
        return invalid(f"{self.where}: {member}: expected {expected}, found {found}")

    def _find_face(self):
        found = [n for n in FACES if callable(getattr(self.cls, n, None))]
        if len(found) == 1:
            return FACES[found[0]], found[0]
        own = [n for n, v in vars(self.cls).items() if callable(v) and not n.startswith("__")]
        hint = next((h for h in (nearest(n, FACES) for n in own) if h), "") if not found else ""
        raise self.refuse("its face", "exactly one of on_item (a stage), next (a source) and put (a sink)",
                          (", ".join(found or own) or "no function") + hint)

    def _read_ports(self, given):
        if not given:
            raise self.refuse("ports", "at least one, such as x=\"f32[n]\"", "none")
        marked = any(isinstance(t, Outlet) for t in given.values())
        last = list(given)[-1]
        if self.face == "item" and not marked and len(given) == 1:
            raise self.refuse("ports", "an inlet and behind it an outlet", f"{last!r} alone")
        ports = []
        for name, text in given.items():
            if name in self.cls.__dict__ or name.startswith("failed_"):
                raise self.refuse(f"port {name!r}", "a name that no member of the class has, and that does not begin with failed_",
                                  f"{name!r}")
            outlet = isinstance(text, Outlet) if marked else self.face == "source" or (self.face == "item" and name == last)
            kind = PortType(text.text if isinstance(text, Outlet) else text, f"{self.where}: port {name!r}")
            if outlet and kind.element is None:
                raise self.refuse(f"outlet {name!r}", "a type with elements, such as f32[?]", "any")
            ports.append(Port(name, kind, not outlet))
        for inlet, word in ((True, "inlets"), (False, "outlets")):
            count = sum(p.inlet == inlet for p in ports)
            needed = self.face == "item" or (self.face == "sink") == inlet
            if (count > 0) != needed or count > MAX_PORTS:
                limit = f"1 to {MAX_PORTS}" if needed else "none"
                hint = "; mark outlets with weir.out(...)" if not count and needed else ""
                raise self.refuse(word, f"{limit} in a {self.face}" if self.face != "item" else f"{limit} in a stage with on_item",
                                  f"{count}{hint}")
        return ports

    def _read_parameters(self):
        function = getattr(self.cls, self.function)
        parameters = list(inspect.signature(function).parameters.values())[1:]
        names = [p.name for p in parameters]
        plain = all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters)
        inlets, outlets = [p.name for p in self.inlets], [p.name for p in self.outlets]
        given = names[len(inlets):]
        if not plain or names[:len(inlets)] != inlets or [n for n in outlets if n in given] != given:
            wanted = ", ".join(["self", *inlets, *outlets])
            note = "; outlets may be left out and returned" if outlets else ""
            raise self.refuse(f"{self.function}", f"the parameters ({wanted}), which are its ports{note}", f"({', '.join(['self', *names])})")
        return tuple(outlets.index(n) for n in given)

    def _read_members(self):
        members = {}
        for base in reversed(self.cls.__mro__):
            members.update(vars(base))
        settings, states = {}, {}
        annotations = {k: v for b in reversed(self.cls.__mro__) for k, v in getattr(b, "__annotations__", {}).items()}
        for name, member in members.items():
            if isinstance(member, Setting):
                settings[name] = self._setting(name, member, annotations.get(name))
            elif isinstance(member, State):
                if not isinstance(member.initial, (bool, int, float, str, np.ndarray)):
                    raise self.refuse(f"state {name!r}", "a number, a text or a NumPy array", repr(member.initial))
                if isinstance(member.initial, np.ndarray) and element_text(member.initial.dtype) not in ELEMENTS:
                    raise self.refuse(f"state {name!r}", f"an array of {', '.join(ELEMENTS)}", f"one of {member.initial.dtype}")
                states[name] = State(member.initial)
                states[name].name = name
        if "__init__" in vars(self.cls) or "item" in vars(self.cls):
            raise self.refuse("members", "no __init__ and no item; open(self) prepares a stage, and self.item is the item of the call",
                              "__init__" if "__init__" in vars(self.cls) else "item")
        return settings, states

    def _setting(self, name, member, annotation):
        where = f"{self.where}: setting {name!r}"
        if isinstance(annotation, str):  # of a file with `from __future__ import annotations`
            annotation = {v: k for k, v in KINDS.items()}.get(annotation, annotation)
        kind = annotation if annotation is not None else type(member.default)
        if kind not in KINDS:
            found = "neither" if annotation is None and member.required else getattr(kind, "__name__", kind)
            raise invalid(f"{where}: expected an annotation or a default of the type {', '.join(KINDS.values())}, found {found}")
        if name in RESERVED:
            raise invalid(f"{where}: expected a name that is not a key of every stage ({', '.join(RESERVED)}), found {name!r}")
        if member.facts["path"] not in (None, "input", "output") or (member.facts["path"] and KINDS[kind] not in ("str", "list[str]")):
            raise invalid(f"{where}: expected path=\"input\" or path=\"output\" of a text, found {member.facts['path']!r}")
        limits = [v for v in (member.facts["low"], member.facts["high"]) if v is not None]
        if limits and (KINDS[kind] in ("bool", "str", "list[str]") or any(
                not isinstance(v, (int, float)) or not math.isfinite(v) or ("int" in KINDS[kind] and v != int(v)) for v in limits)):
            raise invalid(f"{where}: expected finite numbers of the type of the setting as low and high, found {limits}")
        own = Setting(member.default, member.facts)
        own.name, own.kind = name, KINDS[kind]
        if not own.required:
            own.default = own.check(member.default, f"{where}: default")
        return own

    def _check_hooks(self):
        allowed = {"item": ("open", "shape", "report"), "source": ("open", "seek", "shape", "report"),
                   "sink": ("open", "settle", "rewind", "verify", "report")}[self.face]
        for name in HOOKS:
            if callable(getattr(self.cls, name, None)) and name not in allowed:
                raise self.refuse("members", f"of {', '.join(HOOKS)} in a {self.face} only {', '.join(allowed)}", name)
        if self.face == "sink":
            for name in ("settle", "rewind"):
                if not callable(getattr(self.cls, name, None)):
                    raise self.refuse("members", f"{name} in a sink, since a resumed run cuts its output", f"no {name}")

    def _check_shapes(self):
        bound = set().union(*(p.type.letters() for p in self.inlets)) if self.inlets else set()
        open_outlets = [self.outlets[i] for i in self.given
                        if any(isinstance(e, str) and e not in bound for e in self.outlets[i].type.shape)]
        if open_outlets and not callable(getattr(self.cls, "shape", None)):
            one = open_outlets[0]
            raise self.refuse(f"outlet {one.name!r}", f"a function shape(self{''.join(', ' + p.name for p in self.inlets)}) or an array "
                              f"that {self.function} returns, since the inlets do not tell all extents", str(one.type))

    def _check_state(self):
        if self.stateless and self.states:
            raise self.refuse("stateless", "no state", ", ".join(self.states))
        if self.face == "source":
            wrong = [n for n, s in self.states.items() if not isinstance(s.initial, (bool, int, float))]
            if not self.states or wrong or len(self.states) > 8:
                raise self.refuse("state", "1 to 8 numbers, from which the source goes on after a crash",
                                  f"{wrong[0]!r}" if wrong else str(len(self.states)))

    def facts(self):
        """Returns the description as values for JSON."""
        return {"name": self.name, "class": self.cls.__qualname__, "doc": self.doc, "face": self.face, "stateless": self.stateless,
                "line": self.line,
                "ports": [{"name": p.name, "type": str(p.type), "inlet": p.inlet} for p in self.ports],
                "settings": [{"name": s.name, "type": s.kind, "required": s.required,
                              **({} if s.required else {"default": s.default}),
                              **{k: v for k, v in s.facts.items() if v is not None and v is not False and v != ""}} for s in self.settings.values()],
                "state": [{"name": s.name, "array": isinstance(s.initial, np.ndarray)} for s in self.states.values()]}


def stage(name, *, stateless=False, **ports):
    """Makes a class a stage with a full name such as `demo.unit_rows` and with ports: `x="f32[n,k]"`.

    The function of its face has the ports as parameters: `on_item` of a stage, `next` of a source, `put` of a sink. The ports of a
    source are outlets and those of a sink inlets. The last port of a stage is its outlet, unless `weir.out("f32[n]")` marks outlets.
    `stateless=True` declares items that do not depend on each other, so that failed ones may be skipped."""
    need_numpy()
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise invalid(f"weir.stage: expected a name such as \"demo.unit_rows\", found {name!r}")
    line = sys._getframe(1).f_lineno

    def decorate(cls):
        if not isinstance(cls, type):
            raise invalid(f"stage {name!r}: expected a class under the decorator, found {type(cls).__name__}")
        cls.__weir__ = Description(cls, name, ports, bool(stateless), line)
        cls.__init__ = lambda self, **settings: begin(self, settings)
        decorated.append(cls)
        return cls

    return decorate


def begin(one, given):
    """Gives a new object of a stage class its settings and its first state."""
    description = type(one).__weir__
    for name in given:
        if name not in description.settings:
            known = description.settings
            raise Error("unknown_key", f"{description.where}: expected a setting ({', '.join(known) or 'it has none'}), found "
                        f"{name!r}{nearest(name, known)}")
    for name, one_setting in description.settings.items():
        if name in given:
            setattr(one, name, one_setting.check(given[name], f"{description.where}: setting {name!r}"))
        elif one_setting.required:
            raise invalid(f"{description.where}: setting {name!r}: expected {one_setting.expected()}, found none")
        else:
            default = one_setting.default
            setattr(one, name, list(default) if isinstance(default, list) else default)
    for name, part in description.states.items():
        setattr(one, name, part.initial.copy() if isinstance(part.initial, np.ndarray) else part.initial)
    one.item = Item(1, description.name)


class Item:
    """The item of a call: its number `seq`, and its attributes, which begin as those of the item that was taken."""

    __slots__ = ("seq", "raw", "_attributes", "_seed", "_stage")

    def __init__(self, seed, stage_name):
        self.seq, self.raw, self._attributes, self._seed, self._stage = 0, b"", None, seed, stage_name

    def begin(self, seq, raw):
        """Begins the call for item `seq`, whose attributes are `raw` in CBOR."""
        self.seq, self.raw, self._attributes = seq, raw, None

    @property
    def attributes(self):
        """A dictionary of texts to integers, numbers and texts. What a stage changes here goes on with the item that it makes."""
        if self._attributes is None:
            self._attributes = attributes.decode(self.raw)
        return self._attributes

    def encoded(self):
        """Returns the attributes of the item that is made, as bytes."""
        return self.raw if self._attributes is None else attributes.encode(self._attributes)

    def random(self):
        """Returns a generator of random numbers that depends on the seed of the run, the name of the stage and the number of the item
        alone."""
        name = hashlib.blake2b(self._stage.encode(), digest_size=8).digest()
        key = [(int.from_bytes(name, "little") ^ self._seed) % 2**64, self.seq]
        return np.random.Generator(np.random.Philox(key=key))


def description_of(cls):
    """Returns the description of a stage class."""
    found = vars(cls).get("__weir__") if isinstance(cls, type) else None
    if found is None:
        raise invalid(f"expected a class with the decorator weir.stage, found {cls!r}")
    return found
