// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages and pipes for the tests of the message reader and the message appender.
#pragma once

#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "support/faulty_files.hpp"
#include "tensogram/message_feed.hpp"
#include "tensogram/message_file.hpp"

namespace weir::test {

/// Returns an order for a message with one uint64 object, whose `count` elements are all
/// `number`.
inline actors::message_order numbered_order(std::uint64_t number, std::size_t count = 3) {
  actors::object_to_append object;
  object.descriptor.type = dtype::uint64;
  object.descriptor.shape = {static_cast<std::int64_t>(count)};
  byte_vector data(8 * count);
  for (std::size_t i = 0; i < count; ++i) {
    store_le<std::uint64_t>(data.data() + 8 * i, number);
  }
  object.data = std::make_shared<const byte_vector>(std::move(data));
  return {{std::move(object)}, {}, nullptr};
}
/// Returns the message of such an order.
inline byte_vector numbered_message(std::uint64_t number, std::size_t count = 3) {
  const actors::message_order order = numbered_order(number, count);
  const formats::object_to_write one{
      order.objects[0].descriptor, {}, *order.objects[0].data};
  return or_throw(formats::encode_message({&one, 1}));
}
/// Returns the number of such a message.
inline std::uint64_t number_of(const formats::message_reader& message) {
  return load_le<std::uint64_t>(or_throw(message.decode(0)).data());
}
/// Flips one bit in the payload of a message.
inline byte_vector with_flipped_payload(byte_vector message) {
  std::size_t offset = 0;
  const auto reader = or_throw(formats::message_reader::open(message));
  for (const formats::frame_info& frame : reader.frames()) {
    offset = frame.type == 9 ? frame.offset + 16 : offset;
  }
  message.at(offset) ^= std::byte{1};
  return message;
}
/// Returns parts one behind the other.
inline byte_vector concatenated(const std::vector<byte_vector>& parts) {
  byte_vector out;
  for (const byte_vector& part : parts) {
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

/// A pipe that follows a script. Each entry is the result of one read: its bytes, or no
/// bytes in time if it is empty. Behind the last entry the pipe ends or fails.
class scripted_pipe final : public actors::byte_pipe {
 public:
  explicit scripted_pipe(std::deque<byte_vector> script,
                         std::optional<error> failure = std::nullopt)
      : script_(std::move(script)), failure_(std::move(failure)) {}
  result<std::optional<std::size_t>> read_some(mutable_bytes to) override {
    if (script_.empty()) {
      if (failure_) {
        return *failure_;
      }
      return std::optional<std::size_t>(0);
    }
    byte_vector& next = script_.front();
    const std::size_t count = std::min(next.size(), to.size());
    std::copy_n(next.begin(), count, to.begin());
    next.erase(next.begin(), next.begin() + static_cast<std::ptrdiff_t>(count));
    if (next.empty()) {
      script_.pop_front();
    }
    return count > 0 ? std::optional(count) : std::optional<std::size_t>();
  }

 private:
  std::deque<byte_vector> script_;
  std::optional<error> failure_;
};

/// Cuts bytes into pieces of `step` bytes for a script, with a pause before every
/// `pause`-th piece.
inline std::deque<byte_vector> in_pieces(bytes_view bytes, std::size_t step,
                                         std::size_t pause) {
  std::deque<byte_vector> out;
  for (std::size_t offset = 0; offset < bytes.size(); offset += step) {
    if (out.size() % pause == 0) {
      out.emplace_back();
    }
    const bytes_view piece = bytes.subspan(offset, std::min(step, bytes.size() - offset));
    out.emplace_back(piece.begin(), piece.end());
  }
  return out;
}

/// The results of a feed until its end: the numbers of messages, and errors in the places
/// of messages.
struct fed {
  std::vector<std::uint64_t> numbers;
  std::vector<error> errors;
  std::vector<actors::message_delivery> deliveries;
  std::uint64_t skipped = 0;
};
/// Reads a feed to its end.
inline fed read_all(actors::message_feed& feed) {
  fed out;
  for (int guard = 0; guard < 100'000; ++guard) {
    auto next = feed.next();
    if (!next) {
      out.errors.push_back(next.error());
      if (feed.ended()) {
        break;
      }
    } else if (*next) {
      out.skipped += (*next)->skipped;
      if (!(*next)->message) {
        break;
      }
      out.numbers.push_back(number_of(*(*next)->message));
      out.deliveries.push_back(std::move(**next));
    }
  }
  return out;
}

}  // namespace weir::test
