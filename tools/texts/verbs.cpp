// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers `weir embed` and `weir generate` with the command line parser.
#include "texts/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace weir::tools {

namespace {

constexpr const char* embed_example =
    "Example:\n"
    "  weir embed models.hn4 --tag minilm --field text docs.jsonl -o docs.tgm\n\n"
    "A line is a document. The output has messages of up to 1024 rows, each of one "
    "file,\n"
    "with an object \"embeddings\" (f32, rows of length 1) whose metadata has the line\n"
    "numbers under \"lines\". Its bytes do not depend on --workers and --batch";

constexpr const char* generate_example =
    "Example:\n"
    "  weir generate models.hn4 --tag smollm2 --prompts prompts.txt -o answers.jsonl\n\n"
    "A line is a prompt, which the model continues as it stands, without its chat\n"
    "template. Line N draws with seed SEED + N - 1. The output has a line of JSON for\n"
    "each prompt, in their order; it does not depend on --workers and --batch";

/// Adds what both verbs have.
template <class Options>
void add_text_verb(CLI::App* v, std::shared_ptr<Options> o, const char* example,
                   command_result (*run)(const Options&, output&),
                   std::function<command_result(output&)>& chosen) {
  v->footer(example);
  v->add_option("VOLUME", o->volume, "HN4 volume with the model")->required();
  v->add_option("--tag", o->tag, "Model (default: the only one)");
  v->add_option("--field", o->field,
                "Lines are JSON objects with the text under this name")
      ->type_name("NAME");
  v->add_option("-o,--out", o->out, "File to write")->type_name("FILE")->required();
  v->add_option("--skip-bad", o->skip_bad,
                "Go on after bad lines and list them here (default: exit 4)")
      ->type_name("FILE");
  v->add_flag("--truncate", o->truncate, "Cut texts that are too long for the model");
  v->add_option("--batch", o->batch, "Texts that are computed together")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  v->add_option("--workers", o->workers, "Threads (default: one for each processor)")
      ->check(CLI::Range(1, 256));
  v->add_flag("--json", o->json, "Print a summary as JSON");
  v->callback(
      [o, &chosen, run] { chosen = [o, run](output& out) { return run(*o, out); }; });
}

}  // namespace

void add_text_verbs(CLI::App& app, std::function<command_result(output&)>& chosen) {
  auto* embed = app.add_subcommand("embed", "Write the embeddings of texts");
  const auto e = std::make_shared<embed_options>();
  add_text_verb(embed, e, embed_example, &embed_command, chosen);
  embed->add_option("FILE", e->files, "Files of texts, or \"-\"")->required();

  auto* generate = app.add_subcommand("generate", "Write answers to prompts of a file");
  const auto g = std::make_shared<generate_options>();
  add_text_verb(generate, g, generate_example, &generate_command, chosen);
  generate->add_option("--prompts", g->prompts, "File of prompts, or \"-\"")
      ->type_name("FILE")
      ->required();
  generate->add_option("--max-tokens", g->max_tokens, "Tokens of the longest answer")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32))
      ->capture_default_str();
  generate->add_option("--temperature", g->temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  generate->add_option("--seed", g->seed, "Seed of the first line")
      ->capture_default_str();
  generate
      ->add_option("--context-tokens", g->context_tokens,
                   "Tokens of all texts of a batch, which take memory")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32))
      ->capture_default_str();
}

}  // namespace weir::tools
