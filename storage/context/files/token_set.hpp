// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ids of several files, or of a tag of several volumes, as one source.
#pragma once

#include <map>

#include "context/files/layout.hpp"
#include "context/identity.hpp"

namespace weir::storage {

/// Returns the tokens per digest of a source above the limit of digests, so that a state
/// holds at most 512 of them.
[[nodiscard]] std::uint64_t consumed_segment(std::uint64_t tokens);
/// Widens ids to 32 bits and returns the largest. Those that do not fit, and negative
/// ones, become numbers that no vocabulary has.
[[nodiscard]] std::uint32_t widen_ids(id_encoding ids, bytes_view from,
                                      std::span<std::uint32_t> to);

/// Ids of files one after another, with or without separators between documents.
///
/// The source is a sequence of runs of ids; `runs_` has the index of the first token of
/// each, so a bisection finds the run of a token. Ranges that are left out divide runs.
class token_set final : public token_source {
 public:
  /// Keeps what `attach` needs.
  token_set(file_system& fs, std::vector<std::string> paths, token_file_options options)
      : fs_(fs),
        leaves_(fs, std::move(paths), options.tag),
        options_(std::move(options)) {}

  /// Reads headers, determines size and identity, and finds damage if it is skipped.
  [[nodiscard]] result<void> attach();

  std::uint64_t size() const noexcept override { return size_; }
  const source_identity& identity() const noexcept override { return identity_; }
  std::uint32_t separator() const noexcept override { return separator_; }
  std::uint32_t vocabulary() const noexcept override;
  result<std::size_t> read(std::uint64_t index, std::span<std::uint32_t> to) override;
  std::string place_text(std::uint64_t index) const override;
  place place_of(std::uint64_t index) const override;
  result<std::uint64_t> next_document(std::uint64_t index) override;
  result<byte_vector> state(std::uint64_t index) const override;
  result<void> restore_state(std::uint64_t index, bytes_view state) override;
  result<void> go_on_at(std::uint64_t index) override;
  std::vector<left_out_range> left_out(std::uint64_t index) const override;

 private:
  /// Ids that lie one behind another in a leaf.
  struct run {
    std::uint64_t start = 0;   ///< index of the first token
    std::uint64_t byte = 0;    ///< its offset in the leaf
    std::uint64_t tokens = 0;  ///< without the separator
    std::uint64_t leaf = 0;
    bool separated = false;  ///< a separator follows
  };

  // token_set.cpp
  [[nodiscard]] result<void> read_layouts();
  [[nodiscard]] result<void> choose_ids();
  [[nodiscard]] result<void> place_runs();
  void add_part(std::uint64_t leaf, std::uint64_t begin, std::uint64_t end, bool ends);
  [[nodiscard]] std::size_t run_of(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t byte_in(const run& r, std::uint64_t token) const {
    return r.byte + token * layouts_[r.leaf].ids.bytes;
  }
  [[nodiscard]] result<void> read_ids(std::size_t leaf, std::uint64_t byte,
                                      std::span<std::uint32_t> to);
  [[nodiscard]] result<std::size_t> read_joined(std::uint64_t index,
                                                std::span<std::uint32_t> to);
  [[nodiscard]] std::uint32_t rule() const;

  // checks.cpp
  [[nodiscard]] result<void> check_again(std::size_t leaf, std::uint64_t index,
                                         std::size_t count);
  [[nodiscard]] result<void> check_segment(std::size_t leaf, std::uint64_t byte,
                                           std::uint64_t number, std::uint64_t expected,
                                           std::int64_t time);
  [[nodiscard]] result<void> digest_until(std::uint64_t index);
  [[nodiscard]] error changed(std::size_t leaf, std::uint64_t byte) const;

  // damage.cpp
  [[nodiscard]] result<void> find_damage();
  [[nodiscard]] result<void> look_at(std::uint64_t leaf, const token_run& r);
  [[nodiscard]] result<void> look_at_ids(std::uint64_t leaf, std::uint64_t byte,
                                         std::uint64_t count);
  [[nodiscard]] result<void> add_damage(std::uint64_t leaf, std::uint64_t byte,
                                        std::uint64_t bytes);
  [[nodiscard]] result<void> take_known(std::uint64_t index, left_out_list known);
  [[nodiscard]] result<void> leave_out(std::uint64_t index);
  [[nodiscard]] result<std::vector<left_out_range>> ranges_of(
      const file_range& asked) const;
  [[nodiscard]] result<left_out_range> range_in(std::uint64_t leaf,
                                                const file_range& asked) const;
  [[nodiscard]] std::uint64_t first_token_in(const left_out_range& range) const;

  file_system& fs_;
  token_leaves leaves_;
  token_file_options options_;
  std::vector<leaf_layout> layouts_;  ///< one for each leaf
  std::uint64_t vocabulary_ = 0;      ///< ids of the files are smaller
  std::uint32_t separator_ = 0;       ///< id between documents
  bool separator_in_files_ = false;   ///< true if files can hold it
  left_out_list left_out_;            ///< ranges that are left out
  std::vector<run> runs_;
  std::uint64_t size_ = 0;
  source_identity identity_;
  byte_vector bytes_;  ///< bytes of the last read, kept to avoid an allocation

  /// Tokens per entry of `digests_`; 0 if the identity has digests of all segments.
  std::uint64_t segment_tokens_ = 0;
  std::vector<std::uint64_t> digests_;  ///< of consumed segments, from the first on
  /// By segment: time of the last change of the file at which its digest was compared.
  /// Digests of a restored state have not been compared.
  std::map<std::uint64_t, std::int64_t> compared_;
  bool comparing_ = false;
};

}  // namespace weir::storage
