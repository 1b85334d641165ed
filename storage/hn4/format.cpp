// SPDX-License-Identifier: Apache-2.0
/// @file
/// Making an empty volume.
#include <fmt/core.h>

#include <chrono>
#include <random>

#include "core.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

constexpr std::uint64_t least_capacity = std::uint64_t{128} << 20;
constexpr std::uint64_t block_bytes = 4096;
constexpr std::byte silver{0xAA};  // quality 2 for four blocks

result<void> check(const hn4_format_options& options, std::uint64_t capacity) {
  const auto refuse = [](std::string text) {
    return error(errc::invalid_argument, "cannot make an HN4 volume: " + std::move(text));
  };
  if (options.sector != 512 && options.sector != 4096) {
    return refuse(
        fmt::format("expected a sector of 512 or 4096 bytes, found {}", options.sector));
  }
  if (capacity < least_capacity || capacity % block_bytes != 0 ||
      capacity > (std::uint64_t{1} << 45)) {
    return refuse(
        fmt::format("expected a capacity of 128 MiB to 32 TiB in blocks of 4096 bytes, "
                    "found {} bytes",
                    capacity));
  }
  if (options.label.size() > 31 || options.label.find('\0') != std::string::npos) {
    return refuse(
        fmt::format("expected a label of at most 31 bytes without NUL, found {} bytes",
                    options.label.size()));
  }
  return {};
}

hn4_id new_uuid(const std::optional<std::uint64_t>& seed) {
  std::uint64_t key = 0;
  if (seed) {
    key = *seed;
  } else {
    std::random_device entropy;
    key = std::uint64_t{entropy()} << 32 | entropy();
  }
  const philox random(key, 0x484E34);
  hn4_id id;
  // Version and variant marks where the reference sets them.
  id.hi = (random.bits(0) & ~(std::uint64_t{3} << 62 | 0xF000)) | std::uint64_t{2} << 62 |
          0x7000;
  id.lo = random.bits(1);
  return id;
}

superblock first_superblock(const hn4_geometry& g, const hn4_format_options& options,
                            std::int64_t time) {
  superblock sb;
  sb.block = g.block;
  sb.uuid = new_uuid(options.uuid_seed);
  sb.capacity = g.capacity;
  sb.epoch_lba = g.epoch / g.sector;
  sb.cortex_lba = g.cortex / g.sector;
  sb.bitmap_lba = g.bitmap / g.sector;
  sb.qmask_lba = g.qmask / g.sector;
  sb.flux_lba = g.flux / g.sector;
  sb.horizon_lba = g.horizon / g.sector;
  sb.journal_lba = g.journal / g.sector;
  sb.epoch_id = 1;
  sb.epoch_block = g.epoch / g.block;
  sb.generation = 1;
  sb.state = state_bits::clean | state_bits::zeroed;
  sb.compatible = 1;  // a South copy exists
  sb.mount_time = time;
  sb.format_time = time;
  sb.label = options.label;
  sb.profile = static_cast<std::uint32_t>(g.profile);
  return sb;
}

anchor root_anchor(std::int64_t time) {
  anchor root;
  root.seed = {UINT64_MAX, UINT64_MAX};
  root.public_id = root.seed;
  root.data_class = class_bits::valid | class_bits::is_static;
  root.orbit_vector = 1;
  root.permissions = 0x37;
  root.mod_clock = time;
  root.create_clock = static_cast<std::uint32_t>(time / 1'000'000'000);
  std::memcpy(root.name.data(), "ROOT", 4);
  return root;
}

result<void> write_regions(block_device& device, const hn4_geometry& g,
                           std::int64_t time) {
  WEIR_CHECK(device.write(g.epoch, make_epoch(1, time)));
  std::array<std::byte, anchor_bytes> root{};
  store_anchor(root_anchor(time), root);
  WEIR_CHECK(device.write(g.cortex, root));
  block_bits bits;
  bits.bits.resize(static_cast<std::size_t>((g.blocks + 7) / 8));
  reserve_metadata(g, bits);
  WEIR_CHECK(device.write(g.bitmap, bits.bits));
  const byte_vector quality(static_cast<std::size_t>(g.flux - g.qmask), silver);
  return device.write(g.qmask, quality);
}

result<void> write_superblocks(block_device& device, const superblock& sb) {
  byte_vector bytes(superblock_bytes);
  store_superblock(sb, bytes);
  const copy_places places = places_of_copies(sb.capacity, sb.block);
  for (const std::uint64_t offset :
       {places.south, places.west, places.east, std::uint64_t{0}}) {
    WEIR_CHECK(device.write(offset, bytes));
  }
  return {};
}

}  // namespace

}  // namespace hn4

result<void> hn4_format(block_device& device, const hn4_format_options& options) {
  const std::uint64_t capacity = device.size();
  WEIR_CHECK(hn4::check(options, capacity));
  const std::int64_t time =
      options.time_ns.value_or(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
  WEIR_TRY(const hn4_geometry g,
           hn4::lay_out(hn4_profile::generic, capacity, options.sector));
  WEIR_CHECK(hn4::write_regions(device, g, time));
  WEIR_CHECK(device.sync());
  // Last, so that a volume exists only once everything else does.
  WEIR_CHECK(hn4::write_superblocks(device, hn4::first_superblock(g, options, time)));
  return device.sync();
}

result<void> hn4_format(const std::string& path, const hn4_format_options& options) {
  WEIR_CHECK(hn4::check(options, options.capacity));
  file_system& files = posix_file_system();
  if (!options.overwrite && files.exists(path)) {
    return error(
               errc::already_exists,
               fmt::format("cannot make an HN4 volume at \"{}\": the file exists", path))
        .hint("choose another name, or ask to overwrite it");
  }
  const std::string temporary = path + ".new";
  if (files.exists(temporary)) {
    WEIR_CHECK(files.remove(temporary));
  }
  auto made = [&]() -> result<void> {
    WEIR_TRY(const auto device, create_file_device(temporary, options.capacity));
    WEIR_CHECK(hn4_format(*device, options));
    WEIR_CHECK(files.rename(temporary, path));
    return files.sync_folder(folder_of(path));
  }();
  if (!made && files.exists(temporary)) {
    (void)files.remove(temporary);
  }
  return made;
}

}  // namespace weir::storage
