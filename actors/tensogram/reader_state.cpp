// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading ahead, within the limits of messages and bytes.
#include "tensogram/reader_state.hpp"

namespace weir::actors {

namespace {

/// Returns the bytes of memory that a delivery holds.
/// `limit` is the number of bytes from which messages stay in their files.
std::uint64_t bytes_of_delivery(const message_delivery& delivery, std::uint64_t limit) {
  // A message that is larger than the limit stays in its file.
  std::uint64_t bytes = delivery.length <= limit ? delivery.length : 0;
  for (const byte_vector& elements : delivery.elements) {
    bytes += elements.size();
  }
  return bytes;
}

}  // namespace

/// Says whether another message should be read. Pulls that wait always have a message
/// read, whatever the limits say; reading ahead of them needs free places and free bytes.
bool reader_state::wants(std::size_t pulls) const noexcept {
  if (last_) {
    return false;
  }
  if (buffered_.size() < pulls) {
    return true;
  }
  return buffered_.size() < pulls + prefetch_ && buffered_bytes_ < prefetch_bytes_;
}

/// Reads one delivery ahead. An error is held like a message, so that it is answered in
/// its turn. The delivery that stands for the end is kept apart, because it answers every
/// pull from then on.
reader_state::step reader_state::read() {
  auto next = feed_->next();
  // A pipe has nothing at the moment; nothing is buffered.
  if (next && !*next) {
    return step::waiting;
  }
  item read{next ? result<message_delivery>(std::move(**next))
                 : result<message_delivery>(std::move(next).error()),
            0};
  if (feed_->ended()) {
    last_ = std::move(read.delivery);
    return step::buffered;
  }
  read.bytes = read.delivery ? bytes_of_delivery(*read.delivery, prefetch_bytes_) : 0;
  buffered_bytes_ += read.bytes;
  buffered_.push_back(std::move(read));
  return step::buffered;
}

/// Returns the next delivery for a pull, or nothing if none was read. After the end,
/// every call returns the end.
std::optional<result<message_delivery>> reader_state::take() {
  if (buffered_.empty()) {
    return last_;
  }
  item first = std::move(buffered_.front());
  buffered_.pop_front();
  buffered_bytes_ -= first.bytes;
  delivered_ += first.delivery ? 1 : 0;
  return std::move(first.delivery);
}

}  // namespace weir::actors
