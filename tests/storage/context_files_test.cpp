// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests token files: the same ids through every format, what is refused, damage, and the
/// digests of large sets.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "storage/context_support.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/record.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/mix_source.hpp"
#include "weir/storage/npy.hpp"
#include "weir/storage/token_files.hpp"

namespace weir::storage {
namespace {

using test::temp_folder;
using test::tokens;

/// Writes a file that need not survive a crash.
void write_plain(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Returns ids as little-endian numbers of a type.
template <class T>
std::string packed(const tokens& ids) {
  record_writer out;
  for (const std::uint32_t id : ids) {
    out.put(static_cast<std::make_unsigned_t<T>>(id));
  }
  return std::string(as_text(out.view()));
}

std::string llmc_file(std::uint32_t magic, std::uint32_t version, std::uint32_t count,
                      const std::string& ids) {
  record_writer out;
  out.put(magic);
  out.put(version);
  out.put(count);
  out.put_zeros(1024 - 12);
  return std::string(as_text(out.view())) + ids;
}

std::string npy_file(dtype type, std::int64_t count, const std::string& ids) {
  const byte_vector head = or_throw(make_npy_header(type, {{count}}, false));
  return std::string(as_text(head)) + ids;
}

/// Returns an index of Megatron. Each document is cut into sequences of 7 ids at most.
std::string megatron_file(std::uint8_t code, std::size_t width,
                          const std::vector<tokens>& documents) {
  std::vector<std::uint32_t> lengths;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> starts = {0};
  std::uint64_t at = 0;
  for (const tokens& document : documents) {
    for (std::size_t i = 0; i < document.size(); i += 7) {
      const std::size_t count = std::min<std::size_t>(7, document.size() - i);
      lengths.push_back(static_cast<std::uint32_t>(count));
      offsets.push_back(at);
      at += count * width;
    }
    starts.push_back(lengths.size());
  }
  record_writer out;
  out.put_bytes(as_view(std::string_view("MMIDIDX\0\0", 9)));
  out.put(std::uint64_t{1});
  out.put(code);
  out.put(static_cast<std::uint64_t>(lengths.size()));
  out.put(static_cast<std::uint64_t>(starts.size()));
  out.put_all(std::span<const std::uint32_t>(lengths));
  out.put_all(std::span<const std::uint64_t>(offsets));
  out.put_all(std::span<const std::uint64_t>(starts));
  return std::string(as_text(out.view()));
}

tokens joined(const std::vector<tokens>& documents) {
  tokens all;
  for (const tokens& one : documents) {
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// Documents of random ids below 256.
std::vector<tokens> some_documents(std::size_t count) {
  std::vector<tokens> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(test::random_tokens(20 + 37 * (i % 4), 100 + i));
  }
  return all;
}

struct file_case {
  std::string name;
  token_file_options options;
  /// Writes the documents and returns the paths.
  std::function<std::vector<std::string>(const temp_folder&, const std::vector<tokens>&)>
      write;
};

/// A case with one file for each document.
file_case shard_set(const std::string& name, token_format format, const char* end,
                    std::function<std::string(const tokens&)> content) {
  file_case out;
  out.name = name;
  out.options.format = format;
  out.options.vocabulary = 256;
  out.write = [end, content = std::move(content)](const temp_folder& folder,
                                                  const std::vector<tokens>& documents) {
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      paths.push_back(folder / ("s" + std::to_string(i) + end));
      write_plain(paths.back(), content(documents[i]));
    }
    return paths;
  };
  return out;
}

template <class T>
file_case megatron_case(std::uint8_t code) {
  file_case out;
  out.name = "megatron " + std::to_string(code);
  out.options.vocabulary = 256;
  out.write = [code](const temp_folder& folder, const std::vector<tokens>& documents) {
    write_plain(folder / "m.bin", packed<T>(joined(documents)));
    write_plain(folder / "m.idx", megatron_file(code, sizeof(T), documents));
    return std::vector<std::string>{folder / "m.bin"};
  };
  return out;
}

template <class T>
file_case npy_case(const std::string& name, dtype type) {
  return shard_set(name, token_format::automatic, ".npy", [type](const tokens& ids) {
    return npy_file(type, static_cast<std::int64_t>(ids.size()), packed<T>(ids));
  });
}

/// A case with a volume for each document, which has the ids under a tag.
file_case volume_case(const std::string& name, token_format format,
                      std::function<std::string(const tokens&)> content) {
  file_case out;
  out.name = name;
  out.options.format = format;
  out.options.tag = "ids";
  out.options.vocabulary = 256;
  out.write = [content = std::move(content)](const temp_folder& folder,
                                             const std::vector<tokens>& documents) {
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      paths.push_back(folder / ("v" + std::to_string(i) + ".hn4"));
      hn4_format_options options;
      options.profile = hn4_profile::pico;
      options.capacity = limits_of(hn4_profile::pico).min;
      or_throw(hn4_format(paths.back(), options));
      auto volume = or_throw(hn4_volume::open(paths.back(), device_mode::writable));
      const std::string bytes = content(documents[i]);
      or_throw(volume.put("ids", as_view(bytes)));
    }
    return paths;
  };
  return out;
}

std::vector<file_case> every_format() {
  const auto u16 = [](const tokens& ids) { return packed<std::uint16_t>(ids); };
  const auto u32 = [](const tokens& ids) { return packed<std::uint32_t>(ids); };
  const auto llmc = [](std::uint32_t magic, std::uint32_t version, auto pack) {
    return [=](const tokens& ids) {
      return llmc_file(magic, version, static_cast<std::uint32_t>(ids.size()), pack(ids));
    };
  };
  return {shard_set("bytes", token_format::bytes, ".txt",
                    [](const tokens& ids) { return packed<std::uint8_t>(ids); }),
          shard_set("u16", token_format::u16, ".bin", u16),
          shard_set("u32", token_format::u32, ".bin", u32),
          shard_set("llmc 16", token_format::automatic, ".bin", llmc(20240520, 1, u16)),
          shard_set("llmc 32", token_format::llmc, ".bin", llmc(20240801, 7, u32)),
          npy_case<std::uint8_t>("npy u1", dtype::uint8),
          npy_case<std::uint16_t>("npy u2", dtype::uint16),
          npy_case<std::int16_t>("npy i2", dtype::int16),
          npy_case<std::int32_t>("npy i4", dtype::int32),
          npy_case<std::uint32_t>("npy u4", dtype::uint32),
          npy_case<std::int64_t>("npy i8", dtype::int64),
          npy_case<std::uint64_t>("npy u8", dtype::uint64),
          megatron_case<std::uint8_t>(1),
          megatron_case<std::int16_t>(3),
          megatron_case<std::int32_t>(4),
          megatron_case<std::int64_t>(5),
          megatron_case<std::uint16_t>(8),
          volume_case("volume u16", token_format::u16, u16),
          volume_case("volume llmc", token_format::automatic, llmc(20240520, 1, u16))};
}

/// Returns a cursor without the place and the identity of its source, which differ from
/// format to format.
stream_cursor without_source(stream_cursor cursor) {
  cursor.source_state.clear();
  cursor.stream_identity = 0;
  return cursor;
}

/// Expects that files give the chunks and cursors of the same tokens in memory, also
/// when another run goes on at a chunk.
void expect_same(const tokens& whole, const std::vector<std::string>& paths,
                 const token_file_options& options, std::uint32_t lanes) {
  stream_config config;
  config.chunk = 24;
  config.lanes = lanes;
  config.frequencies = {1};
  auto plain = test::open_stream(config, whole);
  const auto expected = test::read_all(*plain, 24);
  const auto open = [&] {
    return or_throw(context_stream::open(
        config, or_throw(open_token_files(posix_file_system(), paths, options))));
  };
  auto stream = open();
  EXPECT_EQ(stream->source().size(), whole.size());
  EXPECT_EQ(stream->source().vocabulary(), 257U);
  std::size_t number = 0;
  for (const token_chunk& chunk : expected) {
    const auto found = or_throw(stream->next_chunk(24));
    ASSERT_TRUE(found && test::same(*found, chunk)) << number;
    if (++number % 3 != 0) {
      continue;
    }
    auto resumed = open();
    ASSERT_TRUE(resumed->restore(or_throw(stream->cursor(number))));
    for (std::size_t i = number; i < std::min(expected.size(), number + 4); ++i) {
      const auto next = or_throw(resumed->next_chunk(24));
      ASSERT_TRUE(next && test::same(*next, expected[i])) << number << " " << i;
    }
  }
  EXPECT_EQ(without_source(or_throw(stream->cursor(5))),
            without_source(or_throw(plain->cursor(5))));
}

TEST(TokenFiles, TheSameIdsThroughEveryFormatGiveTheSameChunksAndCursors) {
  const std::vector<tokens> documents = some_documents(6);
  tokens whole;
  for (const tokens& one : documents) {
    whole.insert(whole.end(), one.begin(), one.end());
    whole.push_back(end_of_text);
  }
  whole.pop_back();
  for (const file_case& one : every_format()) {
    SCOPED_TRACE(one.name);
    const temp_folder folder;
    const auto paths = one.write(folder, documents);
    for (const std::uint32_t lanes : {1U, 3U}) {
      expect_same(whole, paths, one.options, lanes);
    }
  }
}

TEST(TokenFiles, DocumentsAreJoinedIfTheyAreNotToBeSeparated) {
  const std::vector<tokens> documents = some_documents(3);
  for (file_case one : every_format()) {
    SCOPED_TRACE(one.name);
    const temp_folder folder;
    one.options.separate_documents = false;
    const auto source = or_throw(
        open_token_files(posix_file_system(), one.write(folder, documents), one.options));
    tokens all(source->size());
    ASSERT_EQ(or_throw(source->read(0, all)), all.size());
    EXPECT_EQ(all, joined(documents));
    EXPECT_EQ(source->vocabulary(), 256U);
  }
}

TEST(TokenFiles, ReadsAtAnyIndexEqualTheWhole) {
  for (const file_case& one : every_format()) {
    SCOPED_TRACE(one.name);
    const temp_folder folder;
    const auto source = or_throw(open_token_files(
        posix_file_system(), one.write(folder, some_documents(3)), one.options));
    tokens all(source->size());
    ASSERT_EQ(or_throw(source->read(0, all)), all.size());
    const philox random(1, 2);
    for (std::uint64_t i = 0; i < 60; ++i) {
      const auto at = random.below(2 * i, all.size());
      tokens some(1 + random.below(2 * i + 1, 300));
      const std::size_t got = or_throw(source->read(at, some));
      ASSERT_EQ(got, std::min<std::size_t>(some.size(), all.size() - at));
      ASSERT_TRUE(std::equal(some.begin(), some.begin() + static_cast<long>(got),
                             all.begin() + static_cast<long>(at)));
      const auto next = or_throw(source->next_document(at));
      auto found = at;
      while (found < all.size() && found != 0 && all[found - 1] != end_of_text) {
        ++found;
      }
      ASSERT_EQ(next, found) << at;
    }
  }
}

/// Opens one file of the given content.
result<std::unique_ptr<token_source>> open_one(const temp_folder& folder,
                                               const std::string& name,
                                               const std::string& content,
                                               token_file_options options = {}) {
  std::ofstream(folder / name, std::ios::binary) << content;
  return open_token_files(posix_file_system(), {folder / name}, options);
}

/// Returns the text of the error, with the places of the folder cut off.
std::string refusal(const temp_folder& folder,
                    const result<std::unique_ptr<token_source>>& opened) {
  if (opened) {
    return "was accepted";
  }
  std::string text = opened.error().root().text();
  for (std::size_t at = 0; (at = text.find(folder.path() + "/")) != std::string::npos;) {
    text.erase(at, folder.path().size() + 1);
  }
  return text;
}

TEST(TokenFiles, RefusesWhatIsNotTheFormatThatIsStated) {
  const temp_folder folder;
  const std::string npy = npy_file(dtype::uint16, 2, "abcd");
  const std::string llmc = llmc_file(20240520, 1, 2, "abcd");
  const std::string zeros("a\0b\0", 4);
  const auto said = [&](const std::string& name, const std::string& content,
                        token_format format = token_format::automatic) {
    token_file_options options;
    options.format = format;
    options.vocabulary = 50000;
    return refusal(folder, open_one(folder, name, content, options));
  };
  EXPECT_EQ(said("a.txt", npy),
            "cannot read \"a.txt\" as tokens: expected text as its name says, found an "
            "array of NumPy");
  EXPECT_EQ(said("b.md", llmc),
            "cannot read \"b.md\" as tokens: expected text as its name says, found a "
            "file of llm.c");
  EXPECT_EQ(said("c.bin", zeros),
            "cannot read \"c.bin\" as tokens: expected a header that says what it holds, "
            "found none");
  EXPECT_EQ(said("d.npy", "text"),
            "cannot read \"d.npy\" as tokens: expected an array of NumPy as its name "
            "says, found other bytes");
  EXPECT_EQ(said("e.bin", llmc, token_format::u16),
            "cannot read \"e.bin\" as tokens: expected ids of 16 bits without a header, "
            "found a file of llm.c");
  EXPECT_EQ(said("f.bin", npy, token_format::llmc),
            "cannot read \"f.bin\" as tokens: expected a file of llm.c, found an array "
            "of NumPy");
  EXPECT_EQ(said("g.bin", zeros, token_format::llmc),
            "cannot read \"g.bin\" as tokens: expected the magic number 20240520 or "
            "20240801 of llm.c, found other bytes");
  EXPECT_EQ(said("h.idx", megatron_file(8, 2, {{1}}), token_format::u16),
            "cannot read \"h.idx\" as tokens: expected a file with ids, found an index "
            "of Megatron");
  // Bytes that are stated are read as they are, and text needs no name.
  EXPECT_EQ(said("i.txt", npy, token_format::bytes), "was accepted");
  EXPECT_EQ(said("j.bin", "plain text"), "was accepted");
}

TEST(TokenFiles, HeadersAreComparedWithTheSizeOfTheFile) {
  const temp_folder folder;
  const auto said = [&](const std::string& content,
                        token_format format = token_format::automatic) {
    token_file_options options;
    options.format = format;
    options.vocabulary = 50000;
    return refusal(folder, open_one(folder, "a.bin", content, options));
  };
  EXPECT_EQ(said("", token_format::u16),
            "cannot attach source \"a.bin\": expected at least 1 byte, found 0");
  EXPECT_EQ(said("abc", token_format::u16),
            "cannot read \"a.bin\" as tokens: expected a multiple of 2 bytes, found 3");
  EXPECT_EQ(said(llmc_file(20240520, 1, 0, "")),
            "cannot attach source \"a.bin\": expected at least 1 token, found 0");
  EXPECT_EQ(said(llmc_file(20240520, 1, 1U << 30, "abcd")),
            "cannot read \"a.bin\" as tokens: expected the 1073741824 ids of its header, "
            "found 2");
  EXPECT_EQ(said(llmc_file(20240801, 7, 1, "abcdefgh")),
            "cannot read \"a.bin\" as tokens: expected the 1 ids of its header, found 2");
  EXPECT_EQ(said(llmc_file(20240520, 2, 1, "ab"), token_format::llmc),
            "cannot read \"a.bin\" as tokens: expected version 1 of llm.c with magic "
            "number 20240520, found 2");
  EXPECT_EQ(
      said(llmc_file(20240520, 1, 1, "ab").substr(0, 800)),
      "cannot read \"a.bin\" as tokens: expected a header of 1024 bytes, found 800");
  EXPECT_EQ(said(npy_file(dtype::uint16, std::int64_t{1} << 40, "ab")),
            "cannot read an array of shape [1099511627776]: expected 2199023255552 bytes "
            "behind the header of 128, found 2");
  EXPECT_EQ(said(npy_file(dtype::fp32, 1, "abcd")),
            "cannot read \"a.bin\" as tokens: expected integers in one dimension, found "
            "float32 in 1");
  const byte_vector square = or_throw(make_npy_header(dtype::uint8, {{2, 2}}, false));
  EXPECT_EQ(said(std::string(as_text(square)) + "abcd"),
            "cannot read \"a.bin\" as tokens: expected integers in one dimension, found "
            "uint8 in 2");
}

TEST(TokenFiles, IndicesOfMegatronAreComparedWithTheSizesOfBothFiles) {
  const temp_folder folder;
  const std::vector<tokens> documents = {{1, 2, 3}, {4, 5}};
  write_plain(folder / "m.bin", packed<std::uint16_t>(joined(documents)));
  const std::string good = megatron_file(8, 2, documents);
  const auto with = [&](std::size_t at, const std::string& bytes) {
    std::string index = good;
    index.replace(at, bytes.size(), bytes);
    std::ofstream(folder / "m.idx", std::ios::binary) << index;
    return refusal(folder, open_token_files(posix_file_system(), {folder / "m.bin"}, {}));
  };
  EXPECT_EQ(with(0, "M"), "was accepted");
  EXPECT_EQ(with(17, "\x07"),
            "cannot read the index \"m.idx\": expected a code of integers: 1 to 5 or 8, "
            "found 7");
  EXPECT_EQ(with(9, "\x02"),
            "cannot read the index \"m.idx\": expected version 1, found 2");
  EXPECT_EQ(with(18, std::string(8, '\x7f')),
            "cannot read the index \"m.idx\": expected 9187201950435737471 sequences and "
            "3 documents, found 48 bytes behind the header");
  EXPECT_EQ(with(34, std::string("\xff\0\0\0", 4)),
            "cannot read the index \"m.idx\": expected sequence 0 within the 10 bytes of "
            "the data, found 255 ids at byte 0");
  EXPECT_EQ(with(42, std::string(8, '\xff')),
            "cannot read the index \"m.idx\": expected sequence 0 within the 10 bytes of "
            "the data, found 3 ids at byte -1");
  EXPECT_EQ(with(66, "\x09"),
            "cannot read the index \"m.idx\": expected rising numbers from 0 to 2, found "
            "other numbers of documents");
  std::ofstream(folder / "m.idx", std::ios::binary) << good.substr(0, 20);
  token_file_options megatron;
  megatron.format = token_format::megatron;
  EXPECT_EQ(refusal(folder,
                    open_token_files(posix_file_system(), {folder / "m.bin"}, megatron)),
            "cannot read the index \"m.idx\": expected a header of 34 bytes, found 20");
}

TEST(TokenFiles, IdsMustBeBelowTheVocabulary) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 1000;
  options.digest_limit = 0;
  const auto wide = or_throw(
      open_one(folder, "a.bin", packed<std::uint16_t>({1, 2, 999, 1000}), options));
  tokens some(4);
  EXPECT_EQ(or_throw(wide->read(0, std::span(some).first(3))), 3U);
  const auto beyond = wide->read(1, std::span(some).first(3));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), errc::out_of_range);
  EXPECT_EQ(beyond.error().location(), folder / "a.bin" + ":6");
  const std::string negative = npy_file(dtype::int32, 1, packed<std::int32_t>({~1U}));
  options.format = token_format::npy;
  const auto minus = or_throw(open_one(folder, "b.npy", negative, options));
  EXPECT_NE(minus->read(0, some).error().text().find("ids below 1000, found -2"),
            std::string::npos);
  // Wide ids imply no vocabulary.
  options = {};
  options.format = token_format::u32;
  EXPECT_NE(refusal(folder, open_one(folder, "c.bin", "abcd", options))
                .find("expected the number of distinct ids"),
            std::string::npos);
  options.format = token_format::u16;
  const auto u16 = or_throw(open_one(folder, "d.bin", "abcd", options));
  EXPECT_EQ(u16->vocabulary(), 65536U);
  EXPECT_EQ(u16->separator(), 65536U);
}

