# SPDX-License-Identifier: Apache-2.0
"""Modules, kernels, their arguments, and launches."""
import collections.abc
import ctypes
from ctypes import c_char_p, c_size_t, c_void_p

from . import _library as c
from .arrays import Array, Instance
from .contexts import current_context
from .dlpack import Imported
from .dtypes import BY_ID, buffer_of
from .errors import invalid
from .graphs import note
from .streams import default_stream

DEFAULT, DETERMINISTIC, CAPTURE, PERSISTENT, LOW_LATENCY = 0, 1, 2, 4, 8
SCALAR, POINTER, OPAQUE = 0, 1, 2
Parameter = collections.namedtuple("Parameter", "name kind dtype size offset space direction")


class _Loaded:
    """A module's handle: lives as long as the module or any of its kernels."""

    def __init__(self, context, image):
        self.context = context
        self.handle = c.made("tessModuleLoad", context.handle, bytes(image), len(image))
        self._finish = c.when_gone(self, c.quietly, "tessModuleUnload", self.handle)

    def unload(self):
        if self._finish.detach() is not None:
            c.call("tessModuleUnload", self.handle)


class Kernel:
    """A kernel of a module, with the records of its parameters. Keeps the module loaded."""

    def __init__(self, loaded, name):
        self._loaded, self.name = loaded, name
        self.handle = c.made("tessKernelGet", loaded.handle, name.encode())
        self.info = c.KernelInfo()
        c.call("tessKernelGetInfo", self.handle, ctypes.byref(self.info))
        self.parameters = tuple(self._parameter(i) for i in range(self.info.paramCount))

    def _parameter(self, index):
        p = c.ParamInfo()
        c.call("tessKernelGetParam", self.handle, index, ctypes.byref(p))
        return Parameter(p.name.decode(), p.kind, BY_ID.get(p.dtype), p.size, p.offset, p.space,
                         ("in", "out", "inout")[p.direction])

    def __repr__(self):
        return f"tessera.Kernel({self.name}({', '.join(p.name for p in self.parameters)}))"


class _Kernels(collections.abc.Mapping):
    """The kernels of a module by name."""

    def __init__(self, loaded):
        self._loaded, self._made = loaded, {}
        count = c.integer("tessModuleGetKernelCount", loaded.handle)
        self._names = [self._name(i) for i in range(count)]

    def _name(self, index):
        out = c_char_p()
        c.call("tessModuleGetKernelName", self._loaded.handle, index, ctypes.byref(out))
        return out.value.decode()

    def __getitem__(self, name):
        if name not in self._names:
            raise KeyError(f"{name}: expected one of {', '.join(self._names)}")
        if name not in self._made:
            self._made[name] = Kernel(self._loaded, name)
        return self._made[name]

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)


class Module:
    """Kernels from a fatbin. `kernel[name]` is one of them."""

    def __init__(self, context, image):
        self._loaded = _Loaded(context, image)
        self.kernel = _Kernels(self._loaded)

    def explain(self):
        """JSON about the module: kernels, parameters, targets present and selected, plans, policy."""
        return c.text("tessExplain", self._loaded.handle)

    def unload(self):
        """Kernels of the module are gone for new work; what was launched ends."""
        self._loaded.unload()


def load(image, context=None):
    """A module from the bytes of a fatbin. Its plans and its policy count as long as somebody refers to it or to one of its
    kernels."""
    return Module(context or current_context(), image)


class Arguments:
    """Values for the parameters of a kernel that is known at the launch."""

    def __init__(self, values, named):
        self.values, self.named = values, named

    def pack(self, kernel):
        """The parameter buffer: each value as its parameter's record says."""
        values = self._in_order(kernel)
        made = [_value(p, v, kernel) for p, v in zip(kernel.parameters, values)]
        pointers = (c_void_p * max(1, len(made)))(*(ctypes.addressof(m) for m in made))
        size = c_size_t(kernel.info.argBytesPadded)
        out = ctypes.create_string_buffer(max(1, size.value))
        c.call("tessPackArgs", kernel.handle, pointers, len(made), out, ctypes.byref(size))
        return out.raw[:size.value]

    def _in_order(self, kernel):
        names = [p.name for p in kernel.parameters]
        if len(self.values) > len(names):
            raise invalid(f"arguments of {kernel.name}: expected {len(names)}, found {len(self.values)}")
        out = dict(zip(names, self.values))
        for name, value in self.named.items():
            if name not in names or name in out:
                raise invalid(f"arguments of {kernel.name}: expected {name} "
                              f"{'once' if name in out else 'among ' + ', '.join(names)}, found it by name")
            out[name] = value
        missing = [n for n in names if n not in out]
        if missing:
            raise invalid(f"arguments of {kernel.name}: expected {len(names)}, found none for {', '.join(missing)}")
        return [out[n] for n in names]


def _value(parameter, value, kernel):
    what = f"argument {parameter.name} of {kernel.name}"
    if parameter.kind == POINTER:
        return c_void_p(_address(parameter, value, what))
    if parameter.kind == OPAQUE or parameter.dtype is None:
        if not isinstance(value, (bytes, bytearray)) or len(value) != parameter.size:
            raise invalid(f"{what}: expected {parameter.size} bytes, found {value!r}")
        return buffer_of(bytes(value))
    return buffer_of(parameter.dtype.to_bytes(value, what))


def _address(parameter, value, what):
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if not isinstance(value, (Array, Instance, Imported)):
        raise invalid(f"{what}: expected an array, an address or None, found {value!r}")
    array = value.array if isinstance(value, Instance) else value
    if parameter.dtype is not None and array.dtype is not parameter.dtype:
        raise invalid(f"{what}: expected elements of {parameter.dtype.name}, found {array.dtype.name}")
    if isinstance(value, Imported) and not value.contiguous:
        raise invalid(f"{what}: expected a row-major tensor, found strides {value.strides}")
    return value.address


def pack_args(*values, **named):
    """Arguments for a launch, by position and by name. Their types are those of the kernel's parameters: a whole number is
    an int32 or an int64 as the kernel declares it, and one that does not fit is an error."""
    return Arguments(values, named)


def config_of(grid, block, shared_bytes, flags):
    def three(what, missing):
        extents = (what,) if isinstance(what, int) else tuple(what)
        return (ctypes.c_int * 3)(*(extents + (missing,) * (3 - len(extents))))

    return c.LaunchConfig(three(grid, 1), three(block, 0), shared_bytes, flags)


def packed(kernel, args):
    """Parameter buffer of what `launch` accepts: Arguments, bytes, a sequence, or nothing; and the objects in it."""
    if isinstance(args, (bytes, bytearray)):
        return bytes(args), None
    if not isinstance(args, Arguments):
        args = Arguments(tuple(args or ()), {})
    return args.pack(kernel), args


def launch(kernel, mesh, grid=(1, 1, 1), block=(0, 0, 0), args=None, stream=None, shared_bytes=0, flags=DEFAULT):
    """Runs `grid` blocks on each device, behind what the stream has. Extents of 0 in `block` are the kernel's own."""
    buffer, used = packed(kernel, args)
    stream = stream or default_stream(mesh)
    c.call("tessLaunch", kernel.handle, mesh.handle, config_of(grid, block, shared_bytes, flags), buffer, len(buffer),
           stream.handle)
    if flags & CAPTURE and stream.recorded is None:
        stream.recorded = []
    note(stream, (kernel, used))
