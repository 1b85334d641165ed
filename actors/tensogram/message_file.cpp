// SPDX-License-Identifier: Apache-2.0
/// @file
/// Appending and syncing of messages, and finding the end of a file after a crash.
#include "tensogram/message_file.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace weir::actors {

namespace {

/// Returns the bytes of the message of an order. Bytes that are encoded already are
/// verified.
/// Objects are encoded here, on the thread of the appender, so that clients do not wait.
result<byte_vector> bytes_of(const message_order& order) {
  if (order.encoded) {
    WEIR_TRY(const auto reader, formats::message_reader::open(*order.encoded));
    WEIR_CHECK(reader.verify());
    // Bytes behind the message would become garbage of the file.
    if (reader.span().length != order.encoded->size()) {
      return error(errc::corrupt,
                   fmt::format("cannot append message: expected {} bytes, found {}",
                               reader.span().length, order.encoded->size()));
    }
    return *order.encoded;
  }
  std::vector<formats::object_to_write> objects;
  for (const object_to_append& o : order.objects) {
    // Objects without elements have no data.
    const bytes_view data = o.data ? bytes_view(*o.data) : bytes_view();
    objects.push_back({o.descriptor, o.metadata, data, o.stored});
  }
  return formats::encode_message(objects, order.options);
}

/// Reads a file that somebody else owns.
/// The scan needs a source of known size; the file is the one that is being appended to.
class borrowed_file final : public formats::byte_source {
 public:
  borrowed_file(file& f, std::uint64_t size) : file_(f), size_(size) {}
  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] result<void> read(std::uint64_t offset, mutable_bytes to) const override {
    return read_exactly(file_, offset, to);
  }
  [[nodiscard]] const std::string& name() const noexcept override { return file_.path(); }

 private:
  file& file_;
  std::uint64_t size_;
};

/// Returns whether a message can be opened and all its hashes are right.
/// Damage inside a message that was answered would be found here, too; such a message is
/// cut off only with `repair`.
bool is_sound(const std::shared_ptr<const formats::byte_source>& source,
              const formats::message_span& span) {
  const auto reader = formats::message_reader::open(source, span);
  return reader && reader->verify();
}

}  // namespace

/// Opens the target. A file is locked, if the environment asks for locks, and then
/// recovered from an earlier crash. A pipe has nothing to recover.
result<std::unique_ptr<message_file>> message_file::open(
    const target_environment& environment, const message_target& target) {
  file_system& fs = *environment.fs;
  std::unique_ptr<message_file> out(new message_file(fs, target.path));
  // A window of 0 would refuse every append.
  out->info_.window = std::max<std::size_t>(target.window, 1);
  out->pipe_ = is_pipe(target.path);
  if (out->pipe_) {
    WEIR_TRY(out->file_, open_pipe_to_write(target.path, environment.timeout));
    return out;
  }
  if (environment.lock) {
    WEIR_TRY(out->lock_, file_lock::acquire(target.path));
  }
  WEIR_TRY(out->file_, fs.open(target.path, open_mode::create_or_open));
  WEIR_CHECK(out->recover(target));
  return out;
}

/// Finds the end of the last sound message. A crash can leave messages behind it that are
/// incomplete. They were never answered: answered messages are durable, so they are sound
/// and lie before them.
result<void> message_file::recover(const message_target& target) {
  WEIR_TRY(const std::uint64_t size, file_->size());
  const auto source = std::make_shared<const borrowed_file>(*file_, size);
  WEIR_TRY(auto spans, formats::scan(*source));
  // Only the last messages can be unsound after a crash, so the search goes backwards and
  // ends at the first sound one.
  while (!spans.empty() && !is_sound(source, spans.back())) {
    spans.pop_back();
  }
  end_ = spans.empty() ? 0 : spans.back().offset + spans.back().length;
  info_.end = end_;
  info_.messages = spans.size();
  // Includes bytes behind the last message that never were one.
  info_.cut_bytes = size - end_;
  if (info_.cut_bytes > 0) {
    if (!target.repair) {
      return error(errc::torn,
                   fmt::format("cannot append to \"{}\": expected a sound message at its "
                               "end, found {} bytes behind the last one",
                               path_, info_.cut_bytes))
          .located(fmt::format("{}:{}", path_, end_))
          .hint("repair cuts them off");
    }
    WEIR_CHECK(file_->resize(end_));
  }
  // Messages that were found may be in the page cache only. They count as durable from
  // here on, so they must be.
  WEIR_CHECK(sync());
  return {};
}

/// Removes the bytes that a failed write has left. If that is impossible, nothing can be
/// appended any more. Returns the cause of the failure.
/// A pipe cannot take bytes back.
result<void> message_file::remove_partial_write(error cause) {
  const auto cut = pipe_ ? result<void>(cause) : file_->resize(end_);
  if (!cut) {
    broken_ = cause;
  }
  return cause;
}

/// Appends a message behind the last one and returns its place. It is not durable yet.
result<formats::message_span> message_file::append(const message_order& order) {
  if (broken_) {
    return *broken_;
  }
  WEIR_TRY(const byte_vector bytes, bytes_of(order));
  // `end_` moves only after the whole message was written.
  if (auto written = write_all(*file_, end_, bytes); !written) {
    WEIR_CHECK(remove_partial_write(std::move(written).error()));
  }
  const formats::message_span span{end_, bytes.size()};
  end_ += bytes.size();
  return span;
}

/// Makes all appended messages durable, and returns the end of the last one. The entry of
/// a new file in its folder must be durable too, which is done once. After a failure the
/// target is broken for good: the kernel may have dropped the pages, so trying again
/// could report success wrongly.
result<std::uint64_t> message_file::sync() {
  if (broken_) {
    return *broken_;
  }
  auto done = file_->sync();
  if (done && !entry_durable_ && !pipe_) {
    done = fs_.sync_folder(folder_of(path_));
    entry_durable_ = done.has_value();
  }
  if (!done) {
    broken_ = std::move(done).error();
    return *broken_;
  }
  durable_ = end_;
  return durable_;
}

}  // namespace weir::actors
