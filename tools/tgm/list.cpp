// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verbs that only look: info, ls with keys, get, validate, doctor.
#include <cstdio>

#include "tgm/messages.hpp"
#include "tgm/verbs.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::tools {

using formats::cbor_array;
using formats::cbor_map;
using formats::message_reader;

namespace {

std::vector<std::string> keys_of(const tgm_verb_options& options) {
  return options.keys.empty() ? std::vector<std::string>{"version"}
                              : split_text(options.keys, ',');
}

/// Calls `use(reader)` for every message of every file that passes `-w`.
template <class Use>
result<void> for_each_chosen(const tgm_verb_options& options, const Use& use) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  for (const std::string& path : options.files) {
    WEIR_TRY(const message_file file, read_messages(path));
    for (std::size_t m = 0; m < file.spans.size(); ++m) {
      WEIR_TRY(const message_reader reader, file.open(m));
      if (where.passes(reader.metadata())) {
        WEIR_CHECK(use(reader));
      }
    }
  }
  return {};
}

void print_issue(const std::string& file, std::size_t message,
                 const formats::validation_issue& issue) {
  fmt::print(stderr, "{}: {} \u2014 message {}{}: {} [{}]{}\n", file,
             issue.severity == formats::issue_severity::error ? "FAILED" : "WARNING",
             message, issue.object ? fmt::format(", object {}", *issue.object) : "",
             issue.description, issue.code,
             issue.byte_offset ? fmt::format(" (at byte {})", *issue.byte_offset) : "");
}

void print_report(const std::string& file, const formats::file_report& report,
                  output& out) {
  std::size_t objects = 0;
  std::size_t errors = report.file_issues.size();
  bool verified = !report.messages.empty();
  for (const auto& issue : report.file_issues) {
    fmt::print(stderr, "{}: FAILED \u2014 {}\n", file, issue.description);
  }
  for (std::size_t m = 0; m < report.messages.size(); ++m) {
    const auto& message = report.messages[m];
    objects += message.object_count;
    verified = verified && message.hash_verified;
    for (const auto& issue : message.issues) {
      errors += issue.severity == formats::issue_severity::error ? 1 : 0;
      print_issue(file, m, issue);
    }
  }
  if (report.ok()) {
    out.print("{}: OK ({} messages, {} objects{})\n", file, report.messages.size(),
              objects, verified ? ", hash verified" : "");
  } else {
    fmt::print(stderr, "{}: FAILED ({} errors, {} messages, {} objects)\n", file, errors,
               report.messages.size(), objects);
  }
}

result<formats::validation_level> level_of(const tgm_verb_options& options) {
  using level = formats::validation_level;
  if (options.quick) {
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

/// Values of keys, one line or one JSON object for each chosen message.
/// `absent(key)` gives what stands for a key that a message has not, or an error.
template <class Absent>
command_result print_columns(const tgm_verb_options& options, const char* separator,
                             const Absent& absent, output& out) {
  const auto keys = keys_of(options);
  WEIR_CHECK(for_each_chosen(options, [&](const message_reader& reader) -> result<void> {
    std::string row;
    cbor_map found;
    for (const std::string& key : keys) {
      row += &key == keys.data() ? "" : separator;
      if (const auto value = text_at(reader.metadata(), key)) {
        row += *value;
        found.set(key, *value);
      } else {
        WEIR_TRY(const std::string instead, absent(key));
        row += instead;
      }
    }
    out.print("{}\n", options.json ? formats::to_json(std::move(found), 2) : row);
    return {};
  }));
  return 0;
}

}  // namespace

command_result tgm_info(const tgm_verb_options& options, output& out) {
  cbor_array all;
  for (const std::string& path : options.files) {
    WEIR_TRY(const byte_vector content, read_input(path));
    const auto spans = formats::scan(bytes_view(content));
    if (options.json) {
      all.emplace_back(cbor_map{{"file", path},
                                {"messages", spans.size()},
                                {"size", content.size()},
                                {"version", 3}});
      continue;
    }
    out.print("File: {}\n  Messages: {}\n  Size: {} bytes\n", path, spans.size(),
              content.size());
    out.write(spans.empty() ? "\n" : "  Version: 3\n\n");
  }
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(std::move(all)), 2));
  }
  return 0;
}

command_result tgm_list(const tgm_verb_options& options, output& out) {
  if (options.keys.empty() && options.where.empty() && options.files.size() == 1) {
    tgm_options one;
    one.file = options.files.front();
    one.json = options.json;
    return tgm_ls(one, out);
  }
  if (!options.json) {
    std::string head;
    for (const std::string& key : keys_of(options)) {
      head += head.empty() ? "" : "\t";
      head += key;
    }
    out.print("{}\n", head);
  }
  const auto absent = [](const std::string&) { return result<std::string>("N/A"); };
  return print_columns(options, "\t", absent, out);
}

command_result tgm_get(const tgm_verb_options& options, output& out) {
  const auto absent = [](const std::string& key) -> result<std::string> {
    return error(errc::not_found,
                 fmt::format("cannot get \"{}\": expected it in base or _extra_, found "
                             "key not found",
                             key));
  };
  return print_columns(options, " ", absent, out);
}

command_result tgm_check(const tgm_verb_options& options, output& out) {
  formats::validation_options checks;
  WEIR_TRY(checks.level, level_of(options));
  checks.canonical = options.canonical;
  checks.trial_decode = !options.checksum;
  checks.legacy_hashes = options.legacy;
  bool good = true;
  std::string all;
  for (const std::string& path : options.files) {
    WEIR_TRY(const byte_vector content, read_input(path));
    const std::string name = path == "-" ? "standard input" : path;
    const auto report = formats::validate(bytes_view(content), checks);
    good = good && report.ok();
    if (options.json) {
      all += (all.empty() ? "[" : ",\n") + formats::to_json(report, name);
    } else {
      print_report(name, report, out);
    }
  }
  if (options.json) {
    out.print("{}]\n", all);
  }
  return good ? 0 : exit_code_of(errc::corrupt);
}

}  // namespace weir::tools
