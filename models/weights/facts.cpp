// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks facts about models, and writes and reads them as JSON.
#include "weir/models/facts.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "weights/limits.hpp"
#include "weir/base/text.hpp"

namespace weir::models {

/// The names are those of both file families.
std::string_view name_of(architecture family) noexcept {
  return family == architecture::llama ? "llama" : "bert";
}

/// The names are used in JSON.
std::string_view name_of(pooling kind) noexcept {
  switch (kind) {
    case pooling::mean: return "mean";
    case pooling::first: return "first";
    default: return "none";
  }
}

namespace {

/// A size of a model and its largest useful value, which keeps damaged values from taking
/// memory or time.
struct size_row {
  const char* name;
  std::uint32_t stored_facts::*member;
  std::uint32_t max;
};
/// Also the order of the members in JSON.
constexpr std::array size_rows{
    size_row{"layers", &stored_facts::layers, max_layers},
    size_row{"width", &stored_facts::width, max_features},
    size_row{"feed_forward", &stored_facts::feed_forward, max_features},
    size_row{"heads", &stored_facts::heads, max_features},
    size_row{"kv_heads", &stored_facts::kv_heads, max_features},
    size_row{"head_width", &stored_facts::head_width, max_features},
    size_row{"vocabulary", &stored_facts::vocabulary, max_vocabulary_size},
    size_row{"context_limit", &stored_facts::context_limit, max_context_tokens}};

/// The file is damaged or was made by a faulty program.
error impossible(const char* size, const std::string& expected, std::uint64_t found) {
  return error(errc::corrupt,
               fmt::format("cannot use the model: expected {} {}, found {}", size,
                           expected, found));
}

/// Returns an id for JSON: null if there is none.
nlohmann::ordered_json id_or_null(std::optional<std::uint32_t> id) {
  return id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json(nullptr);
}

}  // namespace

/// Each check relies on those before it: the division needs a number of heads that is
/// not 0.
result<void> check_facts(const stored_facts& f) {
  for (const size_row& row : size_rows) {
    const std::uint32_t value = f.*row.member;
    if (value == 0 || value > row.max) {
      return impossible(row.name, fmt::format("from 1 to {}", row.max), value);
    }
  }
  // The ids select rows of the embedding.
  for (const auto& [name, id] :
       {std::pair{"begin_token", f.begin_token}, {"end_token", f.end_token}}) {
    if (id && *id >= f.vocabulary) {
      return impossible(name, fmt::format("an id below {}", f.vocabulary), *id);
    }
  }
  // A group of query heads shares a head of keys.
  if (f.heads % f.kv_heads != 0) {
    return impossible("heads", fmt::format("a multiple of {} kv_heads", f.kv_heads),
                      f.heads);
  }
  // Rotary positions turn pairs of features.
  if (f.head_width % 2 != 0) {
    return impossible("head_width", "an even number", f.head_width);
  }
  const bool llama = f.family == architecture::llama;
  // Only encoders have one width for all, and types of tokens.
  if (!llama &&
      (f.kv_heads != f.heads || std::uint64_t{f.heads} * f.head_width != f.width)) {
    return impossible("heads * head_width", fmt::format("the width {}", f.width),
                      std::uint64_t{f.heads} * f.head_width);
  }
  if (llama != (f.token_types == 0) || f.token_types > max_features) {
    return impossible("token_types", llama ? "0" : "at least 1", f.token_types);
  }
  // The comparisons are false for NaN.
  const bool norm = f.norm_epsilon >= 0 && f.norm_epsilon < 1;
  const bool rope =
      llama ? f.rope_base >= 1 && std::isfinite(f.rope_base) : f.rope_base == 0;
  if (!norm || !rope) {
    return error(errc::corrupt, fmt::format("cannot use the model: expected {}, found {}",
                                            norm ? "a rope base of at least 1"
                                                 : "a norm epsilon from 0 to 1",
                                            norm ? f.rope_base : f.norm_epsilon));
  }
  return {};
}

/// Members always have the same order, so equal facts have equal texts.
std::string json_of(const stored_facts& f) {
  nlohmann::ordered_json out;
  out["architecture"] = name_of(f.family);
  out["name"] = f.name;
  for (const size_row& row : size_rows) {
    out[row.name] = f.*row.member;
  }
  out["token_types"] = f.token_types;
  out["rope_base"] = f.rope_base;
  out["norm_epsilon"] = f.norm_epsilon;
  out["tied_embedding"] = f.tied_embedding;
  out["pooling"] = name_of(f.pool);
  out["begin_token"] = id_or_null(f.begin_token);
  out["end_token"] = id_or_null(f.end_token);
  // A name need not be UTF-8.
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

namespace {

/// Finds the value of a word. `member` is for the message.
template <class Value>
result<Value> value_named(const char* member, const std::string& word,
                          std::initializer_list<Value> values) {
  std::string known;
  for (const Value one : values) {
    if (name_of(one) == word) {
      return one;
    }
    known += (known.empty() ? "" : ", ") + std::string(name_of(one));
  }
  return error(errc::corrupt, fmt::format("cannot read facts about a model: expected {} "
                                          "to be one of {}, found {}",
                                          member, known, json_quote(word)));
}

/// Reads facts from members that must exist; throws where one has a wrong type. Members
/// that are not known are ignored, words that are not known are errors.
result<stored_facts> facts_of_members(const nlohmann::json& in) {
  stored_facts f;
  WEIR_TRY(f.family, value_named("architecture", in.at("architecture").get<std::string>(),
                                 {architecture::llama, architecture::bert}));
  f.name = in.at("name").get<std::string>();
  for (const size_row& row : size_rows) {
    f.*row.member = in.at(row.name).get<std::uint32_t>();
  }
  f.token_types = in.at("token_types").get<std::uint32_t>();
  f.rope_base = in.at("rope_base").get<float>();
  f.norm_epsilon = in.at("norm_epsilon").get<float>();
  f.tied_embedding = in.at("tied_embedding").get<bool>();
  WEIR_TRY(f.pool, value_named("pooling", in.at("pooling").get<std::string>(),
                               {pooling::none, pooling::mean, pooling::first}));
  if (!in.at("begin_token").is_null()) {
    f.begin_token = in.at("begin_token").get<std::uint32_t>();
  }
  if (!in.at("end_token").is_null()) {
    f.end_token = in.at("end_token").get<std::uint32_t>();
  }
  return f;
}

}  // namespace

/// The check comes last, as it does for files.
result<stored_facts> facts_of_json(std::string_view text) {
  try {
    WEIR_TRY(const stored_facts f, facts_of_members(nlohmann::json::parse(text)));
    WEIR_CHECK(check_facts(f));
    return f;
  } catch (const nlohmann::json::exception& e) {
    return error(errc::corrupt,
                 fmt::format("cannot read facts about a model: expected an object with "
                             "all members, found: {}",
                             e.what()));
  }
}

}  // namespace weir::models
