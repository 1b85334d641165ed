// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about SmolLM2-135M: single tokens, batches and prompts beside llama.cpp, PyTorch
/// and CTranslate2, all with one thread; a second worker; and a busy neighbour.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

#include "models/rows.hpp"
#include "weir/actors/model_weights.hpp"
#include "weir/actors/models.hpp"
#include "weir/models/configs.hpp"
#include "weir/models/llama.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::bench {

namespace {

/// Tokens of a sequence before its steps are measured.
constexpr std::size_t begun = 16;
/// Rows of a prompt.
constexpr int prompt_rows = 128;

/// Returns a token of SmolLM2; `llama_peer.cpp` has the same.
std::uint32_t some_token(std::size_t i) {
  return static_cast<std::uint32_t>(1000 + i * 37 % 20000);
}

/// The model of one tag of the volume on an engine of its own.
class own_model {
 public:
  own_model(const std::string& tag, unsigned workers)
      : volume_(or_throw(storage::hn4_volume::open(
            or_throw(
                storage::open_mapped_device(prepared()["volume"].get<std::string>())),
            storage::device_mode::read_only))),
        stored_(or_throw(actors::model_in_volume::open(volume_, tag))),
        weights_(or_throw(actors::model_weights::load(volume_, stored_))) {
    if (weights_->copied_bytes() != 0) {
      throw std::runtime_error("expected weights in place, found copied ones");
    }
    runtime::engine_options options;
    options.workers = workers;
    options.kernel_time = false;
    engine_ = or_throw(runtime::engine::create(options));
    config_ = or_throw(models::llama_config_of(stored_.record().facts));
    models::llama_options memory;
    memory.context_tokens = 2048;
    memory.max_rows = prompt_rows;
    model_ = or_throw(models::make_llama(*engine_, config_, *weights_, memory));
  }

  /// Returns the seconds of one pass over a prompt.
  double prefill(std::size_t rows) {
    std::vector<std::uint32_t> tokens(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      tokens[i] = some_token(i);
    }
    const models::context_id context = or_throw(model_->open_context(rows));
    const double seconds = seconds_of([&] { step({{context, tokens, true}}); });
    or_throw(model_->close_context(context));
    return seconds;
  }

  /// Returns the median of the seconds of some steps of `count` sequences.
  double decode(std::size_t count, std::size_t steps) {
    std::vector<std::vector<std::uint32_t>> tokens(count);
    std::vector<models::row_group> groups;
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t i = 0; i < begun; ++i) {
        tokens[s].push_back(some_token(i + s));
      }
      groups.push_back({or_throw(model_->open_context(begun + steps)), tokens[s], true});
    }
    step(groups);
    std::vector<double> times;
    for (std::size_t i = 0; i < steps; ++i) {
      for (std::size_t s = 0; s < count; ++s) {
        tokens[s][0] = some_token(i + s);
        groups[s].tokens = std::span(tokens[s]).first(1);
      }
      times.push_back(seconds_of([&] { step(groups); }));
    }
    for (const models::row_group& g : groups) {
      or_throw(model_->close_context(g.context));
    }
    return median(times);
  }

  /// Returns the panels of all matrices that a step reads.
  [[nodiscard]] std::vector<bytes_view> panels() const {
    std::vector<bytes_view> all;
    const auto add = [&](const std::string& name) {
      for (const models::panel_run& run : or_throw(weights_->matrix(name)).runs) {
        all.push_back(run.bytes);
      }
    };
    for (std::uint32_t l = 0; l < config_.layers; ++l) {
      for (const char* part :
           {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
            "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
        add("model.layers." + std::to_string(l) + "." + part + ".weight");
      }
    }
    add("model.embed_tokens.weight");
    return all;
  }

 private:
  void step(const std::vector<models::row_group>& groups) {
    const models::step_ticket ticket = or_throw(model_->submit(groups));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      keep(or_throw(model_->logits(ticket, g)).data());
    }
    or_throw(model_->finish(ticket));
  }

  storage::hn4_volume volume_;
  actors::model_in_volume stored_;
  std::unique_ptr<actors::model_weights> weights_;
  std::unique_ptr<runtime::engine> engine_;
  models::llama_config config_;
  std::unique_ptr<models::step_model> model_;
};

/// Returns the path of the file that the peers load.
std::string file_of(const std::string& tag) {
  return prepared()["decoders"][tag]["file"];
}

