// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reading ahead within bounds.
#include "tensogram/reader_state.hpp"

namespace weir::actors {

namespace {

/// Bytes of memory that a delivery holds.
std::uint64_t bytes_of(const message_delivery& delivery, std::uint64_t limit) {
  // What is larger than the limit was not read.
  std::uint64_t bytes = delivery.length <= limit ? delivery.length : 0;
  for (const byte_vector& elements : delivery.elements) {
    bytes += elements.size();
  }
  return bytes;
}

}  // namespace

bool reader_state::wants(std::size_t pulls) const noexcept {
  if (last_) {
    return false;
  }
  if (held_.size() < pulls) {
    return true;
  }
  return held_.size() < pulls + prefetch_ && held_bytes_ < prefetch_bytes_;
}

reader_state::step reader_state::read() {
  auto next = feed_->next();
  if (next && !*next) {
    return step::waiting;
  }
  item one{next ? result<message_delivery>(std::move(**next))
                : result<message_delivery>(std::move(next).error()),
           0};
  if (feed_->ended()) {
    last_ = std::move(one.delivery);
    return step::held;
  }
  one.bytes = one.delivery ? bytes_of(*one.delivery, prefetch_bytes_) : 0;
  held_bytes_ += one.bytes;
  held_.push_back(std::move(one));
  return step::held;
}

std::optional<result<message_delivery>> reader_state::take() {
  if (held_.empty()) {
    return last_;
  }
  item one = std::move(held_.front());
  held_.pop_front();
  held_bytes_ -= one.bytes;
  delivered_ += one.delivery ? 1 : 0;
  return std::move(one.delivery);
}

}  // namespace weir::actors
