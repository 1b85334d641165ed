// SPDX-License-Identifier: Apache-2.0
/// @file
/// Packs the shared objects of the kernels into one fatbin:
/// `pack_kernels OUT LEVEL=FILE... -- SOURCE...`, where the sources give the source hash.
/// A level that begins with "compute_" is that of a file of PTX, one that begins with
/// "sm_" that of a cubin.
#include <fmt/core.h>

#include <cstdio>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera_kernel.h"
#include "weir/base/file.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace {

using namespace weir;
using namespace weir::tessera;
using direction = parameter_direction;

constexpr std::uint32_t fp32 = 5, int32 = 9, int64 = 10;
constexpr std::uint32_t fixed_order = TESS_KERNEL_DETERMINISTIC;

// Short names for the parameters of the kernels: fp32 pointers and numbers.
kernel_parameter reads_from(const char* name) {
  return pointer_parameter(name, fp32);
}
kernel_parameter writes_to(const char* name) {
  return pointer_parameter(name, fp32, direction::out);
}
kernel_parameter changes(const char* name) {
  return pointer_parameter(name, fp32, direction::inout);
}
kernel_parameter number(const char* name, std::uint32_t dtype) {
  return scalar_parameter(name, dtype);
}

// Returns the record of a kernel whose default block has 128 threads.
kernel_record kernel(const char* name, std::vector<kernel_parameter> parameters,
                     std::uint32_t flags = fixed_order) {
  kernel_record out;
  out.name = name;
  out.parameters = std::move(parameters);
  out.default_block = {128, 1, 1};
  out.flags = flags;
  return out;
}

// Returns the records in the order of `library.cpp`.
std::vector<kernel_record> all_kernels() {
  std::vector<kernel_record> out{
      kernel("flash_attention_fused",
             {reads_from("Q"), reads_from("K"), reads_from("V"), writes_to("O"),
              number("B", int32), number("H", int32), number("L", int32),
              number("D", int32), number("scale", fp32)}),
      kernel("matmul", {reads_from("a"), reads_from("b"), writes_to("c"),
                        number("m", int32), number("n", int32), number("k", int32)}),
      kernel("softmax", {reads_from("x"), writes_to("y"), number("rows", int32),
                         number("columns", int32)}),
      kernel("layer_norm",
             {reads_from("x"), reads_from("gain"), reads_from("shift"), writes_to("y"),
              number("rows", int32), number("columns", int32), number("epsilon", fp32)}),
      kernel("saxpy",
             {reads_from("x"), changes("y"), number("n", int64), number("a", fp32)}),
      kernel("block_sum", {reads_from("x"), writes_to("sums"), number("n", int64)},
             fixed_order | TESS_KERNEL_PER_THREAD | TESS_KERNEL_USES_BARRIER),
      kernel("atomic_sum", {reads_from("x"), changes("total"), number("n", int64)}, 0),
      kernel(
          "persistent_heat",
          {changes("a"), changes("b"), pointer_parameter("done", int64, direction::out),
           number("n", int64), number("steps", int64)},
          fixed_order | TESS_KERNEL_PERSISTENT_ONLY | TESS_KERNEL_PERSISTENT_CAPABLE),
      kernel("empty", {}),
  };
  out[5].shared_bytes = 4096;  // a float for each of 1024 threads
  out[7].default_block = {1, 1, 1};
  return out;
}

// The text that `weir module explain` prints: fused operations and tile sizes.
constexpr std::string_view explanation =
    R"({"fusion_groups":[{"kernel":"flash_attention_fused",)"
    R"("operations":["matmul","scale","softmax","matmul"]}],)"
    R"("tile_shapes":{"flash_attention_fused":{"rows":1,"keys":64},)"
    R"("matmul":{"rows":16,"columns":64}}})";

// Builds the fatbin from `OUT LEVEL=FILE... -- SOURCE...` and writes it. Its plan
// proposes the tree algorithm for collectives of up to 64 KiB along "ep".
result<void> pack(std::span<char*> args) {
  fatbin_builder builder;
  for (kernel_record& k : all_kernels()) {
    WEIR_CHECK(builder.add_kernel(std::move(k)));
  }
  std::deque<byte_vector> code;
  sha256_stream sources;
  bool is_source = false;
  for (const std::string_view arg : args.subspan(1)) {
    if (arg == "--") {
      is_source = true;
      continue;
    }
    const std::size_t equals = is_source ? arg.npos : arg.find('=');
    const std::string path(is_source ? arg : arg.substr(equals + 1));
    WEIR_TRY(byte_vector bytes, read_file(posix_file_system(), path));
    if (is_source) {
      sources.text(as_text(bytes));
      continue;
    }
    code.push_back(std::move(bytes));
    const section_kind kind = arg.starts_with("compute_") ? section_kind::ptx
                              : arg.starts_with("sm_")    ? section_kind::cubin
                                                          : section_kind::cpu_so;
    builder.add_code(kind, std::string(arg.substr(0, equals)), code.back());
  }
  builder.set_source_hash(sources.digest());
  builder.set_explain(std::string(explanation));
  plan_record plan;
  plan.collective = 1;
  plan.dtype = 4;
  plan.axis = "ep";
  plan.algorithm = 2;
  plan.max_bytes = 65536;
  builder.add_plan(plan);
  WEIR_TRY(const byte_vector image, builder.build());
  return write_file_atomically(posix_file_system(), args[0], image);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: pack_kernels OUT LEVEL=FILE... -- SOURCE...\n");
    return 2;
  }
  const auto packed = pack(std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
  if (!packed) {
    fmt::print(stderr, "pack_kernels: {}\n", packed.error().message());
    return exit_code_of(packed.error().code());
  }
  return 0;
}
