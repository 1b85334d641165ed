// SPDX-License-Identifier: Apache-2.0
/// @file
/// The context stream as an actor: owns source and chunk counter, on a thread of its own.
#pragma once

#include <memory>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/base/file.hpp"
#include "weir/storage/context.hpp"

namespace weir::actors {

/// The hub without actors. @threads{thread-compatible}
class hub_state {
 public:
  explicit hub_state(file_system& fs) : fs_(&fs) {}
  /// @error{source_unavailable, history_mismatch, and all of `context_stream::restore`}
  [[nodiscard]] result<stream_info> open(const stream_spec& spec);
  /// Uses a stream that is open already.
  void adopt(std::unique_ptr<storage::context_stream> stream) {
    stream_ = std::move(stream);
  }
  [[nodiscard]] result<chunk_replies> pull(const chunk_orders& orders);
  [[nodiscard]] result<storage::stream_cursor> cursor(const cursor_order& order);

 private:
  file_system* fs_;
  std::unique_ptr<storage::context_stream> stream_;
};

/// Opens what `stream.path` names. @error{not_found, invalid_argument,
/// source_unavailable}
[[nodiscard]] result<std::unique_ptr<storage::token_source>> open_corpus(
    file_system& fs, const std::vector<std::string>& paths, bool eot,
    std::vector<std::string>* files);

struct hub_config {
  file_system* fs = &posix_file_system();
};
struct hub_shell {
  static constexpr const char* name = "weir.stream_hub_io";
  std::unique_ptr<hub_state> core;
};
stream_hub_actor::behavior_type stream_hub_io(
    stream_hub_actor::stateful_pointer<hub_shell> self, hub_config config);

}  // namespace weir::actors
