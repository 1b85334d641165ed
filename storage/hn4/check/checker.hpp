// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the parts of a check share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "hn4/core.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::hn4 {

/// One check of one volume.
/// @threads{thread-compatible}
struct checker {
  explicit checker(core& volume, std::uint64_t size)
      : c(volume), device_size(size), buffer(volume.geometry.block) {}

  core& c;
  std::uint64_t device_size;  ///< of the image itself, whatever the superblock says
  hn4_check_report report;
  byte_vector buffer;                  ///< one block
  std::vector<std::uint64_t> claimed;  ///< blocks of live shards and their names
  std::vector<std::uint64_t> broken;   ///< blocks that are not what they should be
  block_bits reserved;
  std::set<std::uint64_t> repeated;  ///< slots of shards that a newer entry stands for

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
  void slot_of(const entry& e, const std::vector<std::uint64_t>& occupied);
  void entry_of(const entry& e, const std::string& name);
  result<void> name_of(const entry& e, std::string& name);
  void order_of(const std::string& tag, std::vector<entry> shards);
  result<void> shard(const entry& e);
  bool block_is_good(const entry& e, std::uint64_t n, std::uint64_t block);
  std::optional<std::uint64_t> elsewhere(const entry& e, std::uint64_t n,
                                         std::uint64_t hinted);
  void bits_of_reserved();
};

}  // namespace weir::storage::hn4
