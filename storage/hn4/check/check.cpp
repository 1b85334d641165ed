// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the parts of a check in their order, and copies what can be read to a new
/// volume. Checking never writes. A repair reads the damaged volume and makes a new one,
/// so the only copy of the data is not touched.
#include <fmt/core.h>

#include <algorithm>

#include "hn4/check/checker.hpp"
#include "hn4/write/leftovers.hpp"
#include "weir/base/file.hpp"
#include "weir/base/utf8.hpp"
#include "weir/storage/hn4_check.hpp"
#include "weir/storage/hn4_code.hpp"

namespace weir::storage {

namespace hn4 {

namespace {

/// A device as large as the superblock says. Where the image ends before, it reads as
/// zeros.
///
/// With it, a truncated image can be examined: structures that are there are found, and
/// those behind the end count as damaged.
class stretched_device final : public block_device {
 public:
  stretched_device(std::shared_ptr<block_device> to, std::uint64_t size)
      : to_(std::move(to)), size_(size) {}

  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    // Bytes of the request that the image still has.
    const std::uint64_t there = offset < to_->size() ? to_->size() - offset : 0;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(there, to.size()));
    std::fill(to.begin() + static_cast<std::ptrdiff_t>(n), to.end(), std::byte{0});
    return n != 0 ? to_->read(offset, to.first(n)) : result<void>();
  }
  result<void> write(std::uint64_t, bytes_view) override {
    return error(errc::invalid_argument, "cannot write to a volume that is checked");
  }
  result<void> sync() override { return {}; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  result<extent> next_data(std::uint64_t offset, std::uint64_t end) override {
    const std::uint64_t stop = std::min(end, to_->size());
    return offset < stop ? to_->next_data(offset, stop) : extent{end, 0};
  }
  [[nodiscard]] const std::string& name() const noexcept override { return to_->name(); }

 private:
  std::shared_ptr<block_device> to_;
  std::uint64_t size_;
};

/// Opens a volume for examination: nothing that can be looked at is refused. `examine`
/// makes `mount` accept damage that an ordinary opening refuses.
result<std::shared_ptr<core>> examine(std::shared_ptr<block_device> device) {
  // Only the superblock says how large the volume should be, so the vote comes first.
  core first;
  first.device = device;
  first.examine = true;
  WEIR_CHECK(vote(first));
  if (first.sb.capacity > device->size()) {
    device = std::make_shared<stretched_device>(device, first.sb.capacity);
  }
  return mount(std::move(device), {device_mode::read_only, false, true});
}

/// Runs all parts. Blocks come after the directory, which determines the streams; the
/// bitmap comes after the blocks, which determine what is in use.
result<hn4_check_report> check_whole(core& c, std::uint64_t device_size) {
  checker check(c, device_size);
  check.report.geometry = c.geometry;
  check.report.label = c.sb.label;
  // The blocks of the volume's own structures, as one bitmap.
  check.reserved.bits.resize(c.bits->bits.size());
  reserve_metadata(c.geometry, check.reserved);
  WEIR_CHECK(check.superblocks());
  WEIR_CHECK(check.epoch());
  WEIR_CHECK(check.log());
  WEIR_CHECK(check.quality());
  WEIR_CHECK(check.directory());
  WEIR_CHECK(check.blocks());
  WEIR_CHECK(check.bitmap());
  check.draw();
  return std::move(check.report);
}

}  // namespace

}  // namespace hn4

/// Returns findings as a report. An error means that the check itself was impossible,
/// for example because no superblock is readable.
result<hn4_check_report> hn4_check(std::unique_ptr<block_device> device) {
  const std::uint64_t size = device->size();
  WEIR_TRY(const auto c, hn4::examine(std::move(device)));
  return hn4::check_whole(*c, size);
}

/// Opens what is left of a volume for reading. Streams with losses can be opened by
/// their options.
result<hn4_volume> hn4_volume::open_damaged(std::unique_ptr<block_device> device) {
  WEIR_TRY(auto c, hn4::examine(std::move(device)));
  return hn4_volume(std::move(c));
}

