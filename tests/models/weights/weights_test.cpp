// SPDX-License-Identifier: Apache-2.0
/// @file
/// Element types of weights, the order of rows, facts about models and the binding of
/// tensors to weights.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "weir/base/hash.hpp"
#include "weir/models/configs.hpp"
#include "weir/models/rotary_rows.hpp"
#include "weir/models/weights.hpp"

namespace weir::models {
namespace {

using nlohmann::json;

/// Returns the value of an fp16 by its definition.
float half_value(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  const double size = exponent == 0 ? std::ldexp(fraction, -24)
                                    : std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((bits >> 15) != 0 ? -size : size);
}

TEST(WeightBlocks, AreDecodedByTheirDefinition) {
  byte_vector block(34);
  store_le(block.data(), std::uint16_t{0x3801});
  for (std::size_t i = 0; i < 32; ++i) {
    block[2 + i] = static_cast<std::byte>(i * 9);
  }
  std::array<float, 32> values{};
  decode_row(stored_type::q8_0, block, values);
  for (std::size_t i = 0; i < 32; ++i) {
    const auto number = static_cast<std::int8_t>(i * 9);
    EXPECT_EQ(values[i], half_value(0x3801) * static_cast<float>(number));
  }
  block.resize(20);
  store_le(block.data() + 2, std::uint16_t{0xB123});
  decode_row(stored_type::q4_1, block, values);
  for (std::size_t i = 0; i < 32; ++i) {
    const auto pair = static_cast<unsigned>(block[4 + i % 16]);
    const double number = i < 16 ? pair & 15 : pair >> 4;
    // The exact value in double, rounded once.
    const double exact = number * half_value(0x3801) + half_value(0xB123);
    EXPECT_EQ(values[i], static_cast<float>(exact)) << i;
  }
  EXPECT_EQ(row_bytes(stored_type::q8_0, 64), 68U);
  EXPECT_EQ(row_bytes(stored_type::q4_1, 64), 40U);
  EXPECT_EQ(row_bytes(stored_type::bf16, 3), 6U);
  EXPECT_FALSE(row_bytes(stored_type::q8_0, 33));
  EXPECT_FALSE(row_bytes(stored_type::f32, UINT64_MAX / 2));
  EXPECT_EQ(stored_type_named("Q4_K").error().code(), errc::unsupported);
  EXPECT_EQ(or_throw(stored_type_named("Q4_1")), stored_type::q4_1);
}

TEST(WeightBlocks, SixteenBitRowsAreDecodedByTheirDefinition) {
  byte_vector row(2 * 63488);
  for (std::size_t i = 0; i < row.size() / 2; ++i) {
    const std::size_t bits = i < 31744 ? i : i + 1024;
    store_le(row.data() + 2 * i, static_cast<std::uint16_t>(bits));
  }
  std::vector<float> values(row.size() / 2);
  decode_row(stored_type::f16, row, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t bits = i < 31744 ? i : i + 1024;
    ASSERT_EQ(values[i], half_value(static_cast<std::uint32_t>(bits))) << bits;
  }
  decode_row(stored_type::bf16, row, values);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(values[0x3F80]), 0x3F800000U);
}

// The scale of a block is its largest magnitude over 127. A multiple of 127 of each fp16
// therefore gives that fp16, and a value in the middle of two the even one.
TEST(WeightBlocks, ScalesOfQ8AreRoundedToTheNearestHalf) {
  std::array<float, 32> values{};
  std::array<std::byte, 34> block{};
  for (std::uint32_t bits = 1; bits < 0x7BFF; ++bits) {
    values[3] = -127 * half_value(bits);
    encode_q8_0(values, block);
    ASSERT_EQ(load_le<std::uint16_t>(block.data()), bits);
    ASSERT_EQ(block[5], std::byte{129});
    values[3] = static_cast<float>(
        127 * (double{half_value(bits)} + double{half_value(bits + 1)}) / 2);
    encode_q8_0(values, block);
    ASSERT_EQ(load_le<std::uint16_t>(block.data()), bits + bits % 2);
  }
  values[3] = 0;
  encode_q8_0(values, block);
  EXPECT_TRUE(std::all_of(block.begin(), block.end(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(RotaryRows, ArePermutedAndPermutedBack) {
  for (const std::uint64_t width : {2U, 4U, 16U, 64U}) {
    for (std::uint64_t row = 0; row < 3 * width; ++row) {
      EXPECT_EQ(row_of_halves(row_of_pairs(row, width), width), row);
      EXPECT_EQ(row_of_pairs(row_of_halves(row, width), width), row);
    }
  }
  // Heads of 4 rows: the halves 0 1 | 2 3 are the pairs 0 2 | 1 3.
  EXPECT_EQ(row_of_pairs(4, 4), 4U);
  EXPECT_EQ(row_of_pairs(5, 4), 6U);
  EXPECT_EQ(row_of_pairs(6, 4), 5U);
  EXPECT_EQ(row_of_pairs(7, 4), 7U);
}

stored_facts small_llama() {
  stored_facts f;
  f.layers = 1;
  f.width = 8;
  f.feed_forward = 12;
  f.heads = 2;
  f.kv_heads = 1;
  f.head_width = 4;
  f.vocabulary = 10;
  f.context_limit = 100;
  f.rope_base = 100000;
  f.norm_epsilon = 1e-5F;
  f.tied_embedding = true;
  f.name = "small";
  return f;
}

std::vector<named_tensor> tensors_of(const stored_facts& f, weight_files files) {
  std::vector<named_tensor> out;
  for (const weight_info& w : weight_list(f)) {
    shape_vector shape;
    if (!w.vector) {
      shape.push_back(static_cast<std::int64_t>(w.rows));
    }
    shape.push_back(static_cast<std::int64_t>(w.columns));
    out.push_back({files == weight_files::gguf ? w.gguf_name : w.hf_name, "F32", shape,
                   w.rows * w.columns * 4});
  }
  return out;
}

TEST(ModelFacts, SurviveEachWrittenForm) {
  stored_facts f = small_llama();
  f.end_token = 7;
  EXPECT_EQ(or_throw(facts_of_json(json_of(f))), f);
  EXPECT_EQ(or_throw(facts_of_config(as_view(config_of(f, "float32")), "c")), f);
  gguf_maker maker;
  add_gguf_keys(f, maker);
  maker.whole("tokenizer.ggml.eos_token_id", 7);
  const byte_vector header = maker.header();
  const auto keys = or_throw(gguf_metadata::read(header, "g"));
  EXPECT_EQ(or_throw(facts_of_gguf(keys, tensors_of(f, weight_files::gguf))), f);
}

TEST(ModelFacts, WordsThatAreNotKnownAreRefused) {
  const json good = json::parse(json_of(small_llama()));
  for (const char* member : {"architecture", "pooling"}) {
    json changed = good;
    changed[member] = "qwen";
    const auto facts = facts_of_json(changed.dump());
    ASSERT_FALSE(facts) << member;
    EXPECT_EQ(facts.error().code(), errc::corrupt);
    EXPECT_NE(facts.error().text().find(member), std::string::npos);
    EXPECT_NE(facts.error().text().find("found \"qwen\""), std::string::npos);
    changed[member] = 7;
    EXPECT_EQ(facts_of_json(changed.dump()).error().code(), errc::corrupt);
  }
}

TEST(ModelFacts, RefuseByNameWhatTheLayersDoNotCompute) {
  const json good = json::parse(config_of(small_llama(), "float32"));
  struct row {
    const char* key;
    json value;
    errc code;
  };
  const std::vector<row> rows = {
      {"model_type", "mistral", errc::unsupported},
      {"model_type", nullptr, errc::corrupt},
      {"hidden_act", "gelu", errc::unsupported},
      {"attention_bias", true, errc::unsupported},
      {"mlp_bias", true, errc::unsupported},
      {"rope_scaling", {{"rope_type", "llama3"}}, errc::unsupported},
      {"rope_parameters",
       {{"rope_type", "yarn"}, {"rope_theta", 1e4}},
       errc::unsupported},
      {"rope_theta", "many", errc::corrupt},
      {"hidden_size", -8, errc::corrupt},
      {"hidden_size", 1e30, errc::corrupt},
      {"hidden_size", 0, errc::corrupt},
      {"num_hidden_layers", 100000, errc::corrupt},
      {"num_attention_heads", 0, errc::corrupt},
      {"num_key_value_heads", 3, errc::corrupt},
      {"head_dim", 3, errc::corrupt},
      {"rms_norm_eps", nullptr, errc::corrupt},
      {"rms_norm_eps", 2, errc::corrupt},
      {"vocab_size", 4294967296, errc::corrupt},
      {"tie_word_embeddings", "yes", errc::corrupt},
      {"eos_token_id", "end", errc::corrupt},
      {"eos_token_id", small_llama().vocabulary, errc::corrupt},
      {"bos_token_id", 4294967295, errc::corrupt}};
  for (const row& r : rows) {
    json config = good;
    config[r.key] = r.value;
    const auto facts = facts_of_config(as_view(config.dump()), "config.json");
    ASSERT_FALSE(facts) << r.key;
    EXPECT_EQ(facts.error().code(), r.code) << r.key << facts.error().message();
  }
  for (const char* text : {"", "[]", "{", "{}"}) {
    EXPECT_EQ(facts_of_config(as_view(text), "c").error().code(), errc::corrupt);
  }
}

TEST(WeightBinding, NamesTheTensorThatIsMissingOrWrong) {
  const stored_facts f = small_llama();
  for (const auto files : {weight_files::gguf, weight_files::safetensors}) {
    const auto good = tensors_of(f, files);
    const auto bound = or_throw(bind_weights(f, files, good));
    ASSERT_EQ(bound.size(), good.size());
    const auto refused = [&](std::size_t i, errc code, auto change) {
      auto tensors = good;
      const std::string name = tensors[i].name;
      change(tensors, i);
      const auto found = bind_weights(f, files, tensors);
      ASSERT_FALSE(found) << name;
      EXPECT_EQ(found.error().code(), code);
      EXPECT_NE(found.error().text().find(name), std::string::npos)
          << found.error().text();
    };
    for (std::size_t i = 0; i < good.size(); ++i) {
      refused(i, errc::corrupt, [](auto& t, std::size_t k) {
        t.erase(t.begin() + static_cast<std::ptrdiff_t>(k));
      });
      refused(i, errc::corrupt, [](auto& t, std::size_t k) { t[k].shape[0] += 1; });
      refused(i, errc::corrupt, [](auto& t, std::size_t k) { t[k].bytes -= 1; });
      refused(i, errc::unsupported, [](auto& t, std::size_t k) { t[k].type = "Q2_K"; });
      // Rows of 8 or 12 elements are no whole blocks.
      refused(i, errc::corrupt, [](auto& t, std::size_t k) { t[k].type = "Q8_0"; });
    }
    auto more = good;
    more.push_back({"rope_freqs.weight", "F32", {2}, 8});
    const auto extra = bind_weights(f, files, more);
    EXPECT_EQ(extra.error().code(), errc::unsupported);
    EXPECT_NE(extra.error().text().find("rope_freqs"), std::string::npos);
    more.back() = {"lm_head.weight", "F32", {10, 8}, 320};
    EXPECT_EQ(bind_weights(f, files, more).has_value(),
              files == weight_files::safetensors);
  }
  EXPECT_EQ(bind_weights(f, weight_files::gguf, {}).error().code(), errc::corrupt);
}

/// Returns the facts of an encoder that `make_bert` computes.
stored_facts encoder_facts(std::uint32_t token_types) {
  stored_facts f = small_llama();
  f.family = architecture::bert;
  f.width = 32;
  f.feed_forward = 32;
  f.head_width = 16;
  f.kv_heads = 2;
  f.token_types = token_types;
  f.rope_base = 0;
  return f;
}

TEST(WeightBinding, EncodersMayHaveAPrefixAndAPooler) {
  stored_facts f = small_llama();
  f.family = architecture::bert;
  f.kv_heads = 2;
  f.token_types = 2;
  f.rope_base = 0;
  f.tied_embedding = false;
  auto tensors = tensors_of(f, weight_files::safetensors);
  for (named_tensor& t : tensors) {
    t.name = "bert." + t.name;
  }
  tensors.push_back({"bert.pooler.dense.weight", "F32", {8, 8}, 256});
  tensors.push_back({"bert.embeddings.position_ids", "I64", {1, 100}, 800});
  tensors.push_back({"cls.predictions.bias", "F32", {10}, 40});
  EXPECT_TRUE(bind_weights(f, weight_files::safetensors, tensors));
  EXPECT_EQ(or_throw(bert_config_of(encoder_facts(3))).token_types, 3U);
  // A tensor that is ignored may be there with and without the prefix.
  auto ignored = tensors;
  ignored.push_back({"pooler.dense.weight", "F32", {8, 8}, 256});
  ignored.push_back({"embeddings.position_ids", "I64", {1, 100}, 800});
  const auto bound = bind_weights(f, weight_files::safetensors, ignored);
  EXPECT_TRUE(bound) << bound.error().message();
  // The same weight with and without the prefix: nothing says which of them counts.
  auto twice = tensors;
  twice.push_back({"encoder.layer.0.output.dense.bias", "F32", {8}, 32});
  const auto ambiguous = bind_weights(f, weight_files::safetensors, twice);
  ASSERT_FALSE(ambiguous);
  EXPECT_EQ(ambiguous.error().code(), errc::corrupt);
  EXPECT_NE(ambiguous.error().text().find("\"bert.encoder.layer.0.output.dense.bias\""),
            std::string::npos);
  tensors.push_back({"bert.encoder.layer.1.output.dense.bias", "F32", {8}, 32});
  EXPECT_EQ(bind_weights(f, weight_files::safetensors, tensors).error().code(),
            errc::unsupported);
}

TEST(GgufMetadata, GivesTypedValuesAndNamesWrongOnes) {
  gguf_maker maker;
  maker.text("text", "a");
  maker.whole("whole", 7);
  maker.real("real", 0.5F);
  maker.boolean("yes", true);
  maker.wholes("list", std::array{std::int32_t{1}, std::int32_t{2}});
  const byte_vector header = maker.header();
  const auto keys = or_throw(gguf_metadata::read(header, "file"));
  EXPECT_EQ(keys.entries().size(), 5U);
  EXPECT_EQ(or_throw(keys.text("text")), "a");
  EXPECT_EQ(or_throw(keys.whole("whole")), 7U);
  EXPECT_EQ(or_throw(keys.real("real")), 0.5F);
  EXPECT_EQ(or_throw(keys.boolean("yes")), true);
  EXPECT_EQ(or_throw(keys.whole("none")), std::nullopt);
  EXPECT_EQ(keys.find("list")->count, 2U);
  EXPECT_EQ(keys.text("whole").error().code(), errc::corrupt);
  EXPECT_EQ(keys.whole("list").error().code(), errc::corrupt);
  EXPECT_EQ(keys.real("whole").error().code(), errc::corrupt);
  EXPECT_EQ(keys.boolean("text").error().code(), errc::corrupt);
  EXPECT_EQ(keys.whole("real").error().location().substr(0, 5), "file:");
  for (std::size_t cut = 0; cut < header.size() - 31; ++cut) {
    const auto part = gguf_metadata::read(bytes_view(header).first(cut), "file");
    if (!part) {
      EXPECT_EQ(part.error().code(), errc::corrupt) << cut;
    }
  }
  maker.whole("whole", 8);
  const byte_vector twice = maker.header();
  EXPECT_EQ(gguf_metadata::read(twice, "file").error().code(), errc::corrupt);
}

}  // namespace
}  // namespace weir::models
