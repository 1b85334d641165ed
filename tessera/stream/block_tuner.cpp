// SPDX-License-Identifier: Apache-2.0
/// @file
/// Candidate blocks of a launch, the key under which their times are kept, and the
/// choice.
///
/// A kernel marked `TESS_KERNEL_ANY_BLOCK` computes the same values with any block, but
/// not at the same speed. The tuner measures each candidate on real launches. Launches
/// with the same key share their measurements, and the fastest block is kept in the cache
/// on disk.
#include "stream/block_tuner.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>

#include <fmt/core.h>

#include "device/cpu.hpp"
#include "stream/deferred_calls.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/hash.hpp"

/// A choice of the block must never change a result: the tuner is asked only if the
/// kernel gives equal values with any block, or if the policy does not ask for equal
/// values.
namespace weir::tessera {
namespace {

/// Block sizes along x that are tried in addition to the module's own. Each is four times
/// the one before, because neighbouring sizes hardly differ in speed. Limits of kernel
/// and device apply.
constexpr std::array<std::int32_t, 4> tried_extents = {16, 64, 256, 1024};

/// Returns the blocks that are measured. The first is the usual block; the others are
/// those of `tried_extents` that the kernel and the device allow. If the device has no
/// properties, only the usual block is returned.
std::vector<block_extents> blocks_of(const stream& target, const kernel_record& record) {
  const block_extents usual = usual_block(record);
  std::vector<block_extents> out{usual};
  const auto device = target.context().backend().properties(target.device_of(0));
  if (!device) {
    return out;
  }
  const launch_limits& limits = device->limits;
  const std::int64_t max_threads =
      std::min<std::int64_t>(record.max_threads, limits.threads);
  for (const std::int32_t extent : tried_extents) {
    const block_extents block = {extent, usual[1], usual[2]};
    if (block != usual && extent <= limits.block[0] &&
        std::int64_t{extent} * block[1] * block[2] <= max_threads) {
      out.push_back(block);
    }
  }
  return out;
}

/// Returns the number of binary digits. Keys hold digits instead of numbers, so that
/// launches of similar size share their measurements.
std::uint64_t digits(std::uint64_t number) {
  return static_cast<std::uint64_t>(std::bit_width(number));
}

/// The numbers of the signed integer types follow each other.
bool is_whole_number(const kernel_parameter& p) {
  return p.kind == parameter_kind::scalar &&
         p.dtype >= static_cast<std::uint32_t>(dtype::int8) &&
         p.dtype <= static_cast<std::uint32_t>(dtype::int64);
}

/// Returns the key of a launch. It holds everything that may change which block is
/// fastest: the kernel, the sizes, the number of devices and workers, and the policy.
/// `args` has passed `check_arguments`.
block_key key_of(const stream& target, const launch_request& request,
                 const numerics_policy& policy) {
  const loaded_kernel& kernel = *request.kernel.kernel;
  block_key out;
  out.module = request.kernel.module->content_hash();
  out.kernel = kernel.record.name;
  for (const std::int32_t extent : request.grid) {
    out.shape.push_back(digits(static_cast<std::uint64_t>(extent)));
  }
  // Memory, devices and workers count like sizes.
  out.shape.push_back(digits(request.shared_bytes));
  out.shape.push_back(target.chain_count());
  out.shape.push_back(target.context().workers());
  // Types of all parameters, and sizes of those that are whole numbers: the latter are
  // mostly sizes of tensors.
  for (const kernel_parameter& p : kernel.record.parameters) {
    out.dtypes.push_back(p.dtype);
    if (is_whole_number(p)) {
      std::uint64_t value = 0;  // little-endian; scalars have at most 8 bytes
      std::memcpy(&value, static_cast<const std::byte*>(request.args) + p.offset,
                  std::min<std::size_t>(p.size, sizeof value));
      out.shape.push_back(digits(value));
    }
  }
  const tessDeterminism determinism = target.describe(policy);
  // The policy decides which code of a kernel runs.
  const std::array<std::uint32_t, 3> words = {determinism.policy, determinism.level,
                                              determinism.stableToggles};
  out.policy = xxh3_64(std::as_bytes(std::span(words)));
  return out;
}

/// Parses extents from the text of the cache, such as "64,1,1". Returns nothing for other
/// text, so a damaged entry is measured anew.
std::optional<block_extents> block_from(std::string_view text) {
  block_extents out{};
  const char* next_char = text.data();
  const char* const end = next_char + text.size();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto [next, problem] = std::from_chars(next_char, end, out[i]);
    const bool last = i + 1 == out.size();
    // Three numbers from 1 on, separated by commas, and nothing behind them.
    if (problem != std::errc() || out[i] < 1 || (last ? next != end : next == end) ||
        (!last && *next != ',')) {
      return std::nullopt;
    }
    next_char = last ? next : next + 1;
  }
  return out;
}

}  // namespace

