// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers the verbs of `weir tokens` with the command line parser.
#include "tokens/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace weir::tools {

namespace {

using action = std::function<command_result(output&)>;
using tokens_command = command_result (*)(const tokens_options&, output&);

constexpr const char* encode_example =
    "weir tokens encode notes.txt --tokenizer tokenizer.json -o notes.bin\n"
    "  weir tokens encode - --tokenizer tokenizer.json <notes.txt\n\n"
    "Formats: text (ids between spaces), bin (raw little-endian ids, as of nanoGPT),\n"
    "llmc (a header of 256 words before them, as of llm.c), npy. Ids have 16 bits if "
    "the\n"
    "vocabulary allows it, and 32 bits otherwise";

}  // namespace

void add_tokens_verbs(CLI::App& app, action& chosen) {
  auto* group = app.add_subcommand("tokens", "Turn text into token ids and back");
  group->require_subcommand(1);
  const auto o = std::make_shared<tokens_options>();
  const auto add = [&](const char* name, const char* description, const char* example,
                       tokens_command run) {
    CLI::App* v = group->add_subcommand(name, description);
    v->footer(std::string("Example:\n  ") + example);
    v->add_option("--tokenizer", o->tokenizer, "Description in JSON: tokenizer.json")
        ->type_name("FILE")
        ->required();
    v->add_flag("--json", o->json, "Print facts as JSON");
    v->callback(
        [o, &chosen, run] { chosen = [o, run](output& out) { return run(*o, out); }; });
    return v;
  };
  const auto one = [&](CLI::App* v, const char* description) {
    v->add_option("FILE", o->file, description)->required();
  };
  const auto many = [&](CLI::App* v, const char* description) {
    v->add_option("FILE", o->files, description)->required();
  };
  const auto out = [&](CLI::App* v, const char* description) {
    return v->add_option("-o,--out", o->out, description)->type_name("FILE");
  };
  const auto format = [&](CLI::App* v) {
    v->add_option("--format", o->format,
                  "text, bin, llmc or npy (default: bin or npy by the name, else text)")
        ->check(CLI::IsMember({"text", "bin", "llmc", "npy"}));
  };
  const auto text = [&](CLI::App* v) {
    v->add_flag("--replace", o->replace,
                "Read U+FFFD in place of bytes that are not UTF-8");
  };

  auto* encode = add("encode", "Write the ids of a text", encode_example, &tokens_encode);
  one(encode, "Text, or \"-\"");
  out(encode, "Where the ids go (default \"-\")");
  format(encode);
  text(encode);
  encode->add_flag("--plain", o->plain,
                   "Without the special ids that the post-processor adds");

  auto* decode =
      add("decode", "Write the text of ids",
          "weir tokens decode notes.bin --tokenizer tokenizer.json", &tokens_decode);
  one(decode, "Ids, or \"-\" for ids as text");
  out(decode, "Where the text goes (default \"-\")");
  format(decode);
  decode->add_flag("--special", o->keep_special, "With special tokens");

  auto* count =
      add("count", "Print the number of ids of texts",
          "weir tokens count a.txt b.txt --tokenizer tokenizer.json", &tokens_count);
  many(count, "Texts, or \"-\"");
  text(count);
  count->add_flag("--plain", o->plain,
                  "Without the special ids that the post-processor adds");

  auto* pack = add("pack", "Write the ids of many texts to one file",
                   "weir tokens pack corpus/ --tokenizer tokenizer.json -o corpus.bin\n\n"
                   "Folders are read with all folders in them, names in the order of "
                   "their bytes",
                   &tokens_pack);
  many(pack, "Texts and folders of texts");
  out(pack, "Where the ids go")->required();
  format(pack);
  text(pack);
  pack->add_option("--end-of-text", o->end_of_text,
                   "Token behind each text (default <|endoftext|>, </s> or [SEP])")
      ->type_name("TOKEN");
}

}  // namespace weir::tools