/// Returns which files both sides have loaded: the SHA-256 of the peer's file and of the
/// file in the volume, and the digest of the weights there. Throws if the files differ.
std::string note_of(const std::string& tag) {
  const nlohmann::json& decoder = prepared()["decoders"][tag];
  const std::string theirs = decoder.at("sha256");
  const std::string ours = decoder.at("sha256_of_tag");
  if (ours != theirs) {
    throw std::runtime_error("expected one file for both sides, found SHA-256 " + ours +
                             " in the volume and " + theirs + " beside it");
  }
  return "peer's file of SHA-256 " + theirs + ", file in the volume of SHA-256 " + ours +
         ", weights of digest " + decoder.at("digest").get<std::string>();
}

/// Measures both sides in turn, after one round that does not count.
measured in_turn(const std::function<double()>& own, peer_process* peer,
                 const std::string& command, double items, bar limit) {
  std::vector<double> mine;
  std::vector<double> theirs;
  for (int round = -1; round < rounds; ++round) {
    const double seconds = own();
    const auto answer = peer != nullptr ? peer->ask(command) : std::nullopt;
    if (round >= 0) {
      mine.push_back(seconds);
      if (answer) {
        theirs.push_back(*answer);
      }
    }
  }
  std::fprintf(stderr, "  own rate %.4g, peer's %.4g tokens/s (%s)\n",
               items / median(mine), theirs.empty() ? 0.0 : items / median(theirs),
               command.c_str());
  return rate_ratio(mine, theirs, items, limit);
}

measured decode_ratio(const std::string& tag, std::size_t count, double limit) {
  const auto peer = start_peer("llama", {file_of(tag), "1"});
  own_model model(tag, 1);
  const std::size_t steps = count == 1 ? 24 : 12;
  measured row = in_turn([&] { return model.decode(count, steps); }, peer.get(),
                         "decode " + std::to_string(count) + " " + std::to_string(steps),
                         static_cast<double>(count), at_least(limit));
  row.note = note_of(tag);
  return row;
}

measured prefill_ratio(const std::string& tag, const std::string& peer_name,
                       double limit) {
  const auto peer = peer_name == "llama" ? start_peer("llama", {file_of(tag), "1"})
                                         : start_peer(peer_name);
  own_model model(tag, 1);
  measured row =
      in_turn([&] { return model.prefill(prompt_rows); }, peer.get(),
              "prefill " + std::to_string(prompt_rows), prompt_rows, at_least(limit));
  row.note = note_of(tag);
  return row;
}

/// Returns the sum of some words of fp32, read by `Vectors` vectors side by side.
template <class Vector, int Vectors>
__attribute__((always_inline)) inline float sum_of_bytes(bytes_view bytes) {
  Vector sums[Vectors] = {};
  const std::byte* from = bytes.data();
  for (std::size_t i = 0; i + sizeof sums <= bytes.size(); i += sizeof sums) {
    for (int v = 0; v < Vectors; ++v) {
      Vector x;
      std::memcpy(&x, from + i + static_cast<std::size_t>(v) * sizeof x, sizeof x);
      sums[v] += x;
    }
  }
  float total = 0;
  for (int v = 0; v < Vectors; ++v) {
    total += sums[v][0];
  }
  return total;
}
typedef float eight_floats __attribute__((vector_size(32)));
typedef float sixteen_floats __attribute__((vector_size(64)));
__attribute__((target("avx2"))) float sum_by_avx2(bytes_view bytes) {
  return sum_of_bytes<eight_floats, 8>(bytes);
}
__attribute__((target("avx512f"))) float sum_by_avx512(bytes_view bytes) {
  return sum_of_bytes<sixteen_floats, 8>(bytes);
}

/// Returns the sums of all pieces with the widest vectors of this processor.
float read_all(const std::vector<bytes_view>& pieces) {
  float total = 0;
  for (const bytes_view piece : pieces) {
    total +=
        __builtin_cpu_supports("avx512f") ? sum_by_avx512(piece) : sum_by_avx2(piece);
  }
  return total;
}

