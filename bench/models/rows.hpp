// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about transformers: what `prepare.py` made, peers that answer commands, and the
/// functions that add rows.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench.hpp"

namespace weir::bench {

/// Rounds of a comparison; in each of them all sides are measured once.
inline constexpr int rounds = 5;

/// Returns the content of prepared.json. Throws if it does not exist.
const nlohmann::json& prepared();

/// A program that measures another library, and answers commands (`prepare.py`).
/// @threads{thread-compatible}
class peer_process {
 public:
  /// Starts the program of a peer with further arguments. It loads its model while this
  /// function returns.
  explicit peer_process(const std::vector<std::string>& words);
  ~peer_process();
  peer_process(const peer_process&) = delete;
  peer_process& operator=(const peer_process&) = delete;

  /// Sends a command and returns the seconds of the answer; nothing if the program has
  /// ended or does not know the command.
  [[nodiscard]] std::optional<double> ask(const std::string& command);

 private:
  int process_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

/// Starts a peer; null, with a message, if `prepare.py` could not make it.
std::unique_ptr<peer_process> start_peer(const std::string& name,
                                         const std::vector<std::string>& further = {});

/// Returns the row of a ratio of rates: own over the peer's. `own` and `theirs` are
/// seconds by round; the row has the peer's rate beside it. Without seconds of a peer it
/// has neither value nor verdict.
measured rate_ratio(const std::vector<double>& own, const std::vector<double>& theirs,
                    double items, bar limit);

/// Occupies one processor as long as it lives.
class busy_process {
 public:
  busy_process();
  ~busy_process();
  busy_process(const busy_process&) = delete;
  busy_process& operator=(const busy_process&) = delete;

 private:
  int process_ = -1;
};

/// Adds the rows `llama_*`.
void add_llama_rows(program& bench);
/// Adds the rows `minilm_*`.
void add_minilm_rows(program& bench);
/// Adds the rows `panel_*`.
void add_panel_rows(program& bench);

}  // namespace weir::bench
