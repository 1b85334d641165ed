// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stream hub actor: owns the context stream. It has its own thread, because files
/// block.
#pragma once

#include <memory>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// The logic of the hub, without actors.
/// @threads{thread-compatible}
class hub_state {
 public:
  /// Makes a hub without a stream.
  explicit hub_state(file_system& fs) : fs_(&fs) {}
  /// Opens the corpus, and continues behind a cursor if there is one. Also returns the
  /// errors of `open_corpus` and of `context_stream::restore`.
  /// @error{source_unavailable, the source cannot be read}
  /// @error{history_mismatch, the source differs from the one of the cursor}
  [[nodiscard]] result<stream_info> open(const stream_spec& spec);
  /// Uses a stream that is open already.
  void adopt(std::unique_ptr<storage::context_stream> stream) {
    stream_ = std::move(stream);
  }
  /// Returns one chunk for each order, in the order of the orders.
  /// @error{stopping, no stream is open}
  /// @error{source_unavailable, the source cannot be read}
  [[nodiscard]] result<chunk_replies> pull(const chunk_orders& orders);
  /// Returns the cursor behind the chunks of the order.
  /// @error{stopping, no stream is open}
  [[nodiscard]] result<storage::stream_cursor> cursor(const cursor_order& order);

 private:
  [[nodiscard]] result<stream_info> open_as_listed(const stream_spec& spec);

  file_system* fs_;
  std::unique_ptr<storage::context_stream> stream_;
};

/// Opens the token source that `stream.path` names: files, folders and patterns, or "-"
/// alone for standard input.
/// @param eot  Whether an end-of-text token stands between files.
/// @param files  Gets the files in the order of reading, or "stdin".
/// @error{not_found, a path does not exist}
/// @error{invalid_argument, standard input is not alone}
/// @error{source_unavailable, a file cannot be read}
[[nodiscard]] result<std::unique_ptr<storage::token_source>> open_corpus(
    file_system& fs, const std::vector<std::string>& paths, bool eot,
    std::vector<std::string>* files);

/// Configuration of a hub.
struct hub_config {
  file_system* fs = &posix_file_system();
};
/// State that CAF keeps for a hub.
struct hub_shell {
  static constexpr const char* name = "weir.stream_hub_io";
  std::unique_ptr<hub_state> core;
};
/// Returns the behavior of a hub; CAF calls this when it spawns the actor.
stream_hub_actor::behavior_type stream_hub_io(
    stream_hub_actor::stateful_pointer<hub_shell> self, hub_config config);

}  // namespace weir::actors
