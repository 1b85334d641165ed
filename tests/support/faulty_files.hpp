// SPDX-License-Identifier: Apache-2.0
/// @file
/// A file system in memory that fails when a test tells it to, and that computes every
/// state a crash could leave behind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "weir/base/file.hpp"

namespace weir::test {

/// Says which effects may be on the disk after a crash, among those that no sync has
/// forced there.
enum class disk_model {
  posix,  ///< any subset of the changes; names and contents are independent
  ext4,   ///< any subset of the data; changes of names in their order, and a sync of a
          ///< file forces all changes of names before it
};

/// Files by path.
using disk = std::map<std::string, byte_vector>;

enum class op_kind { open, read, write, resize, sync, rename, remove, list, sync_folder };

/// Behaves like a correct file system, records what is done, and fails where `fail` says.
///
/// Folders exist as soon as they are named. A failed sync drops the pending data as Linux
/// does: they stay readable, and no later sync brings them to the disk.
/// @threads{thread-compatible}
class faulty_files final : public file_system {
 public:
  faulty_files() = default;
  /// Starts with the files that a machine finds after a crash; all of them are durable.
  explicit faulty_files(const disk& found) {
    for (const auto& [path, content] : found) {
      const std::size_t inode = new_inode();
      inodes_[inode]->content = content;
      base_.names[path] = inode;
      base_.contents[inode] = content;
      names_[path] = inode;
    }
  }

  /// Called before every operation with its number (from 0); an error is returned instead
  /// of doing it. A failing write does half of its work first.
  std::function<std::optional<error>(std::size_t number, op_kind kind)> fail;
  /// Largest number of bytes that one read or write moves.
  std::size_t max_bytes = SIZE_MAX;
  /// Called after every operation that changes something, to look at the crash states of
  /// this instant.
  std::function<void()> after_change;

  [[nodiscard]] std::size_t operations() const noexcept { return operations_; }
  /// Returns the files that the running system sees, whether durable or not.
  [[nodiscard]] disk visible() const {
    disk out;
    for (const auto& [path, inode] : names_) {
      out[path] = inodes_[inode]->content;
    }
    return out;
  }

  /// Returns every state that a crash at this instant may leave, restricted to the paths
  /// that `matters` accepts.
  [[nodiscard]] std::set<disk> crash_states(
      disk_model model, const std::function<bool(const std::string&)>& matters) const {
    std::set<disk> out;
    for (const auto& names : possible_names(model)) {
      add_contents(names, matters, out);
    }
    return out;
  }

  result<std::unique_ptr<file>> open(const std::string& path, open_mode mode) override {
    if (auto e = step(op_kind::open)) {
      return std::move(*e);
    }
    auto found = names_.find(path);
    if (found == names_.end()) {
      if (mode == open_mode::read || mode == open_mode::read_write) {
        return error(errc::not_found, "cannot open \"" + path + "\": no such file");
      }
      const std::size_t inode = new_inode();
      found = names_.emplace(path, inode).first;
      record({effect_kind::link, path, "", inode, 0, {}, 0, false, false});
    } else if (mode == open_mode::create_new) {
      return error(errc::already_exists, "cannot open \"" + path + "\": file exists");
    }
    return std::unique_ptr<file>(std::make_unique<handle>(*this, found->second, path));
  }
  result<void> rename(const std::string& from, const std::string& to) override {
    if (auto e = step(op_kind::rename)) {
      return std::move(*e);
    }
    const auto found = names_.find(from);
    if (found == names_.end()) {
      return error(errc::not_found, "cannot rename \"" + from + "\": no such file");
    }
    const std::size_t inode = found->second;
    names_.erase(found);
    names_[to] = inode;
    record({effect_kind::rename, from, to, inode, 0, {}, 0, false, false});
    return {};
  }
  result<void> remove(const std::string& path) override {
    if (auto e = step(op_kind::remove)) {
      return std::move(*e);
    }
    if (names_.erase(path) == 0) {
      return error(errc::not_found, "cannot remove \"" + path + "\": no such file");
    }
    record({effect_kind::unlink, path, "", 0, 0, {}, 0, false, false});
    return {};
  }
  result<std::vector<std::string>> list(const std::string& folder) override {
    if (auto e = step(op_kind::list)) {
      return std::move(*e);
    }
    if (names_.count(folder) != 0) {
      return error(errc::io, "cannot list \"" + folder + "\": not a folder");
    }
    std::vector<std::string> out;
    for (const auto& [path, inode] : names_) {
      if (folder_of(path) == folder) {
        out.push_back(path.substr(folder.size() + 1));
      }
    }
    return out;
  }
  result<void> make_folder(const std::string&) override { return {}; }
  result<void> sync_folder(const std::string& folder) override {
    if (auto e = step(op_kind::sync_folder)) {
      return std::move(*e);
    }
    force([&](const effect& e) { return e.on_names() && folder_of(e.path) == folder; });
    return {};
  }
  bool exists(const std::string& path) override { return names_.count(path) != 0; }

