// SPDX-License-Identifier: Apache-2.0
/// @file
/// Payloads of the messages between a run and the child process of a stage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/base/bytes.hpp"
#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/pipeline/host/shared_layout.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::actors {

/// Content of the start message.
struct start_message {
  flow::graph_stage stage;           ///< name, description and origin
  flow::planned_stage planned;       ///< types and slots
  std::int64_t budget = 0;           ///< largest window behind the stage. @units{bytes}
  std::vector<std::string> plugins;  ///< files of the catalog
  std::uint64_t seed = 1;            ///< seed of the run
  int fill_slots = -1;               ///< see `flow::execution_options`
  std::string kernels = "auto";      ///< see `opening::kernels`
  std::string folder;                ///< folder of relative paths
  bool resuming = false;             ///< see `opening::resuming`
  flow::shared_layout layout;        ///< of the shared memory
};
/// Returns the message as JSON.
[[nodiscard]] std::string wire_text(const start_message& one);
/// Reads the message. The description of the stage has its ports, `takes` and `gives`
/// alone. @error{corrupt, it is no such message}
/// @error{unsupported_version, it is of another version}
[[nodiscard]] result<start_message> start_of(std::string_view text);

/// Returns an error as JSON.
[[nodiscard]] std::string wire_text(const error& e);
/// Reads an error that a child has told. A text that is no error becomes one.
[[nodiscard]] error error_of(std::string_view text);

/// Returns constants as JSON.
[[nodiscard]] std::string wire_text(const std::vector<constant_info>& constants);
/// Reads constants. @error{corrupt, the text is not JSON of constants}
[[nodiscard]] result<std::vector<constant_info>> constants_of(std::string_view text);

/// Returns figures as JSON.
[[nodiscard]] std::string wire_text(const figures& all);
/// Reads figures. @error{corrupt, the text is not JSON of figures}
[[nodiscard]] result<void> add_figures(std::string_view text, figures& to);

/// Appends sections to a payload.
void put_sections(byte_vector& to, const std::vector<flow::image_section>& all);
/// Reads sections. @error{corrupt, the bytes are no sections}
[[nodiscard]] result<std::vector<flow::image_section>> sections_of(bytes_view from);

}  // namespace weir::actors
