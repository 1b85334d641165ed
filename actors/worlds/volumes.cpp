// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks that read tiles from a stream of an HN4 volume.
///
/// The tensor is not decoded or copied as a whole: each block of a tile is read from the
/// stream to its place.
#include "weir/worlds/volumes.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "tile_source.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::worlds {
namespace {

/// A tensor of a volume, for the tasks of one rank. The first task opens the volume.
class volume_source final : public tile_source {
 public:
  volume_source(std::string path, std::string name, const runtime::tensor& whole)
      : path_(std::move(path)), name_(std::move(name)), whole_(whole) {}

  /// The first task opens the volume; its outcome counts for all. After that the stream
  /// is read without the lock, because reading does not change it.
  result<void> fill(const runtime::tensor& tile) override {
    {
      const std::lock_guard lock(mutex_);
      outcome_ = outcome_ ? outcome_ : open();
      WEIR_CHECK(*outcome_);
    }
    for (const byte_block& block : blocks_of(tile)) {
      const mutable_bytes to(whole_.store().base + block.first,
                             static_cast<std::size_t>(block.bytes));
      const auto offset = tensor_->info.offset +
                          static_cast<std::uint64_t>(block.first - whole_.offset());
      WEIR_TRY(const std::size_t count, tensor_->stream.read(offset, to));
      // The stream ends inside the tensor.
      if (count != to.size()) {
        return error(errc::torn, fmt::format("cannot read the tensor \"{}\": expected {} "
                                             "bytes at {}, found {}",
                                             name_, to.size(), offset, count))
            .located(path_);
      }
    }
    return {};
  }

 private:
  /// Finds the tensor by its name and compares type, shape and size with those of the
  /// whole.
  result<void> open() {
    WEIR_TRY(volume_, storage::hn4_volume::open(path_));
    WEIR_TRY(tensor_, storage::locate_tensor(*volume_, name_));
    const storage::stored_tensor& found = tensor_->info;
    const auto shape = whole_.shape();
    const auto bytes = whole_.count() * std::int64_t{info_of(whole_.type()).size};
    if (found.type != whole_.type() || found.bytes != static_cast<std::uint64_t>(bytes) ||
        !std::equal(found.shape.begin(), found.shape.end(), shape.begin(), shape.end())) {
      return error(errc::invalid_argument,
                   fmt::format("cannot read the tensor \"{}\": expected {} [{}], found "
                               "{} [{}] of {} bytes",
                               name_, info_of(whole_.type()).tensogram,
                               fmt::join(shape, ", "), found.type_name,
                               fmt::join(found.shape, ", "), found.bytes))
          .located(path_);
    }
    return {};
  }

  std::string path_;
  std::string name_;
  runtime::tensor whole_;
  std::mutex mutex_;
  std::optional<result<void>> outcome_;
  std::optional<storage::hn4_volume> volume_;
  std::optional<storage::located_tensor> tensor_;
};

}  // namespace

result<void> fill_tiles_from_volume(runtime::world& ranks, const std::string& path,
                                    const std::string& name, const runtime::tensor& whole,
                                    std::span<const owned_tile> tiles) {
  WEIR_EXPECT(whole.row_major());
  return fill_from(ranks, std::make_shared<volume_source>(path, name, whole), tiles);
}

}  // namespace weir::worlds
