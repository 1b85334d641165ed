// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compiles the kernels of the conformance suite for the host, and packs their PTX.
#include "conformance/conformance_kernels.hpp"

#include <string>
#include <vector>

#include <fmt/core.h>

#include "cpu_kernels/calls.hpp"
#include "cpu_kernels/executor.hpp"
#include "ptx/executor.hpp"
#include "ptx/ptx_kernels.hpp"
#include "tessera/cuda/listed_kernels.hpp"
#include "tests/tessera/cuda/conformance/conformance.cu"

namespace weir::tessera::conformance {
namespace {

constexpr std::uint64_t thread_order_seed = 11;

std::span<const kernel_machine::kernel_entry> host_kernels() {
  using kernel_machine::caller;
  namespace code = device_code::conformance;
  static const std::vector<kernel_machine::kernel_entry> entries = {
      caller<&code::write_indices>::made("write_indices"),
      caller<&code::write_facts>::made("write_facts"),
      caller<&code::reverse>::made("reverse"),
      caller<&code::fail_block>::made("fail_block"),
      caller<&code::grid_sum>::made("grid_sum"),
      caller<&code::until_stop>::made("until_stop"),
  };
  return entries;
}

}  // namespace

std::shared_ptr<stand_in::kernel_executor> kernel_executor_of(kernel_form form) {
  if (form == kernel_form::ptx) {
    return std::make_shared<ptx::ptx_executor>(thread_order_seed);
  }
  return std::make_shared<kernel_machine::source_executor>(thread_order_seed,
                                                           host_kernels());
}

// The list has two kernels more, which break a device and are in no source.
byte_vector conformance_container(const std::string& text) {
  fatbin_builder builder;
  builder.add_code(section_kind::ptx, "compute_75", as_view(text));
  for (const stand_in::listed_kernel& k : stand_in::conformance_list()) {
    if (text.find(fmt::format(".entry {}(", k.name)) != std::string::npos) {
      or_throw(builder.add_kernel(stand_in::record_of(k)));
    }
  }
  return or_throw(builder.build());
}

byte_vector conformance_container() {
  return conformance_container(ptx::conformance_text());
}

}  // namespace weir::tessera::conformance
