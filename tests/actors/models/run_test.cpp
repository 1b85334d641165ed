// SPDX-License-Identifier: Apache-2.0
/// @file
/// Models of volumes compute: the bits do not depend on the file that a model came from,
/// nor on the place of its panels.
#include "made_models.hpp"
#include "weir/actors/model_weights.hpp"
#include "weir/models/configs.hpp"
#include "weir/models/encoder.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::actors::made {
namespace {

/// Returns the logits behind a few tokens, or the embedding of them.
std::vector<float> computed(const model_in_volume& model, const model_weights& weights) {
  runtime::engine_options options;
  options.workers = 1;
  const auto engine = or_throw(runtime::engine::create(options));
  const models::stored_facts& facts = model.record().facts;
  const std::vector<std::uint32_t> tokens = {5, 2, 9, 4};
  if (facts.family == architecture::bert) {
    const auto encoder = or_throw(
        models::make_bert(*engine, or_throw(models::bert_config_of(facts)), weights));
    const models::token_run run{tokens};
    const auto ticket = or_throw(encoder->submit({&run, 1}));
    const auto rows = or_throw(encoder->rows(ticket));
    std::vector<float> out(rows.begin(), rows.end());
    or_throw(encoder->finish(ticket));
    return out;
  }
  const auto llama = or_throw(
      models::make_llama(*engine, or_throw(models::llama_config_of(facts)), weights));
  const models::row_group group{or_throw(llama->open_context(8)), tokens};
  const auto ticket = or_throw(llama->submit({&group, 1}));
  const auto logits = or_throw(llama->logits(ticket, 0));
  std::vector<float> out(logits.begin(), logits.end());
  or_throw(llama->finish(ticket));
  return out;
}

class ModelRuns : public testing::TestWithParam<architecture> {};

TEST_P(ModelRuns, HaveBitsThatDoNotDependOnTheFileOrThePlaceOfPanels) {
  const weir::test::temp_folder scratch;
  const made_model m(GetParam());
  make_volume(scratch / "large");
  or_throw(storage::hn4_format(scratch / "small", {}));  // blocks that hold no panel
  write_bytes(scratch / "m.gguf", gguf_file(m.gguf_keys(), m.gguf_tensors()));
  write_hf_folder(m, scratch / "hf");
  std::vector<float> expected;
  for (const char* source : {"m.gguf", "hf"}) {
    for (const char* path : {"large", "small"}) {
      {
        auto volume = writable(scratch / path);
        or_throw(import_model(volume, scratch / source, "m", {.replace = true}));
      }
      const auto volume = mapped(scratch / path);
      const auto model = or_throw(model_in_volume::open(volume, "m"));
      const auto weights = or_throw(model_weights::load(volume, model));
      const auto found = computed(model, *weights);
      ASSERT_FALSE(found.empty());
      EXPECT_TRUE(std::all_of(found.begin(), found.end(),
                              [](float x) { return std::isfinite(x); }));
      EXPECT_NE(found.front(), found.back());
      if (expected.empty()) {
        expected = found;
      }
      ASSERT_EQ(found.size(), expected.size());
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)),
                0)
          << source << path;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelRuns,
                         testing::Values(architecture::llama, architecture::bert),
                         [](const auto& family) {
                           return std::string(name_of(family.param));
                         });

TEST(ModelConfigs, RefuseFactsOfOtherModels) {
  const made_model llama(architecture::llama), bert(architecture::bert);
  EXPECT_EQ(models::llama_config_of(bert.facts).error().code(), errc::invalid_argument);
  EXPECT_EQ(models::bert_config_of(llama.facts).error().code(), errc::invalid_argument);
  models::stored_facts wide = llama.facts;
  wide.head_width = 32;
  EXPECT_EQ(models::llama_config_of(wide).error().code(), errc::unsupported);
  wide = llama.facts;
  wide.width = wide.heads * 2;
  wide.head_width = 2;
  EXPECT_EQ(models::llama_config_of(wide).error().code(), errc::unsupported);
}

}  // namespace
}  // namespace weir::actors::made