TEST(TokenFiles, ASeparatorInTheFilesEndsDocuments) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 500;
  options.separator = 400;
  const tokens ids = {1, 256, 2, 400, 3, 4, 5, 400, 6};
  stream_config config;
  config.chunk = 3;
  config.frequencies = {1};
  auto stream = or_throw(context_stream::open(
      config, or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(ids), options))));
  const auto chunks = test::read_all(*stream, 3);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_FALSE(chunks[0].document_boundary);
  EXPECT_EQ(chunks[1].boundaries, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(chunks[2].boundaries, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(stream->source().vocabulary(), 500U);
}

TEST(TokenFiles, DamageIsLeftOutByPolicyAndStaysLeftOut) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 300;
  options.on_damage = damage_policy::skip;
  const tokens good = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  tokens bad = good;
  bad[4] = bad[5] = 60000;
  bad[11] = 300;
  const auto whole = [](token_source& source) {
    tokens all(source.size());
    EXPECT_EQ(or_throw(source.read(0, all)), all.size());
    return all;
  };
  auto damaged = or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(bad), options));
  const tokens expected = {1, 2, 3, 4, 300, 7, 8, 9, 10, 11};
  EXPECT_EQ(whole(*damaged), expected);
  EXPECT_EQ(damaged->place_text(5), folder / "a.bin" + ":12");
  EXPECT_EQ(damaged->vocabulary(), 301U);
  const byte_vector state = or_throw(damaged->state(3));
  // The repaired file is read as the damaged one once was.
  auto repaired =
      or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(good), options));
  EXPECT_EQ(whole(*repaired), good);
  or_throw(repaired->restore_state(3, state));
  EXPECT_EQ(whole(*repaired), expected);
  EXPECT_EQ(or_throw(repaired->state(3)), state);
  EXPECT_EQ(repaired->identity().digest(), damaged->identity().digest());
  // Damage that came later is left out behind the cursor, and an error before it.
  bad[1] = bad[8] = 999;
  auto worse = or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(bad), options));
  or_throw(worse->restore_state(3, state));
  EXPECT_EQ(worse->size(), 10U);
  tokens some(2);
  EXPECT_FALSE(worse->read(0, some));
  EXPECT_TRUE(worse->read(2, some));
  for (byte_vector wrong : {byte_vector(3), byte_vector(40, std::byte{0xff})}) {
    EXPECT_FALSE(worse->restore_state(3, wrong));
  }
}

