// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source that makes one item of each file of a list.
///
/// The position of such a source is the number of files, with the digest of their names
/// and the size and digest of the last file. `seek` compares all of it, so that a resumed
/// run does not silently read other data.
#include "stages/files/file_source.hpp"

#include "weir/base/hash.hpp"

namespace weir::actors {

/// The size is known from a header or the file system, before any memory is taken.
error too_large(std::string_view thing, std::uint64_t limit, std::uint64_t found) {
  return error(errc::out_of_range,
               fmt::format("cannot read {}: expected at most {} bytes, found {}", thing,
                           limit, found))
      .hint("set max_bytes to a larger number, if the data are what you expect");
}

/// The code of the cause stays.
error in_file(std::string_view stage, const std::string& path, const error& cause) {
  return error(cause.code(), fmt::format("cannot read a file as an item of {}", stage))
      .located(path)
      .because(cause);
}

/// Lists the files. They are opened one by one in `next`.
result<void> file_source::open(opening& run) {
  WEIR_TRY(files_, file_list::find(fs_, path_of(run, files_settings_.path),
                                   files_settings_.pattern, files_settings_.order));
  return {};
}

/// Makes an item of the next file. A file that fails stays the next one.
result<bool> file_source::next(pull& p) {
  // All files have been read.
  if (at_.next == files_.size()) {
    return false;
  }
  const std::string& path = files_.path(at_.next);
  WEIR_TRY(const auto f, open_no_pipe(fs_, path));
  // The size is checked before the subclass takes memory.
  WEIR_TRY(const std::uint64_t size, f->size());
  if (size > max_bytes()) {
    return in_file(name_, path, too_large("the file", max_bytes(), size));
  }
  const auto digest = load(p, *f, size);
  if (!digest) {
    return in_file(name_, path, digest.error());
  }
  // Attributes are added last; the subclass may have added some.
  attribute_collector about(p.emitted());
  about.add("file", files_.name(at_.next));
  ++at_.next;
  // The cursor stands behind this file.
  at_.identity = files_.identity(at_.next);
  at_.size = size;
  at_.digest = *digest;
  return true;
}

flow::small_record file_source::position() const {
  return flow::small_record::holding(at_);
}

/// Continues behind the files that a cursor covers.
result<void> file_source::seek(bytes_view stored) {
  // The record has the size of the cursor, or is damaged.
  WEIR_TRY(const auto where, record_of<cursor>(stored, name_, "cursor"));
  if (where.next > files_.size()) {
    return too_short(name_, files_settings_.path, where.next, files_.size(), "files");
  }
  // The names before the cursor must be the same; further files may follow.
  if (where.identity != files_.identity(where.next)) {
    return other_data(name_, files_settings_.path,
                      "files of the names that the run has read before", "others");
  }
  if (where.next != 0) {
    const std::string& path = files_.path(where.next - 1);
    WEIR_TRY(const auto f, open_no_pipe(fs_, path));
    WEIR_TRY(const std::uint64_t size, f->size());
    // The last file must not have grown or changed; a shorter one is found below.
    if (size > where.size) {
      return other_data(name_, path, fmt::format("{} bytes", where.size),
                        fmt::format("{}", size));
    }
    WEIR_CHECK(verify_block({where.size, where.size, where.digest}, size, name_, path,
                            [&](std::uint64_t offset, mutable_bytes to) {
                              return read_exactly(*f, offset, to);
                            }));
  }
  at_ = where;
  return {};
}

}  // namespace weir::actors
