// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source `hn4.read`: the stream of a tag as blocks of bytes.
///
/// The stream of a tag is cut into blocks of equal size; each block is an item. The
/// position is the end of the last block with its digest.
#include <algorithm>

#include "stages/factories.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/hash.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::actors {
namespace {

constexpr std::string_view hn4_read_name = "hn4.read";
/// Size of blocks that stands for the whole tag.
constexpr std::uint64_t whole_tag = 0;
/// Largest tag that becomes one item. @units{bytes}
constexpr std::uint64_t max_whole = std::uint64_t{1} << 40;

/// See the table for the meaning of each.
struct hn4_settings {
  std::string path;
  std::string tag;
  std::uint64_t block = std::uint64_t{1} << 20;
};

settings_table<hn4_settings> hn4_table() {
  settings_table<hn4_settings> table("the source hn4.read");
  table.add("path", &hn4_settings::path, "the volume: an image file or a block device")
      .required()
      .path(path_use::input);
  table.add("tag", &hn4_settings::tag, "name of the tag whose bytes are read").required();
  table
      .add("block", &hn4_settings::block,
           "size of an item; the last one may be shorter; all: the tag is one item")
      .range(1, std::int64_t{1} << 30)
      .word("all", whole_tag)
      .unit("bytes");
  return table;
}

/// Owns the stream, which keeps the volume open.
class hn4_read final : public flow::stage_object {
 public:
  explicit hn4_read(hn4_settings settings) : settings_(std::move(settings)) {}

  /// A tag that becomes one item must fit into memory, so its size has a limit.
  result<void> open(opening& run) override {
    WEIR_TRY(const auto volume, storage::hn4_volume::open(path_of(run, settings_.path)));
    WEIR_TRY(stream_, volume.stream(settings_.tag));
    if (settings_.block == whole_tag && stream_->size() > max_whole) {
      return error(errc::out_of_range,
                   fmt::format("cannot read the tag \"{}\" as one item: expected at most "
                               "{} bytes, found {}",
                               settings_.tag, max_whole, stream_->size()))
          .hint("read it in blocks");
    }
    return {};
  }
  /// Reads the next block straight into the memory of the item.
  result<bool> next(pull& p) override {
    const std::uint64_t left = stream_->size() - last_.end;
    // The end of the tag.
    if (left == 0) {
      return false;
    }
    const std::uint64_t offset = last_.end;
    // A block ends at the setting or at the end of the tag.
    const std::uint64_t count =
        settings_.block == whole_tag ? left : std::min(left, settings_.block);
    WEIR_TRY(const mutable_bytes to, fill_block(p, count));
    // HN4 verifies the sums of the blocks that it reads.
    WEIR_CHECK(read(offset, to));
    attribute_collector about(p.emitted());
    about.add("offset", offset);
    about.add("tag", settings_.tag);
    last_ = {offset + count, count, xxh3_64(to)};
    return true;
  }
  [[nodiscard]] flow::small_record position() const override {
    return flow::small_record::holding(last_);
  }
  /// Continues behind the block of the cursor, which is read again and compared.
  result<void> seek(bytes_view stored) override {
    WEIR_TRY(const auto cursor, record_of<read_block>(stored, hn4_read_name, "cursor"));
    // The stream is read at the place of the last block.
    WEIR_CHECK(verify_block(
        cursor, stream_->size(), hn4_read_name, settings_.tag,
        [&](std::uint64_t offset, mutable_bytes to) { return read(offset, to); }));
    last_ = cursor;
    return {};
  }

 private:
  /// Reads exactly as many bytes as `to` has.
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const {
    WEIR_TRY(const std::size_t count, stream_->read(offset, to));
    // HN4 returns fewer bytes only at the end of the stream.
    if (count != to.size()) {
      return error(
          errc::torn,
          fmt::format("cannot read the tag \"{}\": expected {} bytes at {}, found "
                      "{}",
                      settings_.tag, to.size(), offset, count));
    }
    return {};
  }

  hn4_settings settings_;
  std::optional<storage::hn4_stream> stream_;
  read_block last_;
};

/// Further paragraphs of the reference of `hn4.read`.
constexpr std::string_view hn4_read_details =
    R"(Outlet `x` has the type `u8[?]`. With `block = "all"` the tag is one item, of at
most 2^40 bytes.

Attributes: `offset` in bytes and `tag`. The cursor holds offset, length and XXH3
digest of the last block.)";

/// A small pipeline with `hn4.read`.
constexpr std::string_view hn4_read_example = R"([[stage]]
name = "bytes"
use = "hn4.read"
path = "model.hn4"
tag = "text"

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

/// Makes the source. Edges can plan their memory with the size of a block; 0 is unknown.
result<void> make_hn4_read(flow::described_stage& made, const given_settings& given) {
  made.info = source_info(std::string(hn4_read_name),
                          "reads the bytes of a tag of an HN4 volume in blocks");
  made.info.details = hn4_read_details;
  made.info.example = hn4_read_example;
  WEIR_TRY(hn4_settings settings, flow::read_settings(made.info, hn4_table(), given));
  WEIR_TRY(flow::port_type type, flow::port_type::parse("u8[?]"));
  made.info.ports = {{"x", std::move(type), false}};
  // The setting 0 means that the size is not known before.
  made.info.ports.back().longest = static_cast<std::int64_t>(settings.block);
  made.object = std::make_unique<hn4_read>(std::move(settings));
  return {};
}

}  // namespace weir::actors
