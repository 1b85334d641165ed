// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source that makes one item of each file of a list.
#pragma once

#include <memory>
#include <string>

#include "stages/files/file_list.hpp"
#include "stages/source_parts.hpp"
#include "weir/base/settings.hpp"

namespace weir::actors {

/// Settings that all sources of files have.
/// Sources add settings of their own by inheriting.
struct file_source_settings {
  /// A file or a folder.
  std::string path;
  /// With * and ?; files whose names do not match are left out.
  std::string pattern;
  name_order order = name_order::natural;
  /// Type of the items in the form of a port type.
  std::string type;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;
};

/// Returns a pointer to an inherited member as one of the settings that inherit it.
template <class Settings, class Base, class T>
[[nodiscard]] T Settings::*own(T Base::*member) {
  return member;
}

/// Adds the settings of `file_source_settings` to the table of a source whose settings
/// inherit them.
template <class Settings>
void add_file_settings(settings_table<Settings>& table, const std::string& ending) {
  table
      .add(
          "path", own<Settings>(&Settings::path),
          "a file, or a folder whose files are read in the order of their names; a named "
          "pipe is refused")
      .required()
      .path(path_use::input);
  table.add("pattern", own<Settings>(&Settings::pattern),
            "files of the folder that are read, such as *" + ending +
                "; * stands for any text, ? for one character");
  table.add("order", own<Settings>(&Settings::order),
            {{"natural", name_order::natural}, {"bytes", name_order::bytes}},
            "natural: numbers in names count as numbers, so a2 stands before a10; bytes: "
            "by the bytes of the names");
  table
      .add("max_bytes", own<Settings>(&Settings::max_bytes),
           "largest size of a file and of an item; larger ones are an error before "
           "memory is taken")
      .range(1, std::int64_t{1} << 40)
      .unit("bytes");
}

/// A source whose items are whole files. A subclass says how a file is decoded.
class file_source : public flow::stage_object {
 public:
  /// Makes the source. @param name  Name of the stage, for messages.
  file_source(std::string_view name, file_source_settings settings, file_system& fs)
      : name_(name), files_settings_(std::move(settings)), fs_(fs) {}

  result<void> open(opening& run) override;
  result<bool> next(pull& p) override;
  [[nodiscard]] flow::small_record position() const override;
  result<void> seek(bytes_view stored) override;
  void report(figures& to) const override { files_.report(to); }

 protected:
  /// Fills an item with the content of a file, and returns the XXH3-64 of the file.
  /// @param size  Size of the file, at most `max_bytes`.
  [[nodiscard]] virtual result<std::uint64_t> load(pull& p, file& f,
                                                   std::uint64_t size) = 0;
  /// Returns the limit on the size of a file and of an item.
  [[nodiscard]] std::uint64_t max_bytes() const noexcept {
    return files_settings_.max_bytes;
  }

 private:
  struct cursor {
    std::uint64_t next = 0;      ///< files so far
    std::uint64_t identity = 0;  ///< digest of their names
    std::uint64_t size = 0;      ///< of the last file
    std::uint64_t digest = 0;    ///< XXH3-64 of the last file
  };

  /// Name of the stage, for messages; a constant of the subclass.
  std::string_view name_;
  file_source_settings files_settings_;
  file_system& fs_;
  file_list files_;
  cursor at_;
};

/// Returns the error of a file or an item that is larger than a limit.
[[nodiscard]] error too_large(std::string_view thing, std::uint64_t limit,
                              std::uint64_t found);
/// Returns an error with the file in which it was found.
[[nodiscard]] error in_file(std::string_view stage, const std::string& path,
                            const error& cause);

}  // namespace weir::actors
