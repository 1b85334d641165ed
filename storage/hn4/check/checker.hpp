// SPDX-License-Identifier: Apache-2.0
/// @file
/// The common state of the parts of a check.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "hn4/directory/directory.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::hn4 {

/// One check of one volume. The parts are called in the order of their declarations.
/// @threads{thread-compatible}
struct checker {
  explicit checker(core& volume, std::uint64_t size)
      : c(volume), device_size(size), buffer(volume.geometry.block) {}

  /// Place of a shard in the stream that a reader gets.
  struct stream_place {
    const std::string* tag = nullptr;
    /// Stream of the tag; if shards are lost, of the others.
    std::shared_ptr<const stream_map> map;
    std::uint64_t offset = 0;  ///< offset of the shard in the stream
  };

  core& c;
  std::uint64_t device_size;  ///< size of the image itself, whatever the superblock says
  hn4_check_report report;
  byte_vector buffer;                  ///< memory for one block
  std::vector<std::uint64_t> claimed;  ///< blocks of live shards and of their long names
  std::vector<std::uint64_t> idle;     ///< blocks of entries that no reader counts
  std::vector<std::uint64_t> broken;   ///< blocks that are damaged
  /// Blocks of the volume's own structures.
  block_bits reserved;
  std::vector<listed_tag> tags;
  std::map<std::uint64_t, stream_place> stream_places;  ///< by the slot of the shard
  std::set<std::uint64_t> repeated;  ///< slots of shards for which a newer entry stands
  std::set<std::uint64_t> ended;     ///< slots of live entries that no reader counts

  /// Adds a finding: something is wrong.
  void find(std::string kind, std::uint64_t offset, std::string text) {
    report.findings.push_back({std::move(kind), offset, std::move(text)});
  }
  /// Adds a note: something is unusual but allowed.
  void note(std::string kind, std::uint64_t offset, std::string text) {
    report.notes.push_back({std::move(kind), offset, std::move(text)});
  }
  /// Notes that a block is in use; `user` names the thing for messages.
  void claim(std::uint64_t block, const std::string& user);

  /// Compares the superblock, its copies and the layout with what a format writes.
  result<void> superblocks();
  /// Checks the ring of epochs.
  result<void> epoch();
  /// Checks the chain of the log.
  result<void> log();
  /// Checks the quality mask.
  result<void> quality();
  /// Checks the directory and determines the streams.
  result<void> directory();
  /// Checks every block of every live shard.
  result<void> blocks();
  /// Checks the bitmap.
  result<void> bitmap();
  /// Fills the map of the report.
  void draw();

 private:
  void fields();
  void zeros(bytes_view sb);
  void layout();
  void find_repeated();
  void find_unfinished();
  void slot_of(const entry& e, const std::vector<std::uint64_t>& occupied);
  void entry_of(const entry& e, const std::string& name);
  result<void> name_of(const entry& e, std::string& name);
  result<void> entries();
  void order_of(const listed_tag& tag);
  void losses_of(const listed_tag& tag);
  void tag_of(const listed_tag& tag);
  void place_shards(const listed_tag& tag);
  result<void> shard(const entry& e);
  bool block_is_good(const entry& e, std::uint64_t n, std::uint64_t block);
  [[nodiscard]] std::optional<std::string> why_unreadable(const entry& e,
                                                          std::uint64_t n);
  void lose(const entry& e, std::uint64_t n);
  std::optional<std::uint64_t> elsewhere(const entry& e, std::uint64_t n,
                                         std::uint64_t hinted);
  void bits_of_reserved();
  result<void> orphans();

  bool quiet = false;  ///< enough bad blocks of the present shard are listed
};

}  // namespace weir::storage::hn4
