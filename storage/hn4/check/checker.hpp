// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the parts of a check share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "hn4/directory/directory.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::hn4 {

/// One check of one volume.
/// @threads{thread-compatible}
struct checker {
  explicit checker(core& volume, std::uint64_t size)
      : c(volume), device_size(size), buffer(volume.geometry.block) {}

  /// Where the bytes of a shard are in what a reader gets of its tag.
  struct stream_place {
    const std::string* tag = nullptr;
    std::shared_ptr<const stream_map> map;  ///< of what is left, if some is lost
    std::uint64_t offset = 0;
  };

  core& c;
  std::uint64_t device_size;  ///< of the image itself, whatever the superblock says
  hn4_check_report report;
  byte_vector buffer;                  ///< one block
  std::vector<std::uint64_t> claimed;  ///< blocks of live shards and their names
  std::vector<std::uint64_t> idle;     ///< blocks of entries that no reader counts
  std::vector<std::uint64_t> broken;   ///< blocks that are not what they should be
  block_bits reserved;
  std::vector<listed_tag> tags;
  std::map<std::uint64_t, stream_place> stream_places;  ///< by slot of the shard
  std::set<std::uint64_t> repeated;  ///< slots of shards that a newer entry stands for
  std::set<std::uint64_t> ended;     ///< slots of live entries that no reader counts

  void find(std::string kind, std::uint64_t offset, std::string text) {
    report.findings.push_back({std::move(kind), offset, std::move(text)});
  }
  void note(std::string kind, std::uint64_t offset, std::string text) {
    report.notes.push_back({std::move(kind), offset, std::move(text)});
  }
  void claim(std::uint64_t block, const std::string& what);

  result<void> superblocks();
  result<void> epoch();
  result<void> log();
  result<void> quality();
  result<void> directory();
  result<void> blocks();
  result<void> bitmap();
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

  bool quiet = false;  // enough bad blocks of one shard are listed
};

}  // namespace weir::storage::hn4
