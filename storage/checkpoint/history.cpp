// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encodes and decodes the history of a run.
#include "weir/storage/run_history.hpp"

#include <fmt/core.h>

#include "weir/base/record.hpp"

namespace weir::storage {

namespace {

constexpr std::uint32_t history_version = 1;
/// Bytes of a change whose texts are empty.
constexpr std::size_t smallest_change = 16 + 3 * 4;

}  // namespace

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

result<std::vector<run_change>> decode_history(bytes_view bytes) {
  std::vector<run_change> out;
  if (bytes.empty()) {
    return out;
  }
  record_reader from(bytes);
  const auto version = from.get<std::uint32_t>();
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
  if (from.failed() || !from.rest().empty()) {
    return error(errc::corrupt,
                 fmt::format("cannot read section {}: expected {} changes and its end, "
                             "found {} bytes of another form",
                             section::history, count, bytes.size()));
  }
  return out;
}

}  // namespace weir::storage
