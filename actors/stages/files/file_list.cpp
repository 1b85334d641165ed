// SPDX-License-Identifier: Apache-2.0
/// @file
/// Listing and ordering of files.
///
/// Sources of files read the files of a folder in one order on every machine: by name,
/// where `natural` compares numbers inside names by their value. Each prefix of the list
/// has a digest, so that a resumed run can tell that the files that it has read are still
/// the first ones, even if more were added behind them.
#include "stages/files/file_list.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "stages/text_match.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes the digits at the beginning of a text away, without leading zeros.
/// Comparing the digits as text is enough after that: the longer number is the larger
/// one.
std::string_view take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) {
    ++length;
  }
  // Leading zeros do not change the value of a number.
  std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

/// Returns whether a path can be listed as a folder.
/// Opening a folder for reading succeeds on Linux, and reading from it fails.
/// @pre The path is no named pipe.
bool is_folder(file_system& fs, const std::string& path) {
  // A path that cannot be opened may be a folder without permission to open it as a file.
  const auto f = fs.open(path, open_mode::read);
  std::byte one{};
  return (!f || !(*f)->read_some(0, {&one, 1})) && fs.list(path).has_value();
}

/// Asks the system, because a pipe may have any name.
result<void> check_no_pipe(const std::string& path) {
  std::error_code failed;  // a path that is missing is found by opening it
  if (!std::filesystem::is_fifo(path, failed)) {
    return {};
  }
  return error(
             errc::unsupported,
             fmt::format("cannot open \"{}\": expected a file, found a named pipe", path))
      .hint("write what arrives to a file first");
}

}  // namespace

/// Compares names so that a2 stands before a10. Names that differ only in leading zeros
/// are ordered by their bytes, so the order is a total one.
bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      // Two runs of digits stand at the same place: their values are compared.
      const std::string_view x = take_number(a);
      const std::string_view y = take_number(b);
      // The values differ: the shorter number is the smaller one.
      if (x.size() != y.size() || x != y) {
        return x.size() != y.size() ? x.size() < y.size() : x < y;
      }
      continue;
    }
    // Bytes are compared as unsigned numbers, so that UTF-8 sorts by code points.
    if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) <
             static_cast<unsigned char>(b.front());
    }
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  // One name is the beginning of the other one, or both are equal but for zeros.
  return a.empty() == b.empty() ? whole_a < whole_b : a.empty();
}

/// A pipe that is replaced by a file in between does no harm.
result<std::unique_ptr<file>> open_no_pipe(file_system& fs, const std::string& path) {
  WEIR_CHECK(check_no_pipe(path));
  return fs.open(path, open_mode::read);
}

/// A path that is a file gives a list of this file, whatever the pattern says. An empty
/// list is no error here; the report of the run says so.
result<file_list> file_list::find(file_system& fs, const std::string& path,
                                  std::string_view pattern, name_order order) {
  file_list out;
  WEIR_CHECK(check_no_pipe(path));
  if (is_folder(fs, path)) {
    out.searched_ = fmt::format("\"{}\" that match \"{}\"", path, pattern);
    WEIR_TRY(out.names_, fs.list(path));
    // The pattern applies to names and not to paths.
    std::erase_if(out.names_,
                  [&](const std::string& name) { return !text_matches(pattern, name); });
    if (order == name_order::natural) {
      std::sort(out.names_.begin(), out.names_.end(), natural_less);
    }
    for (const std::string& name : out.names_) {
      out.paths_.push_back(join_path(path, name));
    }
  } else {
    // Opening finds out whether the file exists; it is opened again when it is read.
    WEIR_TRY(const auto f, fs.open(path, open_mode::read));
    out.names_ = {path.substr(path.rfind('/') + 1)};
    out.paths_ = {path};
  }
  // Entry i of `identities_` covers the names 0 to i, because it includes the entry
  // before it.
  std::uint64_t identity = 0;
  for (const std::string& name : out.names_) {
    identity = xxh3_64(as_view(fmt::format("{}\n{}", identity, name)));
    out.identities_.push_back(identity);
  }
  return out;
}

/// Adds the problem that a folder has no matching files.
void file_list::report(figures& to) const {
  if (names_.empty() && !searched_.empty()) {
    to.problem(
        fmt::format("it has no items: expected files in {}, found none", searched_));
  }
}

}  // namespace weir::actors
