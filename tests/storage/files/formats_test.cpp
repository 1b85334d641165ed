// SPDX-License-Identifier: Apache-2.0
/// @file
/// Token files of every format: the chunks that they give, and what is refused.
#include "storage/files/token_files_support.hpp"

namespace weir::storage {
namespace {

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
  const std::vector<std::int64_t> long_shape(70'000, 1);
  EXPECT_EQ(make_npy_header(dtype::uint8, long_shape, false).error().text(),
            "cannot write an array: expected at most 8 dimensions, found 70000");
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

// The vocabulary is the number above all ids, so 2^32 - 1 cannot be one of them.
TEST(TokenFiles, AnIdAboveWhichThereIsNoNumberIsNoSeparator) {
  const temp_folder folder;
  token_file_options options;
  options.format = token_format::u16;
  options.on_damage = damage_policy::skip;
  options.separator = 4'294'967'295;
  const std::string text = refusal(folder, open_one(folder, "a.bin", "abcd", options));
  EXPECT_NE(text.find("expected an end-of-text id of at most 4294967294, found "
                      "4294967295"),
            std::string::npos)
      << text;
  options.separator = 4'294'967'294;
  const auto largest = or_throw(open_one(folder, "b.bin", "abcd", options));
  EXPECT_EQ(largest->vocabulary(), 4'294'967'295U);
  options.separator.reset();
  options.vocabulary = 4'294'967'295;
  EXPECT_NE(refusal(folder, open_one(folder, "c.bin", "abcd", options))
                .find("expected at most 2147483648 distinct ids"),
            std::string::npos);
}

}  // namespace
}  // namespace weir::storage
