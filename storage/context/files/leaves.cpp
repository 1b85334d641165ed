// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens and reads the files of a source, or a tag of several volumes.
///
/// A leaf is one file of a source. Only few of them are open at a time, because a source
/// may have many thousands of files.
#include "context/files/leaves.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "weir/base/file_times.hpp"
#include "weir/storage/hn4.hpp"

namespace weir::storage {

namespace {

/// Number of files that are kept open.
constexpr std::size_t open_leaves = 16;
/// Unit in which an unreadable range of a file is found. @units{bytes}
constexpr std::uint64_t page_bytes = 4096;

/// Wraps the error of a leaf that could not be opened.
error unavailable_leaf(const std::string& name, error cause) {
  return error(errc::source_unavailable, fmt::format("cannot attach source \"{}\"", name))
      .located(name)
      .because(std::move(cause));
}

/// The stream of a tag as a file that can only be read.
class tag_file final : public file {
 public:
  tag_file(hn4_stream stream, std::string path)
      : stream_(std::move(stream)), path_(std::move(path)) {}
  result<std::size_t> read_some(std::uint64_t offset, mutable_bytes buffer) override {
    if (offset >= stream_.size()) {
      // Behind the end nothing is read, as with a file.
      return std::size_t{0};
    }
    return stream_.read(offset, buffer);
  }
  result<std::size_t> write_some(std::uint64_t /*offset*/,
                                 bytes_view /*bytes*/) override {
    return refuse();
  }
  result<std::uint64_t> size() override { return stream_.size(); }
  result<void> resize(std::uint64_t /*bytes*/) override { return refuse(); }
  result<void> sync() override { return refuse(); }
  const std::string& path() const noexcept override { return path_; }

