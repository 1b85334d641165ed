// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stages of texts in the table of all stages.
#include "stages/table/parts.hpp"

namespace weir::test {
namespace {

/// Adds a source of pulses.
using pulse_source = std::function<node(pipeline&, const stage_trial&)>;

/// Adds a stage that makes a gap of every item, so that the stages behind it get none.
node nothing_of(pipeline& p, const stage_trial& t, node from) {
  auto s =
      stage_in(p, t, "gaps", "split",
               {{"attribute", "kind"}, {"outlets", texts({"none"})}, {"other", "drop"}});
  from >> s;
  return s;
}

/// Returns the entry of the sink of predictions: that of the model, with a Stream phase.
stage_entry predictions_of(const stage_entry& learn, given_settings model) {
  stage_entry predictions = learn;
  predictions.needed = {};
  predictions.stage = "prose.predictions";
  model.emplace("predictions", true);
  // Adds the model and the sink of its scores.
  const auto learning = [=](pipeline& p, const stage_trial& t) {
    auto l = stage_in(p, t, "learn", "prose.learn", model);
    stage_in(p, t, "source", "text.pulses",
             {{"files", texts({t.in("a.txt")})},
              {"build_tokens", 16},
              {"stream_tokens", 100'000},
              {"chunk", 16}}) >>
        l;
    l["score"] >> message_file_of(p, t)["x"];
    return l;
  };
  predictions.build = [=](pipeline& p, const stage_trial& t) {
    learning(p, t)["predictions"] >>
        stage_in(p, t, "stage", "prose.predictions", {{"path", t.out("p.tgm")}});
  };
  predictions.refusal = {
      "cannot connect \"source.x\" to \"stage.predictions\": expected u32[?], found "
      "f32[4]"};
  predictions.empty = [=](pipeline& p, const stage_trial& t) {
    nothing_of(p, t, learning(p, t)["predictions"]) >>
        stage_in(p, t, "stage", "prose.predictions", {{"path", t.out("p.tgm")}});
  };
  predictions.wrong = [=](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >>
        stage_in(p, t, "stage", "prose.predictions", {{"path", t.out("p.tgm")}});
  };
  return predictions;
}

/// Returns the entry of the accounts of a model, behind the pulses of a text.
stage_entry accounts_of(const stage_entry& learn, const pulse_source& pulses,
                        const given_settings& model) {
  stage_entry accounts = learn;
  accounts.needed = {};
  accounts.stage = "prose.accounts";
  accounts.build = [=](pipeline& p, const stage_trial& t) {
    auto a = stage_in(p, t, "stage", "prose.accounts");
    pulses(p, t) >> stage_in(p, t, "learn", "prose.learn", model) >> a;
    a["tokens"] >> message_file_of(p, t, "tokens")["x"];
    a["bits_per_byte"] >> message_file_of(p, t, "bits")["x"];
  };
  accounts.refusal = {
      "cannot connect \"source.x\" to \"stage.score\": expected u64[8], found f32[4]"};
  accounts.empty = [=](pipeline& p, const stage_trial& t) {
    auto a = stage_in(p, t, "stage", "prose.accounts");
    auto l = pulses(p, t) >> stage_in(p, t, "learn", "prose.learn", model);
    nothing_of(p, t, l) >> a;
    a["tokens"] >> message_file_of(p, t, "tokens")["x"];
    a["bits_per_byte"] >> message_file_of(p, t, "bits")["x"];
  };
  accounts.wrong = [=](pipeline& p, const stage_trial& t) {
    auto a = stage_in(p, t, "stage", "prose.accounts");
    numbers_into(p, t) >> a;
    a["tokens"] >> message_file_of(p, t, "tokens")["x"];
    a["bits_per_byte"] >> message_file_of(p, t, "bits")["x"];
  };
  return accounts;
}

void add_text_model(std::vector<stage_entry>& all) {
  const auto text = [](const stage_trial& t) {
    std::string content;
    for (int n = 0; n < t.items; ++n) {
      content += fmt::format("line {:08} of {:08} in a text of many lines and words\n", n,
                             t.extent);
    }
    write_text(t.in("a.txt"), content);
  };
  const auto pulses = [](pipeline& p, const stage_trial& t) {
    return stage_in(
        p, t, "source", "text.pulses",
        {{"files", texts({t.in("a.txt")})}, {"build_tokens", "all"}, {"chunk", 16}});
  };
  const given_settings model{{"vocab", 257},
                             {"width", 32},
                             {"blocks", 1},
                             {"heads", 1},
                             {"hidden", 32},
                             {"max_chunk", 16},
                             {"frequencies", extents({1, 8})}};
  stage_entry pulse_entry;
  pulse_entry.stage = "text.pulses";
  pulse_entry.prepare = text;
  pulse_entry.build = [=](pipeline& p, const stage_trial& t) {
    pulses(p, t) >> message_file_of(p, t);
  };
  pulse_entry.wrong = [=](pipeline& p, const stage_trial& t) {
    pulses(p, t) >>
        stage_in(p, t, "stage", "elementwise", {{"type", "f32[4]"}, {"op", "negate"}}) >>
        message_file_of(p, t);
  };
  pulse_entry.refusal = {
      "cannot connect \"source.pulses\" to \"stage.x\": expected f32[4], found u32["};
  pulse_entry.empty_code = errc::source_unavailable;
  pulse_entry.empty_refusal = "a.txt\": expected at least 1 byte, found 0";
  stage_entry learn = pulse_entry;
  learn.stage = "prose.learn";
  learn.build = [=](pipeline& p, const stage_trial& t) {
    pulses(p, t) >>
        stage_in(p, t, "stage", "prose.learn", limited(t, "max_chunk", model)) >>
        message_file_of(p, t);
  };
  learn.needed = [](const stage_trial&) { return std::int64_t{16}; };
  learn.empty_refusal = "";
  learn.empty = [=](pipeline& p, const stage_trial& t) {
    nothing_of(p, t, pulses(p, t)) >> stage_in(p, t, "stage", "prose.learn", model) >>
        message_file_of(p, t);
  };
  learn.refusal = {"cannot connect \"source.x\" to \"stage.pulses\": expected u32[",
                   "found f32[4]"};
  learn.wrong = [=](pipeline& p, const stage_trial& t) {
    numbers_into(p, t) >> stage_in(p, t, "stage", "prose.learn", model) >>
        message_file_of(p, t);
  };
  all.push_back(std::move(pulse_entry));
  all.push_back(predictions_of(learn, model));
  all.push_back(accounts_of(learn, pulses, model));
  all.push_back(std::move(learn));
}

node model_stage(pipeline& p, const stage_trial& t, const std::string& name,
                 const std::string& stage, const std::string& tag,
                 given_settings settings = {}) {
  settings.emplace("volume", t.in("models.hn4"));
  settings.emplace("tag", tag);
  return stage_in(p, t, name, stage, settings);
}
node token_stage(pipeline& p, const stage_trial& t, const std::string& tag) {
  return model_stage(p, t, "tokens", "text.tokens", tag, {{"truncate", true}});
}
node text_lines_of(pipeline& p, const stage_trial& t) {
  return stage_in(p, t, "lines", "text.lines",
                  {{"files", texts({t.in("a.txt")})}, {"lines", 1}});
}
void build_embedding(pipeline& p, const stage_trial& t) {
  auto tokens = token_stage(p, t, "encoder");
  text_lines_of(p, t) >> tokens;
  auto first =
      model_stage(p, t, "first", "bert.layers", "encoder", {{"layers", 1}, {"rows", 64}});
  auto second =
      model_stage(p, t, "second", "bert.layers", "encoder", {{"first", 1}, {"rows", 64}});
  auto pool = stage_in(p, t, "pool", "bert.pool");
  auto write = stage_in(p, t, "write", "tgm.embeddings", {{"path", t.out("e.tgm")}});
  tokens["texts"] >> first["texts"];
  tokens["texts"] >> second["texts"];
  first["y"] >> second["rows"];
  tokens["texts"] >> pool["texts"];
  second["y"] >> pool["rows"];
  tokens["texts"] >> write["texts"];
  pool["y"] >> write["rows"];
}

/// The stages that process texts with models.
void add_text_processing(std::vector<stage_entry>& all) {
  stage_entry embed;
  embed.prepare = [](const stage_trial& t) {
    link_text_models(t.in("models.hn4"));
    std::string content;
    for (int n = 0; n < t.items; ++n) {
      content += fmt::format("line {} {}\n", n,
                             std::string(static_cast<std::size_t>(t.extent), 'x'));
    }
    write_text(t.in("a.txt"), content);
  };
  embed.build = build_embedding;
  const auto add = [&](const std::string& stage, std::vector<std::string> refusal,
                       const trial_builder& wrong) {
    all.push_back(embed);
    all.back().stage = stage;
    all.back().refusal = std::move(refusal);
    all.back().wrong = wrong;
  };
  add("text.lines",
      {"cannot connect \"lines.x\" to \"stage.x\": expected f32[4], found u64[?]"},
      [](pipeline& p, const stage_trial& t) {
        text_lines_of(p, t) >> stage_in(p, t, "stage", "elementwise",
                                        {{"type", "f32[4]"}, {"op", "negate"}}) >>
            message_file_of(p, t);
      });
  add("text.tokens",
      {"cannot connect \"source.x\" to \"tokens.lines\": expected u64[?], found f32[4]"},
      [](pipeline& p, const stage_trial& t) {
        numbers_into(p, t) >> token_stage(p, t, "encoder") >> message_file_of(p, t);
      });
  add("bert.layers",
      {"cannot connect \"source.x\" to \"stage.texts\": expected u32[?], found f32[4]"},
      [](pipeline& p, const stage_trial& t) {
        numbers_into(p, t) >> model_stage(p, t, "stage", "bert.layers", "encoder") >>
            message_file_of(p, t);
      });
  for (const char* stage : {"bert.pool", "tgm.embeddings"}) {
    add(stage,
        {"cannot connect \"source.x\" to \"stage.texts\": expected u32[?], found f32[4]"},
        [stage](pipeline& p, const stage_trial& t) {
          const given_settings path{{"path", t.out("e.tgm")}};
          auto s = stage_in(p, t, "stage", stage,
                            stage == std::string("bert.pool") ? given_settings() : path);
          auto numbers = numbers_into(p, t);
          numbers["x"] >> s["texts"];
          numbers["x"] >> s["rows"];
        });
  }
  embed.build = [](pipeline& p, const stage_trial& t) {
    text_lines_of(p, t) >> token_stage(p, t, "decoder") >>
        model_stage(p, t, "answers", "llama.answers", "decoder", {{"max_tokens", 2}}) >>
        stage_in(p, t, "sink", "json.write",
                 {{"path", t.out("a.jsonl")}, {"form", "lines"}});
  };
  add("llama.answers",
      {"cannot connect \"source.x\" to \"answers.texts\": expected u32[?], found f32[4]"},
      [](pipeline& p, const stage_trial& t) {
        numbers_into(p, t) >> model_stage(p, t, "answers", "llama.answers", "decoder") >>
            message_file_of(p, t);
      });
}

}  // namespace

void add_text_stages(std::vector<stage_entry>& all) {
  add_text_model(all);
  add_text_processing(all);
}

}  // namespace weir::test
