// SPDX-License-Identifier: Apache-2.0
/// @file
/// The kernels of the conformance suite as functions that compute a whole grid, and
/// kernels that break a device.
#include "tessera/cuda/listed_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <string_view>
#include <thread>

#include <fmt/core.h>

namespace weir::tessera::stand_in {
namespace {

constexpr std::uint32_t int32_type = 9;
constexpr std::uint32_t int64_type = 10;

std::size_t blocks_of(const launch_request& r) {
  return std::size_t{r.grid[0]} * r.grid[1] * r.grid[2];
}
std::size_t threads_of_block(const launch_request& r) {
  return std::size_t{r.block[0]} * r.block[1] * r.block[2];
}

/// Returns the report of a launch that has touched arrays.
template <class T>
touched_range range_of(const T* first, std::size_t count, bool written) {
  return {reinterpret_cast<std::uintptr_t>(first), count * sizeof(T), written};
}
launch_report exactly(std::vector<touched_range> ranges) {
  return {true, std::move(ranges)};
}

result<launch_report> write_indices(const launch_request& r) {
  auto* const out = argument<std::int32_t*>(r, 0);
  const std::size_t count = blocks_of(r) * threads_of_block(r);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] += static_cast<std::int32_t>(i) + 1;
  }
  return exactly({range_of(out, count, true)});
}

result<launch_report> write_facts(const launch_request& r) {
  auto* const begin = argument<std::int32_t*>(r, 0);
  const cuda::launch_facts f = facts_of_launch(r);
  std::int32_t* out = std::copy(r.grid.begin(), r.grid.end(), begin);
  out = std::copy(r.block.begin(), r.block.end(), out);
  *out++ = f.rank;
  *out++ = f.ranks;
  *out++ = f.device;
  out = std::copy(f.axis_size, f.axis_size + 4, out);
  out = std::copy(f.axis_index, f.axis_index + 4, out);
  const auto* const bytes = static_cast<const std::uint8_t*>(f.constants);
  *out = std::accumulate(bytes, bytes + f.constant_bytes, 0);
  return exactly({range_of(begin, 18, true)});
}

result<launch_report> reverse(const launch_request& r) {
  const auto* const in = argument<const std::int32_t*>(r, 0);
  auto* const out = argument<std::int32_t*>(r, 1);
  const std::size_t n = threads_of_block(r);
  if (r.dynamic_shared_bytes < n * sizeof(std::int32_t)) {
    return error(errc::out_of_range, "reverse: expected more shared memory");
  }
  for (std::size_t b = 0; b < blocks_of(r); ++b) {
    std::reverse_copy(in + b * n, in + (b + 1) * n, out + b * n);
  }
  return exactly(
      {range_of(in, blocks_of(r) * n, false), range_of(out, blocks_of(r) * n, true)});
}

result<launch_report> fail_block(const launch_request& r) {
  auto* const out = argument<std::int32_t*>(r, 0);
  const auto wrong = argument<std::int32_t>(r, 1);
  const cuda::launch_facts f = facts_of_launch(r);
  for (std::size_t b = 0; b < blocks_of(r); ++b) {
    if (static_cast<std::int64_t>(b) == wrong) {
      f.report->block = static_cast<std::uint32_t>(b);
      f.report->failure = static_cast<std::uint32_t>(argument<std::int32_t>(r, 2));
    } else {
      ++out[b];
    }
  }
  return exactly({range_of(out, blocks_of(r), true)});
}

result<launch_report> grid_sum(const launch_request& r) {
  auto* const slots = argument<std::int32_t*>(r, 0);
  auto* const sums = argument<std::int64_t*>(r, 1);
  const std::size_t n = blocks_of(r);
  for (std::int32_t round = 0; round < argument<std::int32_t>(r, 2); ++round) {
    for (std::size_t b = 0; b < n; ++b) {
      ++slots[b];
    }
    const std::int64_t sum = std::accumulate(slots, slots + n, std::int64_t{0});
    for (std::size_t b = 0; b < n; ++b) {
      sums[b] += sum;
    }
  }
  return exactly({range_of(slots, n, true), range_of(sums, n, true)});
}