/// Expects that a stream over `later` goes on as the one over `first` after `count`
/// chunks.
void expect_resume(const stream_config& config, std::unique_ptr<token_source> first,
                   std::unique_ptr<token_source> later, std::size_t count) {
  const auto whole = or_throw(context_stream::open(config, std::move(first)));
  test::read_all(*whole, config.chunk, 0, count);
  const byte_vector cursor = encode(or_throw(whole->cursor(1)));
  const auto stream = or_throw(context_stream::open(config, std::move(later)));
  or_throw(stream->restore(or_throw(decode_cursor(cursor))));
  EXPECT_EQ(encode(or_throw(stream->cursor(1))), cursor);
  for (int i = 0; i < 4; ++i) {
    const auto a = or_throw(whole->next_chunk(config.chunk));
    const auto b = or_throw(stream->next_chunk(config.chunk));
    ASSERT_EQ(a.has_value(), b.has_value());
    EXPECT_TRUE(!a || test::same(*a, *b)) << i;
  }
}

/// Options of files of ids below 256, without the ranges that have others.
token_file_options skipping() {
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 256;
  options.on_damage = damage_policy::skip;
  return options;
}

TEST(TokenFiles, ALoopOverDamageResumesInEveryPass) {
  const temp_folder folder;
  tokens ids = test::random_tokens(50, 8);
  ids[20] = ids[21] = ids[40] = 999;
  write_plain(folder / "a.bin", packed<std::uint16_t>(ids));
  const auto open = [&] {
    return or_throw(
        open_token_files(posix_file_system(), {folder / "a.bin"}, skipping()));
  };
  stream_config config;
  config.chunk = 7;
  config.frequencies = {1};
  config.end = end_policy::loop;
  for (std::size_t count = 1; count < 24; ++count) {
    expect_resume(config, open(), open(), count);
  }
}

