// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads decoders of volumes.
///
/// Loading goes from cheap to expensive: the record of the model and its family are
/// checked before the weights are read and verified, so that a wrong model is refused at
/// once.
#include "texts/load.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/verbs.hpp"
#include "weir/base/system/processors.hpp"
#include "weir/base/text.hpp"
#include "weir/models/configs.hpp"

namespace weir::tools {

result<void> expect_family(const actors::model_record& record,
                           models::architecture family) {
  const models::architecture found = record.facts.family;
  if (found == family) {
    return {};
  }
  return error(errc::unsupported,
               fmt::format("cannot use model {}: expected architecture {}, found {}",
                           json_quote(record.tag), name_of(family), name_of(found)));
}

// The parts are moved into an object on the heap, where their addresses no longer change:
// the model that `decoder_of` makes refers to them.
result<std::unique_ptr<loaded_model>> load_decoder(const std::string& volume,
                                                   const std::string& tag,
                                                   unsigned workers) {
  WEIR_TRY(storage::hn4_volume mapped, map_model_volume(volume));
  WEIR_TRY(const std::string chosen, actors::choose_model(mapped, tag));
  WEIR_TRY(actors::model_in_volume stored, actors::model_in_volume::open(mapped, chosen));
  WEIR_CHECK(expect_family(stored.record(), models::architecture::llama));
  WEIR_TRY(formats::tokenizer tokens, stored.tokenizer());
  WEIR_TRY(auto weights, actors::model_weights::load(mapped, stored));
  runtime::engine_options options;
  options.workers = workers > 0 ? workers : std::max(1U, allowed_processors());
  // Nobody asks for the times of kernels here.
  options.kernel_time = false;
  WEIR_TRY(auto engine, runtime::engine::create(options));
  return std::make_unique<loaded_model>(
      loaded_model{std::move(mapped), std::move(stored), std::move(tokens),
                   std::move(weights), std::move(engine)});
}

// The facts of the record are checked once more when they become a configuration, because
// the record is data of a file.
result<std::unique_ptr<models::step_model>> decoder_of(
    loaded_model& model, const models::llama_options& options) {
  WEIR_TRY(const models::llama_config config,
           models::llama_config_of(model.stored.record().facts));
  return models::make_llama(*model.engine, config, *model.weights, options);
}

}  // namespace weir::tools
