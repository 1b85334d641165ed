// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the bytes of a file descriptor that cannot seek as tokens.
///
/// The bytes that were read are kept up to a limit, because a cursor reads its window
/// again and chunks may have been read ahead. When a run resumes, the window comes from
/// the cursor, and the pipe continues with the next byte; the pipe itself cannot prove
/// that it continues at the right place.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "context/identity.hpp"
#include "weir/base/clock.hpp"

namespace weir::storage {

namespace {

/// Number of the newest tokens that stay readable. They serve reads of chunks that were
/// read ahead and the window of a cursor.
constexpr std::size_t remembered = std::size_t{1} << 20;

/// The bytes of a pipe. The newest ones are kept, so that a cursor can read its window
/// again.
class pipe_tokens final : public token_source {
 public:
  pipe_tokens(int descriptor, std::string name)
      : descriptor_(descriptor), name_(std::move(name)) {
    set_leaves(identity_, {make_leaf(name_, unknown_size)}, 0);
  }
  std::uint64_t size() const noexcept override { return unknown_size; }
  bool seekable() const noexcept override { return false; }
  std::uint32_t vocabulary() const noexcept override { return byte_vocabulary - 1; }

  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    if (index < first_) {
      return error(errc::source_unavailable,
                   fmt::format(
                       "cannot read {} again: expected a position from {} on, found {}",
                       name_, first_, index))
          .located(place_text(index));
    }
    WEIR_CHECK(fill(index - first_ + to.size()));
    const std::uint64_t start = index - first_;
    if (start >= newest_.size()) {
      return std::size_t{0};
    }
    const auto offset = static_cast<std::size_t>(start);
    const std::size_t count = std::min(to.size(), newest_.size() - offset);
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = std::to_integer<std::uint32_t>(newest_[offset + i]);
    }
    forget();
    return count;
  }
  result<bool> ready(std::uint64_t index, std::size_t count, int wait_ms) override {
    if (index < first_) {
      return true;  // `read` refuses it at once
    }
    const std::uint64_t wanted = index - first_ + count;
    const std::int64_t until = now_ns() + std::int64_t{wait_ms} * 1'000'000;
    while (!ended_ && newest_.size() < wanted) {
      const std::int64_t left = std::max<std::int64_t>(0, until - now_ns());
      pollfd one{descriptor_, POLLIN, 0};
      const int found = ::poll(&one, 1, static_cast<int>((left + 999'999) / 1'000'000));
      if (found == 0 || (found < 0 && errno == EINTR)) {
        return false;
      }
      WEIR_CHECK(read_some(wanted));  // also names what is wrong with the descriptor
    }
    return true;
  }
  std::string place_text(std::uint64_t index) const override {
    return fmt::format("{}:{}", name_, index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  result<std::uint64_t> next_document(std::uint64_t index) override { return index; }

  result<void> continue_at(std::uint64_t index,
                           std::span<const std::uint32_t> before) override {
    if (first_ + newest_.size() != 0) {
      return error(errc::unsupported,
                   fmt::format("cannot continue {}: it has been read already", name_));
    }
    byte_vector bytes;
    for (const std::uint32_t token : before) {
      if (token > 255) {
        return error(errc::history_mismatch,
                     fmt::format("cannot continue {}: expected bytes, found token {}",
                                 name_, token))
            .located(place_text(index));
      }
      bytes.push_back(static_cast<std::byte>(token));
    }
    WEIR_EXPECT(before.size() <= index);
    newest_ = std::move(bytes);
    first_ = index - newest_.size();
    return {};
  }

 private:
  /// Reads until `count` bytes are kept or the pipe ends. Waiting for all of them makes
  /// chunks independent of how the writer cuts its output.
  result<void> fill(std::uint64_t count) {
    while (!ended_ && newest_.size() < count) {
      WEIR_CHECK(read_some(count));
    }
    return {};
  }
  /// Reads what is there, at most until `count` bytes are kept; waits for the first byte.
  result<void> read_some(std::uint64_t count) {
    std::array<std::byte, 16384> piece{};
    const std::size_t want =
        std::min<std::uint64_t>(piece.size(), count - newest_.size());
    const ssize_t got = ::read(descriptor_, piece.data(), want);
    if (got < 0 && errno == EINTR) {
      return {};
    }
    if (got < 0) {
      return error(errc::source_unavailable,
                   fmt::format("cannot read {}: {}", name_, std::strerror(errno)))
          .located(place_text(first_ + newest_.size()));
    }
    ended_ = got == 0;
    append(newest_, bytes_view(piece).first(static_cast<std::size_t>(got)));
    return {};
  }
  /// Drops old bytes. It waits until half of the memory can be dropped, so that every
  /// byte is moved once on average.
  void forget() {
    if (newest_.size() > 2 * remembered) {
      const std::size_t old = newest_.size() - remembered;
      newest_.erase(newest_.begin(), newest_.begin() + static_cast<std::ptrdiff_t>(old));
      first_ += old;
    }
  }

  int descriptor_;
  std::string name_;
  source_identity identity_;
  byte_vector newest_;       ///< the newest bytes, the oldest first
  std::uint64_t first_ = 0;  ///< index of the first byte of `newest_`
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<token_source> open_pipe_source(int descriptor, std::string name) {
  return std::make_unique<pipe_tokens>(descriptor, std::move(name));
}

}  // namespace weir::storage
