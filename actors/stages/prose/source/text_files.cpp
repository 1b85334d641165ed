// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the bytes of texts, and finds pages that cannot be read.
///
/// Texts are read in blocks by file and offset. What a block must tell the encoder is
/// where a text ends: at the end of a file, or before a range that is left out, by the
/// user or because its pages cannot be read. Sizes and times of all files are noted at
/// the start; a file that changes while it is read is an error, except that it may grow.
#include "stages/prose/source/text_files.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/file_times.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {
namespace {

/// Bytes that are read at a time. @units{bytes}
constexpr std::uint64_t block_bytes = std::uint64_t{64} << 10;
/// Bytes before a cut that a resumed source compares.
/// @units{bytes}
constexpr std::uint64_t compared_bytes = 4096;
/// Unit in which an unreadable range of a file is found.
/// @units{bytes}
constexpr std::uint64_t text_page_bytes = 4096;

/// Returns the byte behind the page of `byte`, at most `end`.
std::uint64_t behind_page(std::uint64_t byte, std::uint64_t end) {
  return std::min(end, align_down(byte, text_page_bytes) + text_page_bytes);
}

}  // namespace

/// Notes size and modification time of each file. Empty files are refused, because they
/// would be texts without an end.
result<void> text_files::measure() {
  for (const std::string& path : paths_) {
    auto opened = fs_.open(path, open_mode::read);
    auto size = opened ? (*opened)->size() : result<std::uint64_t>(opened.error());
    if (!size) {
      return error(errc::source_unavailable,
                   fmt::format("cannot attach source \"{}\"", path))
          .located(path)
          .because(std::move(size).error());
    }
    if (*size == 0) {
      return error(errc::source_unavailable,
                   fmt::format(
                       "cannot attach source \"{}\": expected at least 1 byte, found 0",
                       path))
          .located(path)
          .hint("leave the empty file out");
    }
    sizes_.push_back(*size);
    times_.push_back(modification_time(path));
  }
  return {};
}

/// Reads the next block of a file from an offset on. A block never reaches beyond the end
/// of a text.
result<text_block> text_files::read(std::uint64_t file, std::uint64_t offset) {
  text_block out;
  // The next range that is left out limits the block.
  const auto* const next = left_out_.first_behind(file, offset);
  const std::uint64_t end = next != nullptr ? std::max(offset, next->byte) : sizes_[file];
  out.bytes.resize(static_cast<std::size_t>(std::min(end - offset, block_bytes)));
  auto got = read_bytes(file, offset, out.bytes);
  if (!got) {
    // A page that cannot be read is left out, if that was asked for; then reading is
    // tried again.
    const bool may_skip = skips_damage_ && got.error().code() == errc::source_unavailable;
    WEIR_TRY(const bool found, may_skip ? find_damage(file, offset, out.bytes.size(), end)
                                        : result<bool>(false));
    return found ? read(file, offset) : result<text_block>(std::move(got).error());
  }
  // The text ends with this block.
  out.last = offset + out.bytes.size() == end;
  if (out.last && next != nullptr) {
    out.left_out = *next;
  }
  return out;
}

/// Finds the first page that cannot be read among `count` bytes. The range goes on up to
/// `end`, or to the first page that can be read.
/// @returns false if all of the bytes can be read
result<bool> text_files::find_damage(std::uint64_t number, std::uint64_t offset,
                                     std::uint64_t count, std::uint64_t end) {
  WEIR_TRY(const auto f, fs_.open(paths_[number], open_mode::read));
  byte_vector page(text_page_bytes);
  // Reads one page. Only an error of the device means that it cannot be read.
  const auto readable = [&](std::uint64_t at) -> result<bool> {
    const auto bytes = static_cast<std::size_t>(behind_page(at, end) - at);
    auto got = read_exactly(*f, at, std::span(page).first(bytes));
    if (!got && got.error().code() != errc::io) {
      return std::move(got).error();
    }
    return got.has_value();
  };
  // The first bad page.
  std::uint64_t bad = offset;
  for (bool sound = true; bad < offset + count; bad = behind_page(bad, end)) {
    WEIR_TRY(sound, readable(bad));
    if (!sound) {
      break;
    }
  }
  if (bad >= offset + count) {
    return false;
  }
  // The first good page behind it.
  std::uint64_t after = behind_page(bad, end);
  for (bool sound = false; after < end; after = behind_page(after, end)) {
    WEIR_TRY(sound, readable(after));
    if (sound) {
      break;
    }
  }
  WEIR_CHECK(left_out_.add({number, bad, after - bad, false}, paths_[number]));
  return true;
}

