// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds Tensogram v3 messages in files, in memory and in bytes that arrive in pieces.
/// @source{Tensogram v3; docs/formats/tensogram.md}
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/formats/byte_source.hpp"

namespace weir::formats {

/// Place of a message in a source, in bytes.
struct message_span {
  std::uint64_t offset = 0;  ///< offset of the first byte in the source
  std::uint64_t length = 0;  ///< number of bytes
  friend bool operator==(const message_span&, const message_span&) = default;
};

/// Returns the places of all messages, in order. Bytes between messages are skipped. The
/// end of a streamed message is found by its frames, so a payload that contains the end
/// magic does not cut it; only a damaged stream ends at the next end magic.
/// @error{io; the source cannot be read; other errors of the source are returned too}
[[nodiscard]] result<std::vector<message_span>> scan(const byte_source& source);
/// Returns the places of all messages in memory, in order.
[[nodiscard]] std::vector<message_span> scan(bytes_view bytes);

/// Order of a search. Undamaged files give the same list in every order.
enum class scan_order : std::uint8_t {
  forward,    ///< from the start
  backward,   ///< from the end by the lengths in postambles
  both_ends,  ///< a message from each end in turn
};
/// Returns the places of all messages, searched in this order. A search from the end
/// finds messages of up to 4 GiB. It stops at a stream without length or at other bytes;
/// the bytes before are searched forward.
/// @error{io; the source cannot be read; other errors of the source are returned too}
[[nodiscard]] result<std::vector<message_span>> scan(const byte_source& source,
                                                     scan_order order);

/// Finds messages in bytes that arrive in pieces and only once, such as those of a pipe.
/// It gives the messages that scan() finds in all of the bytes, each as soon as its last
/// byte has arrived, independently of the pieces.
/// @threads{thread-compatible}
class message_splitter {
 public:
  /// Makes a splitter for messages of at most `largest` bytes. Longer ones are skipped.
  explicit message_splitter(std::uint64_t largest = std::uint64_t{1} << 32)
      : largest_(largest) {}

  /// One message.
  struct piece {
    std::uint64_t offset = 0;   ///< offset of its first byte in all bytes
    std::uint64_t skipped = 0;  ///< bytes in front of it that belong to no message
    byte_vector bytes;          ///< the message
  };

  /// Takes the next bytes. It must not be called after end().
  void put(bytes_view bytes);
  /// Declares that no more bytes will arrive.
  void end() noexcept { ended_ = true; }
  /// Returns the next whole message, or nothing if more bytes are needed or none is left.
  [[nodiscard]] std::optional<piece> take();

  /// Returns the number of bytes that are held: not taken and not known to be no message.
  [[nodiscard]] std::uint64_t held() const noexcept { return bytes_.size() - start_; }
  /// Returns the number of bytes behind the last taken message that belong to no message.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }
  /// Returns true if those bytes begin like a truncated message.
  [[nodiscard]] bool cut_short() const noexcept { return cut_short_; }

 private:
  enum class found : std::uint8_t { message, nothing, unclear };
  [[nodiscard]] bytes_view rest() const noexcept;
  [[nodiscard]] found look(std::uint64_t& length);
  [[nodiscard]] found look_at_stream(std::uint64_t& length);
  [[nodiscard]] found hop(std::uint64_t& length);
  [[nodiscard]] found search_end(std::uint64_t& length);
  void skip(std::uint64_t bytes);
  [[nodiscard]] bool go_to_magic();

  std::uint64_t largest_;
  byte_vector bytes_;
  std::size_t start_ = 0;       ///< begin of the held bytes in `bytes_`
  std::uint64_t passed_ = 0;    ///< bytes that are not held any more
  std::uint64_t skipped_ = 0;   ///< bytes in no message since the last one
  std::uint64_t walked_ = 0;    ///< frames of the first stream that were passed
  std::uint64_t searched_ = 0;  ///< in a damaged stream: no end magic before this
  /// No end magic begins at `endless_from_` or behind it before `endless_to_`. These
  /// offsets count from the start of the input.
  std::uint64_t endless_from_ = 0;
  std::uint64_t endless_to_ = 0;
  bool ended_ = false;
  bool cut_short_ = false;
};

}  // namespace weir::formats
