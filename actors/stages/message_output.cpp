// SPDX-License-Identifier: Apache-2.0
/// @file
/// Appending, cutting and comparing a file of messages.
///
/// Files and pipes differ: a file can be cut behind the last durable message, a pipe
/// cannot take anything back. Messages for a pipe are therefore held until the next
/// checkpoint, as far as memory allows (`hold`). A resumed run writes those behind its
/// checkpoint once more.
#include "stages/message_output.hpp"

#include "weir/base/hash.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::actors {

/// A file of messages is emptied or continued; a file of something else is an error.
result<void> message_output::open(const std::string& path, bool resuming, bool replace) {
  path_ = path;
  pipe_ = is_pipe(path_);
  if (resuming) {
    return {};  // `rewind` opens the file
  }
  // A resumed run has returned above, so it loses nothing that is in the file.
  if (!pipe_ && replace) {
    WEIR_CHECK(empty_file());
  }
  return open_file();
}

/// @param hold  Bytes that are held for a pipe at most; more are written at once.
result<void> message_output::append(std::shared_ptr<const byte_vector> message,
                                    std::uint64_t hold) {
  // The digest is only computed at a checkpoint, of the last message.
  offset_.last = {offset_.last.end + message->size(), message->size(), 0};
  ++offset_.messages;
  last_ = message;
  // A file gets the message at once; only a pipe is held back.
  if (!pipe_) {
    return write(std::move(message));
  }
  held_bytes_ += message->size();
  held_.push_back(std::move(message));
  // Too many bytes are written before the checkpoint.
  return held_bytes_ > hold ? release() : result<void>();
}

/// Writes what is held and makes everything durable.
result<flow::small_record> message_output::settle() {
  WEIR_CHECK(release());
  WEIR_TRY(const std::uint64_t durable, file_->sync());
  WEIR_EXPECT(pipe_ || durable == offset_.last.end);
  // Without a new message, the digest is that of the offset before.
  if (last_) {
    offset_.last.digest = xxh3_64(*last_);
    last_.reset();
  }
  return flow::small_record::holding(offset_);
}

/// Continues behind the offset. The file must have the last durable message there.
result<void> message_output::rewind(bytes_view stored) {
  WEIR_TRY(offset_, record_of<offset>(stored, stage_, "offset"));
  if (!pipe_) {
    WEIR_CHECK(cut());
  }
  return open_file();
}

/// Compares the output of a finished run. Returns false for a pipe, which keeps nothing.
result<bool> message_output::verify(const std::string& path, bytes_view stored) {
  path_ = path;
  // A pipe has nothing to compare with.
  if (is_pipe(path_)) {
    return false;
  }
  WEIR_TRY(offset_, record_of<offset>(stored, stage_, "offset"));
  if (!fs_.exists(path_)) {
    return offset_.last.end == 0 ? result<bool>(true) : result<bool>(missing());
  }
  WEIR_TRY(const auto f, fs_.open(path_, open_mode::read));
  WEIR_CHECK(holds_last(*f));
  return true;
}

/// Locks the file as long as the result lives.
/// Only files of the machine are locked; see `locks`.
result<std::optional<file_lock>> message_output::locked() const {
  if (!locks()) {
    return std::optional<file_lock>();
  }
  WEIR_TRY(file_lock lock, file_lock::acquire(path_));
  return std::optional(std::move(lock));
}

/// Opens the file behind its last message, without repairing it: `cut` has done that.
result<void> message_output::open_file() {
  target_environment environment;
  environment.fs = &fs_;
  environment.lock = locks();
  message_target target;
  target.path = path_;
  WEIR_TRY(file_, message_file::open(environment, target));
  // The end is behind the last sound message.
  if (!pipe_) {
    offset_.last.end = file_->end();
  }
  return {};
}

/// Empties a file of messages. Other files are left alone.
// The lock keeps another run from appending to it at the same moment.
result<void> message_output::empty_file() {
  WEIR_TRY(const auto lock, locked());
  auto f = fs_.open(path_, open_mode::read_write);
  if (!f) {
    // A file that is missing is made when it is opened.
    return f.error().code() == errc::not_found ? result<void>() : f.error();
  }
  WEIR_TRY(const std::uint64_t size, (*f)->size());
  // An empty file may belong to anybody.
  if (size == 0) {
    return {};
  }
  // The first bytes decide whether the file may be emptied.
  WEIR_CHECK(check_ours(**f, path_, "Tensogram messages", {&message_magic, 1}));
  WEIR_CHECK((*f)->resize(0));
  return (*f)->sync();
}

/// Cuts the file to exactly the offset. An offset of 0 does not tell that the file is one
/// of messages.
/// Other bytes behind the offset are messages of the run that was killed, or a part of
/// one.
result<void> message_output::cut() {
  if (!fs_.exists(path_)) {
    return offset_.last.end == 0 ? result<void>() : missing();
  }
  WEIR_TRY(const auto lock, locked());
  WEIR_TRY(const auto f, fs_.open(path_, open_mode::create_or_open));
  WEIR_CHECK(holds_last(*f));
  WEIR_TRY(const std::uint64_t size, f->size());
  // The length is right already.
  if (size == offset_.last.end) {
    return {};
  }
  // Nothing proves that an empty offset belongs to this file, so its first bytes do.
  if (offset_.last.end == 0) {
    WEIR_CHECK(check_ours(*f, path_, "Tensogram messages", {&message_magic, 1}));
  }
  WEIR_CHECK(cut_output(*f, offset_.last.end));
  return f->sync();
}

/// The last message before the offset must be the one that was durable.
/// Fails if the file is shorter, or has another message there.
result<void> message_output::holds_last(file& f) const {
  return check_appended(f, path_, offset_.last, stage_, "message");
}

error message_output::missing() const {
  return shorter_than_offset(path_, offset_.last.end, 0);
}

/// The message is written as it is; the file must end exactly at the offset then.
result<void> message_output::write(std::shared_ptr<const byte_vector> message) {
  message_order order;
  order.encoded = std::move(message);
  WEIR_TRY(const auto span, file_->append(order));
  WEIR_EXPECT(pipe_ || span.offset + span.length == offset_.last.end);
  return {};
}

/// Writes what is held for a pipe.
/// It stays held if a write fails.
result<void> message_output::release() {
  for (; !held_.empty(); held_.pop_front()) {
    WEIR_CHECK(write(held_.front()));
  }
  held_bytes_ = 0;
  return {};
}

}  // namespace weir::actors