bool is_zero(const block_extents& block) noexcept {
  return std::all_of(block.begin(), block.end(), [](std::int32_t n) { return n == 0; });
}

/// The block of the module, or 128 threads. Extents of 0 become 1.
block_extents usual_block(const kernel_record& record) {
  // Threads of a block if the module does not name a default.
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

// The policy takes the first 8 bytes of its member. The rest stays 0.
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

/// The cache must live longer than the store.
block_tuner::store block_store_in(module_cache& cache) {
  block_tuner::store out;
  out.load = [&cache](const block_key& key) -> result<std::optional<block_extents>> {
    WEIR_TRY(const auto found, cache.get(cache_key_of(key)));
    return found ? block_from(as_text(*found)) : std::nullopt;
  };
  // A failure to write the cache is ignored: the next process measures again.
  out.keep = [&cache](const block_key& key, const block_extents& block) {
    const std::string text = fmt::format("{},{},{}", block[0], block[1], block[2]);
    static_cast<void>(cache.put(cache_key_of(key), as_view(text)));
  };
  return out;
}

// Chooses in this order: the usual block if the choice may not change results or the
// arguments are invalid, the fastest block if all candidates are measured, the usual
// block if this launch cannot be measured, and else the next candidate.
result<block_choice> choose_block(stream& target, const launch_request& request,
                                  const numerics_policy& policy) {
  const kernel_record& record = request.kernel.kernel->record;
  const block_choice usual{usual_block(record), {}};
  const bool fixed = (record.flags & TESS_KERNEL_DETERMINISTIC) != 0;
  if ((policy.deterministic && !fixed) ||
      !check_arguments(record.parameters, request.args, request.args_bytes)) {
    return usual;  // the launch itself reports invalid arguments
  }
  const block_key key = key_of(target, request, policy);
  const auto candidates = [&] { return blocks_of(target, record); };
  // The tuner belongs to the context, so all of its streams share what was measured.
  block_tuner& known = target.context().blocks();
  WEIR_TRY(const auto fastest, known.fastest(key, candidates));
  if (fastest) {
    return block_choice{*fastest, {}};
  }
  // Graphs keep the block of the recorded launch, so it is not measured.
  if (!target.context().measures(policy) || request.in_graph || target.records()) {
    return usual;
  }
  // Without a next candidate, all are being measured by other launches.
  const auto next = known.next(key, candidates);
  return next ? block_choice{*next, block_trial{key, *next}} : usual;
}

// Called on a worker, which must not wait for files: a deferred call writes the cache.
void context::took(const block_trial& trial, std::int64_t ns) {
  // Returns true for the last measurement of a key.
  if (!blocks_->took(trial.key, trial.block, ns)) {
    return;
  }
  deferred_->later([self = weak_from_this(), key = trial.key] {
    if (const auto alive = self.lock()) {
      alive->log(log_level::debug, "kernel \"{}\": its fastest block is known",
                 key.kernel);
      alive->blocks_->keep(key);
    }
  });
}

}  // namespace weir::tessera
