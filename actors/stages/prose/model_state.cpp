// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names, bytes and hash of a model's state.
///
/// A section is a group of regions that the model copies together. The names are part of
/// the format of checkpoints.
#include "stages/prose/model_state.hpp"

#include <fmt/core.h>

#include "weir/base/hash.hpp"

namespace weir::actors {

/// Returns the name of a section in a checkpoint.
std::string section_name(const models::state_section& section) {
  switch (section.kind) {
    case models::region_kind::parameter: return "PARAM";
    case models::region_kind::moment: return "MOMENT";
    case models::region_kind::error_buffer: return "ERRBUF";
    case models::region_kind::counter: return "LEVEL_STEPS";
    case models::region_kind::context: return fmt::format("CTX/lane/{}", section.lane);
  }
  return "UNKNOWN";
}

/// Returns whether the name is one that `section_name` makes.
bool is_of_model(std::string_view part) noexcept {
  return part == "PARAM" || part == "MOMENT" || part == "ERRBUF" ||
         part == "LEVEL_STEPS" || part.starts_with("CTX/");
}

/// Fills all sections of a model. `part` returns the bytes of a section by its name.
result<void> restore_model(
    models::prose& model,
    const std::function<result<bytes_view>(const std::string&)>& part) {
  for (const models::state_section& section : model.sections()) {
    const std::string name = section_name(section);
    WEIR_TRY(const bytes_view stored, part(name));
    // Another size means that the model has other settings.
    if (stored.size() != section.bytes) {
      return error(errc::config_mismatch,
                   fmt::format("restoring section {} failed: expected {} bytes, found {}",
                               name, section.bytes, stored.size()));
    }
    WEIR_CHECK(model.restore(section.kind, section.lane, stored));
  }
  return {};
}

/// Hash over the state of the model and the cursor, in this order.
std::uint64_t state_hash_of(std::uint64_t model_hash, bytes_view cursor) {
  std::byte raw[8];
  store_le(raw, model_hash);
  xxh3_stream hash;
  hash.update(raw);
  hash.update(cursor);
  return hash.digest();
}

}  // namespace weir::actors
