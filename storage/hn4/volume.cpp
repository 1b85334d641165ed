// SPDX-License-Identifier: Apache-2.0
/// @file
/// Implements the public class `hn4_volume`.
#include "hn4/directory/directory.hpp"

/// A volume is a handle to `hn4::core`, which holds everything that was read at the
/// opening. Streams keep what they need of it, so they may live longer than the volume.
namespace weir::storage {

hn4_volume::hn4_volume(std::shared_ptr<hn4::core> core) noexcept
    : core_(std::move(core)) {}
hn4_volume::hn4_volume(hn4_volume&&) noexcept = default;
hn4_volume& hn4_volume::operator=(hn4_volume&&) noexcept = default;
hn4_volume::~hn4_volume() = default;

/// Opens the file, with its lock for writing, and the volume in it.
result<hn4_volume> hn4_volume::open(const std::string& path, device_mode mode) {
  WEIR_TRY(auto device, open_file_device(path, mode));
  return open(std::move(device), mode);
}

result<hn4_volume> hn4_volume::open(std::unique_ptr<block_device> device,
                                    device_mode mode) {
  WEIR_TRY(auto core, hn4::mount(std::move(device), {mode, false, false}));
  return hn4_volume(std::move(core));
}

/// Reads as the reference implementation does, without recovery or search.
result<hn4_volume> hn4_volume::open_strictly(std::unique_ptr<block_device> device) {
  WEIR_TRY(auto core,
           hn4::mount(std::move(device), {device_mode::read_only, true, false}));
  return hn4_volume(std::move(core));
}

/// The values are those of the opening.
const hn4_geometry& hn4_volume::geometry() const noexcept {
  return core_->geometry;
}
const std::string& hn4_volume::label() const noexcept {
  return core_->sb.label;
}
hn4_id hn4_volume::uuid() const noexcept {
  // One for each volume.
  return core_->sb.uuid;
}
std::uint32_t hn4_volume::state() const noexcept {
  // Flags of the format.
  return core_->sb.state;
}
const std::vector<std::string>& hn4_volume::warnings() const noexcept {
  // They do not keep the volume from being read.
  return core_->warnings;
}

/// Tags that cannot be read are in `damaged_tags`, so both lists together are complete.
result<std::vector<hn4_tag>> hn4_volume::tags() const {
  WEIR_TRY(auto names, hn4::list_names(*core_));
  std::vector<hn4_tag> whole;
  // Names of removed streams are listed too.
  for (hn4::listed_tag& listed : names) {
    if (listed.exists && !listed.problem) {
      whole.push_back(std::move(listed.tag));
    }
  }
  return whole;
}

/// Each row has the error that an opening would return.
result<std::vector<hn4_damaged_tag>> hn4_volume::damaged_tags() const {
  WEIR_TRY(auto names, hn4::list_names(*core_));
  std::vector<hn4_damaged_tag> damaged;
  for (hn4::listed_tag& listed : names) {
    if (listed.problem) {
      damaged.push_back({std::move(listed.tag.name), std::move(*listed.problem)});
    }
  }
  return damaged;
}

/// The stream keeps the device.
result<hn4_stream> hn4_volume::stream(std::string_view tag,
                                      const hn4_stream_options& options) const {
  WEIR_TRY(auto map, hn4::map_stream(*core_, tag, options));
  return hn4_stream(std::move(map));
}

/// The methods that write are not safe for calls from several threads.
result<void> hn4_volume::put(std::string_view tag, bytes_view source,
                             const hn4_put_options& options) {
  return hn4::put_stream(*core_, tag, source, options);
}

result<void> hn4_volume::remove(std::string_view tag) {
  return hn4::remove_tag(*core_, tag);
}

}  // namespace weir::storage
