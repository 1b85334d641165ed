# SPDX-License-Identifier: Apache-2.0
"""The Tessera runtime from Python: thin wrappers of the C interface.

    import tessera as ts

    ctx = ts.init()
    mesh = ts.mesh(devices=range(8), axes=dict(tp=2, dp=4))
    mod = ts.module.load(open("kernels.fatbin", "rb").read())
    x, y = ts.array(values), ts.zeros(values.shape)
    ts.launch(mod.kernel["softmax"], mesh, grid=(4, 1, 1), args=ts.pack_args(x, y, rows, columns))
    ts.collectives.all_reduce(mesh, y, op="sum", axis="dp")
    y.to_numpy()

Calls that name no context, mesh or stream use the last context, the last mesh and that mesh's default stream.
docs/tessera.md says what the calls do.
"""
from . import building, collectives, module
from .arrays import Array, array, empty, from_dlpack, pointer_attributes, registered, zeros
from .building import Builder
from .contexts import Context, Mesh, Policy, init, mesh, set_log, version
from .dtypes import DType, dtype
from .errors import (AbiVersionMismatch, ArchMismatch, CacheCorrupt, CollectiveMismatch, DeterminismViolation, Error,
                     InvalidValue, LaunchFailed, NotInitialized, OutOfMemory, Timeout, Unsupported)
from .graphs import Graph, GraphExec
from .module import (CAPTURE, DEFAULT, DETERMINISTIC, LOW_LATENCY, PERSISTENT, Kernel, Module, launch, pack_args)
from .profiler import Profiler
from .streams import Event, Stream, default_stream, priority_range
