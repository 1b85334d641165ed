// SPDX-License-Identifier: Apache-2.0
/// @file
/// Which launches may have another block, which blocks there are, what they are kept as.
#include "stream/block_tuner.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "device/cpu.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/hash.hpp"

namespace weir::tessera {
namespace {

/// Threads along x that are tried beside the module's own extents. Each is four times the
/// one before, since neighbours hardly differ.
constexpr std::array<std::int32_t, 4> tried_extents = {16, 64, 256, 1024};

std::vector<block_extents> blocks_of(const stream& target, const kernel_record& record) {
  const block_extents usual = usual_block(record);
  std::vector<block_extents> out{usual};
  const auto device = target.context().backend().properties(target.device_of(0));
  if (!device) {
    return out;
  }
  const launch_limits& limits = device->limits;
  const std::int64_t most = std::min<std::int64_t>(record.max_threads, limits.threads);
  for (const std::int32_t extent : tried_extents) {
    const block_extents block = {extent, usual[1], usual[2]};
    if (block != usual && extent <= limits.block[0] &&
        std::int64_t{extent} * block[1] * block[2] <= most) {
      out.push_back(block);
    }
  }
  return out;
}

std::uint64_t digits(std::uint64_t number) {
  return static_cast<std::uint64_t>(std::bit_width(number));
}

bool is_whole_number(const kernel_parameter& p) {
  return p.kind == parameter_kind::scalar &&
         p.dtype >= static_cast<std::uint32_t>(dtype::int8) &&
         p.dtype <= static_cast<std::uint32_t>(dtype::int64);
}

block_key key_of(const stream& target, const launch_request& request,
                 const numerics_policy& policy) {
  const loaded_kernel& kernel = *request.kernel.kernel;
  block_key out;
  out.module = request.kernel.module->content_hash();
  out.kernel = kernel.record.name;
  for (const std::int32_t extent : request.grid) {
    out.shape.push_back(digits(static_cast<std::uint64_t>(extent)));
  }
  out.shape.push_back(digits(request.shared_bytes));
  out.shape.push_back(target.lanes());
  out.shape.push_back(target.context().workers());
  for (const kernel_parameter& p : kernel.record.parameters) {
    out.dtypes.push_back(p.dtype);
    if (is_whole_number(p)) {
      std::uint64_t value = 0;  // little-endian, and no wider than this
      std::memcpy(&value, static_cast<const std::byte*>(request.args) + p.offset,
                  std::min<std::size_t>(p.size, sizeof value));
      out.shape.push_back(digits(value));
    }
  }
  const tessDeterminism determinism = target.describe(policy);
  const std::array<std::uint32_t, 3> words = {determinism.policy, determinism.level,
                                              determinism.stableToggles};
  out.policy = xxh3_64(std::as_bytes(std::span(words)));
  return out;
}

/// Extents as text in the cache: "64,1,1". Nothing for other text.
std::optional<block_extents> block_from(std::string_view text) {
  block_extents out{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto [next, problem] = std::from_chars(at, end, out[i]);
    const bool last = i + 1 == out.size();
    if (problem != std::errc() || out[i] < 1 || (last ? next != end : next == end) ||
        (!last && *next != ',')) {
      return std::nullopt;
    }
    at = last ? next : next + 1;
  }
  return out;
}

}  // namespace

bool is_zero(const block_extents& block) noexcept {
  return std::all_of(block.begin(), block.end(), [](std::int32_t n) { return n == 0; });
}

block_extents usual_block(const kernel_record& record) {
  constexpr std::int32_t unsaid = 128;
  block_extents out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::int32_t>(record.default_block[i]);
  }
  if (is_zero(out)) {
    out[0] = unsaid;
  }
  for (std::int32_t& extent : out) {
    extent = std::max(extent, 1);
  }
  return out;
}

cache_key cache_key_of(const block_key& key) {
  cache_key out;
  out.kind = cache_kind::tuning;
  out.kernel = key.kernel;
  out.module_hash = key.module;
  out.shape = key.shape;
  out.dtypes = key.dtypes;
  out.arch = cpu_arch();
  std::memcpy(out.policy.data(), &key.policy, sizeof key.policy);
  return out;
}

block_tuner::store block_store_in(module_cache& cache) {
  block_tuner::store out;
  out.load = [&cache](const block_key& key) -> result<std::optional<block_extents>> {
    WEIR_TRY(const auto found, cache.get(cache_key_of(key)));
    return found ? block_from(as_text(*found)) : std::nullopt;
  };
  out.keep = [&cache](const block_key& key, const block_extents& block) {
    const std::string text = fmt::format("{},{},{}", block[0], block[1], block[2]);
    static_cast<void>(cache.put(cache_key_of(key), as_view(text)));
  };
  return out;
}

result<block_choice> choose_block(stream& target, const launch_request& request,
                                  const numerics_policy& policy) {
  const kernel_record& record = request.kernel.kernel->record;
  const block_choice usual{usual_block(record), {}};
  const bool fixed = (record.flags & TESS_KERNEL_DETERMINISTIC) != 0;
  if ((policy.deterministic && !fixed) ||
      !check_arguments(record.parameters, request.args, request.args_bytes)) {
    return usual;  // why it cannot run, the launch says
  }
  const block_key key = key_of(target, request, policy);
  const auto candidates = [&] { return blocks_of(target, record); };
  block_tuner& known = target.context().blocks();
  WEIR_TRY(const auto fastest, known.fastest(key, candidates));
  if (fastest) {
    return block_choice{*fastest, {}};
  }
  // A launch that is recorded keeps its block.
  if (!target.context().measures(policy) || request.in_graph || target.records()) {
    return usual;
  }
  const auto next = known.next(key, candidates);
  return next ? block_choice{*next, block_trial{key, *next}} : usual;
}

}  // namespace weir::tessera
