// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tokens in memory as a source.
///
/// Document boundaries are the `end_of_text` tokens themselves, since memory has no
/// files.
///
/// The first functions are the defaults of `token_source`, which suit every source whose
/// size is known.
#include <fmt/core.h>

#include <algorithm>

#include "context/identity.hpp"

namespace weir::storage {

/// Nothing has to be waited for.
result<bool> token_source::ready(std::uint64_t, std::size_t, int) {
  return true;
}

/// A chunk ends nowhere earlier than asked.
result<std::size_t> token_source::chunk_run(std::uint64_t, std::size_t count) {
  return count;
}

bool token_source::begins_context(std::uint64_t) const {
  return false;
}

/// Only sources that are read once have a position.
result<void> token_source::continue_at(std::uint64_t, std::span<const std::uint32_t>) {
  return error(errc::unsupported,
               "cannot set the position of a source that is read by index");
}

result<void> token_source::go_on_at(std::uint64_t) {
  return {};
}

std::vector<left_out_range> token_source::left_out(std::uint64_t) const {
  return {};
}

namespace {

/// A vector of tokens as a source.
class memory_tokens final : public token_source {
 public:
  memory_tokens(std::vector<std::uint32_t> tokens, std::string name)
      : tokens_(std::move(tokens)), name_(std::move(name)) {}

  // Memory is digested whole.
  result<void> attach() {
    identity_.tokens = tokens_.size();
    set_leaves(identity_, {make_leaf(name_, tokens_.size())}, 0);
    return digest_content(*this, identity_);
  }
  std::uint64_t size() const noexcept override { return tokens_.size(); }
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    if (index >= tokens_.size()) {
      return std::size_t{0};
    }
    const auto start = static_cast<std::size_t>(index);
    const std::size_t count = std::min(to.size(), tokens_.size() - start);
    std::copy_n(tokens_.data() + start, count, to.data());
    return count;
  }
  std::string place_text(std::uint64_t index) const override {
    return fmt::format("{}:{}", name_, index);
  }
  place place_of(std::uint64_t index) const override { return {0, index}; }
  const source_identity& identity() const noexcept override { return identity_; }
  // A document begins behind an end-of-text token.
  result<std::uint64_t> next_document(std::uint64_t index) override {
    if (index == 0 || (index <= tokens_.size() && tokens_[index - 1] == end_of_text)) {
      return index;
    }
    const auto from =
        tokens_.begin() +
        static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(index, tokens_.size()));
    const auto found = std::find(from, tokens_.end(), end_of_text);
    return static_cast<std::uint64_t>(found - tokens_.begin()) +
           (found == tokens_.end() ? 0U : 1U);
  }

 private:
  std::vector<std::uint32_t> tokens_;
  std::string name_;
  source_identity identity_;
};

}  // namespace

/// An empty source is refused, since it has no place in a chain.
result<std::unique_ptr<token_source>> open_memory_tokens(
    std::vector<std::uint32_t> tokens, std::string name) {
  if (tokens.empty()) {
    return error(
        errc::source_unavailable,
        fmt::format("cannot attach source \"{}\": expected at least 1 token, found 0",
                    name));
  }
  auto source = std::make_unique<memory_tokens>(std::move(tokens), std::move(name));
  WEIR_CHECK(source->attach());
  return std::unique_ptr<token_source>(std::move(source));
}

/// Each byte becomes a token.
result<std::unique_ptr<token_source>> open_memory_tokens(bytes_view bytes,
                                                         std::string name) {
  std::vector<std::uint32_t> tokens(bytes.size());
  std::transform(bytes.begin(), bytes.end(), tokens.begin(),
                 [](std::byte b) { return std::to_integer<std::uint32_t>(b); });
  return open_memory_tokens(std::move(tokens), std::move(name));
}

}  // namespace weir::storage
