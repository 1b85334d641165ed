// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers `weir embed`, `weir generate` and `weir chat` with the command line parser.
///
/// Each verb has an options object, which the parser fills and which the call in `chosen`
/// keeps alive. Ranges that the parser can test are tested here; all others are left to
/// the functions that perform the verbs. `embed` and `generate` share most of their
/// options through `add_text_verb`.
#include "texts/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "weir/models/instruction_sets.hpp"

namespace weir::tools {

namespace {

constexpr const char* embed_example =
    "Example:\n"
    "  weir embed models.hn4 --tag minilm --field text docs.jsonl -o docs.tgm\n\n"
    "A line is a document. The output has messages of up to 1024 rows, each of one "
    "file,\n"
    "with an object \"embeddings\" (f32, rows of length 1) whose metadata has the line\n"
    "numbers under \"lines\". Its bytes do not depend on --workers, --batch and\n"
    "--stages";

constexpr const char* chat_example =
    "Example:\n"
    "  weir chat models.hn4 --tag smollm2\n\n"
    "Each line is a turn. Ctrl-C stops an answer, /new forgets the conversation, and\n"
    "Ctrl-D ends the program. Special tokens in a line are text. Equal lines and equal\n"
    "seeds give equal answers";

constexpr const char* generate_example =
    "Example:\n"
    "  weir generate models.hn4 --tag smollm2 --prompts prompts.txt -o answers.jsonl\n\n"
    "A line is a prompt, which the model continues as it stands, without its chat\n"
    "template. Line N draws with seed SEED + N - 1. The output has a line of JSON for\n"
    "each prompt, in their order; it does not depend on --workers and --batch";

/// Adds the option `--kv-memory`. @param bytes  Receives the memory.
void add_kv_memory_option(CLI::App& verb, std::uint64_t& bytes) {
  verb.add_option("--kv-memory", bytes,
                  "Memory of keys and values, e.g. 512MiB (default: a quarter of\n"
                  "the memory that is available, at most 4 GiB)")
      ->transform(CLI::AsSizeValue(false));
}

/// Adds what `embed` and `generate` have.
/// `run` performs the verb with the options `o` after the whole command line was parsed.
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
  add_kernels_option(*v, o->kernels);
  v->add_option("--run", o->run,
                "Make a run folder, which `weir resume` continues behind a stop and\n"
                "in front of a bad line (default: a command that ends early\n"
                "writes nothing)")
      ->type_name("FOLDER");
  v->add_option("--every", o->every,
                "Items or time between checkpoints in the folder; a killed command\n"
                "goes on behind the last one")
      ->capture_default_str();
  v->add_flag("--toml", o->toml, "Print the pipeline for `weir run`, and run nothing");
  v->add_flag("--json", o->json, "Print a summary as JSON");
  v->callback(
      [o, &chosen, run] { chosen = [o, run](output& out) { return run(*o, out); }; });
}

/// `chat` has no input files and no output, so it shares none of the options above.
void add_chat_verb(CLI::App& app, std::function<command_result(output&)>& chosen) {
  auto* v = app.add_subcommand("chat", "Talk to a model");
  const auto o = std::make_shared<chat_options>();
  v->footer(chat_example);
  v->add_option("VOLUME", o->volume, "HN4 volume with the model")->required();
  v->add_option("--tag", o->tag, "Model (default: the only one)");
  v->add_option("--system", o->system,
                "Instruction to the model (default: that of its template)")
      ->type_name("TEXT");
  v->add_option("--chat-template", o->chat_template, "Form of the conversation")
      ->check(CLI::IsMember({"auto", "chatml", "llama3", "none"}))
      ->capture_default_str();
  v->add_option("--max-tokens", o->max_tokens, "Tokens of the longest answer")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32))
      ->capture_default_str();
  v->add_option("--context-tokens", o->context_tokens,
                "Tokens of a conversation (default: as many as --kv-memory\n"
                "holds and the model takes)")
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 32));
  add_kv_memory_option(*v, o->kv_memory);
  v->add_option("--temperature", o->temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  v->add_option("--top-p", o->top_p, "Probability of the likeliest tokens that count")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  v->add_option("--top-k", o->top_k, "Likeliest tokens that count; 0: all")
      ->capture_default_str();
  v->add_option("--seed", o->seed, "Seed of the answers (default: drawn and printed)");
  v->add_option("--workers", o->workers, "Threads (default: one for each processor)")
      ->check(CLI::Range(1, 256));
  add_kernels_option(*v, o->kernels);
  v->callback(
      [o, &chosen] { chosen = [o](output& out) { return chat_command(*o, out); }; });
}

}  // namespace

// Names that the parser accepts may still be missing on this processor, which the models
// find out.
void add_kernels_option(CLI::App& verb, std::string& kernels) {
  std::vector<std::string> names{"auto"};
  for (const std::string_view name : models::instruction_sets()) {
    names.emplace_back(name);
  }
  verb.add_option("--kernels", kernels, "Instruction set, which changes no result")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
}

// Options that only one of the verbs has are added behind the common ones.
void add_text_verbs(CLI::App& app, std::function<command_result(output&)>& chosen) {
  auto* embed = app.add_subcommand("embed", "Write the embeddings of texts");
  const auto e = std::make_shared<embed_options>();
  add_text_verb(embed, e, embed_example, &embed_command, chosen);
  embed->add_option("FILE", e->files, "Files of texts, or \"-\"")->required();
  embed->add_option("--stages", e->stages, "Stages that share the layers")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();

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
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{INT64_MAX}))
      ->capture_default_str();
  generate
      ->add_option("--context-tokens", g->context_tokens,
                   "Tokens of all texts of a batch (default: as many as\n"
                   "--kv-memory holds)")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  add_kv_memory_option(*generate, g->kv_memory);
  add_chat_verb(app, chosen);
}

}  // namespace weir::tools