/// Returns the digest of the newest bytes of the text before an offset.
result<std::uint64_t> text_files::digest_before(std::uint64_t file,
                                                std::uint64_t offset) const {
  const std::uint64_t text = offset - begin_of(file, offset);
  byte_vector bytes(static_cast<std::size_t>(std::min(text, compared_bytes)));
  WEIR_CHECK(read_bytes(file, offset - bytes.size(), bytes));
  return xxh3_64(bytes);
}

/// Reads exactly as many bytes. A file whose time has changed must be longer than before.
result<void> text_files::read_bytes(std::uint64_t number, std::uint64_t offset,
                                    mutable_bytes to) const {
  const std::string& path = paths_[number];
  auto opened = fs_.open(path, open_mode::read);
  auto read = opened ? read_exactly(**opened, offset, to)
                     : result<void>(std::move(opened).error());
  if (!read) {
    // The hint only helps if reading has failed.
    const bool unreadable = read.error().code() == errc::io && !skips_damage_;
    return error(errc::source_unavailable,
                 fmt::format("cannot read source \"{}\": expected {} bytes as when it "
                             "was attached",
                             path, sizes_[number]))
        .located(fmt::format("{}:{}", path, offset))
        .hint(unreadable ? "on_damage = \"skip\" leaves unreadable ranges out" : "")
        .because(std::move(read).error());
  }
  if (modification_time(path) != times_[number]) {
    // A longer file may have grown at its end, which is not read.
    WEIR_TRY(const std::uint64_t size, (*opened)->size());
    if (size <= sizes_[number]) {
      return error(errc::history_mismatch,
                   fmt::format("cannot read source \"{}\": expected its bytes as when "
                               "it was attached, found others",
                               path))
          .located(fmt::format("{}:{}", path, offset))
          .hint("restore the file and resume the run");
    }
  }
  return {};
}

/// Adds ranges of the user, as far as they are not left out already. @param file, offset
/// Place from which the text was not consumed; a range before it would change ids that
/// were read.
result<std::vector<storage::left_out_range>> text_files::leave_out(
    const std::vector<storage::file_range>& asked, std::uint64_t file,
    std::uint64_t offset) {
  std::vector<storage::left_out_range> added;
  for (const storage::file_range& range : asked) {
    WEIR_TRY(const auto numbers, storage::files_of(range, paths_));
    for (const std::uint64_t number : numbers) {
      if (range.begin >= range.end || range.end > sizes_[number]) {
        return storage::outside_of_file(range, paths_[number], sizes_[number]);
      }
      const storage::left_out_range whole{number, range.begin, range.end - range.begin,
                                          true};
      for (const auto& part : left_out_.outside(whole, true)) {
        if (number < file || (number == file && part.byte < offset)) {
          return storage::consumed_range(part, paths_[number]);
        }
        WEIR_CHECK(left_out_.add(part, paths_[number]));
        added.push_back(part);
      }
    }
  }
  return added;
}

/// Returns the ranges before a place, which belong to a state there.
storage::left_out_list text_files::left_out(std::uint64_t file,
                                            std::uint64_t offset) const {
  storage::left_out_list before = left_out_;
  before.keep_until(file, offset);
  return before;
}

/// Takes the ranges of a state. Returns false if one lies outside of its file.
bool text_files::take(storage::left_out_list known) {
  for (const storage::left_out_range& r : known.all()) {
    if (r.leaf >= paths_.size() || r.byte >= sizes_[r.leaf] ||
        r.bytes > sizes_[r.leaf] - r.byte) {
      return false;
    }
  }
  left_out_ = std::move(known);
  return true;
}

}  // namespace weir::actors
