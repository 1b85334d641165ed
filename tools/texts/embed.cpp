// SPDX-License-Identifier: Apache-2.0
/// @file
/// Performs `weir embed`.
///
/// The pipeline, with N stages of layers between which the layers of the model are
/// divided:
///
///   lines -> tokens -+-> layers1 -> ... -> layersN -> pool -> write
///                    +-> every stage behind it (the lengths of the texts)
///                    +-> skipped (with --skip-bad)
///
/// The stages of layers work at the same time on different items, and no figure of the
/// result depends on their number.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "texts/run.hpp"
#include "texts/verbs.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

namespace {

/// Bytes of the texts that are computed together. A text has at most as many token ids as
/// bytes, and two more, so an item of text.lines fits into the rows of bert.layers.
constexpr std::uint32_t bytes_of_item = 2048;
/// Largest value of the setting rows of bert.layers.
constexpr std::uint32_t max_rows_of_layers = 1U << 16;

/// Adds the stages of layers, which take consecutive parts, and returns the last one.
/// Layer `n * layers / count` is the first of stage n, so that the numbers of layers of
/// two stages differ by at most one. The rows are those of the longest item: the texts of
/// an item, or one text of the largest length, with two ids more for each text.
std::string add_layers(pipeline_text& to, const embed_options& options,
                       const actors::model_record& record) {
  const std::uint32_t layers = record.facts.layers;
  const std::uint32_t count = std::min(options.stages, layers);
  const std::uint32_t rows =
      std::min(std::max(bytes_of_item, record.facts.context_limit) + 2 * options.batch,
               max_rows_of_layers);
  std::string last;
  for (std::uint32_t n = 0; n < count; ++n) {
    const std::uint32_t first = n * layers / count;
    const std::string name = fmt::format("layers{}", n + 1);
    to.stage(name, "bert.layers");
    to.model(options.volume, record.tag);
    to.key("first", {std::int64_t{first}});
    to.key("layers", {std::int64_t{(n + 1) * layers / count - first}});
    to.key("rows", {std::int64_t{rows}});
    // The first stage takes the texts alone; the others take the rows of the stage
    // before, too.
    to.key(n == 0 ? "from" : "inlets.texts", {std::string("tokens.texts")});
    if (n > 0) {
      to.key("inlets.rows", {last});
    }
    last = name;
  }
  return last;
}

/// The outputs are parameters, because a run without a folder writes under temporary
/// names.
pipeline_text embed_pipeline(const embed_options& options,
                             const actors::model_record& record, const std::string& out,
                             const std::string& bad) {
  pipeline_text text("embed", options);
  text.add_tokens(options, record.tag, options.files, bytes_of_item);
  const std::string last = add_layers(text, options, record);
  text.stage("pool", "bert.pool");
  text.key("inlets.texts", {std::string("tokens.texts")});
  text.key("inlets.rows", {last});
  text.stage("write", "tgm.embeddings");
  text.key("path", {out});
  text.key("inlets.texts", {std::string("tokens.texts")});
  text.key("inlets.rows", {std::string("pool")});
  text.add_bad_lines(options, bad, "tokens.bad");
  return text;
}

/// Tokens are counted by the first stage of layers, which sees each text once.
void print_embed_summary(const text_report& report, const embed_options& options,
                         const actors::model_record& record, output& out) {
  const std::uint64_t rows = report.figure("write", "rows");
  const std::uint64_t skipped = report.figure("tokens", "skipped");
  if (options.json) {
    nlohmann::ordered_json facts;
    facts["tag"] = record.tag;
    facts["rows"] = rows;
    facts["width"] = record.facts.width;
    facts["skipped"] = skipped;
    facts["tokens"] = report.figure("layers1", "tokens");
    facts["bytes"] = report.figure("write", "bytes");
    facts["instruction_set"] = report.text("layers1", "instruction_set");
    facts["seconds"] = report.run.seconds;
    out.write(json_text(facts) + "\n");
    return;
  }
  out.print("{}: {} of {} in {}, {} skipped, {}\n", record.tag, counted(rows, "row"),
            counted(record.facts.width, "feature"), options.out, counted(skipped, "line"),
            rates_text("texts", report.figure("layers1", "texts"),
                       report.figure("layers1", "tokens"), report.run.seconds));
}

}  // namespace

command_result embed_command(const embed_options& options, output& out) {
  WEIR_TRY(const actors::model_record record,
           record_of_model(options.volume, options.tag, models::architecture::bert));
  text_job job;
  job.inputs = options.files;
  job.pipeline_to = [&](const std::string& to, const std::string& bad) {
    return embed_pipeline(options, record, to, bad);
  };
  job.counted = "layers1";
  job.things = "texts";
  job.print_summary = [&](const text_report& report) {
    print_embed_summary(report, options, record, out);
  };
  return perform_texts(job, options, out);
}

}  // namespace weir::tools
