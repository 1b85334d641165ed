#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the sources of kernels with one planted fault each: `plant.py ROOT OUT`.

Each fault replaces one text of a source by another. Every variant lies in a namespace of its own and is compiled for the host like
the kernels themselves.
"""
import re
import sys

VECTORS, ROWS, MATMUL = "demos/kernels/vectors.cu", "demos/kernels/rows.cu", "demos/kernels/matmul.cu"
GRID = "tessera/device/cuda/kernels/grid_barrier.hpp"
REDUCTIONS = "tessera/device/cuda/kernels/reductions.cu"
REDUCTION_TYPES = "tessera/device/cuda/kernels/reduction_types.hpp"
MEMORY = "tessera/device/cuda/kernels/memory.cu"

# Name, source, kernel, text before, text after.
FAULTS = [
    ("a barrier is left out", VECTORS, "block_sum", "    barrier();\n    if (t < half", "    if (t < half"),
    ("a barrier stands in a divergent branch", VECTORS, "block_sum",
     "    barrier();\n    if (t < half && t + half < threads) {", "    if (t < half && t + half < threads) {\n      barrier();"),
    ("a barrier behind the use of a tile is left out", MATMUL, "matmul",
     "        barrier();\n      }\n      if (mine", "      }\n      if (mine"),
    ("a barrier before the use of a tile is left out", MATMUL, "matmul",
     "        barrier();\n        const std::int64_t rest", "        const std::int64_t rest"),
    ("an index is one too far", VECTORS, "saxpy", "i < n;\n       i += step) {\n    store(y", "i <= n;\n       i += step) {\n    store(y"),
    ("an index of shared memory is one too far", MATMUL, "matmul",
     "e < tile_depth * tile_columns", "e <= tile_depth * tile_columns"),
    ("shared memory is read before it is written", ROWS, "flash_attention_fused",
     "t < keys; t += thread_count()) {\n        store(scores", "t < keys - 1; t += thread_count()) {\n        store(scores"),
    ("a plain store stands beside an atomic operation", VECTORS, "atomic_sum",
     "    before = found;\n", "    store(bits, 0, found);\n    before = found;\n"),
    ("a plain load and store replace an atomic exchange", VECTORS, "atomic_sum",
     "const std::uint32_t found = atomic_exchange_if(bits, before, after);",
     "const std::uint32_t found = load(bits, 0);\n    store(bits, 0, after);\n    before = found;"),
    ("all threads write what one should", VECTORS, "block_sum", "  if (t == 0) {\n    store(sums", "  {\n    store(sums"),
    ("a thread leaves before the barrier", VECTORS, "block_sum",
     "  store(shared, t, sum);", "  store(shared, t, sum);\n  if (t == threads - 1 && t > 0) {\n    return;\n  }"),
    ("blocks go on without the barrier of the grid", VECTORS, "persistent_heat",
     "    if (grid_barrier(facts)) {\n      return;\n    }\n", "    barrier();\n    if (load(facts.barrier, 2) != 0) {\n      return;\n    }\n"),
    ("the barrier of the grid does not wait for the block", GRID, "persistent_heat",
     "  barrier();\n  if (thread_number", "  if (thread_number"),
    ("the barrier of the grid lets threads go on at once", GRID, "persistent_heat",
     "  barrier();\n  return", "  return"),
    ("lanes are added without a barrier", ROWS, "softmax", "    barrier();\n    WEIR_ROLLED\n    for (std::int32_t l = thread_number(); l < half; l += threads)",
     "    WEIR_ROLLED\n    for (std::int32_t l = thread_number(); l < half; l += threads)"),
    ("a sum is read while others add to it", ROWS, "layer_norm",
     "  barrier();\n  return load(lanes, 0);\n}\n\n/// Returns the sum of f(i)", "  return load(lanes, 0);\n}\n\n/// Returns the sum of f(i)"),
    ("a kernel reads the inputs of one rank too many", REDUCTIONS, "weir_reduce_tree",
     "r < ranks; ++r) {\n    const auto* part", "r <= ranks; ++r) {\n    const auto* part"),
    ("the threads of a fill overlap", MEMORY, "weir_fill", "b < pattern_bytes; ++b", "b <= pattern_bytes; ++b"),
]
# The faults that are no races: accesses outside of memory, and barriers that not all threads reach.
OTHERS = {"a barrier stands in a divergent branch", "an index is one too far", "an index of shared memory is one too far",
          "a thread leaves before the barrier", "a kernel reads the inputs of one rank too many"}


CONVERSIONS = "".join(f"using ::weir::{name};\n" for name in ("fp16_to_float", "bf16_to_float", "fp8_e4m3_to_float", "fp8_e5m2_to_float",
                                                      "float_to_fp16", "float_to_bf16", "float_to_fp8_e4m3", "float_to_fp8_e5m2"))


def variant(root, number, fault):
    """Returns the text of one fault's namespace."""
    name, source, kernel, before, after = fault
    sources = [source]
    if source == GRID:
        sources = [GRID, VECTORS]
    elif source == VECTORS:
        sources = [GRID, VECTORS]
    elif source == REDUCTIONS:
        sources = [REDUCTION_TYPES, REDUCTIONS]
    out = [f"namespace plant_{number} {{\n"]
    for path in sources:
        with open(f"{root}/{path}", encoding="utf-8") as file:
            text = file.read()
        if path == source:
            if text.count(before) != 1:
                sys.exit(f"plant.py: cannot plant \"{name}\": expected its text once in {path}, found it {text.count(before)} times")
            text = text.replace(before, after)
        text = re.sub(r"^#(include|pragma once).*$", "", text, flags=re.MULTILINE)
        text = text.replace("namespace weir::device_code {",
                            "namespace weir {\nnamespace math = ::weir::math;\nnamespace tessera = ::weir::tessera;\n" + CONVERSIONS +
                            "namespace device_code {\nusing namespace ::weir::device_code;")
        text = text.replace("}  // namespace weir::device_code", "}\n}")
        if "namespace device_code {" not in text:
            out.append("namespace weir {\nnamespace math = ::weir::math;\nnamespace tessera = ::weir::tessera;\nnamespace device_code {\nusing namespace ::weir::device_code;\n}\n}\n")
        out.append(text)
    out.append("}\n")
    return "".join(out)


def main():
    root, target = sys.argv[1:]
    unknown = OTHERS - {fault[0] for fault in FAULTS}
    if unknown:
        sys.exit(f"plant.py: cannot tell races from other faults: expected names of faults, found {sorted(unknown)}")
    parts = ["// Generated by plant.py: kernels with one planted fault each.\n",
             "#include \"cpu_kernels/planted.hpp\"\n\n#include \"cpu_kernels/calls.hpp\"\n",
             "#include \"kernels/device.hpp\"\n#include \"launch_facts.hpp\"\n#include \"weir/base/small_floats.hpp\"\n\n"]
    parts += [variant(root, i, fault) for i, fault in enumerate(FAULTS)]
    parts.append("\nnamespace weir::tessera::kernel_machine {\nstd::vector<planted_fault> planted_faults() {\n  return {\n")
    for i, (name, _, kernel, _, _) in enumerate(FAULTS):
        race = str(name not in OTHERS).lower()
        parts.append(f"      {{\"{name}\", caller<&::plant_{i}::{kernel}>::made(\"{kernel}\"), {race}}},\n")
    parts.append("  };\n}\n}  // namespace weir::tessera::kernel_machine\n")
    with open(target, "w", encoding="utf-8") as file:
        file.write("".join(parts))


if __name__ == "__main__":
    main()
