// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of the buffers of collectives: of the inputs, to verify the result with them,
/// and of all buffers if devices have them that the host cannot read.
///
/// Ranks meet in memory of the host. The first task of a group then fetches what the
/// ranks read, and the last one writes back what they have written. Both end when the
/// devices have copied, and no worker waits. The bits are those of processors, because
/// the same steps compute them.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "stream/collectives/buffers.hpp"
#include "stream/collectives/group_table.hpp"
#include "stream/deferred_calls.hpp"
#include "weir/tessera/stream/collective.hpp"
#include "weir/tessera/stream/device_step.hpp"

namespace weir::tessera {
namespace {

/// Returns the bytes that a copy takes, so that the next one is aligned as scratch is.
std::size_t padded_copy(std::size_t bytes) noexcept {
  return (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
}

/// Sizes of the buffers of one rank.
struct buffer_sizes {
  std::size_t input = 0;
  std::size_t output = 0;
};
/// A barrier has no buffers.
///
/// The sizes are those of all ranks.
buffer_sizes sizes_of(const collective::collective_plan& plan) {
  const collective::collective_call& call = plan.call();
  if (call.kind == collective::collective_kind::barrier) {
    return {};
  }
  return {extent(call, plan.ranks(), input_is_packed(call)),
          extent(call, plan.ranks(), output_is_packed(call))};
}

/// Bytes of a buffer.
struct byte_range {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};
/// Bytes of the input that a rank reads and bytes of the output that it writes. Other
/// streams may use the rest of the buffers at the same time.
///
/// A range of no bytes is not copied.
struct used_bytes {
  byte_range read;
  byte_range written;
};
/// `all` is a whole buffer, `own` the shard of the rank, `only` a buffer that one rank
/// alone uses.
used_bytes used_by(const collective::collective_plan& plan, std::size_t rank) {
  using kind = collective::collective_kind;
  const collective::collective_call& call = plan.call();
  // A buffer of all elements, and one of a shard.
  const byte_range all{0, extent(call, 1, false)};
  const std::size_t shard = extent(call, plan.ranks(), true);
  const auto own = [&](bool packed) {
    return byte_range{packed ? 0 : rank * shard, shard};
  };
  const auto only = [&](int member) {
    return static_cast<int>(rank) == member ? all : byte_range{};
  };
  // The first range is read, the second is written.
  switch (call.kind) {
    case kind::all_reduce:
    case kind::all_to_all: return {all, all};
    case kind::reduce_scatter: return {all, own(call.packed_shards)};
    case kind::all_gather: return {own(call.packed_shards), all};
    case kind::broadcast: return {only(call.root), all};
    case kind::reduce: return {all, only(call.root)};
    case kind::gather: return {own(call.packed_shards), only(call.root)};
    case kind::scatter: return {only(call.root), own(call.packed_shards)};
    case kind::send: return {only(call.root), only(call.peer)};
    case kind::barrier: break;
  }
  return {};
}

/// Makes memory of the host for the buffers of a group.
std::unique_ptr<host_copies> make_copies(const collective_group& g,
                                         const buffer_sizes& sizes) {
  auto out = std::make_unique<host_copies>();
  // Every copy begins at the alignment of scratch.
  const std::size_t of_rank = padded_copy(sizes.input) + padded_copy(sizes.output);
  // The alignment may take some bytes in front.
  out->bytes.reset(new std::byte[of_rank * g.ranks.size() + scratch_alignment]);
  std::byte* next = aligned_address(out->bytes.get());
  for (std::size_t r = 0; r < g.ranks.size(); ++r) {
    std::byte* const input = next;
    next += padded_copy(sizes.input);
    // An operation in place stays in place.
    std::byte* const output = g.inputs[r] == g.outputs[r] ? input : next;
    next += padded_copy(sizes.output);
    // A rank without a buffer has no copy.
    out->inputs.push_back(g.inputs[r] == nullptr ? nullptr : input);
    out->outputs.push_back(g.outputs[r] == nullptr ? nullptr : output);
  }
  return out;
}

}  // namespace

group_collectives* context::collectives_on(std::span<const std::int32_t> devices,
                                           bool level_0, bool find_only) {
  // Devices that the host can read need none.
  if (groups_ == nullptr) {
    return nullptr;
  }
  std::optional<error> why;
  group_collectives* const out = groups_->get(devices, level_0, find_only, why);
  // The reason is given once, by the call that made them.
  if (why) {
    log(log_level::info, "collectives of {} devices {}: {}", devices.size(),
        out == nullptr ? "use memory of the host" : "do not use NCCL", why->message());
  }
  return out;
}

device_use use_of(const collective::collective_plan& plan, bool verified) {
  // NCCL and our kernels move plain numbers.
  const bool plain = plan.options().wire == collective::wire_format::plain;
  return {plain && !verified && plan.ranks() > 1, plan.call().level == 0};
}

namespace {

pooled_list<std::int32_t> devices_of(const mesh& m, std::span<const int> ranks) {
  pooled_list<std::int32_t> out;
  for (const int rank : ranks) {
    out.push_back(m.devices[static_cast<std::size_t>(rank)]);
  }
  return out;
}

}  // namespace

void open_devices_of(const mesh& m, std::span<const int> ranks, const device_use& use) {
  if (use.computes && !m.context->backend().inline_work()) {
    static_cast<void>(m.context->collectives_on(devices_of(m, ranks), use.level_0));
  }
}

void use_devices(collective_group& g, const mesh& m, const device_use& use,
                 bool find_only) {
  device_backend& backend = m.context->backend();
  // Devices that the host can read need no opening.
  if (backend.inline_work()) {
    return;
  }
  g.copies_by = &backend;
  g.owner = m.context;
  g.devices = devices_of(m, g.ranks);
  // Null if the devices cannot do it; the host does then.
  g.by_devices = use.computes
                     ? m.context->collectives_on(g.devices, use.level_0, find_only)
                     : nullptr;
}

// Starting a collective may wait for memory of a device, so a deferred call does it.
void collective_operation::run_on_devices(collective_group& g) noexcept {
  std::shared_ptr<device_step> working;
  const auto begun = guarded([&]() -> result<void> {
    working = std::make_shared<device_step>(*this, [this, &g](std::optional<error> why) {
      if (why) {
        break_group(g, *std::move(why));
      }
      close(g);
    });
    g.owner->deferred().later([this, &g, done = working->piece()] {
      auto started = guarded([&]() -> result<void> {
        g.by_devices->submit(plan_->call(), g.inputs, g.outputs, done);
        return {};
      });
      if (!started) {
        done(std::move(started));
      }
    });
    return {};
  });
  // There is no memory for a step.
  if (working == nullptr) {
    break_group(g, begun.error());
    close(g);
    return;
  }
  // The step ends with this reason.
  if (!begun) {
    working->refuse(begun.error());
  }
  working->close();
}

// Several steps of a group may fail at the same time.
void collective_operation::break_group(collective_group& g, error why) {
  const std::lock_guard lock(mutex_);
  g.broken.merge({std::make_shared<const error>(std::move(why)), number});
}

/// Copies inputs from the devices. The task ends when all copies have ended.
void collective_operation::fetch(collective_group& g) noexcept {
  std::shared_ptr<device_step> reading;
  auto begun = guarded([&]() -> result<void> {
    g.on_host = make_copies(g, sizes_of(*plan_));
    // Called at the end of all copies, with the first failure.
    reading = std::make_shared<device_step>(*this, [this, &g](std::optional<error> why) {
      if (why) {
        break_group(g, *std::move(why));
      }
      if (g.broken || verify_ == nullptr) {
        return;
      }
      // The inputs are needed once more for the verification.
      auto kept = guarded([&]() -> result<void> {
        keep_inputs(g);
        return {};
      });
      if (!kept) {
        break_group(g, std::move(kept).error());
      }
    });
    // Only what the rank reads is copied.
    for (std::size_t r = 0; r < g.ranks.size(); ++r) {
      const byte_range read = used_by(*plan_, r).read;
      if (read.bytes > 0) {
        reading->give(
            *g.copies_by,
            copy_work{copy_kind::device_to_host,
                      const_cast<std::byte*>(g.on_host->inputs[r]) + read.offset,
                      g.inputs[r] + read.offset, read.bytes, g.devices[r], g.devices[r]});
      }
    }
    return {};
  });
  // Nothing has begun, so nothing will call the end.
  if (reading == nullptr) {
    break_group(g, std::move(begun).error());
    return;
  }
  if (!begun) {
    reading->refuse(std::move(begun).error());
  }
  // No further copies are added.
  reading->close();
}

// Writes nothing if the group has a failure.
void collective_operation::write_back(collective_group& g) noexcept {
  const auto end = [this, &g](std::optional<error> why) {
    if (why) {
      break_group(g, *std::move(why));
    }
    // The memory of the host is not needed any more.
    g.on_host = nullptr;
    close(g);
  };
  std::shared_ptr<device_step> writing;
  auto begun = guarded([&]() -> result<void> {
    // The results are verified before the devices get them.
    if (!g.broken && verify_ != nullptr) {
      WEIR_CHECK(verify(g));
    }
    if (g.broken) {
      return *g.broken.error;
    }
    writing = std::make_shared<device_step>(*this, end);
    for (std::size_t r = 0; r < g.ranks.size(); ++r) {
      const byte_range written = used_by(*plan_, r).written;
      if (written.bytes > 0) {
        writing->give(*g.copies_by,
                      // Only what the rank has written goes back.
                      copy_work{copy_kind::host_to_device, g.outputs[r] + written.offset,
                                g.on_host->outputs[r] + written.offset, written.bytes,
                                g.devices[r], g.devices[r]});
      }
    }
    return {};
  });
  // Nothing is to be copied.
  if (writing == nullptr) {
    end(begun ? std::nullopt : std::optional(std::move(begun).error()));
    return;
  }
  if (!begun) {
    writing->refuse(std::move(begun).error());
  }
  writing->close();
}

// Copies all inputs for the verification, before an operation in place overwrites them.
void collective_operation::keep_inputs(collective_group& g) {
  const std::size_t bytes = extent(plan_->call(), 1, false);
  // One copy after the other.
  g.before.resize(bytes * g.inputs.size());
  for (std::size_t r = 0; r < g.inputs.size(); ++r) {
    std::memcpy(g.before.data() + r * bytes, g.inputs_here()[r], bytes);
  }
}

// Computes the call again by another schedule on the copies and compares the bits.
result<void> collective_operation::verify(collective_group& g) const {
  const collective::collective_call& call = plan_->call();
  const std::size_t bytes = extent(call, 1, false);
  // The operation itself has its own scratch.
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  // The second computation is in place, on the copies.
  for (std::size_t r = 0; r < g.inputs.size(); ++r) {
    outputs.push_back(g.before.data() + r * bytes);
    inputs.push_back(outputs.back());
  }
  std::vector<std::byte> scratch(verify_->scratch_bytes() + scratch_alignment);
  collective::collective_buffers buffers;
  buffers.inputs = inputs;
  buffers.outputs = outputs;
  buffers.scratch = aligned_address(scratch.data());
  // All steps on this thread, one after another.
  for (std::size_t i = 0; i < verify_->steps().size(); ++i) {
    WEIR_CHECK(collective::run_step(*verify_, i, buffers));
  }
  const auto ranks = g.inputs.size();
  // Only results that are defined are compared.
  for (std::size_t r = 0; r < ranks; ++r) {
    if (call.kind == collective::collective_kind::reduce &&
        static_cast<int>(r) != call.root) {
      continue;
    }
    const bool shard = call.kind == collective::collective_kind::reduce_scatter;
    const std::size_t length = shard ? bytes / ranks : bytes;
    const std::size_t offset = shard ? r * length : 0;
    // A packed shard stands at the begin of its buffer.
    const std::size_t there = shard && call.packed_shards ? 0 : offset;
    // Bits are compared, so two different zeros differ.
    if (std::memcmp(g.outputs_here()[r] + there, outputs[r] + there, length) != 0) {
      return error(errc::determinism_violation,
                   fmt::format("collective not verified \"{}\": expected the bits of "
                               "algorithm {}, found others by {} on rank {}",
                               collective::name_of(call.kind),
                               collective::name_of(verify_->options().how),
                               collective::name_of(plan_->options().how), r));
    }
  }
  return {};
}

}  // namespace weir::tessera
