// SPDX-License-Identifier: Apache-2.0
/// @file
/// Validates Tensogram files and lists all issues, not only the first.
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

/// Severity of an issue. Only errors make a message invalid.
enum class issue_severity : std::uint8_t { warning, error };

/// One issue of a message.
struct validation_issue {
  std::string code;  ///< name in docs/formats/tensogram.md, such as "hash_mismatch"
  validation_level level = validation_level::structure;  ///< level that found it
  issue_severity severity = issue_severity::error;       ///< severity
  std::optional<std::size_t> object;                     ///< index of the data object
  std::optional<std::uint64_t> byte_offset;  ///< offset from the start of the message
  std::string description;                   ///< text for people
};

/// Result of the validation of one message.
struct message_report {
  message_span span;             ///< place of the message
  std::size_t object_count = 0;  ///< number of objects
  /// True if every object has a digest that agrees, and there are no errors.
  bool hash_verified = false;
  std::vector<validation_issue> issues;  ///< issues, in the order of the checks

  /// Returns true if there are no errors.
  [[nodiscard]] bool ok() const noexcept;
};

/// Bytes of a file that belong to no message.
struct file_issue {
  std::uint64_t byte_offset = 0;  ///< offset of the first byte
  std::uint64_t length = 0;       ///< number of bytes
  std::string description;        ///< text for people
};

/// Result of the validation of a file.
struct file_report {
  std::vector<file_issue> file_issues;   ///< bytes that belong to no message
  std::vector<message_report> messages;  ///< results of the messages, in order

  /// Returns true if there is a message, nothing between messages, and no error in them.
  [[nodiscard]] bool ok() const noexcept;
};

/// Options of a validation.
struct validation_options {
  validation_level level = validation_level::integrity;  ///< highest level of checks
  bool canonical = false;      ///< also warn of CBOR that is not canonical
  bool legacy_hashes = false;  ///< see read_options
  bool trial_decode = true;    ///< false: payloads are not decoded, at any level
  /// See read_options. A larger object is the issue `pipeline_config_failed`.
  std::uint64_t max_object_bytes = default_max_object_bytes;
  unsigned threads = 0;  ///< threads that help to decode
};

/// Returns the name of a level.
[[nodiscard]] std::string_view name_of(validation_level level) noexcept;
/// Returns the name of a severity.
[[nodiscard]] std::string_view name_of(issue_severity severity) noexcept;

/// Validates the message at the start of the bytes.
[[nodiscard]] message_report validate_message(bytes_view message,
                                              const validation_options& options = {});
/// Validates the message at `span` of a source and reads no more than the options need:
/// up to the level `metadata` the frames without the payloads. Errors of the source are
/// returned.
/// @error{io; the source cannot be read}
[[nodiscard]] result<message_report> validate_message(
    const byte_source& source, message_span span, const validation_options& options = {});
/// Validates every message and the bytes between them. Errors of the source are returned.
/// @error{io; the source cannot be read}
[[nodiscard]] result<file_report> validate(const byte_source& source,
                                           const validation_options& options = {});
/// Validates every message in memory and the bytes between them.
[[nodiscard]] file_report validate(bytes_view bytes,
                                   const validation_options& options = {});
/// Returns the result of one message as JSON with the keys of the reference
/// implementation: issues, object_count, hash_verified.
[[nodiscard]] std::string to_json(const message_report& report);
/// Returns the result of a file as JSON: file_issues and messages.
[[nodiscard]] std::string to_json(const file_report& report);
/// Returns the result of a file as JSON with the keys of the reference's command line:
/// status, messages, objects,
/// hash_verified, file_issues, message_reports.
[[nodiscard]] std::string to_json(const file_report& report, std::string_view file);

/// Abilities of this build, after trying each of them.
struct self_test_report {
  bool good = true;  ///< every test succeeded
  /// Facts with the keys of the reference's `doctor`: build {version, wire_version,
  /// target, profile}, features [{name, kind, state, backend, linkage, version}],
  /// self_test [{label, outcome, error}].
  cbor_map facts;
};
/// Encodes and decodes messages with every codec. Takes milliseconds.
/// @threads{safe to call concurrently}
[[nodiscard]] self_test_report self_test();

}  // namespace weir::formats
