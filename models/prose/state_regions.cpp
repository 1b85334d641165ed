// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order of the regions in the image, the tasks that copy them, and digests.
#include "prose/state_regions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "weir/base/text.hpp"

namespace weir::models {

/// The names are part of the layout hash, so they must not change.
std::string_view name_of(region_kind kind) noexcept {
  switch (kind) {
    case region_kind::parameter: return "parameter";
    case region_kind::moment: return "moment";
    case region_kind::error_buffer: return "error_buffer";
    case region_kind::counter: return "counter";
    case region_kind::context: return "context";
  }
  return "unknown";
}

namespace {

/// Copies memory with stores that bypass the caches. The copy is read much later, by the
/// thread that writes the checkpoint; in the caches it would replace parameters that the
/// next pulse needs at once.
///
/// Falls back to an ordinary copy for small regions.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t size) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64;
  // Streaming stores take whole lines.
  constexpr std::size_t min_size = 4096;  // below it the fence costs more than it saves
  if (size < min_size) {
    std::memcpy(to, from, size);
    return;
  }
  // The bytes up to the first line of the target.
  const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; done + line <= size; done += line) {
    // The source need not be aligned.
    __m128i part[4];
    std::memcpy(part, from + done, line);
    for (std::size_t i = 0; i < 4; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + done) + i, part[i]);
    }
  }
  // Streaming stores are weakly ordered: the fence makes them visible before the task
  // ends.
  _mm_sfence();
  // The rest has less than a line.
  std::memcpy(to + done, from + done, size - done);
#else
  std::memcpy(to, from, size);
#endif
}

/// The bytes of the elements, which are contiguous.
bytes_view bytes_of(const runtime::tensor& t) {
  return {t.data(), static_cast<std::size_t>(t.bytes().hi - t.bytes().lo)};
}

/// Digests must not depend on the order of bytes in memory.
template <class T>
void add_value(xxh3_stream& hash, T value) {
  std::byte little[sizeof(T)];
  store_le(little, value);
  hash.update(little);
}

}  // namespace

/// Name and shape keep equal bytes of different parameters apart.
void parameter_digest::add(std::string_view name, std::span<const std::int64_t> shape,
                           bytes_view bytes) {
  hash_.update(as_view(name));
  // An end that no name contains.
  hash_.update(as_view(std::string_view("\0", 1)));
  add_value(hash_, static_cast<std::uint64_t>(shape.size()));
  for (std::int64_t extent : shape) {
    add_value(hash_, static_cast<std::uint64_t>(extent));
  }
  hash_.update(bytes);
}

/// The order of the calls is the order of the image.
state_regions::state_regions(const prose_config& config, const parameter_layout& layout,
                             model_state<float>& state) {
  // All parameters of one kind come before those of the next.
  const auto put_all = [&](const char* suffix, region_kind kind, const auto& place_of) {
    for (const parameter_info& info : layout.all()) {
      const buffer<float> b = place_of(info);
      put(info.name + suffix, kind, 0, b.store, dtype::fp32,
          b.offset * static_cast<std::int64_t>(sizeof(float)), info.shape());
    }
  };
  // The buffer of the group of a parameter.
  const auto group_of = [](const auto& groups, const parameter_info& info) {
    return groups[static_cast<std::size_t>(info.group)];
  };
  put_all("", region_kind::parameter, [&](const parameter_info& info) {
    return state.parameters.sub(info.offset, info.count());
  });
  // Names tell the kinds apart.
  put_all(".moment1", region_kind::moment, [&](const parameter_info& info) {
    return group_of(state.moments, info).sub(info.group_offset, info.count());
  });
  // The second moments stand behind all first ones of the group.
  put_all(".moment2", region_kind::moment, [&](const parameter_info& info) {
    const std::int64_t size = layout.groups()[static_cast<std::size_t>(info.group)].size;
    return group_of(state.moments, info).sub(size + info.group_offset, info.count());
  });
  put_all(".error", region_kind::error_buffer, [&](const parameter_info& info) {
    return group_of(state.errors, info).sub(info.group_offset, info.count());
  });
  // The counters belong to no parameter.
  put("steps", region_kind::counter, 0, state.counters.store, dtype::uint64, 0,
      {state.counters.count});
  // Contexts are last, so the rest does not depend on the number of lanes.
  for (std::uint32_t lane = 0; lane < config.lanes; ++lane) {
    put_lane(state.lanes[lane], lane);
  }
  make_sections();
}

