// SPDX-License-Identifier: Apache-2.0
/// @file
/// Records digests of items.
///
/// A tap is a sink that is connected to an outlet beside the edges of the pipeline. It
/// does not change the items, and its records are part of the checkpoint, so a killed run
/// has each item once.
#include "prove/tap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <variant>

#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/pipeline/append_file.hpp"

namespace weir::tools {

namespace {

/// Returns type, shape and attributes of an item as text.
std::string head_of(const runtime::tensor& x, const attributes& about) {
  std::string head =
      fmt::format("{} {}", static_cast<int>(x.type()), fmt::join(x.shape(), ","));
  for (const auto& one : about) {
    // Attributes have values of several types, all of which can be formatted. Their order
    // is that of the item, which is sorted by name.
    std::visit([&](const auto& v) { head += fmt::format(" {}={}", one.first, v); },
               one.second);
  }
  return head;
}

/// Adds the bytes of a tensor to a digest, in row-major order.
/// A tensor with gaps between its rows must give the digest of one without.
void add_bytes(xxh3_stream& to, const runtime::tensor& x, std::size_t dimension,
               const std::byte* at) {
  const std::int64_t element = byte_size(x.type(), 1).value_or(1);
  // All indices are fixed, so one element is left.
  if (dimension == x.shape().size()) {
    to.update({at, static_cast<std::size_t>(element)});
    return;
  }
  for (std::int64_t i = 0; i < x.shape()[dimension]; ++i) {
    add_bytes(to, x, dimension + 1, at + i * x.strides()[dimension]);
  }
}

/// The sink `prove.tap`.
struct tap {
  struct settings {
    std::string path;
  };
  // The state of this stage in a checkpoint: the length of its file.
  using offset = append_file::offset;
  any_in x;
  append_file to;

  static void describe(stage_spec<tap>& s) {
    s.name(std::string(tap_name), "records a digest of each item");
    s.port("x", &tap::x);
    s.set("path", &settings::path, "file of the records")
        .required()
        .path(path_use::output);
  }
  result<void> open(opening& run, const settings& s) { return to.open(run, s.path); }
  result<void> put(taken& t) {
    xxh3_stream digest;
    // The head is part of the digest, since equal bytes with another shape are another
    // item.
    const runtime::tensor& item = t[x];
    digest.update(as_view(head_of(item, t.about())));
    // Most items have no gaps, and their bytes are one range.
    if (item.row_major()) {
      const auto size = byte_size(item.type(), item.count());
      digest.update({item.data(), static_cast<std::size_t>(size.value_or(0))});
    } else {
      add_bytes(digest, item, 0, item.data());
    }
    const tap_record record{t.seq(), digest.digest()};
    return to.append(std::as_bytes(std::span(&record, 1)));
  }
  // Before a checkpoint, everything is written. After a resume, the file is cut to the
  // length that the checkpoint knows.
  result<offset> settle() { return to.settle(); }
  result<void> rewind(offset where) { return to.rewind(where); }
};

}  // namespace

/// Does nothing if the catalog has the tap, because it refuses a second one.
result<void> add_tap(flow::catalog& to) {
  const auto known = to.names();
  return std::ranges::count(known, tap_name) != 0 ? result<void>() : to.add<tap>();
}

result<std::vector<tap_record>> read_tap(const std::string& path) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  // A record that was cut means that the run ended without its last checkpoint.
  if (content.size() % sizeof(tap_record) != 0) {
    return error(errc::torn,
                 fmt::format("cannot read \"{}\": expected records of {} bytes, found {} "
                             "bytes",
                             path, sizeof(tap_record), content.size()));
  }
  std::vector<tap_record> records(content.size() / sizeof(tap_record));
  // `memcpy` must not get null pointers, which an empty vector may have.
  if (!records.empty()) {
    std::memcpy(records.data(), content.data(), content.size());
  }
  return records;
}

}  // namespace weir::tools
