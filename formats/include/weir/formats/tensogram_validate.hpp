// SPDX-License-Identifier: Apache-2.0
/// @file
/// Says everything that is wrong with a Tensogram file, not only the first thing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/formats/byte_source.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::formats {

/// Levels of checks; each includes those before it.
enum class validation_level : std::uint8_t {
  structure,  ///< frames, order, markers, padding, flags
  metadata,   ///< CBOR, descriptors, index, base
  integrity,  ///< digests of every frame, digest lists, trial decode
  fidelity,   ///< non-finite values that no mask announces
};

enum class issue_severity : std::uint8_t { warning, error };

/// `code` is one of the names in docs/formats/tensogram.md, e.g. "hash_mismatch".
struct validation_issue {
  std::string code;
  validation_level level = validation_level::structure;
  issue_severity severity = issue_severity::error;
  std::optional<std::size_t> object;         ///< index of the data object
  std::optional<std::uint64_t> byte_offset;  ///< from the start of the message
  std::string description;
};

struct message_report {
  message_span span;
  std::size_t object_count = 0;
  bool hash_verified =
      false;  ///< every object has a digest, it agrees, and there are no errors
  std::vector<validation_issue> issues;

  [[nodiscard]] bool ok() const noexcept;
};

/// Bytes of a file that belong to no message.
struct file_issue {
  std::uint64_t byte_offset = 0;
  std::uint64_t length = 0;
  std::string description;
};

struct file_report {
  std::vector<file_issue> file_issues;
  std::vector<message_report> messages;

  /// At least one message, nothing between messages, no errors in them.
  [[nodiscard]] bool ok() const noexcept;
};

struct validation_options {
  validation_level level = validation_level::integrity;
  bool canonical = false;      ///< also warn of CBOR that is not canonical
  bool legacy_hashes = false;  ///< see read_options
  bool trial_decode = true;    ///< false: payloads are not decoded, at any level
  /// See read_options. A larger object is the issue `pipeline_config_failed`.
  std::uint64_t max_object_bytes = default_max_object_bytes;
  unsigned threads = 0;  ///< to decode an object with, besides the caller's
};

[[nodiscard]] std::string_view name_of(validation_level level) noexcept;
[[nodiscard]] std::string_view name_of(issue_severity severity) noexcept;

/// Checks one message, the first of the bytes.
[[nodiscard]] message_report validate_message(bytes_view message,
                                              const validation_options& options = {});
/// Checks the message at `span` of a source and reads no more than the options need: up
/// to the level `metadata` the frames without the payloads.
/// @error{what the source returns}
[[nodiscard]] result<message_report> validate_message(
    const byte_source& source, message_span span, const validation_options& options = {});
/// Checks every message and what lies between them.
/// @error{what the source returns}
[[nodiscard]] result<file_report> validate(const byte_source& source,
                                           const validation_options& options = {});
[[nodiscard]] file_report validate(bytes_view bytes,
                                   const validation_options& options = {});
/// One message as the reference's C interface prints it: issues, object_count,
/// hash_verified.
[[nodiscard]] std::string to_json(const message_report& report);
/// The same of a file: file_issues, and the reports of its messages under "messages".
[[nodiscard]] std::string to_json(const file_report& report);
/// Object as the reference's command line prints it: status, messages, objects,
/// hash_verified, file_issues, message_reports.
[[nodiscard]] std::string to_json(const file_report& report, std::string_view file);

/// What this build can do, tried out.
struct self_test_report {
  bool good = true;  ///< every test went well
  /// As the reference's doctor prints it: build {version, wire_version, target, profile},
  /// features [{name, kind, state, backend, linkage, version}], self_test [{label,
  /// outcome, error}].
  cbor_map facts;
};
/// Messages there and back through every codec; takes milliseconds.
/// @threads{safe to call concurrently}
[[nodiscard]] self_test_report self_test();

}  // namespace weir::formats
