// SPDX-License-Identifier: Apache-2.0
/// @file
/// Makes an empty volume.
///
/// All regions are written and made durable before the superblocks. On a new file nothing
/// that is zero is written, so an empty volume of a terabyte takes little space.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>

#include "hn4/core.hpp"
#include "hn4/write/leftovers.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"
#include "weir/base/text.hpp"
#include "weir/base/utf8.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

/// Bytes of one write of the quality mask.
constexpr std::size_t fill_bytes = std::size_t{1} << 20;
constexpr std::uint64_t gib = mib << 10, tib = gib << 10;
/// Offsets of files are signed, so no volume can be larger.
constexpr auto unlimited = static_cast<std::uint64_t>(INT64_MAX);

/// Limits of the profiles. PICO volumes below 2 MiB could be made, but nothing opens
/// them. The row is the number of the profile; both ends are bytes and included.
constexpr std::array<hn4_limits, 8> limits{{{128 * mib, unlimited},
                                            {gib, 16 * tib},
                                            {tib, unlimited},
                                            {10 * gib, unlimited},
                                            {2 * mib, 2 * gib},
                                            {128 * mib, unlimited},
                                            {128 * mib, 2 * tib},
                                            {100 * gib, unlimited}}};

/// Makes the error for an option that is out of its range. All of these errors begin
/// with the same words.
error refusal(std::string text) {
  return hn4_error(hn4_code::invalid_argument,
                   "cannot make an HN4 volume: " + std::move(text));
}

/// Checks the capacity against sector and profile. `capacity` is that of the device, in
/// bytes.
result<void> check_capacity(const hn4_format_options& options, std::uint64_t capacity) {
  const hn4_limits range = limits_of(options.profile);
  if (capacity % options.sector != 0) {
    return refusal(
        fmt::format("expected a capacity in sectors of {} bytes, found {} bytes",
                    options.sector, capacity));
  }
  if (capacity < range.min || capacity > range.max) {
    return refusal(
        fmt::format("expected a capacity of {} to {} bytes for profile {}, found {}",
                    range.min, range.max, name_of(options.profile), capacity));
  }
  return {};
}

/// Checks all options. Returns the first rule that is broken, before anything is
/// written.
result<void> check(const hn4_format_options& options, std::uint64_t capacity) {
  if (static_cast<std::size_t>(options.profile) >= limits.size()) {
    return refusal(fmt::format("expected a profile from 0 to 7, found {}",
                               static_cast<std::uint32_t>(options.profile)));
  }
  if (options.sector != 512 && options.sector != 4096) {
    return refusal(
        fmt::format("expected a sector of 512 or 4096 bytes, found {}", options.sector));
  }
  if (options.profile == hn4_profile::pico && options.sector != 512) {
    return refusal(fmt::format(
        "expected a sector of 512 bytes for profile PICO, found {}", options.sector));
  }
  if (options.label.size() > 31 || options.label.find('\0') != std::string::npos ||
      !is_utf8(options.label)) {
    return refusal(
        fmt::format("expected a label of at most 31 bytes of UTF-8 without NUL, found {} "
                    "bytes",
                    options.label.size()));
  }
  return check_capacity(options, capacity);
}

/// Makes the identity of a new volume. With a seed, equal options give equal volumes,
/// which tests rely on.
hn4_id new_uuid(const std::optional<std::uint64_t>& seed) {
  std::uint64_t key = 0;
  if (seed) {
    key = *seed;
  } else {
    std::random_device entropy;
    key = std::uint64_t{entropy()} << 32 | entropy();
  }
  // Two words of a counter-based generator; the second number separates this use from
  // others.
  const philox random(key, 0x484E34);
  hn4_id id;
  // The marks of version and variant are set where the reference implementation sets
  // them.
  id.hi = (random.bits(0) & ~(std::uint64_t{3} << 62 | 0xF000)) | std::uint64_t{2} << 62 |
          0x7000;
  id.lo = random.bits(1);
  return id;
}

/// Returns the superblock of a new volume.
///
/// Places are given in sectors here. `time` is in nanoseconds since 1970.
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
  sb.stream_lba = sb.horizon_lba;
  sb.journal_lba = g.journal / g.sector;
  sb.journal_next = sb.journal_lba;
  sb.epoch_id = 1;
  sb.epoch_block = g.epoch / g.block;
  sb.generation = 1;
  sb.state = state_bits::clean | state_bits::zeroed;
  // Bit 0 says that there is a South copy.
  sb.compatible = places_of_copies(g.capacity, g.block).south != 0 ? 1 : 0;
  // An archive is always on tape.
  sb.device_type = static_cast<std::uint32_t>(
      g.profile == hn4_profile::archive ? hn4_medium::tape : options.medium);
  sb.mount_time = time;
  sb.format_time = time;
  sb.label = options.label;
  sb.profile = static_cast<std::uint32_t>(g.profile);
  return sb;
}

