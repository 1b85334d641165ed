// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sections of a checkpoint, and reading of the sections that neither the model nor
/// the stream reads itself.
#include "checkpointer/contents.hpp"

#include "orchestrator/prose_runner.hpp"
#include "weir/base/hash.hpp"

namespace weir::actors {

std::uint64_t state_hash_of(bytes_view snapshot, const storage::stream_cursor& cursor) {
  return state_hash_of(xxh3_64(snapshot), storage::encode(cursor));
}

std::uint64_t state_hash_of(std::uint64_t snapshot_hash, bytes_view cursor) {
  std::byte raw[8];
  store_le(raw, snapshot_hash);
  xxh3_stream hash;
  hash.update(raw);
  hash.update(cursor);
  return hash.digest();
}

/// Puts the sections of a checkpoint together. Most of them are views of the order; only
/// what has to be encoded has memory of its own.
checkpoint_contents::checkpoint_contents(const save_order& order)
    : stream(storage::sections_of(order.cursor)),
      conductor(storage::conductor_section(order.snapshot->pulses, order.conductor)),
      hashes(16) {
  const bytes_view snapshot = order.snapshot->bytes;
  store_le(hashes.data(), state_hash_of(snapshot, order.cursor));
  store_le(hashes.data() + 8, order.cursor.history_hash);
  sections.push_back({std::string(storage::section::config), as_view(order.config)});
  sections.push_back({std::string(storage::section::conductor), conductor});
  for (auto& section : stream.sections()) {
    sections.push_back(std::move(section));
  }
  for (const models::state_section& part : order.sections) {
    sections.push_back({section_name(part), snapshot.subspan(part.offset, part.bytes)});
  }
  sections.push_back({"HASHES", hashes});
  sections.push_back({"BUILD_ID", as_view(order.build)});
  sections.push_back({"METRICS", order.metrics});
}

/// Reads from a checkpoint what a resumed run needs. BUILD_ID and METRICS may be absent;
/// then the defaults count. The pulse of the CONDUCTOR section must be the one in the
/// header of the file, since both describe the same state.
result<stored_run> read_run(const storage::checkpoint& from) {
  stored_run run;
  WEIR_TRY(const auto* config, from.find(storage::section::config));
  run.config = as_text(config->data);
  if (from.has("BUILD_ID")) {
    WEIR_TRY(const auto* build, from.find("BUILD_ID"));
    run.build = as_text(build->data);
  }
  auto record = decode_conductor(from.conductor());
  if (!record) {
    return error(record.error()).located(from.path());
  }
  run.record = std::move(*record);
  if (run.record.pulses != from.header().pulse_id) {
    return error(errc::corrupt,
                 "reading section CONDUCTOR failed: expected the pulse of the file, "
                 "found another one")
        .located(from.path());
  }
  if (from.has("METRICS")) {
    WEIR_TRY(const auto* metrics, from.find("METRICS"));
    auto accounts = decode_accounts(metrics->data);
    if (!accounts) {
      return error(accounts.error()).located(from.path());
    }
    run.accounts = std::move(*accounts);
  }
  return run;
}

}  // namespace weir::actors
