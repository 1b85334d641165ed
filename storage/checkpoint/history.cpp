// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes the history of a run.
///
/// The section is a version, a count, and for each change the pulse, the token, and
/// three texts, each behind its length. The command `weir` shows it as the list of
/// settings that were changed when a run was resumed.
#include "weir/storage/run_history.hpp"

#include <fmt/core.h>

#include "weir/base/record.hpp"

namespace weir::storage {

namespace {

constexpr std::uint32_t history_version = 1;
/// Bytes of a change whose texts are empty. Used to refuse a count that the bytes cannot
/// hold.
constexpr std::size_t smallest_change = 16 + 3 * 4;

}  // namespace

/// The changes keep their order, which is the order of the resumptions.
byte_vector encode_history(std::span<const run_change> changes) {
  record_writer out;
  out.put(history_version);
  out.put(static_cast<std::uint32_t>(changes.size()));
  for (const run_change& one : changes) {
    out.put(one.pulse);
    out.put(one.token);
    out.put_text(one.key);
    out.put_text(one.from);
    out.put_text(one.to);
  }
  return std::move(out).take();
}

/// An absent section and one without bytes both mean that nothing was changed.
result<std::vector<run_change>> decode_history(bytes_view bytes) {
  std::vector<run_change> out;
  if (bytes.empty()) {
    return out;
  }
  record_reader from(bytes);
  const auto version = from.get<std::uint32_t>();
  // If the read has failed already, the error below is the better one.
  if (version != history_version && !from.failed()) {
    return error(errc::unsupported_version,
                 fmt::format("cannot read section {}: expected version {}, found {}",
                             section::history, history_version, version));
  }
  const std::size_t count = from.get_count<std::uint32_t>(smallest_change);
  for (std::size_t i = 0; i < count && !from.failed(); ++i) {
    run_change& one = out.emplace_back();
    one.pulse = from.get<std::uint64_t>();
    one.token = from.get<std::uint64_t>();
    one.key = from.get_text();
    one.from = from.get_text();
    one.to = from.get_text();
  }
  // Bytes behind the last change are an error, too.
  if (from.failed() || !from.rest().empty()) {
    return error(errc::corrupt,
                 fmt::format("cannot read section {}: expected {} changes and its end, "
                             "found {} bytes of another form",
                             section::history, count, bytes.size()));
  }
  return out;
}

}  // namespace weir::storage
