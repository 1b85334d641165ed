// SPDX-License-Identifier: Apache-2.0
/// @file
/// The volume that the fuzz targets damage and restore.
#pragma once

#include <algorithm>
#include <memory>

#include "../../../../storage/hn4/directory/directory.hpp"
#include "storage/hn4/support.hpp"

namespace weir::storage::test::fuzz {

/// A small volume with a stream of raw and compressed blocks and a tag with a long name.
/// Its accessors give the places that the targets damage.
class volume_for_fuzzing {
 public:
  volume_for_fuzzing() : long_tag_(60, 'n') {
    bytes_ = noise(3 * 4048, 1);
    bytes_.resize(6 * 4048 + 100, std::byte{7});
    hn4_volume volume = or_throw(open_on(*device_, device_mode::writable));
    hn4_put_options put = fixed_put(1);
    put.compress = true;
    or_throw(volume.put(tag_, bytes_, put));
    or_throw(volume.put(long_tag_, bytes_view(bytes_).first(500), fixed_put(1)));
    core_ = or_throw(hn4::mount(std::make_shared<borrowed_device>(*device_)));
    for (const hn4::entry& e : core_->entries) {
      free_slot_ = std::max(free_slot_, e.slot + 1);
      if (!e.a.live() || e.a.mass == 0) {
        continue;
      }
      if (hn4::inline_name(e.a) == tag_) {
        entry_ = e;
      } else {
        long_name_ = or_throw(hn4::name_of_entry(*core_, e.a)).block;
      }
    }
  }

  [[nodiscard]] memory_device& device() const { return *device_; }
  [[nodiscard]] const hn4::core& core() const { return *core_; }
  [[nodiscard]] const std::string& tag() const { return tag_; }
  [[nodiscard]] const std::string& long_tag() const { return long_tag_; }
  [[nodiscard]] const byte_vector& bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t free_slot() const { return free_slot_; }
  [[nodiscard]] std::uint64_t long_name_offset() const { return long_name_; }
  [[nodiscard]] std::uint64_t block_count() const {
    return hn4::blocks_for(core_->geometry, entry_.a.mass);
  }
  [[nodiscard]] std::uint64_t block_offset(std::uint64_t n) const {
    return *hn4::trajectory(core_->space, entry_.a).block(n) * core_->geometry.block;
  }
  /// Makes a header that claims to be block n with the checksum and compression of
  /// another one.
  [[nodiscard]] hn4::block_header header_of(std::uint64_t n,
                                            const hn4::block_header& like) const {
    hn4::block_header h = like;
    h.well = entry_.a.seed;
    h.number = n;
    h.generation = entry_.a.write_gen;
    return h;
  }

 private:
  std::unique_ptr<memory_device> device_ = formatted();
  std::string tag_ = "t";
  std::string long_tag_;
  byte_vector bytes_;
  std::shared_ptr<hn4::core> core_;
  hn4::entry entry_;
  std::uint64_t free_slot_ = 1;
  std::uint64_t long_name_ = 0;
};

/// Returns the volume that all inputs share, because making one takes too long.
inline volume_for_fuzzing& shared_volume() {
  static volume_for_fuzzing volume;
  return volume;
}

}  // namespace weir::storage::test::fuzz
