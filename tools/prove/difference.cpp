// SPDX-License-Identifier: Apache-2.0
/// @file
/// Compares outputs and records.
///
/// Files are compared byte by byte, items by their digests. Both return the first
/// difference in an order that does not depend on the folder.
#include "prove/difference.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;

/// Returns the paths of all regular files below a folder, relative to it. The set sorts
/// them.
result<std::set<std::string>> files_below(const std::string& folder) {
  std::set<std::string> names;
  std::error_code failure;
  // Errors of the iterator end the loop and are reported below.
  for (fs::recursive_directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->is_regular_file(failure)) {
      names.insert(at->path().lexically_relative(folder).string());
    }
  }
  if (failure) {
    return error(errc::io,
                 fmt::format("cannot list \"{}\": {}", folder, failure.message()));
  }
  return names;
}

/// Returns the first byte that differs; nothing if the files are equal.
result<std::optional<std::uint64_t>> first_other_byte(const std::string& first,
                                                      const std::string& second) {
  // Two buffers of this size are all the memory that a comparison takes.
  constexpr std::size_t block = std::size_t{1} << 20;
  WEIR_TRY(const auto a, posix_file_system().open(first, open_mode::read));
  WEIR_TRY(const auto b, posix_file_system().open(second, open_mode::read));
  WEIR_TRY(const std::uint64_t size_a, a->size());
  WEIR_TRY(const std::uint64_t size_b, b->size());
  // If one file is the beginning of the other, they differ where it ends.
  const std::uint64_t common = std::min(size_a, size_b);
  byte_vector from_a(block);
  byte_vector from_b(block);
  for (std::uint64_t at = 0; at < common; at += block) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(block, common - at));
    WEIR_CHECK(read_exactly(*a, at, mutable_bytes(from_a).first(size)));
    WEIR_CHECK(read_exactly(*b, at, mutable_bytes(from_b).first(size)));
    const auto end = from_a.begin() + static_cast<std::ptrdiff_t>(size);
    // Fewer bytes than a block are valid at the end, so the comparison ends there.
    const auto other = std::mismatch(from_a.begin(), end, from_b.begin()).first;
    if (other != end) {
      return std::optional(at + static_cast<std::uint64_t>(other - from_a.begin()));
    }
  }
  return size_a == size_b ? std::optional<std::uint64_t>() : std::optional(common);
}

}  // namespace

result<std::optional<file_difference>> compare_folders(const std::string& first,
                                                       const std::string& second) {
  WEIR_TRY(std::set<std::string> names, files_below(first));
  WEIR_TRY(const std::set<std::string> others, files_below(second));
  // The union of both sides, so a file that only one run has written is found.
  names.insert(others.begin(), others.end());
  for (const std::string& name : names) {
    const std::string a = join_path(first, name);
    const std::string b = join_path(second, name);
    // A missing file counts as a difference in front of its first byte.
    if (!posix_file_system().exists(a) || !posix_file_system().exists(b)) {
      return std::optional(file_difference{name, 0, true});
    }
    WEIR_TRY(const auto offset, first_other_byte(a, b));
    if (offset) {
      return std::optional(file_difference{name, *offset, false});
    }
  }
  return std::optional<file_difference>();
}

std::optional<std::uint64_t> first_other_item(const std::vector<tap_record>& first,
                                              const std::vector<tap_record>& second) {
  // The records are in the order in which the items came to the tap, which is their
  // numbering.
  const auto [a, b] = std::ranges::mismatch(first, second);
  if (a == first.end() && b == second.end()) {
    return std::nullopt;
  }
  // One run has recorded fewer items, so the next item of the other one is the first that
  // both do not have.
  if (a == first.end() || b == second.end()) {
    return a == first.end() ? b->seq : a->seq;
  }
  // Both have another record here. The smaller number is the first item that one run has
  // with this content and the other has not.
  return std::min(a->seq, b->seq);
}

}  // namespace weir::tools
