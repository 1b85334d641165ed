// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs `weir generate`.
///
/// The pipeline is lines -> tokens -> answers -> write, with the stage `skipped` behind
/// `tokens` if bad lines are listed. The stage `llama.answers` computes the prompts of a
/// batch together, and each draws with its own seed, so that the answers do not depend on
/// the batch.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "texts/run.hpp"
#include "texts/verbs.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// Tokens of a step. A larger batch makes it larger, so that each text has a token in it.
constexpr std::uint32_t tokens_of_step = 128;
/// Bytes of an item of text.lines: prompts of a batch are limited by their number.
constexpr std::uint32_t bytes_of_prompts = 1U << 20;

/// Options that were not given are left out, so that the defaults of the stage hold.
pipeline_text generate_pipeline(const generate_options& options,
                                const actors::model_record& record,
                                const std::string& out, const std::string& bad) {
  pipeline_text text("generate", options);
  text.add_tokens(options, record.tag, {options.prompts}, bytes_of_prompts);
  text.stage("answers", "llama.answers");
  text.model(options.volume, record.tag);
  text.key("max_tokens", {static_cast<std::int64_t>(options.max_tokens)});
  text.key("temperature", {options.temperature});
  text.key("seed", {static_cast<std::int64_t>(options.seed)});
  if (options.context_tokens != 0) {
    text.key("context_tokens", {static_cast<std::int64_t>(options.context_tokens)});
  }
  if (options.kv_memory != 0) {
    text.key("kv_memory", {static_cast<std::int64_t>(options.kv_memory)});
  }
  // Rows of one step of the model: at least one for each text of the batch.
  text.key("rows", {std::int64_t{std::max(tokens_of_step, options.batch)}});
  // The list of the lines that are no prompts gets the prompts that are too long for the
  // memory, too.
  if (options.skip_bad.empty()) {
    text.key("from", {std::string("tokens.texts")});
  } else {
    text.key("bad", {std::string("list")});
    text.key("inlets.texts", {std::string("tokens.texts")});
    text.key("inlets.listed", {std::string("tokens.bad")});
  }
  text.stage("write", "json.write");
  text.key("path", {out});
  text.key("form", {std::string("lines")});
  text.key("from", {std::string("answers.y")});
  text.add_bad_lines(options, bad, "answers.bad");
  return text;
}

/// `stopped` counts answers that the model has ended itself.
void print_generate_summary(const text_report& report, const generate_options& options,
                            const std::string& tag, output& out) {
  const std::uint64_t answers = report.figure("answers", "answers");
  const std::uint64_t tokens = report.figure("answers", "answer_tokens");
  const std::uint64_t skipped =
      report.figure("tokens", "skipped") + report.figure("answers", "skipped");
  if (options.json) {
    nlohmann::ordered_json facts;
    facts["tag"] = tag;
    facts["answers"] = answers;
    facts["stopped"] = report.figure("answers", "stopped");
    facts["skipped"] = skipped;
    facts["tokens"] = tokens;
    facts["context_tokens"] = report.figure("answers", "context_tokens");
    facts["bytes"] = report.figure("answers", "bytes");
    facts["instruction_set"] = report.text("answers", "instruction_set");
    facts["seconds"] = report.run.seconds;
    out.write(json_text(facts) + "\n");
    return;
  }
  // The rate is that of the tokens of answers, which the first figures count, too.
  out.print("{}: {} of {} in {}, {} skipped, memory for {} of contexts, {}\n", tag,
            counted(answers, "answer"), counted(tokens, "token"), options.out,
            counted(skipped, "line"),
            counted(report.figure("answers", "context_tokens"), "token"),
            rates_text("answers", answers, tokens, report.run.seconds));
}

}  // namespace

command_result generate_command(const generate_options& options, output& out) {
  WEIR_TRY(const actors::model_record record,
           record_of_model(options.volume, options.tag, models::architecture::llama));
  // The functions refer to `options` and `record`, which outlive the run.
  text_job job;
  job.inputs = {options.prompts};
  job.pipeline_to = [&](const std::string& to, const std::string& bad) {
    return generate_pipeline(options, record, to, bad);
  };
  job.counted = "answers";
  job.things = "answers";
  job.print_summary = [&](const text_report& report) {
    print_generate_summary(report, options, record.tag, out);
  };
  return perform_texts(job, options, out);
}

}  // namespace weir::tools
