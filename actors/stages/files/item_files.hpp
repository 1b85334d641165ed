// SPDX-License-Identifier: Apache-2.0
/// @file
/// A sink that writes one file for each item.
#pragma once

#include <string>
#include <vector>

#include "stages/name_pattern.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/file.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {

/// Name of the state of such a sink: the name of the last file.
inline constexpr const char* last_file_part = "LAST";

/// Adds the setting `path` of sinks with one file for each item.
template <class Settings>
void add_item_path(settings_table<Settings>& table, const std::string& example) {
  table
      .add("path", &Settings::path,
           "path of the file of an item, such as " + example +
               "; {item} stands for the number of the item, {item:6} for the number with "
               "at least 6 digits, {NAME} for an attribute, in which /, NUL and a point "
               "at the begin become _")
      .required()
      .path(path_use::output)
      .rule("with names in braces, {item} among them", [](const std::string& text) {
        const auto pattern = name_pattern::parse(text);
        return pattern && pattern->has_number();
      });
}

/// A sink whose items become whole files. A subclass says how an item is encoded. A file
/// is written beside its place and renamed, so that a reader finds it whole or not at
/// all, and a resumed run writes the same files again.
class item_files : public flow::stage_object {
 public:
  /// Makes the sink. @param name  Name of the stage, for messages.
  item_files(std::string_view name, std::string path, name_pattern pattern,
             file_system& fs)
      : name_(name), setting_(std::move(path)), pattern_(std::move(pattern)), fs_(fs) {}

  result<void> open(opening& run) override;
  result<void> put(taken& t) override;
  result<flow::small_record> settle() override;
  result<void> rewind(bytes_view stored) override;
  result<bool> verify(opening& run, bytes_view stored,
                      const flow::state_reader& state) override;
  result<void> copy_state(flow::state_writer& to) override;
  result<void> restore_state(const flow::state_reader& from) override;

 protected:
  /// Returns the content of the file of an item.
  [[nodiscard]] virtual result<byte_vector> encode(const taken& t) = 0;

 private:
  /// Position of the sink; `last_` belongs to it and is a part of the state.
  struct offset {
    std::uint64_t items = 0;   ///< items of the run so far
    std::uint64_t size = 0;    ///< of the last file
    std::uint64_t digest = 0;  ///< XXH3-64 of the last file
  };
  result<void> write(const std::string& path, bytes_view content);
  result<void> sync_written();
  [[nodiscard]] std::string path_of_name(const std::string& name) const;
  [[nodiscard]] result<void> check_last() const;

  std::string_view name_;
  /// The path as the user has written it.
  std::string setting_;
  name_pattern pattern_;
  file_system& fs_;
  std::string prefix_;  ///< of relative paths: a folder with a slash, or empty
  offset at_;
  std::string last_;                  ///< name of the last file; empty before the first
  std::vector<std::string> written_;  ///< files that are not durable yet
  std::string known_folder_;          ///< a folder that exists
};

}  // namespace weir::actors
