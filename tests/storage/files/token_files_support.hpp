// SPDX-License-Identifier: Apache-2.0
/// @file
/// Documents of ids as token files of every format.
#pragma once

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

using test::temp_folder;
using test::tokens;

/// Writes a file that need not survive a crash.
inline void write_plain(const std::string& path, std::string_view bytes) {
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

inline std::string llmc_file(std::uint32_t magic, std::uint32_t version,
                             std::uint32_t count, const std::string& ids) {
  record_writer out;
  out.put(magic);
  out.put(version);
  out.put(count);
  out.put_zeros(1024 - 12);
  return std::string(as_text(out.view())) + ids;
}

inline std::string npy_file(dtype type, std::int64_t count, const std::string& ids) {
  const byte_vector head = or_throw(make_npy_header(type, {{count}}, false));
  return std::string(as_text(head)) + ids;
}

/// Returns an index of Megatron. Each document is cut into sequences of 7 ids at most.
inline std::string megatron_file(std::uint8_t code, std::size_t width,
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

inline tokens joined(const std::vector<tokens>& documents) {
  tokens all;
  for (const tokens& one : documents) {
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

/// Documents of random ids below 256.
inline std::vector<tokens> some_documents(std::size_t count) {
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
inline file_case shard_set(const std::string& name, token_format format, const char* end,
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
inline file_case volume_case(const std::string& name, token_format format,
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

inline std::vector<file_case> every_format() {
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
inline stream_cursor without_source(stream_cursor cursor) {
  cursor.source_state.clear();
  cursor.stream_identity = 0;
  return cursor;
}

/// Expects that files give the chunks and cursors of the same tokens in memory, also
/// when another run goes on at a chunk.
inline void expect_same(const tokens& whole, const std::vector<std::string>& paths,
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

/// Opens one file of the given content.
inline result<std::unique_ptr<token_source>> open_one(const temp_folder& folder,
                                                      const std::string& name,
                                                      const std::string& content,
                                                      token_file_options options = {}) {
  std::ofstream(folder / name, std::ios::binary) << content;
  return open_token_files(posix_file_system(), {folder / name}, options);
}

/// Returns the text of the error, with the places of the folder cut off.
inline std::string refusal(const temp_folder& folder,
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

}  // namespace weir::storage