namespace hn4 {

namespace {

/// Stores one tag in the new volume with as many shards and the same compression.
///
/// A failure is part of the row, so that one bad tag does not end the repair.
hn4_saved_tag save(const hn4_volume& source, hn4_volume& target, const hn4_tag& tag) {
  hn4_saved_tag row;
  row.name = tag.name;
  const auto copied = [&]() -> result<void> {
    WEIR_TRY(const hn4_stream stream, source.stream(tag.name));
    WEIR_TRY(const byte_vector bytes, stream.read_all());
    // All bytes of a tag are in memory at once.
    const auto shards = stream.shards();
    hn4_put_options put;
    put.shards = static_cast<std::uint32_t>(shards.size());
    put.compress = std::any_of(shards.begin(), shards.end(),
                               [](const hn4_shard& s) { return s.compressed; });
    row.bytes = bytes.size();
    auto stored = target.put(tag.name, bytes, put);
    // A tag that was spread over several shards may need more space than the new volume
    // has in whole runs.
    if (!stored && code_of(stored.error()) == hn4_code::no_space) {
      put.shards = 0;  // scattered shards may be too large for the free runs
      stored = target.put(tag.name, bytes, put);
    }
    return stored;
  }();
  if (!copied) {
    row.problem = copied.error().message();
  }
  return row;
}

/// Makes the new volume and stores all tags in it. Tags that cannot be read are listed.
///
/// The new volume has the profile, capacity, sector size and label of the old one. A
/// label that is not UTF-8 would be refused, so it is left out.
result<std::vector<hn4_saved_tag>> save_all(const hn4_volume& source,
                                            const std::string& to) {
  const hn4_geometry& g = source.geometry();
  hn4_format_options options;
  options.profile = g.profile;
  options.capacity = g.capacity;
  options.sector = g.sector;
  options.label = is_utf8(source.label()) ? source.label() : "";
  WEIR_TRY(auto device, create_file_device(to, g.capacity));
  WEIR_CHECK(hn4_format(*device, options));
  WEIR_TRY(hn4_volume target, hn4_volume::open(std::move(device), device_mode::writable));
  WEIR_TRY(const auto tags, source.tags());
  WEIR_TRY(const auto damaged, source.damaged_tags());
  std::vector<hn4_saved_tag> saved;
  for (const hn4_tag& tag : tags) {
    saved.push_back(save(source, target, tag));
  }
  for (const hn4_damaged_tag& tag : damaged) {
    saved.push_back({tag.name, 0, tag.problem.message()});
  }
  // Readable and damaged tags come from two lists; the report has one order.
  std::sort(
      saved.begin(), saved.end(),
      [](const hn4_saved_tag& x, const hn4_saved_tag& y) { return x.name < y.name; });
  return saved;
}

}  // namespace

}  // namespace hn4

// The new volume gets its name only once everything is in it.
result<std::vector<hn4_saved_tag>> hn4_repair(const std::string& from,
                                              const std::string& to) {
  WEIR_TRY(auto device, open_file_device(from, device_mode::read_only));
  WEIR_TRY(const hn4_volume source, hn4_volume::open_damaged(std::move(device)));
  file_system& files = posix_file_system();
  // The check comes before the work. The rename at the end replaces a file that appeared
  // in between.
  if (files.exists(to)) {
    return hn4_error(hn4_code::exists,
                     fmt::format("cannot make an HN4 volume at \"{}\": expected no file "
                                 "of that name, found one",
                                 to))
        .hint("choose another name");
  }
  // Leftovers of a repair that was killed before.
  WEIR_CHECK(hn4_remove_leftovers(to));
  const std::string temporary = hn4::temporary_path_of(to);
  auto saved = hn4::save_all(source, temporary);
  if (saved) {
    if (auto renamed = files.rename(temporary, to); !renamed) {
      saved = std::move(renamed).error();
    }
  }
  if (!saved) {
    if (files.exists(temporary)) {
      (void)files.remove(temporary);  // the first failure is the one to report
    }
    return saved;
  }
  // The name itself is made durable, too.
  WEIR_CHECK(files.sync_folder(folder_of(to)));
  return saved;
}

}  // namespace weir::storage