/// Returns the directory entry that stands for the volume itself. It occupies slot 0 and
/// has no blocks. A check compares exactly these fields.
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

/// Writes the bitmap. A new device reads as zeros, so zeros are not written.
///
/// Pieces of 4096 bytes keep a new file sparse.
result<void> write_new_bits(block_device& device, const hn4_geometry& g,
                            const block_bits& bits) {
  constexpr std::size_t unit = 4096;
  byte_vector armored;
  bytes_view all = bits.bits;
  if (g.profile == hn4_profile::pico) {
    armored = to_armored(bits, static_cast<std::size_t>(g.qmask - g.bitmap));
    all = armored;
  }
  static constexpr std::array<std::byte, unit> zeros{};
  for (std::size_t offset = 0; offset < all.size(); offset += unit) {
    const bytes_view part = all.subspan(offset, std::min(unit, all.size() - offset));
    if (std::memcmp(part.data(), zeros.data(), part.size()) != 0) {
      WEIR_CHECK(device.write(g.bitmap + offset, part));
    }
  }
  return {};
}

/// Writes all regions except the superblocks.
///
/// They are epochs, directory, bitmap and quality mask; the log is empty and stays zero.
result<void> write_regions(block_device& device, const hn4_geometry& g,
                           std::int64_t time) {
  WEIR_CHECK(device.write(g.epoch, make_epoch(1, time)));
  std::array<std::byte, anchor_bytes> root{};
  store_anchor(root_anchor(time), root);
  WEIR_CHECK(device.write(g.cortex, root));
  block_bits bits;
  bits.bits.resize(static_cast<std::size_t>((g.blocks + 7) / 8));
  reserve_metadata(g, bits);
  WEIR_CHECK(write_new_bits(device, g, bits));
  // The mask is filled up to the data region, beyond its own end, as the reference does.
  const byte_vector quality(fill_bytes, silver);
  for (std::uint64_t offset = g.qmask; offset < g.flux; offset += quality.size()) {
    const std::uint64_t n = std::min<std::uint64_t>(quality.size(), g.flux - offset);
    WEIR_CHECK(
        device.write(offset, bytes_view(quality).first(static_cast<std::size_t>(n))));
  }
  return {};
}

}  // namespace

}  // namespace hn4

/// Returns limits of 0 for an unknown profile.
hn4_limits limits_of(hn4_profile profile) noexcept {
  const auto row = static_cast<std::size_t>(profile);
  return row < hn4::limits.size() ? hn4::limits[row] : hn4_limits{};
}

/// Upper and lower case do not matter, and "-" may stand for "_".
result<hn4_profile> hn4_profile_named(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) {
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c == '-' ? '_' : c;
  }
  std::vector<std::string> known;
  for (std::uint32_t i = 0; i < hn4::limits.size(); ++i) {
    known.emplace_back(name_of(static_cast<hn4_profile>(i)));
    if (known.back() == upper) {
      return static_cast<hn4_profile>(i);
    }
  }
  return error(errc::unknown_key,
               fmt::format("cannot find profile \"{}\": expected GENERIC, GAMING, AI, "
                           "ARCHIVE, PICO, SYSTEM, USB or HYPER_CLOUD{}",
                           name, did_you_mean(upper, known)));
}

// The options are checked against the size of the device before anything is written.
//
// The device must be new, or its old content must read as zeros where the format expects
// zeros.
result<void> hn4_format(block_device& device, const hn4_format_options& options) {
  const std::uint64_t capacity = device.size();
  WEIR_CHECK(hn4::check(options, capacity));
  const std::int64_t time =
      options.time_ns.value_or(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
  WEIR_TRY(const hn4_geometry g, hn4::lay_out(options.profile, capacity, options.sector));
  WEIR_CHECK(hn4::write_regions(device, g, time));
  WEIR_CHECK(device.sync());
  // The superblocks come last, so that a volume exists only once it is complete.
  WEIR_CHECK(hn4::write_superblocks(device, hn4::first_superblock(g, options, time)));
  return device.sync();
}

// The file gets its name only once the volume in it is complete.
result<void> hn4_format(const std::string& path, const hn4_format_options& options) {
  WEIR_CHECK(hn4::check(options, options.capacity));
  file_system& files = posix_file_system();
  if (!options.overwrite && files.exists(path)) {
    return hn4_error(hn4_code::exists,
                     fmt::format("cannot make an HN4 volume at \"{}\": expected no file "
                                 "of that name, found one",
                                 path))
        .hint(
            "choose another name, or overwrite it with --force "
            "(hn4_format_options::overwrite)");
  }
  // Files that killed processes have left beside this name.
  WEIR_CHECK(hn4_remove_leftovers(path));
  const std::string temporary = hn4::temporary_path_of(path);
  // Every step may fail; the temporary file is then removed.
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
