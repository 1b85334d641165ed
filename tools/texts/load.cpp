// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads models and makes encoders and decoders of their facts.
#include "texts/load.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/verbs.hpp"
#include "weir/base/system/processors.hpp"
#include "weir/base/text.hpp"
#include "weir/models/configs.hpp"

namespace weir::tools {

result<std::unique_ptr<loaded_model>> load_model(const std::string& volume,
                                                 const std::string& tag,
                                                 models::architecture family,
                                                 unsigned workers) {
  WEIR_TRY(storage::hn4_volume mapped, map_model_volume(volume));
  WEIR_TRY(const std::string chosen, actors::choose_model(mapped, tag));
  WEIR_TRY(actors::model_in_volume stored, actors::model_in_volume::open(mapped, chosen));
  const models::architecture found = stored.record().facts.family;
  if (found != family) {
    return error(errc::unsupported,
                 fmt::format("cannot use model {}: expected architecture {}, found {}",
                             json_quote(chosen), name_of(family), name_of(found)));
  }
  WEIR_TRY(formats::tokenizer tokens, stored.tokenizer());
  WEIR_TRY(auto weights, actors::model_weights::load(mapped, stored));
  runtime::engine_options options;
  options.workers = workers > 0 ? workers : std::max(1U, allowed_processors());
  options.kernel_time = false;
  WEIR_TRY(auto engine, runtime::engine::create(options));
  return std::make_unique<loaded_model>(
      loaded_model{std::move(mapped), std::move(stored), std::move(tokens),
                   std::move(weights), std::move(engine)});
}

result<std::unique_ptr<models::encoder>> encoder_of(loaded_model& model) {
  const models::stored_facts& facts = model.stored.record().facts;
  if (facts.pool == models::pooling::first) {
    return error(errc::unsupported,
                 fmt::format("cannot use model {}: expected the mean of the rows as "
                             "pooling, found the row of the first token",
                             json_quote(model.stored.record().tag)));
  }
  WEIR_TRY(const models::bert_config config, models::bert_config_of(facts));
  models::bert_options options;
  options.max_rows = std::max(options.max_rows, config.max_tokens);
  return models::make_bert(*model.engine, config, *model.weights, options);
}

result<std::unique_ptr<models::step_model>> decoder_of(
    loaded_model& model, const models::llama_options& options) {
  WEIR_TRY(const models::llama_config config,
           models::llama_config_of(model.stored.record().facts));
  return models::make_llama(*model.engine, config, *model.weights, options);
}

}  // namespace weir::tools