/// Waits for the request to stop. It gives up after a time in which a request surely
/// comes, because a planted mistake can take the word away before the kernel has seen it.
result<launch_report> until_stop(const launch_request& r) {
  using clock = std::chrono::steady_clock;
  auto* const out = argument<std::int32_t*>(r, 0);
  const cuda::launch_facts f = facts_of_launch(r);
  const std::atomic_ref stop(*const_cast<std::uint32_t*>(f.stop));
  const clock::time_point end = clock::now() + std::chrono::seconds(5);
  while (stop.load() == 0 && clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  std::fill_n(out, blocks_of(r), 7);
  return exactly({range_of(out, blocks_of(r), true)});
}

/// Writes behind the end of an allocation, which the stand-in refuses.
result<launch_report> write_astray(const launch_request& r) {
  auto* const out = argument<std::int32_t*>(r, 0) + (std::size_t{1} << 28);
  if (!r.accessible(out, sizeof *out, true)) {
    return error(errc::out_of_range, "write_astray: an address outside of allocations");
  }
  return exactly({});
}

result<launch_report> assert_false(const launch_request& /*r*/) {
  return error(errc::kernel_failed, "assert_false: an assertion");
}

kernel_parameter int32_pointer(const char* name) {
  return pointer_parameter(name, int32_type, parameter_direction::inout);
}

}  // namespace

std::vector<listed_kernel> conformance_list() {
  const auto number = [](const char* name) { return scalar_parameter(name, int32_type); };
  return {{"write_indices", {int32_pointer("out")}, 0, false, &write_indices},
          {"write_facts", {int32_pointer("out")}, 0, true, &write_facts},
          {"reverse",
           {pointer_parameter("in", int32_type), int32_pointer("out")},
           TESS_KERNEL_USES_BARRIER,
           false,
           &reverse},
          {"fail_block",
           {int32_pointer("out"), number("block"), number("status")},
           0,
           true,
           &fail_block},
          {"grid_sum",
           {int32_pointer("slots"),
            pointer_parameter("sums", int64_type, parameter_direction::inout),
            number("rounds")},
           TESS_KERNEL_PERSISTENT_CAPABLE,
           true,
           &grid_sum},
          {"until_stop",
           {int32_pointer("out")},
           TESS_KERNEL_PERSISTENT_ONLY,
           true,
           &until_stop},
          {"write_astray", {int32_pointer("out")}, 0, false, &write_astray},
          {"assert_false", {}, 0, false, &assert_false}};
}

result<module_id> listed_executor::load(std::span<const std::byte> image) {
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  if (!text.starts_with(".version ") || text.find("// listed kernels") == text.npos) {
    return error(errc::corrupt, "line 1: expected listed kernels");
  }
  ++loaded_;
  return next_++;
}

result<function_facts> listed_executor::find(module_id /*module*/,
                                             std::string_view name) {
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    if (kernels_[i].name != name) {
      continue;
    }
    function_facts facts;
    facts.id = i;
    std::size_t end = 0;
    for (const kernel_parameter& p : kernels_[i].parameters) {
      end = (end + p.size - 1) / p.size * p.size;
      facts.parameters.push_back({end, p.size});
      end += p.size;
    }
    if (kernels_[i].wants_facts) {
      facts.parameters.push_back({(end + 7) / 8 * 8, sizeof(cuda::launch_facts)});
    }
    return facts;
  }
  return error(errc::not_found, "find a kernel: expected a listed name");
}

result<launch_report> listed_executor::launch(const launch_request& request) {
  return kernels_[request.function].run(request);
}

kernel_record record_of(const listed_kernel& k) {
  kernel_record record;
  record.name = k.name;
  record.parameters = k.parameters;
  record.flags = k.flags;
  return record;
}

byte_vector listed_executor::container(const std::string& ptx_version) const {
  fatbin_builder builder;
  const std::string text =
      ".version " + ptx_version + "\n.target sm_75\n// listed kernels\n";
  const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
  builder.add_code(section_kind::ptx, "compute_75", bytes_view(bytes, text.size()));
  for (const listed_kernel& k : kernels_) {
    or_throw(builder.add_kernel(record_of(k)));
  }
  return or_throw(builder.build());
}

}  // namespace weir::tessera::stand_in
