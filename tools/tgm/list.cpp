// SPDX-License-Identifier: Apache-2.0
/// @file
/// Verbs that look at metadata: info, ls with keys, get.
#include "tgm/damage.hpp"
#include "tgm/verbs.hpp"

namespace weir::tools {

using formats::cbor_array;
using formats::cbor_map;
using formats::message_reader;

namespace {

std::vector<std::string> keys_of(const tgm_verb_options& options) {
  return options.keys.empty() ? std::vector<std::string>{"version"}
                              : split_text(options.keys, ',');
}

/// Prints the values of keys, one line or one JSON object for each message that passes
/// `-w`.
class key_columns {
 public:
  /// What a key that a message does not have is printed as; without it the key is
  /// an error.
  key_columns(const tgm_verb_options& options, const char* separator,
              std::optional<std::string> absent)
      : options_(options),
        separator_(separator),
        absent_(std::move(absent)),
        keys_(keys_of(options)) {}

  void print_head(output& out) const {
    std::string head;
    for (const std::string& key : keys_) {
      head += (head.empty() ? "" : separator_) + key;
    }
    out.print("{}\n", head);
  }

  command_result print(const where_clause& where, output& out) const {
    damage_report damage(options_.skip_damaged);
    for (const std::string& path : options_.files) {
      WEIR_TRY(const message_file file, damage.open(path));
      for (std::size_t m = 0; m < file.spans.size(); ++m) {
        const auto reader = file.open(m, options_.reading());
        if (!reader) {
          WEIR_CHECK(damage.leave_out(file, m, reader.error()));
        } else if (where.passes(reader->metadata())) {
          WEIR_TRY(const std::string row, row_of(file, m, reader->metadata()));
          out.print("{}\n", row);
        }
      }
    }
    return damage.exit_code();
  }

 private:
  result<std::string> row_of(const message_file& file, std::size_t message,
                             const formats::message_metadata& metadata) const {
    std::string row;
    cbor_map found;
    for (const std::string& key : keys_) {
      row += &key == keys_.data() ? "" : separator_;
      const auto value = text_at(metadata, key);
      if (value) {
        found.set(key, *value);
      } else if (!absent_) {
        return error(errc::not_found,
                     fmt::format("key not found in message {} of \"{}\": expected \"{}\" "
                                 "in base or _extra_, found it in neither",
                                 message, file.name, key))
            .at(file.place(file.spans[message].offset));
      }
      row += value ? *value : *absent_;
    }
    return options_.json ? formats::to_json(std::move(found), 2) : row;
  }

  const tgm_verb_options& options_;
  const char* separator_;
  std::optional<std::string> absent_;
  std::vector<std::string> keys_;
};

}  // namespace

command_result tgm_info(const tgm_verb_options& options, output& out) {
  cbor_array all;
  for (const std::string& path : options.files) {
    WEIR_TRY(const message_file file, read_messages(path));
    const std::uint64_t size = file.source->size();
    if (options.json) {
      all.emplace_back(cbor_map{{"file", path},
                                {"messages", file.spans.size()},
                                {"size", size},
                                {"version", 3}});
      continue;
    }
    out.print("File: {}\n  Messages: {}\n  Size: {} bytes\n", path, file.spans.size(),
              size);
    out.write(file.spans.empty() ? "\n" : "  Version: 3\n\n");
  }
  if (options.json) {
    out.print("{}\n", formats::to_json(formats::cbor_value(std::move(all)), 2));
  }
  return 0;
}

command_result tgm_list(const tgm_verb_options& options, output& out) {
  if (options.keys.empty() && options.where.empty() && options.files.size() == 1) {
    return tgm_list_objects(options, out);
  }
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  const key_columns columns(options, "\t", "N/A");
  if (!options.json) {
    columns.print_head(out);
  }
  return columns.print(where, out);
}

command_result tgm_get(const tgm_verb_options& options, output& out) {
  WEIR_TRY(const where_clause where, where_clause::parse(options.where));
  return key_columns(options, " ", std::nullopt).print(where, out);
}

}  // namespace weir::tools
