// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the bytes of one file, or of several files one after another, as tokens.
///
/// The set is one sequence of tokens: the bytes of the files in order, with a separator
/// behind each file but the last if documents are separated. `starts_` has the index of
/// the first token of each file. Only a few files are open at a time; the one that was
/// unused longest is closed for another.
#include <fmt/core.h>

#include <algorithm>

#include "context/identity.hpp"
#include "weir/base/file_times.hpp"

namespace weir::storage {

namespace {

/// Number of files that are kept open. A set may hold more files than a process may open.
constexpr std::size_t open_files = 16;

/// Wraps the error of a file that could not be opened.
error unavailable(const std::string& path, error cause) {
  return error(errc::source_unavailable, fmt::format("cannot attach source \"{}\"", path))
      .located(path)
      .because(std::move(cause));
}

/// Files one after another, with or without `end_of_text` between them.
class file_tokens final : public token_source {
 public:
  file_tokens(file_system& fs, std::vector<std::string> paths, source_options options)
      : fs_(fs), paths_(std::move(paths)), options_(options) {}

  /// Determines sizes and identity. Sizes are taken once: a file that grows later does
  /// not change the sequence.
  result<void> attach() {
    std::vector<source_leaf> leaves;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      WEIR_TRY(const std::uint64_t size, measure(paths_[i]));
      if (!checked_add(bytes, size, bytes) || bytes >> 62 != 0) {
        return error(errc::source_unavailable,
                     fmt::format("cannot attach source \"{}\": the set is too large",
                                 paths_[i]))
            .located(paths_[i]);
      }
      times_.push_back(modification_time(paths_[i]));
      starts_.push_back(size_);
      sizes_.push_back(size);
      size_ += size + (separates(i) ? 1 : 0);
      leaves.push_back(make_leaf(paths_[i], size));
    }
    identity_.tokens = size_;
    set_leaves(identity_, std::move(leaves), options_.separate_documents ? 1 : 0);
    return bytes <= options_.digest_limit ? digest_content(*this, identity_)
                                          : result<void>();
  }

  std::uint64_t size() const noexcept override { return size_; }
  const source_identity& identity() const noexcept override { return identity_; }

  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override {
    std::size_t done = 0;
    while (done < to.size() && index + done < size_) {
      const std::size_t leaf = leaf_of(index + done);
      const std::uint64_t byte = index + done - starts_[leaf];
      if (byte == sizes_[leaf]) {
        to[done++] = end_of_text;
        continue;
      }
      const auto count = static_cast<std::size_t>(
          std::min<std::uint64_t>(to.size() - done, sizes_[leaf] - byte));
      WEIR_CHECK(read_bytes(leaf, byte, to.subspan(done, count)));
      done += count;
    }
    return done;
  }

  std::string place_text(std::uint64_t index) const override {
    const place p = place_of(index);
    return fmt::format("{}:{}", paths_[p.leaf], p.byte);
  }
  place place_of(std::uint64_t index) const override {
    const std::size_t leaf = leaf_of(std::min(index, size_));
    return {leaf, std::min(index, size_) - starts_[leaf]};
  }
  result<std::uint64_t> next_document(std::uint64_t index) override {
    if (!options_.separate_documents) {
      return index == 0 ? 0 : size_;
    }
    const auto next = std::lower_bound(starts_.begin(), starts_.end(), index);
    return next == starts_.end() ? size_ : *next;
  }

 private:
  /// An open file and the time of its last use.
  struct slot {
    std::size_t leaf = 0;
    std::uint64_t used = 0;
    std::unique_ptr<file> f;
  };

  /// Returns whether `end_of_text` follows a file.
  bool separates(std::size_t leaf) const {
    return options_.separate_documents && leaf + 1 < paths_.size();
  }
  /// Returns the number of the file that holds a token. A separator belongs to the file
  /// before it.
  std::size_t leaf_of(std::uint64_t index) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
    return static_cast<std::size_t>(after - starts_.begin()) - 1;
  }

  /// Returns the size of a file, which must not be empty: every file has a first token.
  result<std::uint64_t> measure(const std::string& path) {
    auto opened = fs_.open(path, open_mode::read);
    if (!opened) {
      return unavailable(path, std::move(opened).error());
    }
    auto size = (*opened)->size();
    if (!size) {
      return unavailable(path, std::move(size).error());
    }
    if (*size == 0) {
      return error(errc::source_unavailable,
                   fmt::format(
                       "cannot attach source \"{}\": expected at least 1 byte, found 0",
                       path))
          .located(path)
          .hint("leave the empty file out");
    }
    return *size;
  }