/// Memory of huge pages that holds copies of the weights.
class huge_copy {
 public:
  explicit huge_copy(std::size_t bytes) : bytes_(bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
      throw std::runtime_error("cannot allocate a copy of the weights");
    }
    data_ = static_cast<std::byte*>(at);
    ::madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 0, bytes);
  }
  ~huge_copy() { ::munmap(data_, bytes_); }
  huge_copy(const huge_copy&) = delete;
  huge_copy& operator=(const huge_copy&) = delete;
  [[nodiscard]] bytes_view view() const { return {data_, bytes_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

/// Bytes of weights per second of a step, over those of the fastest loop that only reads:
/// over the weights where they lie, or over huge pages.
measured decode_bandwidth() {
  own_model model("f32", 1);
  const std::vector<bytes_view> panels = model.panels();
  std::size_t bytes = 0;
  for (const bytes_view piece : panels) {
    bytes += piece.size();
  }
  const huge_copy copy(bytes);
  double step = 1e9;
  double loop = 1e9;
  for (int round = -1; round < rounds; ++round) {
    const double decode = model.decode(1, 12);
    const double in_place = seconds_of([&] { keep(read_all(panels)); });
    const double huge = seconds_of([&] { keep(read_all({copy.view()})); });
    if (round >= 0) {
      step = std::min(step, decode);
      loop = std::min({loop, in_place, huge});
    }
  }
  std::fprintf(stderr, "  steps read %.3g GB/s, the best loop %.3g GB/s\n",
               static_cast<double>(bytes) * 1e-9 / step,
               static_cast<double>(bytes) * 1e-9 / loop);
  return {loop / step, std::nullopt};
}

/// Rate of eight sequences with two workers over that with one.
measured speedup() {
  own_model one("f32", 1);
  own_model two("f32", 2);
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const double slow = one.decode(8, 8);
    ratios.push_back(slow / two.decode(8, 8));
  }
  return median(ratios);
}

/// Rate of eight sequences with two workers beside a busy process, over the rate with one
/// worker and a free machine. The figure of llama.cpp stands beside it.
measured neighbour_ratio() {
  own_model one("f32", 1);
  own_model two("f32", 2);
  const auto alone = start_peer("llama", {file_of("f32"), "1"});
  const auto both = start_peer("llama", {file_of("f32"), "2"});
  std::vector<double> ratios;
  std::vector<double> theirs;
  for (int round = 0; round < 3; ++round) {
    const double quiet = one.decode(8, 8);
    const auto peer_quiet = alone ? alone->ask("decode 8 4") : std::nullopt;
    const busy_process neighbour;
    ratios.push_back(quiet / two.decode(8, 8));
    const auto peer_busy = both ? both->ask("decode 8 4") : std::nullopt;
    if (peer_quiet && peer_busy) {
      theirs.push_back(*peer_quiet / *peer_busy);
    }
  }
  return {median(ratios), theirs.empty() ? std::nullopt : std::optional(median(theirs))};
}

}  // namespace

void add_llama_rows(program& bench) {
  struct ratio_row {
    const char* type;
    double single;
    double batch;
  };
  for (const ratio_row& r : {ratio_row{"f32", 1.15, 1.6}, ratio_row{"q8", 1.0, 1.6},
                             ratio_row{"q41", 0.7, 1.4}}) {
    const std::string id = std::string("llama_decode_") + r.type;
    bench.add(id + "_b1_ratio", "ratio", no_bar,
              [r] { return decode_ratio(r.type, 1, r.single); });
    bench.add(id + "_b8_ratio", "ratio", no_bar,
              [r] { return decode_ratio(r.type, 8, r.batch); });
  }
  bench.add("llama_decode_f32_bandwidth", "ratio", at_least(0.85), decode_bandwidth);
  bench.add("llama_prefill_128_f32_ratio", "ratio", no_bar,
            [] { return prefill_ratio("f32", "llama", 1.4); });
  bench.add("llama_prefill_128_q8_ratio", "ratio", no_bar,
            [] { return prefill_ratio("q8", "llama", 1.2); });
  bench.add("llama_prefill_128_f32_torch_ratio", "ratio", no_bar,
            [] { return prefill_ratio("f32", "torch", 1.15); });
  bench.add("llama_prefill_128_f32_ctranslate2_ratio", "ratio", no_bar,
            [] { return prefill_ratio("f32", "ctranslate2", 0.95); });
  bench.add("llama_speedup_2", "ratio", at_least(1.6), speedup);
  bench.add("llama_neighbour_ratio", "ratio", at_least(0.9), neighbour_ratio);
}

}  // namespace weir::bench