/// The offset in the image is the sum of the sizes before.
void state_regions::put(std::string name, region_kind kind, std::uint32_t lane,
                        const runtime::storage& store, dtype type,
                        std::int64_t offset_bytes, shape_vector shape) {
  named_region region;
  region.name = std::move(name);
  region.kind = kind;
  region.lane = lane;
  // The storage is known to be large enough.
  region.data = or_throw(runtime::tensor::over(store, type, shape, offset_bytes));
  offsets_.push_back(bytes_);
  bytes_ += bytes_of(region.data).size();
  regions_.push_back(std::move(region));
}

/// The names say block, level and head.
void state_regions::put_lane(const lane_context<float>& lane, std::uint32_t index) {
  const auto whole = [&](std::string name, const buffer<float>& b, shape_vector shape) {
    put(fmt::format("lane{}.{}", index, name), region_kind::context, index, b.store,
        dtype::fp32, b.offset * static_cast<std::int64_t>(sizeof(float)),
        std::move(shape));
  };
  for (std::size_t b = 0; b < lane.blocks.size(); ++b) {
    const block_context<float>& block = lane.blocks[b];
    // The last rows of inputs of the convolution.
    whole(fmt::format("block{}.tail", b), block.tail,
          {conv_taps - 1, block.tail.count / (conv_taps - 1)});
    for (std::size_t h = 0; h < block.open.size(); ++h) {
      whole(fmt::format("block{}.head{}.open", b, h), block.open[h],
            {2, window_rows, head_width});
    }
    for (std::size_t l = 0; l < block.memories.size(); ++l) {
      for (std::size_t h = 0; h < block.memories[l].size(); ++h) {
        const memory_state<float>& m = block.memories[l][h];
        const std::string name = fmt::format("block{}.level{}.head{}", b, l, h);
        whole(name + ".memory", m.memory, {head_width, head_width});
        whole(name + ".accumulator", m.accumulator, {head_width, head_width});
        whole(name + ".open", m.open, {2, window_rows});
      }
    }
  }
  whole("pending", lane.pending, {lane.pending.count});
  put(fmt::format("lane{}.clock", index), region_kind::context, index, lane.clock.store,
      dtype::uint64, 0, {lane.clock.count});
}

/// A section is a run of regions of one kind and one lane.
void state_regions::make_sections() {
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const named_region& r = regions_[i];
    if (sections_.empty() || sections_.back().kind != r.kind ||
        sections_.back().lane != r.lane) {
      sections_.push_back({r.kind, r.lane, offsets_[i], 0});
    }
    sections_.back().bytes += bytes_of(r.data).size();
  }
}

/// Hashes kinds instead of contents.
std::uint64_t state_regions::layout_hash() const noexcept {
  parameter_digest digest;
  for (const named_region& r : regions_) {
    digest.add(r.name, r.data.shape(), as_view(name_of(r.kind)));
  }
  return digest.value();
}

/// There must be one destination per section.
bool state_regions::fits(std::span<const mutable_bytes> to) const {
  return std::equal(to.begin(), to.end(), sections_.begin(), sections_.end(),
                    [](const mutable_bytes& bytes, const state_section& section) {
                      return bytes.size() == section.bytes;
                    });
}

