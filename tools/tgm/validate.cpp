// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir tgm validate`: reports everything that is wrong with files.
///
/// The library makes the report; this file chooses the level and prints. The words and
/// the codes of issues are those of the reference implementation.
#include <cstdio>

#include "cli/output.hpp"
#include "tgm/messages.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::tools {

namespace {

/// Prints one issue as a line: file, severity, message, object, description and code.
void print_issue(const std::string& file, std::size_t message,
                 const formats::validation_issue& issue) {
  fmt::print(stderr, "{}: {} \u2014 message {}{}: {} [{}]{}\n", file,
             issue.severity == formats::issue_severity::error ? "FAILED" : "WARNING",
             message, issue.object ? fmt::format(", object {}", *issue.object) : "",
             issue.description, issue.code,
             issue.byte_offset ? fmt::format(" (at byte {})", *issue.byte_offset) : "");
}

/// Prints the issues of a file to standard error, and a summary of sound files to
/// standard output.
void print_report(const std::string& file, const formats::file_report& report,
                  output& out) {
  std::size_t objects = 0;
  // Issues of the file, such as bytes between messages, count as errors.
  std::size_t errors = report.file_issues.size();
  // One message without a digest is enough for the summary not to claim verification.
  bool verified = !report.messages.empty();
  for (const auto& issue : report.file_issues) {
    fmt::print(stderr, "{}: FAILED \u2014 {}\n", file, issue.description);
  }
  for (std::size_t m = 0; m < report.messages.size(); ++m) {
    const auto& message = report.messages[m];
    objects += message.object_count;
    verified = verified && message.hash_verified;
    for (const auto& issue : message.issues) {
      // Warnings are printed but do not make a file fail.
      errors += issue.severity == formats::issue_severity::error ? 1 : 0;
      print_issue(file, m, issue);
    }
  }
  if (report.ok()) {
    out.print("{}: OK ({} messages, {} objects{})\n", file, report.messages.size(),
              objects, verified ? ", hash verified" : "");
  } else {
    fmt::print(stderr, "{}: FAILED ({}, {} messages, {} objects)\n", file,
               counted(errors, "error"), report.messages.size(), objects);
  }
}

/// Returns the level of validation that the options select.
/// `--quick` and `--full` are short forms of two levels. `--checksum` keeps the default
/// level and turns off decoding, see `tgm_check`.
result<formats::validation_level> level_of(const tgm_verb_options& options) {
  using level = formats::validation_level;
  if (options.quick) {
    // Canonical CBOR is checked on the metadata, so the level is raised by one.
    return options.canonical ? level::metadata : level::structure;
  }
  if (options.full) {
    return level::fidelity;
  }
  for (const level l :
       {level::structure, level::metadata, level::integrity, level::fidelity}) {
    if (formats::name_of(l) == options.level) {
      return l;
    }
  }
  return error(errc::invalid_argument,
               fmt::format("cannot validate: expected a level of structure, metadata, "
                           "integrity or fidelity, found \"{}\"",
                           options.level));
}

}  // namespace

command_result tgm_check(const tgm_verb_options& options, output& out) {
  formats::validation_options checks;
  WEIR_TRY(checks.level, level_of(options));
  checks.canonical = options.canonical;
  // Without decoding, the digests remain.
  checks.trial_decode = !options.checksum;
  checks.legacy_hashes = options.legacy;
  checks.max_object_bytes = options.max_object_bytes;
  checks.threads = options.encoding.threads;
  bool good = true;
  std::string all;
  for (const std::string& path : options.files) {
    // A file that cannot be read ends the verb. A damaged one does not, as the verb is
    // there to report it.
    WEIR_TRY(const message_file file, read_messages(path));
    WEIR_TRY(const auto report, formats::validate(*file.source, checks));
    good = good && report.ok();
    if (options.json) {
      all += (all.empty() ? "[" : ",\n") + formats::to_json(report, file.name);
    } else {
      // Reports are printed file by file, but JSON only at the end, as one array.
      print_report(file.name, report, out);
    }
  }
  if (options.json) {
    out.print("{}]\n", all);
  }
  return good ? 0 : exit_code_of(errc::corrupt);
}

}  // namespace weir::tools
