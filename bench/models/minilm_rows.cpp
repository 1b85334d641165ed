// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about all-MiniLM-L6-v2: a batch of texts beside the best of three libraries, and
/// `weir embed` with the layers in three stages.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include "models/rows.hpp"
#include "weir/actors/model_weights.hpp"
#include "weir/actors/models.hpp"
#include "weir/models/bert.hpp"
#include "weir/models/configs.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::bench {

namespace {

constexpr std::size_t batch = 16;
constexpr std::size_t length = 128;
/// Texts of a run of `weir embed`.
constexpr int documents = 96;

/// Libraries of which the fastest counts.
constexpr std::array<const char*, 3> libraries{"torch", "onnxruntime", "ctranslate2"};

/// Returns the seconds of the library with the smallest median; nothing, with a message,
/// unless each of them has answered in every round: a missing library may be the fastest.
std::vector<double> fastest(const std::map<std::string, std::vector<double>>& theirs) {
  std::vector<double> best;
  for (const char* name : libraries) {
    const auto found = theirs.find(name);
    if (found == theirs.end() || found->second.size() != rounds) {
      std::fprintf(stderr, "no verdict: expected answers of %s, found none or too few\n",
                   name);
      return {};
    }
    if (best.empty() || median(found->second) < median(best)) {
      best = found->second;
    }
  }
  return best;
}

/// Embeds 16 texts of 128 tokens, one thread each, and compares with the fastest library.
measured batch_ratio() {
  const auto volume = or_throw(storage::hn4_volume::open(
      or_throw(storage::open_mapped_device(prepared()["volume"].get<std::string>())),
      storage::device_mode::read_only));
  const auto stored = or_throw(actors::model_in_volume::open(volume, "minilm"));
  const auto weights = or_throw(actors::model_weights::load(volume, stored));
  runtime::engine_options options;
  options.workers = 1;
  options.kernel_time = false;
  const auto engine = or_throw(runtime::engine::create(options));
  const auto config = or_throw(models::bert_config_of(stored.record().facts));
  models::bert_options memory;
  memory.max_rows = batch * length;
  const auto model = or_throw(models::make_bert(*engine, config, *weights, memory));
  const std::vector<std::uint32_t> tokens(length, 2000);
  const std::vector<models::token_run> runs(batch, models::token_run{tokens});
  const auto encode = [&] {
    const models::step_ticket ticket = or_throw(model->submit(runs));
    keep(or_throw(model->rows(ticket)).data());
    or_throw(model->finish(ticket));
  };
  std::map<std::string, std::unique_ptr<peer_process>> peers;
  for (const char* name : libraries) {
    peers[name] = start_peer(name);
  }
  std::vector<double> own;
  std::map<std::string, std::vector<double>> theirs;
  for (int round = -1; round < rounds; ++round) {
    const double seconds = seconds_of(encode);
    if (round >= 0) {
      own.push_back(seconds);
    }
    for (const auto& [name, peer] : peers) {
      const auto answer = peer ? peer->ask("embed 16 128") : std::nullopt;
      if (round >= 0 && answer) {
        theirs[name].push_back(*answer);
      }
    }
  }
  const double items = batch * length;
  std::fprintf(stderr, "  own rate %.4g tokens/s\n", items / median(own));
  for (const auto& [name, times] : theirs) {
    std::fprintf(stderr, "  %s %.4g tokens/s\n", name.c_str(), items / median(times));
  }
  return rate_ratio(own, fastest(theirs), items, at_least(0.95));
}

/// A folder for the files of a run, which is removed afterwards.
class work_folder {
 public:
  work_folder() : path_(std::filesystem::temp_directory_path() / "weir-minilm-XXXXXX") {
    std::string made = path_.string();
    if (::mkdtemp(made.data()) == nullptr) {
      throw std::runtime_error("cannot create a temporary folder");
    }
    path_ = made;
  }
  ~work_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  work_folder(const work_folder&) = delete;
  work_folder& operator=(const work_folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

/// Returns the seconds of `weir embed` with one worker.
double embed_seconds(const work_folder& folder, int stages) {
  const std::string out = folder.file(std::to_string(stages) + ".tgm");
  const std::string command = fmt::format(
      "'{}' embed '{}' --tag minilm '{}' -o '{}' --workers 1 --stages {} >'{}' 2>&1",
      prepared()["weir"].get<std::string>(), prepared()["volume"].get<std::string>(),
      folder.file("docs.txt"), out, stages, folder.file("log"));
  std::filesystem::remove(out);
  return seconds_of([&] {
    if (std::system(command.c_str()) != 0) {
      throw std::runtime_error("weir embed failed");
    }
  });
}

/// Rate of `weir embed` with three stages over that with one.
measured stages_ratio() {
  const work_folder folder;
  std::ofstream docs(folder.file("docs.txt"));
  for (int d = 0; d < documents; ++d) {
    for (int word = 0; word < 120; ++word) {
      docs << (word % 2 == 0 ? "river " : "stone ");
    }
    docs << d << "\n";
  }
  docs.close();
  keep(embed_seconds(folder, 1));
  std::vector<double> ratios;
  for (int round = 0; round < 3; ++round) {
    const double whole = embed_seconds(folder, 1);
    ratios.push_back(whole / embed_seconds(folder, 3));
  }
  return median(ratios);
}

}  // namespace

void add_minilm_rows(program& bench) {
  bench.add("minilm_b16_ratio", "ratio", no_bar, batch_ratio);
  bench.add("minilm_stages_ratio", "ratio", at_least(0.95), stages_ratio);
}

}  // namespace weir::bench