/// The copies are cut into tasks of about a megabyte.
result<std::vector<runtime::task_id>> state_regions::submit_copies(
    task_runner& runner, std::span<const mutable_bytes> to) const {
  if (!fits(to)) {
    return error(errc::invalid_argument,
                 fmt::format("copy of the state: expected destinations of the lengths of "
                             "{} sections, found {} destinations, or other lengths",
                             sections_.size(), to.size()));
  }
  // Large enough that a task costs little, small enough that several workers share the
  // copy.
  constexpr std::uint64_t max_piece = 1 << 20;
  std::vector<runtime::task_id> ids;
  access_list accesses;
  std::size_t first = 0;
  for (std::size_t s = 0; s < sections_.size(); ++s) {
    const std::uint64_t begin = sections_[s].offset;
    const std::uint64_t end = begin + sections_[s].bytes;
    std::byte* const base = to[s].data();
    // A piece does not cross the end of a section.
    while (first < regions_.size() && offsets_[first] < end) {
      std::size_t last = first;
      accesses.clear();
      // A region is never split.
      while (last < regions_.size() && offsets_[last] < end &&
             (last == first || offsets_[last] - offsets_[first] < max_piece)) {
        accesses.reads(regions_[last++].data.bytes());
      }
      // The task holds only indices and the destination.
      const auto copy = [this, first, last, base,
                         begin](const runtime::task_context&) -> result<void> {
        for (std::size_t i = first; i < last; ++i) {
          const bytes_view from = bytes_of(regions_[i].data);
          copy_past_caches(base + (offsets_[i] - begin), from.data(), from.size());
        }
        return {};
      };
      // Pulses that write these regions wait for the copy.
      WEIR_TRY(const auto id, runner.submit("snapshot", accesses, copy));
      ids.push_back(id);
      first = last;
    }
  }
  return ids;
}

/// The caller makes sure that no task runs.
result<void> state_regions::restore(region_kind kind, std::uint32_t lane,
                                    bytes_view bytes) {
  // There is at most one section of a kind and a lane.
  const state_section* section = nullptr;
  for (const state_section& s : sections_) {
    if (s.kind == kind && s.lane == lane) {
      section = &s;
    }
  }
  if (section == nullptr || section->bytes != bytes.size()) {
    return error(
        errc::config_mismatch,
        fmt::format("section {} of lane {}: expected {} bytes, found {}", name_of(kind),
                    lane, section == nullptr ? 0 : section->bytes, bytes.size()));
  }
  // Regions have gaps between them in memory, but none in the image.
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].kind == kind && regions_[i].lane == lane) {
      std::memcpy(regions_[i].data.data(), bytes.data() + (offsets_[i] - section->offset),
                  bytes_of(regions_[i].data).size());
    }
  }
  return {};
}

/// The error proposes a similar name.
result<runtime::tensor> state_regions::parameter(std::string_view name) const {
  std::vector<std::string> names;
  for (const named_region& r : regions_) {
    if (r.kind != region_kind::parameter) {
      continue;
    }
    if (r.name == name) {
      return r.data;
    }
    names.push_back(r.name);
  }
  return error(errc::unknown_key,
               fmt::format("parameter: expected a known name, found {}{}", name,
                           did_you_mean(name, names)));
}

/// Only parameters, so the number of lanes does not matter.
std::uint64_t state_regions::parameter_hash() const {
  parameter_digest digest;
  for (const named_region& r : regions_) {
    if (r.kind == region_kind::parameter) {
      digest.add(r.name, r.data.shape(), bytes_of(r.data));
    }
  }
  return digest.value();
}

/// The order is that of the image.
std::uint64_t state_regions::state_hash() const {
  xxh3_stream hash;
  for (const named_region& r : regions_) {
    hash.update(bytes_of(r.data));
  }
  return hash.digest();
}

/// Bytes that no computation reads are left out.
std::uint64_t context_digest(const prose_config& config,
                             const model_state<float>& state) {
  xxh3_stream hash;
  const auto add = [&](const float* from, std::uint64_t count) {
    hash.update({reinterpret_cast<const std::byte*>(from), count * sizeof(float)});
  };
  for (const lane_context<float>& lane : state.lanes) {
    // Only the rows of the open window that are filled belong to the context.
    const std::uint64_t open = lane.clock.data[0] % window_rows;
    for (const block_context<float>& block : lane.blocks) {
      add(block.tail.data, (conv_taps - 1) * std::uint64_t{config.width});
      for (const buffer<float>& rows : block.open) {
        // Keys stand before values.
        add(rows.data, open * head_width);
        add(rows.data + window_rows * head_width, open * head_width);
      }
      for (const auto& level : block.memories) {
        for (const memory_state<float>& m : level) {
          add(m.memory.data, head_width * head_width);
          add(m.accumulator.data, head_width * head_width);
          add(m.open.data, open);
          // Both gates of the open rows.
          add(m.open.data + window_rows, open);
        }
      }
    }
    // The position, because equal memories at different positions differ.
    add_value(hash, lane.clock.data[0]);
  }
  return hash.digest();
}

}  // namespace weir::models