 private:
  enum class effect_kind { link, unlink, rename, write, resize };
  /// An operation whose result is visible but not yet durable.
  struct effect {
    effect_kind kind;
    std::string path;
    std::string to;
    std::size_t inode;
    std::uint64_t offset;
    byte_vector bytes;
    std::uint64_t size;
    /// A change of a name that is certain to be on the disk under ext4.
    bool journalled = false;
    /// A sync has failed: the effect may be on the disk, but no later sync forces it
    /// there.
    bool lost = false;
    [[nodiscard]] bool on_names() const {
      return kind == effect_kind::link || kind == effect_kind::unlink ||
             kind == effect_kind::rename;
    }
  };
  struct inode_state {
    byte_vector content;
  };
  using name_map = std::map<std::string, std::size_t>;
  /// The names and contents that every crash leaves.
  struct durable {
    name_map names;
    std::map<std::size_t, byte_vector> contents;
  };

  /// An open file. It refers to its inode, so it survives a rename or a removal of its
  /// name.
  class handle final : public file {
   public:
    handle(faulty_files& fs, std::size_t inode, std::string path)
        : fs_(fs), inode_(inode), path_(std::move(path)) {}

    result<std::size_t> read_some(std::uint64_t offset, mutable_bytes to) override {
      if (auto e = fs_.step(op_kind::read)) {
        return std::move(*e);
      }
      const byte_vector& content = fs_.inodes_[inode_]->content;
      if (offset >= content.size()) {
        return std::size_t{0};
      }
      const std::size_t count = std::min(
          {to.size(), content.size() - static_cast<std::size_t>(offset), fs_.max_bytes});
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), count,
                  to.begin());
      return count;
    }
    result<std::size_t> write_some(std::uint64_t offset, bytes_view from) override {
      auto e = fs_.step(op_kind::write);
      const std::size_t count =
          std::min(e ? from.size() / 2 : from.size(), fs_.max_bytes);
      if (count > 0) {
        effect w{effect_kind::write, path_, "", inode_, offset, {}, 0, false, false};
        w.bytes.assign(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
        apply(fs_.inodes_[inode_]->content, w);
        fs_.record(std::move(w));
      }
      if (e) {
        return std::move(*e);
      }
      return count;
    }
    result<std::uint64_t> size() override {
      return std::uint64_t{fs_.inodes_[inode_]->content.size()};
    }
    result<void> resize(std::uint64_t bytes) override {
      if (auto e = fs_.step(op_kind::resize)) {
        return std::move(*e);
      }
      effect r{effect_kind::resize, path_, "", inode_, 0, {}, bytes, false, false};
      apply(fs_.inodes_[inode_]->content, r);
      fs_.record(std::move(r));
      return {};
    }
    result<void> sync() override {
      if (auto e = fs_.step(op_kind::sync)) {
        for (effect& pending : fs_.pending_) {
          pending.lost = pending.lost || (!pending.on_names() && pending.inode == inode_);
        }
        return std::move(*e);
      }
      fs_.sync_inode(inode_);
      return {};
    }
    const std::string& path() const noexcept override { return path_; }

   private:
    faulty_files& fs_;
    std::size_t inode_;
    std::string path_;
  };

  /// Applies a write or a resize to the content of a file.
  static void apply(byte_vector& content, const effect& e) {
    if (e.kind == effect_kind::resize) {
      content.resize(static_cast<std::size_t>(e.size));
      return;
    }
    const auto end = static_cast<std::size_t>(e.offset) + e.bytes.size();
    content.resize(std::max(content.size(), end));
    std::copy(e.bytes.begin(), e.bytes.end(),
              content.begin() + static_cast<std::ptrdiff_t>(e.offset));
  }
  /// Applies a change to the names.
  static void apply(name_map& names, const effect& e) {
    if (e.kind == effect_kind::link) {
      names[e.path] = e.inode;
    } else {
      names.erase(e.path);
    }
    if (e.kind == effect_kind::rename) {
      names[e.to] = e.inode;
    }
  }

