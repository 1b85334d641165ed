// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about token files: tokens per second of a context stream over each format.
#include <algorithm>
#include <array>

#include "weir/base/record.hpp"
#include "weir/storage/context.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/npy.hpp"
#include "weir/storage/token_files.hpp"
#include "workplace.hpp"

namespace weir::bench {
namespace {

using namespace weir::storage;

constexpr std::size_t id_count = std::size_t{8} << 20;
constexpr std::uint32_t ids_below = 50257;
constexpr std::size_t chunk_ids = 64;
constexpr std::size_t document_ids = 1000;
constexpr int row_repeats = 5;

/// Returns the id at an index; its sum is known without a file.
std::uint32_t id_at(std::size_t index) {
  return static_cast<std::uint32_t>(index * 2'654'435'761U % ids_below);
}

/// Returns all ids as numbers of a type.
template <class T>
byte_vector packed_ids() {
  byte_vector out(id_count * sizeof(T));
  for (std::size_t i = 0; i < id_count; ++i) {
    store_le(out.data() + i * sizeof(T), static_cast<T>(id_at(i)));
  }
  return out;
}

byte_vector behind(byte_vector head, const byte_vector& ids) {
  append(head, ids);
  return head;
}

byte_vector llmc_head() {
  record_writer out;
  out.put(std::uint32_t{20240520});
  out.put(std::uint32_t{1});
  out.put(static_cast<std::uint32_t>(id_count));
  out.put_zeros(1024 - 12);
  return std::move(out).take();
}

byte_vector megatron_index() {
  const std::size_t documents = (id_count + document_ids - 1) / document_ids;
  record_writer out;
  out.put_bytes(as_view(std::string_view("MMIDIDX\0\0", 9)));
  out.put(std::uint64_t{1});
  out.put(std::uint8_t{8});
  out.put(std::uint64_t{documents});
  out.put(std::uint64_t{documents + 1});
  for (std::size_t i = 0; i < documents; ++i) {
    const std::size_t left = id_count - i * document_ids;
    out.put(static_cast<std::uint32_t>(std::min(document_ids, left)));
  }
  for (std::size_t i = 0; i < documents; ++i) {
    out.put(static_cast<std::uint64_t>(2 * i * document_ids));
  }
  for (std::size_t i = 0; i <= documents; ++i) {
    out.put(std::uint64_t{i});
  }
  return std::move(out).take();
}

std::string written(const std::string& name, const byte_vector& bytes) {
  const std::string path = place().folder + "/" + name;
  or_throw(write_file_atomically(posix_file_system(), path, bytes));
  return path;
}

/// Counts processor seconds of this thread, as the row of bytes does.
double ids_per_second(const std::string& path, token_file_options options) {
  options.vocabulary = ids_below;
  options.separate_documents = false;
  stream_config config;
  config.chunk = chunk_ids;
  config.frequencies = {1};
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < id_count; i += 8) {
    expected += id_at(i);
  }
  double best = 0;
  for (int i = 0; i < row_repeats; ++i) {
    auto stream = or_throw(context_stream::open(
        config, or_throw(open_token_files(posix_file_system(), {path}, options))));
    std::uint64_t sum = 0;
    const double seconds = thread_seconds_of([&] {
      while (auto chunk = or_throw(stream->next_chunk(chunk_ids))) {
        for (std::size_t k = 0; k < chunk->tokens.size(); k += 8) {
          sum += chunk->tokens[k];
        }
      }
    });
    if (sum != expected || stream->position() != id_count) {
      throw std::runtime_error("the stream did not hand out the ids of the file");
    }
    best = std::max(best, static_cast<double>(id_count) / seconds);
  }
  std::filesystem::remove(path);
  return best;
}

double of_plain(token_format format, const char* name, const byte_vector& bytes) {
  token_file_options options;
  options.format = format;
  return ids_per_second(written(name, bytes), options);
}

double of_npy() {
  const std::array<std::int64_t, 1> shape = {id_count};
  return of_plain(token_format::npy, "a.npy",
                  behind(or_throw(make_npy_header(dtype::uint16, shape, false)),
                         packed_ids<std::uint16_t>()));
}

double of_megatron() {
  written("m.idx", megatron_index());
  return of_plain(token_format::megatron, "m.bin", packed_ids<std::uint16_t>());
}

double of_volume() {
  const std::string path = place().folder + "/a.hn4";
  hn4_format_options how;
  how.overwrite = true;
  or_throw(hn4_format(path, how));
  {
    auto volume = or_throw(hn4_volume::open(path, device_mode::writable));
    or_throw(volume.put("ids", packed_ids<std::uint16_t>()));
  }
  token_file_options options;
  options.format = token_format::u16;
  options.tag = "ids";
  return ids_per_second(path, options);
}

}  // namespace

void add_token_rows(program& all) {
  const auto add = [&](const char* format, std::function<double()> measure) {
    all.add(std::string("context_tokens_per_s_") + format, "tokens/s", at_least(1e8),
            std::move(measure));
  };
  add("u16",
      [] { return of_plain(token_format::u16, "a.bin", packed_ids<std::uint16_t>()); });
  add("u32",
      [] { return of_plain(token_format::u32, "b.bin", packed_ids<std::uint32_t>()); });
  add("llmc", [] {
    return of_plain(token_format::llmc, "c.bin",
                    behind(llmc_head(), packed_ids<std::uint16_t>()));
  });
  add("npy", of_npy);
  add("megatron", of_megatron);
  add("hn4", of_volume);
}

}  // namespace weir::bench