  /// Returns an open file. If too many are open, it replaces the one that was unused
  /// longest.
  result<file*> file_of(std::size_t leaf) {
    slot* oldest = nullptr;
    for (slot& s : slots_) {
      if (s.leaf == leaf) {
        s.used = ++clock_;
        return s.f.get();
      }
      if (oldest == nullptr || s.used < oldest->used) {
        oldest = &s;
      }
    }
    auto opened = fs_.open(paths_[leaf], open_mode::read);
    if (!opened) {
      return unavailable(paths_[leaf], std::move(opened).error());
    }
    slot fresh{leaf, ++clock_, std::move(*opened)};
    if (slots_.size() < open_files) {
      slots_.push_back(std::move(fresh));
      return slots_.back().f.get();
    }
    *oldest = std::move(fresh);
    return oldest->f.get();
  }

  /// Reads bytes of one file as tokens.
  result<void> read_bytes(std::size_t leaf, std::uint64_t byte,
                          std::span<std::uint32_t> to) {
    WEIR_TRY(file* const f, file_of(leaf));
    bytes_.resize(to.size());
    if (auto read = read_exactly(*f, byte, bytes_); !read) {
      return error(errc::source_unavailable,
                   fmt::format(
                       "cannot read source \"{}\": expected {} bytes as when it was "
                       "attached",
                       paths_[leaf], sizes_[leaf]))
          .located(fmt::format("{}:{}", paths_[leaf], byte))
          .because(std::move(read).error());
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = std::to_integer<std::uint32_t>(bytes_[i]);
    }
    // The time is taken after the bytes, so that it shows every change that they contain.
    const std::int64_t time = modification_time(paths_[leaf]);
    if (time == times_[leaf] || comparing_) {
      return {};
    }
    comparing_ = true;
    auto same = compare_changed(leaf, time, byte, to.size());
    comparing_ = false;
    return same;
  }

  /// Compares what a changed file holds with the digests that were taken at first.
  result<void> compare_changed(std::size_t leaf, std::int64_t time, std::uint64_t byte,
                               std::size_t count) {
    if (identity_.segments.empty()) {
      WEIR_TRY(file* const f, file_of(leaf));
      WEIR_TRY(const std::uint64_t size, f->size());
      return size > sizes_[leaf] ? result<void>() : changed(leaf, byte);
    }
    compared_.resize(identity_.segments.size());
    const std::uint64_t length = identity_.segment_tokens;
    const std::uint64_t first = starts_[leaf] + byte;
    for (std::uint64_t i = first / length; i * length < first + count; ++i) {
      if (compared_[i] == time) {
        continue;
      }
      const std::uint64_t start = i * length;
      WEIR_TRY(const std::uint64_t digest,
               digest_tokens(*this, start, std::min(size_, start + length)));
      if (digest != identity_.segments[i]) {
        return changed(leaf, byte);
      }
      compared_[i] = time;
    }
    return {};
  }
  error changed(std::size_t leaf, std::uint64_t byte) const {
    return error(errc::history_mismatch,
                 fmt::format("cannot read source \"{}\": expected its bytes as when it "
                             "was attached, found others",
                             paths_[leaf]))
        .located(fmt::format("{}:{}", paths_[leaf], byte))
        .hint("restore the file and resume the run; write later text to another file");
  }

  file_system& fs_;
  std::vector<std::string> paths_;
  source_options options_;
  std::vector<std::uint64_t> starts_;  ///< index of the first token of every file
  std::vector<std::uint64_t> sizes_;
  std::vector<std::int64_t> times_;  ///< modification times when it was attached
  /// By segment: the modification time at which its digest was compared last.
  std::vector<std::int64_t> compared_;
  bool comparing_ = false;
  std::uint64_t size_ = 0;
  source_identity identity_;
  std::vector<slot> slots_;
  std::uint64_t clock_ = 0;  ///< counts uses; orders the open files by their last use
  byte_vector bytes_;        ///< bytes of the last read, kept to avoid an allocation
};

}  // namespace

result<std::unique_ptr<token_source>> open_file_set(file_system& fs,
                                                    std::vector<std::string> paths,
                                                    source_options options) {
  if (paths.empty()) {
    return error(errc::invalid_argument,
                 "cannot attach a set of files: expected at least 1, found 0");
  }
  auto source = std::make_unique<file_tokens>(fs, std::move(paths), options);
  WEIR_CHECK(source->attach());
  return std::unique_ptr<token_source>(std::move(source));
}

result<std::unique_ptr<token_source>> open_file_source(file_system& fs,
                                                       const std::string& path,
                                                       source_options options) {
  return open_file_set(fs, {path}, options);
}

}  // namespace weir::storage
