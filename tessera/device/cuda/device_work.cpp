// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gives work to the streams of a device.
///
/// Work that arrives here is ready and independent of other work, so any stream will do.
/// Copies have streams of their own per direction, because devices copy in both
/// directions and compute at the same time.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/device_graphs.hpp"
#include "device/cuda/device_thread.hpp"
#include "device/cuda/slab.hpp"
#include "device/cuda/status_table.hpp"

/// A copy between memory that is not registered and a device goes through staging
/// buffers in pieces. The pieces of several buffers overlap: while one is copied by the
/// device, another is filled.
namespace weir::tessera::cuda {
namespace {

// Streams by number: 0 allocates. 1 and 2 copy between host and device, 3 to 6 run
// kernels, fills and copies between devices.
constexpr std::size_t to_device = 1;
constexpr std::size_t to_host = 2;
constexpr std::size_t first_for_kernels = 3;
constexpr std::size_t end_of_streams = 7;

/// Addresses of the driver are numbers.
device_address address_of(const void* p) noexcept {
  return reinterpret_cast<device_address>(p);
}

/// Completes a copy once.
void finish(staged_copy& copy, std::vector<std::pair<completion, result<void>>>& ended) {
  if (copy.done) {
    result<void> outcome;
    if (copy.failure) {
      outcome = *copy.failure;
    }
    ended.emplace_back(std::exchange(copy.done, nullptr), std::move(outcome));
  }
}

}  // namespace

// The stream with the fewest operations is taken; none if all have reached the limit.
driver_stream* device_thread::free_stream(std::size_t first, std::size_t last) noexcept {
  const auto found = std::min_element(fixed_.begin() + static_cast<std::ptrdiff_t>(first),
                                      fixed_.begin() + static_cast<std::ptrdiff_t>(last),
                                      [](const driver_stream* a, const driver_stream* b) {
                                        return a->outstanding < b->outstanding;
                                      });
  return (*found)->outstanding < family_.max_launches ? *found : nullptr;
}

/// Returns false if the work must wait for a free stream. `done` is moved away if the
/// work was taken.
bool device_thread::issue_next() {
  auto& [work, done] = waiting_.front();
  if (is_lost_) {
    ended_.emplace_back(std::move(done), *lost());
    return true;
  }
  if (const auto* const copy = std::get_if<copy_work>(&work)) {
    return issue_copy(*copy, done);
  }
  if (const auto* const fill = std::get_if<fill_work>(&work)) {
    return issue_fill(*fill, done);
  }
  if (const auto* const run = std::get_if<graph_work>(&work)) {
    return issue_graph(*run, done);
  }
  return issue_launch(std::get<grid_work>(work).launch, done);
}

/// Chooses the stream by the direction of the copy.
bool device_thread::issue_copy(const copy_work& work, completion& done) {
  const bool down = work.kind == copy_kind::host_to_device;
  const bool up = work.kind == copy_kind::device_to_host;
  const std::byte* const host = down ? work.from : work.to;
  // No device takes part.
  if (work.kind == copy_kind::host_to_host) {
    std::memcpy(work.to, work.from, work.bytes);
    ended_.emplace_back(std::move(done), result<void>());
    return true;
  }
  // The driver would copy pageable memory itself, and block meanwhile.
  if ((down || up) && !family_.pinned.contains(host, work.bytes)) {
    staged_.push_back(std::make_shared<staged_copy>());
    staged_.back()->work = work;
    staged_.back()->done = std::move(done);
    return true;
  }
  // Copies between devices use the streams of kernels.
  const std::size_t first = down ? to_device : up ? to_host : first_for_kernels;
  driver_stream* const l = free_stream(first, down || up ? first + 1 : end_of_streams);
  if (l == nullptr) {
    return false;
  }
  status s = status::success;
  if (down) {
    s = api_.copy_to_device(address_of(work.to), work.from, work.bytes, l->stream);
  } else if (up) {
    s = api_.copy_to_host(work.to, address_of(work.from), work.bytes, l->stream);
  } else if (work.to_device == work.from_device) {
    s = api_.copy_on_device(address_of(work.to), address_of(work.from), work.bytes,
                            l->stream);
  } else {
    // Two GPUs: both contexts are named.
    s = api_.copy_to_peer(address_of(work.to),
                          family_.contexts[static_cast<std::size_t>(work.to_device)],
                          address_of(work.from),
                          family_.contexts[static_cast<std::size_t>(work.from_device)],
                          work.bytes, l->stream);
  }
  operation made;
  made.done = std::move(done);
  made.label = fmt::format("copy {} bytes on {}", work.bytes, facts_.name);
  give(*l, std::move(made), s, false);
  return true;
}

/// Gives the next piece of the oldest staged copy to its stream. Returns false if there
/// is none, or no buffer.
bool device_thread::issue_staged() {
  if (staged_.empty() || free_buffers_.empty()) {
    return false;
  }
  const std::shared_ptr<staged_copy> copy = staged_.front();
  if (!copy->failure && copy->issued < copy->work.bytes) {
    const std::size_t buffer = free_buffers_.back();
    free_buffers_.pop_back();
    issue_piece(copy, buffer);
  }
  // All pieces are on their way; the copy lives on in their operations.
  if ((copy->failure || copy->issued == copy->work.bytes) && !staged_.empty()) {
    staged_.pop_front();
  }
  return true;
}

/// `buffer` is the number of a free staging buffer.
void device_thread::issue_piece(const std::shared_ptr<staged_copy>& copy,
                                std::size_t buffer) {
  const copy_work& work = copy->work;
  const bool down = work.kind == copy_kind::host_to_device;
  const std::size_t begin = copy->issued;
  const std::size_t bytes = std::min(family_.staging_bytes, work.bytes - begin);
  std::byte* const staging =
      slab_.data() + slab::staging_offset + buffer * family_.staging_bytes;
  copy->issued += bytes;
  operation made;
  made.label =
      fmt::format("copy {} bytes through pinned memory on {}", work.bytes, facts_.name);
  // For copies to the host, the bytes are taken out of the buffer when they have
  // arrived.
  made.at_end = [this, copy, buffer, staging, begin, bytes, down](bool good) {
    if (good && !down) {
      std::memcpy(copy->work.to + begin, staging, bytes);
    }
    // The first failure counts, unless the device is lost.
    if (!good && !copy->failure) {
      const auto known = lost();
      copy->failure =
          known ? *known
                : error(errc::internal, fmt::format("copy on {} not ended", facts_.name));
    }
    free_buffers_.push_back(buffer);
    copy->ended += bytes;
    // The last piece ends the copy.
    if (copy->ended == copy->issued &&
        (copy->failure || copy->ended == copy->work.bytes)) {
      finish(*copy, ended_);
    }
  };
  driver_stream& l = *fixed_[down ? to_device : to_host];
  status s = status::success;
  // For copies to the device, the bytes are put into the buffer first.
  if (down) {
    std::memcpy(staging, work.from + begin, bytes);
    s = api_.copy_to_device(address_of(work.to + begin), staging, bytes, l.stream);
  } else {
    s = api_.copy_to_host(staging, address_of(work.from + begin), bytes, l.stream);
  }
  if (s != status::success && kind_of(s) == status_kind::returned) {
    copy->failure = failure_of(api_, s, made.label);
  }
  give(l, std::move(made), s, false);
}

/// Fills do not need a kernel.
bool device_thread::issue_fill(const fill_work& work, completion& done) {
  driver_stream* const l = free_stream(first_for_kernels, end_of_streams);
  if (l == nullptr) {
    return false;
  }
  bool begun = false;
  const status s = fill_stream(l->stream, work, begun);
  operation made;
  made.done = std::move(done);
  made.label = fmt::format("fill {} bytes on {}", work.bytes, facts_.name);
  give(*l, std::move(made), s, begun);
  return true;
}

// The driver fills with 1, 2 or 4 bytes at aligned addresses. A longer pattern, or one at
// another address, is written in parts: each part of the pattern with a stride of the
// whole.
std::vector<fill_node> device_thread::parts_of(const fill_work& work) {
  const device_address to = address_of(work.to);
  const std::size_t size = work.pattern_bytes;
  const std::size_t unit =
      // The largest power of two that divides the address, at most 4.
      std::min({size, std::size_t{4}, std::size_t{1} << std::countr_zero(to | 4)});
  const std::size_t times = work.bytes / size;
  std::vector<fill_node> parts;
  for (std::size_t at = 0; at < size; at += unit) {
    fill_node part;
    part.to = to + at;
    part.element_bytes = static_cast<unsigned>(unit);
    // The bytes of the pattern at this place.
    std::memcpy(&part.value, work.pattern.data() + at, unit);
    part.pitch = size == unit ? 0 : size;
    part.width = size == unit ? times : 1;
    part.height = size == unit ? 1 : times;
    parts.push_back(part);
  }
  return parts;
}

/// `begun` tells that a part has been given already.
status device_thread::fill_stream(stream_handle stream, const fill_work& work,
                                  bool& begun) {
  for (const fill_node& p : parts_of(work)) {
    const auto half = static_cast<unsigned short>(p.value);
    const auto byte = static_cast<unsigned char>(p.value);
    status s = status::success;
    // A row of elements, or a column of them.
    if (p.pitch == 0) {
      s = p.element_bytes == 4   ? api_.fill32(p.to, p.value, p.width, stream)
          : p.element_bytes == 2 ? api_.fill16(p.to, half, p.width, stream)
                                 : api_.fill8(p.to, byte, p.width, stream);
    } else {
      s = p.element_bytes == 4
              ? api_.fill_strided32(p.to, p.pitch, p.value, 1, p.height, stream)
          : p.element_bytes == 2
              ? api_.fill_strided16(p.to, p.pitch, half, 1, p.height, stream)
              : api_.fill_strided8(p.to, p.pitch, byte, 1, p.height, stream);
    }
    if (s != status::success) {
      return s;
    }
    begun = true;
  }
  return status::success;
}

/// What the kernel can learn of its launch.
launch_facts device_thread::facts_of(const grid_launch& launch) const noexcept {
  launch_facts f{};
  f.struct_size = sizeof f;
  f.rank = launch.facts.rank;
  f.ranks = launch.facts.ranks;
  f.device = ordinal_;
  std::copy(launch.facts.axis_size.begin(), launch.facts.axis_size.end(), f.axis_size);
  std::copy(launch.facts.axis_index.begin(), launch.facts.axis_index.end(), f.axis_index);
  if (launch.facts.determinism != nullptr) {
    f.determinism = *launch.facts.determinism;
  }
  return f;
}

// Without this, a block gets 48 KiB less the memory that the kernel itself declares.
status device_thread::allow_shared(const grid_launch& launch) {
  const auto& kernel = *reinterpret_cast<const device_kernel*>(launch.code.entry);
  const auto index = static_cast<std::size_t>(ordinal_);
  std::size_t& allowed = kernel.shared_limits[index];
  // The limit is raised only if needed, and kept for each GPU.
  if (launch.shared_bytes <= allowed) {
    return status::success;
  }
  const status s = api_.kernel_set(function_attribute::max_dynamic_shared_size_bytes,
                                   static_cast<int>(launch.shared_bytes),
                                   kernel.kernels[index], family_.numbers[index]);
  allowed = s == status::success ? launch.shared_bytes : allowed;
  return s;
}

// Arguments are passed one by one and not as a buffer, because kernels align some types
// otherwise than the buffer does. The facts come last; the driver reads as many arguments
// as the kernel has.
status device_thread::launch_on(stream_handle stream, const grid_launch& launch,
                                launch_facts& facts, bool cooperative) {
  const auto& kernel = *reinterpret_cast<const device_kernel*>(launch.code.entry);
  const auto index = static_cast<std::size_t>(ordinal_);
  std::vector<void*> arguments;
  arguments.reserve(kernel.places.size() + 1);
  // Each argument by the address of its place in the buffer.
  for (const std::uint32_t place : kernel.places) {
    arguments.push_back(const_cast<std::byte*>(launch.args.data() + place));
  }
  arguments.push_back(&facts);
  if (const status s = allow_shared(launch); s != status::success) {
    return s;
  }
  launch_config config;
  for (std::size_t i = 0; i < 3; ++i) {
    config.grid[i] = static_cast<unsigned>(launch.grid[i]);
    config.block[i] = static_cast<unsigned>(launch.block[i]);
  }
  config.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  config.stream = stream;
  // The attribute makes all blocks run at the same time.
  launch_attribute together;
  together.cooperative = 1;
  config.attributes = &together;
  config.attribute_count = cooperative ? 1 : 0;
  return api_.launch(&config, kernel.functions[index], arguments.data(), nullptr);
}

// A run of a graph is one operation of a stream, whatever the number of its nodes. The
// operation keeps the graph until its end.
bool device_thread::issue_graph(const graph_work& work, completion& done) {
  driver_stream* const l = free_stream(first_for_kernels, end_of_streams);
  if (l == nullptr) {
    return false;
  }
  const auto& graph = static_cast<const cuda_graph&>(*work.graph);
  operation made;
  made.done = std::move(done);
  made.label = graph.label();
  made.at_end = [kept = work.graph](bool) {};
  give(*l, std::move(made), api_.graph_launch(graph.handle(), l->stream), false);
  return true;
}

/// Needs a stream, a place for a report, and a buffer if there are constants.
bool device_thread::issue_launch(const grid_launch& launch, completion& done) {
  const auto constants = launch.facts.constants;
  driver_stream* const l = free_stream(first_for_kernels, end_of_streams);
  if (l == nullptr || free_reports_.empty() ||
      (!constants.empty() && free_buffers_.empty())) {
    return false;
  }
  operation made;
  made.done = std::move(done);
  made.label = fmt::format("run kernel {} on {}", launch.code.name, facts_.name);
  made.grid = launch.grid;
  // Constants are read from a staging buffer.
  if (constants.size() > family_.staging_bytes) {
    end_failed(made,
               error(errc::unsupported,
                     fmt::format("{}: expected at most {} bytes of constants, "
                                 "found {}",
                                 made.label, family_.staging_bytes, constants.size())));
    return true;
  }
  launch_facts facts = facts_of(launch);
  const std::uint32_t report = free_reports_.back();
  free_reports_.pop_back();
  made.report = reinterpret_cast<kernel_report*>(slab_.data()) + report;
  // The report of an earlier kernel is erased.
  *made.report = {};
  facts.report = reinterpret_cast<kernel_report*>(slab_address_) + report;
  if (!constants.empty()) {
    const std::size_t buffer = free_buffers_.back();
    free_buffers_.pop_back();
    const std::size_t offset = slab::staging_offset + buffer * family_.staging_bytes;
    std::memcpy(slab_.data() + offset, constants.data(), constants.size());
    facts.constants = reinterpret_cast<const void*>(slab_address_ + offset);
    facts.constant_bytes = constants.size();
    // The buffer is free when the kernel has ended.
    made.at_end = [this, buffer](bool) { free_buffers_.push_back(buffer); };
  }
  const status s = launch_on(l->stream, launch, facts, false);
  give(*l, std::move(made), s, false);
  return true;
}

}  // namespace weir::tessera::cuda