TEST(TokenFiles, DamageThatCameLaterDoesNotShortenWhatWasConsumed) {
  const temp_folder before;
  const temp_folder after;
  tokens ids = test::random_tokens(40000, 9);
  ids[5] = 999;
  tokens worse = ids;
  std::fill(worse.begin() + 100, worse.begin() + 15000, 999);
  using wrap =
      std::function<std::unique_ptr<token_source>(std::unique_ptr<token_source>)>;
  const wrap wraps[] = {
      [](auto source) { return source; },
      [](auto source) {
        std::vector<std::unique_ptr<token_source>> parts;
        parts.push_back(std::move(source));
        parts.push_back(or_throw(open_memory_source(test::random_tokens(5000, 10))));
        return or_throw(chain_sources(std::move(parts)));
      },
      [](auto source) { return or_throw(shuffle_source(std::move(source), 4, 3, 1000)); },
      [](auto source) {
        std::vector<mix_part> parts(1);
        parts[0].source = std::move(source);
        parts[0].exhausted = exhaustion::drop;
        mix_options options;
        options.run_tokens = 1000;
        return or_throw(mix_sources(std::move(parts), options));
      }};
  stream_config config;
  config.chunk = 100;
  config.frequencies = {1};
  for (const wrap& one : wraps) {
    const auto open = [&](const temp_folder& folder, const tokens& all) {
      return one(
          or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(all), skipping())));
    };
    expect_resume(config, open(before, ids), open(after, worse), 397);
  }
}

