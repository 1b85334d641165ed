// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the context stream: tokens per second from a file, and the time for a
/// checkpoint of 6 MB.
#include <algorithm>

#include "weir/base/hash.hpp"
#include "weir/storage/checkpoint.hpp"
#include "workplace.hpp"

namespace {

using namespace weir;
using namespace weir::storage;

using bench::corpus_bytes;
using bench::place;
constexpr int repeats = 7;

/// Counts processor seconds of this thread, with system calls: the file is in the page
/// cache, so no device is waited for.
double tokens_per_second(std::size_t n, std::uint32_t lanes) {
  stream_config config;
  config.chunk = n;
  config.lanes = lanes;
  config.frequencies = {1};
  const std::string path = place().corpus();
  double best = 0;
  for (int i = 0; i < repeats; ++i) {
    auto stream = or_throw(context_stream::open(
        config, or_throw(open_file_source(posix_file_system(), path))));
    std::uint64_t sum = 0;
    const double seconds = bench::thread_seconds_of([&] {
      while (auto chunk = or_throw(stream->next_chunk(n))) {
        for (std::size_t k = 0; k < chunk->tokens.size(); k += 8) {
          sum += chunk->tokens[k];
        }
      }
      bench::keep(or_throw(stream->cursor(1)).content_hash);
    });
    if (sum != place().sum || stream->position() != corpus_bytes) {
      throw std::runtime_error("the stream did not hand out the text of the file");
    }
    best = std::max(best, static_cast<double>(corpus_bytes) / seconds);
  }
  return best;
}

/// The contents of a checkpoint, with 60 parameters.
struct model_state {
  model_state() {
    stream_config config;
    config.frequencies = {1};
    auto stream = or_throw(context_stream::open(
        config, or_throw(open_memory_tokens(as_view(std::string(70000, 'x'))))));
    for (int i = 0; i < 1000; ++i) {
      static_cast<void>(or_throw(stream->next_chunk(64)));
    }
    cursor = sections_of(or_throw(stream->cursor(1000)));
    conductor = conductor_section(1000, {});
  }
  std::vector<checkpoint_section> sections() const {
    std::vector<checkpoint_section> out = cursor.sections();
    out.push_back({"CONFIG", as_view("bench"), dtype::uint8, {}});
    out.push_back({"CONDUCTOR", conductor, dtype::uint8, {}});
    for (int i = 0; i < 60; ++i) {
      out.push_back({"PARAM/" + std::to_string(i), weights, dtype::uint8, {}});
    }
    return out;
  }
  cursor_sections cursor;
  byte_vector conductor;
  byte_vector weights = byte_vector(100000, std::byte{7});
};

/// Returns the milliseconds for saving, or for loading the newest checkpoint.
double save_ms(bool load) {
  const model_state model;
  const std::string folder = place().folder + "/ck";
  auto store = or_throw(checkpoint_store::open(posix_file_system(), folder,
                                               checkpoint_store::role::writer));
  const auto sections = model.sections();
  or_throw(store.save(sections, 1000));
  double best = 1e9;
  for (int i = 0; i < repeats; ++i) {
    best = std::min(best, bench::thread_seconds_of([&] {
                      if (load) {
                        bench::keep(or_throw(store.load_newest()).header().generation);
                      } else {
                        bench::keep(or_throw(store.save(sections, 1000)));
                      }
                    }));
  }
  return best * 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  bench::program all;
  all.add("context_tokens_per_s", "tokens/s", bench::at_least(1e8),
          [] { return tokens_per_second(64, 1); });
  all.add("context_4_lanes_tokens_per_s", "tokens/s", bench::no_bar,
          [] { return tokens_per_second(64, 4); });
  bench::add_token_rows(all);
  all.add("checkpoint_save_6mb_ms", "ms of processor time", bench::no_bar,
          [] { return save_ms(false); });
  all.add("checkpoint_load_6mb_ms", "ms of processor time", bench::no_bar,
          [] { return save_ms(true); });
  return all.run(argc, argv);
}