 private:
  [[nodiscard]] error refuse() const {
    return error(errc::unsupported,
                 fmt::format("cannot write \"{}\": it is open for reading", path_));
  }
  hn4_stream stream_;
  std::string path_;
};

}  // namespace

/// The name of a tag in messages is "VOLUME:TAG".
token_leaves::token_leaves(file_system& fs, std::vector<std::string> paths,
                           std::string tag)
    : fs_(fs), paths_(std::move(paths)), tag_(std::move(tag)), names_(paths_) {
  for (std::string& name : names_) {
    name += tag_.empty() ? "" : ":" + tag_;
  }
}

/// Determines sizes and times of change of all leaves. Tags are opened here once and
/// kept.
result<void> token_leaves::measure() {
  for (std::size_t leaf = 0; leaf < paths_.size(); ++leaf) {
    if (!tag_.empty()) {
      const auto volume = hn4_volume::open(paths_[leaf]);
      if (!volume) {
        return unavailable_leaf(names_[leaf], volume.error());
      }
      WEIR_TRY(hn4_stream stream, volume->stream(tag_));
      streams_.push_back(std::move(stream));
    }
    WEIR_TRY(const auto f, open_leaf(leaf));
    auto size = f->size();
    if (!size) {
      return unavailable_leaf(names_[leaf], std::move(size).error());
    }
    if (*size == 0) {
      return error(errc::source_unavailable,
                   // A leaf without bytes would have no place in the list of starts.
                   fmt::format(
                       "cannot attach source \"{}\": expected at least 1 byte, found 0",
                       names_[leaf]))
          .located(names_[leaf])
          .hint("leave the empty file out");
    }
    sizes_.push_back(*size);
    times_.push_back(modification_time(paths_[leaf]));
  }
  return {};
}

/// Opens a leaf without regard to the limit.
result<std::unique_ptr<file>> token_leaves::open_leaf(std::size_t leaf) {
  if (!tag_.empty()) {
    return std::make_unique<tag_file>(streams_[leaf], names_[leaf]);
  }
  auto opened = fs_.open(paths_[leaf], open_mode::read);
  if (!opened) {
    return unavailable_leaf(names_[leaf], std::move(opened).error());
  }
  return opened;
}

// If too many files are open, the new one replaces the one that was unused longest.
//
// The result is valid until the next call.
result<file*> token_leaves::open(std::size_t leaf) {
  slot* oldest = nullptr;
  for (slot& s : slots_) {
    // It is open already.
    if (s.leaf == leaf) {
      s.used = ++clock_;
      return s.f.get();
    }
    if (oldest == nullptr || s.used < oldest->used) {
      oldest = &s;
    }
  }
  slot fresh{leaf, ++clock_, nullptr};
  WEIR_TRY(fresh.f, open_leaf(leaf));
  if (slots_.size() < open_leaves) {
    slots_.push_back(std::move(fresh));
    return slots_.back().f.get();
  }
  // Closes the file that was there.
  *oldest = std::move(fresh);
  return oldest->f.get();
}

/// Reads exactly `to.size()` bytes. A file that has become shorter and one that cannot
/// be read give different hints.
result<void> token_leaves::read(std::size_t leaf, std::uint64_t offset,
                                mutable_bytes to) {
  WEIR_TRY(file* const f, open(leaf));
  if (auto read = read_exactly(*f, offset, to); !read) {
    const std::string where = fmt::format("{}:{}", names_[leaf], offset);
    // A block of a volume that fails its checksum.
    if (checked()) {
      return error(errc::source_unavailable,
                   fmt::format("cannot read source \"{}\"", names_[leaf]))
          .located(where)
          .hint("on_damage = \"skip\" leaves damaged blocks out")
          .because(std::move(read).error());
    }
    // An error of the device may be local, so leaving the range out can help.
    const bool unreadable = read.error().code() == errc::io;
    return error(
               errc::source_unavailable,
               fmt::format("cannot read source \"{}\": expected {} bytes as when it was "
                           "attached",
                           names_[leaf], sizes_[leaf]))
        .located(where)
        .hint(unreadable ? "on_damage = \"skip\" leaves unreadable ranges out" : "")
        .because(std::move(read).error());
  }
  return {};
}

// A device fails in whole sectors and the cache in whole pages, so the file is read again
// page by page. Pages that fail one behind another are one range.
//
// The result is the number of sound bytes at the front, and the end of the range behind
// them that cannot be read.
result<token_leaves::sound_part> token_leaves::probe_file(std::size_t leaf,
                                                          std::uint64_t offset,
                                                          std::size_t count) {
  WEIR_TRY(file* const f, open(leaf));
  byte_vector bytes(count);
  const std::uint64_t end = offset + count;
  // Reads into the front of the buffer; the bytes themselves are not needed.
  const auto readable = [&](std::uint64_t from, std::uint64_t to) -> result<bool> {
    auto read = read_exactly(*f, from, std::span(bytes).first(to - from));
    if (!read && read.error().code() != errc::io) {
      return unavailable_leaf(names_[leaf], std::move(read).error());
    }
    return read.has_value();
  };
  // One read shows in the usual case that all is sound.
  WEIR_TRY(const bool whole, readable(offset, end));
  const auto behind = [&](std::uint64_t at) {
    return std::min(end, align_down(at, page_bytes) + page_bytes);
  };
  // The first page that cannot be read.
  std::uint64_t bad = whole ? end : offset;
  while (bad < end) {
    WEIR_TRY(const bool sound, readable(bad, behind(bad)));
    if (!sound) {
      break;
    }
    bad = behind(bad);
  }
  // Then the first page behind it that can.
  std::uint64_t after = bad;
  while (after < end) {
    WEIR_TRY(const bool sound, readable(after, behind(after)));
    if (sound) {
      break;
    }
    after = behind(after);
  }
  return sound_part{bad - offset, after};
}

// A damaged block ends where the next block of its shard begins.
//
// A failure of the device itself is an error, not damage, since another read may
// succeed.
result<token_leaves::sound_part> token_leaves::probe(std::size_t leaf,
                                                     std::uint64_t offset,
                                                     std::size_t count) {
  if (!checked()) {
    return probe_file(leaf, offset, count);
  }
  const hn4_stream& stream = streams_[leaf];
  // The bytes in front of the damage are verified.
  byte_vector bytes(count);
  hn4_partial part = stream.read_partial(offset, bytes);
  if (!part.failure) {
    return sound_part{count, offset + count};
  }
  if (part.failure->code() == errc::io) {
    return unavailable_leaf(names_[leaf], std::move(*part.failure));
  }
  // The shard that has the first bad byte.
  const std::uint64_t bad = offset + part.bytes;
  const auto after = std::find_if(
      stream.shards().begin(), stream.shards().end(),
      [&](const hn4_shard& shard) { return bad < shard.offset + shard.bytes; });
  WEIR_EXPECT(after != stream.shards().end());
  // The block is lost as a whole.
  const std::uint64_t block = (bad - after->offset) / stream.payload() + 1;
  return sound_part{part.bytes, std::min(after->offset + after->bytes,
                                         after->offset + block * stream.payload())};
}

// Blocks of volumes are verified whenever they are read, so their times say nothing.
//
// Returns the time of the last change if it is not the one of the opening. @units{ns}
std::optional<std::int64_t> token_leaves::changed_at(std::size_t leaf) const {
  if (checked()) {
    return std::nullopt;
  }
  const std::int64_t time = modification_time(paths_[leaf]);
  return time == times_[leaf] ? std::nullopt : std::optional(time);
}

/// Asks the file system, since the size that was measured may be outdated.
result<bool> token_leaves::grown(std::size_t leaf) {
  WEIR_TRY(file* const f, open(leaf));
  WEIR_TRY(const std::uint64_t size, f->size());
  return size > sizes_[leaf];
}

}  // namespace weir::storage