TEST(TokenFiles, MoreDamageThanADiskHasIsAnError) {
  const temp_folder folder;
  tokens ids(4000);
  for (std::size_t i = 0; i < ids.size(); i += 2) {
    ids[i] = 9;
  }
  token_file_options options;
  options.format = token_format::u16;
  options.vocabulary = 5;
  options.on_damage = damage_policy::skip;
  EXPECT_NE(
      refusal(folder, open_one(folder, "a.bin", packed<std::uint16_t>(ids), options))
          .find("expected at most 1024 ranges"),
      std::string::npos);
}

TEST(TokenFiles, DamagedBlocksOfAVolumeAreLeftOut) {
  const temp_folder folder;
  const file_case one = volume_case("", token_format::u16, [](const tokens& ids) {
    return packed<std::uint16_t>(ids);
  });
  const tokens ids = test::random_tokens(3000, 4);
  const auto paths = one.write(folder, {ids});
  std::uint64_t at = 0;
  std::uint64_t payload = 0;
  {
    const auto volume = or_throw(hn4_volume::open(paths[0]));
    const auto stream = or_throw(volume.stream("ids"));
    payload = stream.payload();
    for (const hn4_extent& extent : stream.extents()) {
      if (extent.offset <= 2 * payload && 2 * payload < extent.offset + extent.bytes) {
        const std::uint64_t block = volume.geometry().block;
        at = extent.device_offset + (2 * payload - extent.offset) / payload * block + 60;
      }
    }
  }
  ASSERT_NE(at, 0U);
  std::fstream image(paths[0], std::ios::in | std::ios::out | std::ios::binary);
  image.seekp(static_cast<std::streamoff>(at));
  image.write("\x01\x02\x03\x04\x05\x06\x07", 7);
  image.close();
  tokens all(ids.size());
  token_file_options options = one.options;
  options.digest_limit = 0;
  const auto strict = or_throw(open_token_files(posix_file_system(), paths, options));
  const auto stopped = strict->read(0, all);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), errc::source_unavailable);
  options.on_damage = damage_policy::skip;
  const auto source = or_throw(open_token_files(posix_file_system(), paths, options));
  all.resize(source->size());
  ASSERT_EQ(or_throw(source->read(0, all)), all.size());
  // Block 2 of the stream has the bytes from 2 to 3 payloads.
  tokens expected(ids.begin(), ids.begin() + static_cast<long>(payload));
  expected.push_back(256);
  expected.insert(expected.end(), ids.begin() + static_cast<long>(3 * payload / 2),
                  ids.end());
  EXPECT_EQ(all, expected);
}