  std::size_t new_inode() {
    inodes_.push_back(std::make_unique<inode_state>());
    return inodes_.size() - 1;
  }
  /// Counts an operation and returns the error that `fail` wants for it.
  std::optional<error> step(op_kind kind) {
    const std::size_t number = operations_++;
    return fail ? fail(number, kind) : std::nullopt;
  }
  /// Adds an effect that no sync has forced to the disk yet.
  void record(effect e) {
    pending_.push_back(std::move(e));
    if (after_change) {
      after_change();
    }
  }
  /// Makes the pending effects that `which` accepts durable, in their order.
  template <class Which>
  void force(Which which) {
    std::vector<effect> rest;
    for (effect& e : pending_) {
      if (!which(e)) {
        rest.push_back(std::move(e));
      } else if (e.on_names()) {
        apply(base_.names, e);
      } else {
        apply(base_.contents[e.inode], e);
      }
    }
    pending_ = std::move(rest);
    if (after_change) {
      after_change();
    }
  }
  /// Makes the data of an inode durable, except those that a failed sync has dropped.
  void sync_inode(std::size_t inode) {
    // In the journal of ext4 all names that were changed before this sync go to the disk
    // with it. POSIX promises nothing about names here.
    for (effect& e : pending_) {
      e.journalled = e.journalled || e.on_names();
    }
    force([&](const effect& e) { return !e.on_names() && e.inode == inode && !e.lost; });
  }

  /// Returns all states of the names that the model allows: prefixes of the changes under
  /// ext4, any subset of them under POSIX.
  [[nodiscard]] std::set<name_map> possible_names(disk_model model) const {
    std::vector<const effect*> changes;
    std::size_t certain = 0;  // number of changes that are on the disk under ext4
    for (const effect& e : pending_) {
      if (e.on_names()) {
        changes.push_back(&e);
        certain = e.journalled ? changes.size() : certain;
      }
    }
    std::set<name_map> out;
    if (model == disk_model::ext4) {
      for (std::size_t count = certain; count <= changes.size(); ++count) {
        name_map names = base_.names;
        std::for_each(changes.begin(),
                      changes.begin() + static_cast<std::ptrdiff_t>(count),
                      [&](const effect* e) { apply(names, *e); });
        out.insert(std::move(names));
      }
      return out;
    }
    for_each_subset(changes.size(), [&](std::uint64_t chosen) {
      name_map names = base_.names;
      for (std::size_t i = 0; i < changes.size(); ++i) {
        if ((chosen >> i & 1) != 0) {
          apply(names, *changes[i]);
        }
      }
      out.insert(std::move(names));
    });
    return out;
  }

  /// Adds all contents that the files under these names may have: any subset of the
  /// pending writes and resizes.
  void add_contents(const name_map& names,
                    const std::function<bool(const std::string&)>& matters,
                    std::set<disk>& out) const {
    std::set<std::size_t> reachable;
    for (const auto& [path, inode] : names) {
      if (matters(path)) {
        reachable.insert(inode);
      }
    }
    std::vector<const effect*> writes;
    for (const effect& e : pending_) {
      if (!e.on_names() && reachable.count(e.inode) != 0) {
        writes.push_back(&e);
      }
    }
    for_each_subset(writes.size(), [&](std::uint64_t chosen) {
      std::map<std::size_t, byte_vector> contents;
      for (const std::size_t inode : reachable) {
        const auto found = base_.contents.find(inode);
        contents[inode] = found == base_.contents.end() ? byte_vector() : found->second;
      }
      for (std::size_t i = 0; i < writes.size(); ++i) {
        if ((chosen >> i & 1) != 0) {
          apply(contents[writes[i]->inode], *writes[i]);
        }
      }
      disk state;
      for (const auto& [path, inode] : names) {
        if (matters(path)) {
          state[path] = contents[inode];
        }
      }
      out.insert(std::move(state));
    });
  }

  /// Calls `visit` with each subset of `count` effects as a bit mask.
  template <class Visit>
  static void for_each_subset(std::size_t count, Visit visit) {
    if (count > 16) {
      throw std::length_error("more than 16 effects are pending: too many crash states");
    }
    for (std::uint64_t chosen = 0; chosen < std::uint64_t{1} << count; ++chosen) {
      visit(chosen);
    }
  }

  std::vector<std::unique_ptr<inode_state>> inodes_;
  name_map names_;
  durable base_;
  std::vector<effect> pending_;
  std::size_t operations_ = 0;
};

}  // namespace weir::test
