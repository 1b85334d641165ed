// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tasks that read and write Tensogram files for worlds. Ranks share a reader for all of
/// their own tiles.
///
/// Reading: the ranks of one process share the file and, if necessary, its decoded
/// elements; each tile is a task of its owner. Writing: rank 0 encodes the whole tensor,
/// after the world has brought all tiles to it, because the task declares that it reads
/// the whole.
#include "weir/worlds/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>

#include "tile_source.hpp"
#include "weir/base/file.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::worlds {
namespace {

using runtime::task_context;

/// An object of a file, for the tasks of one rank.
/// The first task of this process opens the file under the lock; the outcome, also a
/// failure, is kept, so that the other tasks do not try again.
class object_source final : public tile_source {
 public:
  object_source(std::string path, std::string object, const runtime::tensor& whole)
      : path_(std::move(path)), object_(std::move(object)), whole_(whole) {}

  /// Copies a tile of the object to its place.
  /// Blocks are contiguous bytes of the tile, and lie at the same distances in the object
  /// as in the whole tensor.
  result<void> fill(const runtime::tensor& tile) override {
    WEIR_TRY(const bytes_view elements, open());
    for (const byte_block& block : blocks_of(tile)) {
      const auto from = static_cast<std::size_t>(block.first - whole_.offset());
      std::memcpy(whole_.store().base + block.first, elements.data() + from,
                  static_cast<std::size_t>(block.bytes));
    }
    return {};
  }

 private:
  /// Returns the elements of the object; the first task reads them.
  result<bytes_view> open() {
    const std::lock_guard lock(mutex_);
    if (!outcome_) {
      outcome_ = read();
    }
    return *outcome_;
  }
  /// Searches all messages of the file for the object. The reader of the message stays
  /// open, because a view of its elements points into the file.
  result<bytes_view> read() {
    WEIR_TRY(file_, formats::mapped_source::open(path_));
    WEIR_TRY(const auto spans, formats::scan(*file_));
    for (const formats::message_span& span : spans) {
      WEIR_TRY(reader_, formats::message_reader::open(file_, span));
      if (const auto index = reader_->find(object_)) {
        return elements_of(*index);
      }
    }
    return error(errc::not_found,
                 fmt::format("cannot read the object \"{}\": expected it in one of {} "
                             "messages, found none that has it",
                             object_, spans.size()))
        .located(path_);
  }
  /// Returns the elements as they lie in the file, or a decoded copy for objects that are
  /// compressed or have another order of bytes.
  result<bytes_view> elements_of(std::size_t index) {
    const formats::object_descriptor& d = reader_->descriptor(index);
    const auto shape = whole_.shape();
    if (d.type != whole_.type() ||
        !std::equal(d.shape.begin(), d.shape.end(), shape.begin(), shape.end())) {
      return error(errc::invalid_argument,
                   fmt::format(
                       "cannot read the object \"{}\": expected {} [{}], found {} "
                       "[{}]",
                       object_, info_of(whole_.type()).tensogram, fmt::join(shape, ", "),
                       info_of(d.type).tensogram, fmt::join(d.shape, ", ")))
          .located(path_);
    }
    auto in_place = reader_->view(index);
    // Only `unsupported` means that decoding may help; other errors are damage.
    if (in_place || in_place.error().code() != errc::unsupported) {
      return in_place;
    }
    WEIR_TRY(decoded_, reader_->decode(index));
    return bytes_view(decoded_);
  }

  std::string path_;
  std::string object_;
  runtime::tensor whole_;
  std::mutex mutex_;
  std::optional<result<bytes_view>> outcome_;
  std::shared_ptr<formats::mapped_source> file_;
  std::optional<formats::message_reader> reader_;
  byte_vector decoded_;  ///< elements that the file does not have as they are
};

/// What rank 0 writes.
/// The job is shared with the world, which may run the task later than the call.
struct message_job {
  std::string path;
  std::string object;
  runtime::tensor whole;

  /// Runs on rank 0, when all tiles of `whole` have arrived there.
  [[nodiscard]] result<void> write() const {
    formats::object_to_write one;
    one.descriptor.type = whole.type();
    one.descriptor.shape.assign(whole.shape().begin(), whole.shape().end());
    one.metadata.set("name", object);
    const auto bytes = whole.count() * std::int64_t{info_of(whole.type()).size};
    one.data = {whole.data(), static_cast<std::size_t>(bytes)};
    WEIR_TRY(const byte_vector message, formats::encode_message({&one, 1}));
    return write_file_atomically(posix_file_system(), path, message);
  }
};

}  // namespace

/// @pre `whole` is row-major, so that places in the file follow from offsets.
result<void> fill_tiles(runtime::world& ranks, const std::string& path,
                        const std::string& object, const runtime::tensor& whole,
                        std::span<const owned_tile> tiles) {
  WEIR_EXPECT(whole.row_major());
  return fill_from(ranks, std::make_shared<object_source>(path, object, whole), tiles);
}

/// Returns after the file was written, on all ranks. The mark is one byte that only this
/// task writes: a task of a world needs an output, by which the ranks know that it has
/// ended.
result<void> write_whole(runtime::world& ranks, const std::string& path,
                         const std::string& object, const runtime::tensor& whole) {
  WEIR_EXPECT(whole.row_major());
  WEIR_TRY(const runtime::storage done, ranks.allocate(1, "message"));
  const std::array<std::int64_t, 1> one{1};
  WEIR_TRY(const auto mark, runtime::tensor::over(done, dtype::uint8, one));
  const auto job = std::make_shared<const message_job>(message_job{path, object, whole});
  WEIR_CHECK(ranks.submit(
      {0, 2}, "write message", std::array{runtime::reads(whole), runtime::writes(mark)},
      [own = job.get()](const task_context&) { return own->write(); }, job));
  const auto outcome = ranks.wait();
  WEIR_CHECK(ranks.release(done.id));
  return outcome;
}

}  // namespace weir::worlds