TEST(TokenFiles, ConsumedSegmentsOfALargeSetAreComparedWhenTheyAreReadAgain) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.digest_limit = 0;
  const tokens ids = test::random_tokens(3 * 4096 + 10, 6);
  const auto first =
      or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(ids), options));
  EXPECT_TRUE(or_throw(first->state(4095)).empty());
  const byte_vector state = or_throw(first->state(2 * 4096 + 5));
  const byte_vector later = or_throw(first->state(3 * 4096));
  EXPECT_LT(state.size(), later.size());
  // The state does not depend on what was read or asked for before.
  EXPECT_EQ(or_throw(first->state(2 * 4096 + 5)), state);
  tokens changed = ids;
  changed[100] ^= 1;
  const auto second =
      or_throw(open_one(folder, "a.bin", packed<std::uint16_t>(changed), options));
  or_throw(second->restore_state(2 * 4096 + 5, state));
  tokens some(10);
  EXPECT_TRUE(second->read(2 * 4096, some));
  EXPECT_TRUE(second->read(4096, some));
  const auto again = second->read(0, some);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), errc::history_mismatch);
}

TEST(TokenFiles, StatesOfALargeSetStaySmall) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::bytes;
  options.digest_limit = 0;
  write_plain(folder / "a", "");
  std::filesystem::resize_file(folder / "a", std::uintmax_t{2} << 20);
  const auto source =
      or_throw(open_token_files(posix_file_system(), {folder / "a"}, options));
  const byte_vector state = or_throw(source->state(source->size()));
  // Segments have 8192 tokens; 512 of 4096 tokens would be too many.
  EXPECT_GT(state.size(), 8U * 256);
  EXPECT_LT(state.size(), 8U * 256 + 100);
}

}  // namespace
}  // namespace weir::storage
