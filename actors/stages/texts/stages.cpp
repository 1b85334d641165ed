// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of texts by name.
///
/// Programs get these stages through `add_standard_stages`.
#include "stages/texts/factories.hpp"

namespace weir::actors {

const std::string_view embedding_example = R"([[stage]]
name = "lines"
use = "text.lines"
files = ["a.txt", "b.txt"]

[[stage]]
name = "tokens"
use = "text.tokens"
volume = "models.hn4"
tag = "encoder"
truncate = true

[[stage]]
name = "first"
use = "bert.layers"
volume = "models.hn4"
tag = "encoder"
layers = 1
from = "tokens.texts"

[[stage]]
name = "second"
use = "bert.layers"
volume = "models.hn4"
tag = "encoder"
first = 1
inlets = { texts = "tokens.texts", rows = "first.y" }

[[stage]]
name = "pool"
use = "bert.pool"
inlets = { texts = "tokens.texts", rows = "second.y" }

[[stage]]
name = "write"
use = "tgm.embeddings"
path = "embeddings.tgm"
inlets = { texts = "tokens.texts", rows = "pool.y" }
)";

result<void> add_text_stages(flow::catalog& to) {
  WEIR_CHECK(to.add("text.lines", make_text_lines));
  WEIR_CHECK(to.add("text.tokens", make_text_tokens));
  WEIR_CHECK(to.add("bert.layers", make_bert_layers));
  WEIR_CHECK(to.add("bert.pool", make_bert_pool));
  WEIR_CHECK(to.add("tgm.embeddings",
                    [](flow::described_stage& made, const given_settings& given) {
                      return make_tgm_embeddings(made, given);
                    }));
  return to.add("llama.answers", make_llama_answers);
}

}  // namespace weir::actors
