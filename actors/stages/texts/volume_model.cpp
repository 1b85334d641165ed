// SPDX-License-Identifier: Apache-2.0
/// @file
/// Opens models of volumes for stages of texts.
///
/// The volume is mapped into memory, so that weights are used in place. The object keeps
/// it open as long as the stage uses it.
#include "stages/texts/volume_model.hpp"

#include <fmt/format.h>

#include "stages/source_parts.hpp"
#include "weir/base/text.hpp"

namespace weir::actors {

/// Settings that all stages with a model share.
const settings_table<volume_model_settings>& volume_model_table() {
  static const settings_table<volume_model_settings> table = [] {
    settings_table<volume_model_settings> t("a model of a volume");
    t.add("volume", &volume_model_settings::volume, "HN4 volume with the model")
        .required()
        .path(path_use::input);
    t.add("tag", &volume_model_settings::tag,
          "tag of the model; empty: the only model of the volume");
    return t;
  }();
  return table;
}

/// Opens the model of a tag, or the only one. @param family  Refuses others, if it is
/// set.
result<volume_model> volume_model::open(const opening& run,
                                        const volume_model_settings& settings,
                                        std::optional<models::architecture> family) {
  WEIR_TRY(auto device, storage::open_mapped_device(path_of(run, settings.volume)));
  WEIR_TRY(storage::hn4_volume volume,
           storage::hn4_volume::open(std::move(device), storage::device_mode::read_only));
  WEIR_TRY(const std::string tag, choose_model(volume, settings.tag));
  WEIR_TRY(model_in_volume stored, model_in_volume::open(volume, tag));
  const models::architecture found = stored.record().facts.family;
  if (family && found != *family) {
    return error(errc::unsupported,
                 fmt::format("cannot use model {}: expected architecture {}, found {}",
                             json_quote(tag), name_of(*family), name_of(found)));
  }
  return volume_model{std::move(volume), std::move(stored)};
}

}  // namespace weir::actors
