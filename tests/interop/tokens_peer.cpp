// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes texts for tokens_hf.py: tokens_peer TOKENIZER TEXTS IDS.
///
/// TEXTS and IDS are sequences of records, each with a 32-bit count before it: bytes of a
/// text, and for each text its ids, the ids without special tokens, and the bytes of
/// the text decoded with and without special tokens. Every text is also encoded as a
/// stream in pieces of random lengths, and resumed at a random id.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/formats/tokens.hpp"

namespace {

using namespace weir;
using namespace weir::formats;

using ids_vector = std::vector<std::uint32_t>;

template <class T>
T value_of(result<T> value) {
  if (!value) {
    std::fprintf(stderr, "tokens_peer: %s\n", value.error().message().c_str());
    std::exit(1);
  }
  return std::move(*value);
}

void check(const result<void>& done) {
  if (!done) {
    std::fprintf(stderr, "tokens_peer: %s\n", done.error().message().c_str());
    std::exit(1);
  }
}

/// Pushes a text from an offset on in pieces of random lengths and returns all ids.
ids_vector drain(token_stream& stream, std::string_view text, std::mt19937_64& random) {
  ids_vector out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t longest = random() % 4 == 0 ? 70'000 : 20;
    const std::size_t size =
        std::min<std::size_t>(1 + random() % longest, text.size() - at);
    check(stream.push(as_view(text.substr(at, size))));
    at += size;
  }
  check(stream.finish());
  out.assign(stream.ready().begin(), stream.ready().end());
  return out;
}

/// Compares the ids of streams with those of the whole text.
bool streams_agree(const tokenizer& with, std::string_view text, const ids_vector& whole,
                   std::mt19937_64& random) {
  const std::size_t window = random() % 4 == 0 ? 64 * 1024 : 1 + random() % 40;
  auto stream = value_of(
      token_stream::open(with, {.window = text.size() > 100'000 ? 4096 : window}));
  const ids_vector streamed = drain(stream, text, random);
  if (streamed != whole) {
    return false;
  }
  const std::size_t taken = random() % (whole.size() + 1);
  stream.take(taken);
  const token_cursor cursor = stream.cursor();
  auto again = value_of(token_stream::resume(with, cursor, 1 + random() % 5000));
  const ids_vector rest = drain(again, text.substr(cursor.offset), random);
  return rest ==
         ids_vector(whole.begin() + static_cast<std::ptrdiff_t>(taken), whole.end());
}

void put_count(byte_vector& out, std::size_t count) {
  std::array<std::byte, 4> bytes{};
  store_le<std::uint32_t>(bytes.data(), static_cast<std::uint32_t>(count));
  append(out, bytes);
}

void put_ids(byte_vector& out, const ids_vector& ids) {
  put_count(out, ids.size());
  append(out, std::as_bytes(std::span(ids)));
}

void put_text(byte_vector& out, const std::string& text) {
  put_count(out, text.size());
  append(out, as_view(text));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: tokens_peer TOKENIZER TEXTS IDS\n");
    return 2;
  }
  auto& files = posix_file_system();
  const auto with = value_of(tokenizer::from_file(files, argv[1]));
  const byte_vector texts = value_of(read_file(files, argv[2]));
  std::mt19937_64 random(7);
  byte_vector out;
  put_count(out, with.vocabulary_size());
  for (std::size_t at = 0; at < texts.size();) {
    const std::size_t size = load_le<std::uint32_t>(texts.data() + at);
    const std::string_view text = as_text(bytes_view(texts).subspan(at + 4, size));
    at += 4 + size;
    ids_vector ids;
    check(with.encode(text, ids));
    ids_vector bare;
    check(with.encode(text, bare, {.add_special_tokens = false}));
    if (!streams_agree(with, text, ids, random)) {
      std::fprintf(stderr, "tokens_peer: the stream of the text at byte %zu differs\n",
                   at - size);
      return 1;
    }
    put_ids(out, ids);
    put_ids(out, bare);
    put_text(out, value_of(with.decode(ids, {.skip_special_tokens = false})));
    put_text(out, value_of(with.decode(ids, {.skip_special_tokens = true})));
  }
  check(write_file_atomically(files, argv[3], out));
  return 0;
}
