// SPDX-License-Identifier: Apache-2.0
/// @file
/// Validation reports as JSON. Keys and their order follow from the canonical order of
/// maps.
/// The keys are those of the reference, whose callers read these reports.
#include <array>

#include "weir/formats/cbor.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {

/// The names are those of the reference.
std::string_view name_of(validation_level level) noexcept {
  constexpr std::array<std::string_view, 4> names{"structure", "metadata", "integrity",
                                                  "fidelity"};
  // The values of the enumeration begin with zero.
  return names[static_cast<std::size_t>(level)];
}

/// These names, too, are those of the reference.
std::string_view name_of(issue_severity severity) noexcept {
  return severity == issue_severity::error ? "error" : "warning";
}

namespace {

/// Returns an issue as a map; absent properties have no key.
cbor_map issue_entry(const validation_issue& issue) {
  cbor_map out{{"code", issue.code},
               // Code and level are for programs, the description is for people.
               {"level", name_of(issue.level)},
               {"severity", name_of(issue.severity)},
               {"description", issue.description}};
  if (issue.object) {
    out.set("object_index", *issue.object);
  }
  if (issue.byte_offset) {
    out.set("byte_offset", *issue.byte_offset);
  }
  return out;
}

/// Returns the report of one message as a map.
cbor_map message_entry(const message_report& message) {
  cbor_array issues;
  // Issues keep the order in which the validation has found them.
  for (const validation_issue& issue : message.issues) {
    issues.emplace_back(issue_entry(issue));
  }
  // These three keys are always present.
  return cbor_map{{"issues", std::move(issues)},
                  {"object_count", message.object_count},
                  {"hash_verified", message.hash_verified}};
}

/// Returns the issues between messages as an array.
cbor_array file_entries(const file_report& report) {
  cbor_array out;
  for (const file_issue& issue : report.file_issues) {
    out.emplace_back(cbor_map{{"byte_offset", issue.byte_offset},
                              {"length", issue.length},
                              {"description", issue.description}});
  }
  return out;
}

}  // namespace

/// Without line breaks, for programs.
std::string to_json(const message_report& report) {
  return to_json(cbor_value(message_entry(report)));
}

std::string to_json(const file_report& report) {
  // Messages keep the order of the file.
  cbor_array messages;
  for (const message_report& message : report.messages) {
    messages.emplace_back(message_entry(message));
  }
  return to_json(cbor_value(cbor_map{{"file_issues", file_entries(report)},
                                     {"messages", std::move(messages)}}));
}

/// The report of one file, with totals; its form is that of the command line.
std::string to_json(const file_report& report, std::string_view file) {
  cbor_array messages;
  std::size_t objects = 0;
  // A file without messages has verified nothing.
  bool verified = !report.messages.empty();
  for (const message_report& message : report.messages) {
    messages.emplace_back(message_entry(message));
    objects += message.object_count;
    verified = verified && message.hash_verified;
  }
  return to_json(cbor_value(cbor_map{{"file", file},
                                     // One word for scripts, which may ignore all other
                                     // keys.
                                     {"status", report.ok() ? "ok" : "failed"},
                                     {"messages", report.messages.size()},
                                     {"objects", objects},
                                     {"hash_verified", verified},
                                     {"file_issues", file_entries(report)},
                                     {"message_reports", std::move(messages)}}),
                 2);
}

}  // namespace weir::formats
