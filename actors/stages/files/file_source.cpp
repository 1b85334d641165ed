// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source that makes one item of each file of a list.
#include "stages/files/file_source.hpp"

#include "weir/base/hash.hpp"

namespace weir::actors {

error too_large(std::string_view thing, std::uint64_t limit, std::uint64_t found) {
  return error(errc::out_of_range,
               fmt::format("cannot read {}: expected at most {} bytes, found {}", thing,
                           limit, found))
      .hint("set max_bytes to a larger number, if the data are what you expect");
}

error in_file(std::string_view stage, const std::string& path, const error& cause) {
  return error(cause.code(), fmt::format("cannot read a file as an item of {}", stage))
      .located(path)
      .because(cause);
}

result<void> file_source::open(opening& run) {
  WEIR_TRY(files_, file_list::find(fs_, path_of(run, files_settings_.path),
                                   files_settings_.pattern, files_settings_.order));
  return {};
}

result<bool> file_source::next(pull& p) {
  if (at_.next == files_.size()) {
    return false;
  }
  const std::string& path = files_.path(at_.next);
  WEIR_TRY(const auto f, fs_.open(path, open_mode::read));
  WEIR_TRY(const std::uint64_t size, f->size());
  if (size > max_bytes()) {
    return in_file(name_, path, too_large("the file", max_bytes(), size));
  }
  const auto digest = load(p, *f, size);
  if (!digest) {
    return in_file(name_, path, digest.error());
  }
  attribute_collector about(p.emitted());
  about.add("file", files_.name(at_.next));
  ++at_.next;
  at_.identity = files_.identity(at_.next);
  at_.size = size;
  at_.digest = *digest;
  return true;
}

flow::small_record file_source::position() const {
  return flow::small_record::holding(at_);
}

result<void> file_source::seek(bytes_view stored) {
  WEIR_TRY(const auto where, record_of<cursor>(stored, name_, "cursor"));
  if (where.next > files_.size()) {
    return too_short(name_, files_settings_.path, where.next, files_.size(), "files");
  }
  if (where.identity != files_.identity(where.next)) {
    return other_data(name_, files_settings_.path,
                      "files of the names that the run has read before", "others");
  }
  if (where.next != 0) {
    const std::string& path = files_.path(where.next - 1);
    WEIR_TRY(const auto f, fs_.open(path, open_mode::read));
    WEIR_TRY(const std::uint64_t size, f->size());
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
