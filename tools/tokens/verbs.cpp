// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers the verbs of `weir tokens` with the command line parser.
///
/// The options are registered by small functions, one for each group of options that
/// several verbs share.
#include "tokens/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace weir::tools {

namespace {

using action = std::function<command_result(output&)>;
using tokens_command = command_result (*)(const tokens_options&, output&);

/// Example and explanation of the formats, at the end of the help of `encode`.
constexpr const char* encode_example =
    "weir tokens encode notes.txt --tokenizer tokenizer.json -o notes.bin\n"
    "  weir tokens encode - --tokenizer tokenizer.json <notes.txt\n\n"
    "Formats: text (ids between spaces), bin (raw little-endian ids, as of nanoGPT),\n"
    "llmc (a header of 256 words before them, as of llm.c), npy. Ids have 16 bits if "
    "the\n"
    "vocabulary allows it, and 32 bits otherwise";

/// Adds the verbs to the group `tokens`.
class tokens_verbs {
 public:
  tokens_verbs(CLI::App& group, action& chosen) : group_(group), chosen_(chosen) {}

  // One text in, ids out.
  void add_encode() {
    auto* v = add("encode", "Write the ids of a text", encode_example, &tokens_encode);
    v->add_option("FILE", o_->file, "Text, or \"-\"")->required();
    out(v, "Where the ids go (default \"-\")");
    format(v);
    text(v);
    plain(v);
  }
  // Ids in, one text out.
  void add_decode() {
    auto* v =
        add("decode", "Write the text of ids",
            "weir tokens decode notes.bin --tokenizer tokenizer.json", &tokens_decode);
    v->add_option("FILE", o_->file, "Ids, or \"-\" for ids as text")->required();
    out(v, "Where the text goes (default \"-\")");
    format(v);
    v->add_flag("--special", o_->keep_special, "With special tokens");
  }
  // Several texts in, numbers out.
  void add_count() {
    auto* v =
        add("count", "Print the number of ids of texts",
            "weir tokens count a.txt b.txt --tokenizer tokenizer.json", &tokens_count);
    v->add_option("FILE", o_->files, "Texts, or \"-\"")->required();
    text(v);
    plain(v);
  }
  // Many texts in, one file of ids out. Special ids do not apply, so there is no --plain.
  void add_pack() {
    auto* v = add("pack", "Write the ids of many texts to one file",
                  "weir tokens pack corpus/ --tokenizer tokenizer.json -o corpus.bin\n\n"
                  "Folders are read with all folders in them, names in the order of "
                  "their bytes",
                  &tokens_pack);
    v->add_option("FILE", o_->files, "Texts and folders of texts")->required();
    out(v, "Where the ids go")->required();
    format(v);
    text(v);
    v->add_option("--end-of-text", o_->end_of_text,
                  "Token behind each text (default <|endoftext|>, <|end_of_text|>, </s> "
                  "or [SEP])")
        ->type_name("TOKEN");
  }

 private:
  // Adds a verb with the options that all of them have.
  CLI::App* add(const char* name, const char* description, const char* example,
                tokens_command run) {
    CLI::App* v = group_.add_subcommand(name, description);
    v->footer(std::string("Example:\n  ") + example);
    v->add_option("--tokenizer", o_->tokenizer,
                  "tokenizer.json, or a GGUF file with a vocabulary")
        ->type_name("FILE")
        ->required();
    v->add_flag("--json", o_->json, "Print facts as JSON");
    // The options are shared with the callback, which outlives this object.
    v->callback([o = o_, &chosen = chosen_, run] {
      chosen = [o, run](output& out) { return run(*o, out); };
    });
    return v;
  }
  // Adds the option for the output file.
  CLI::Option* out(CLI::App* v, const char* description) {
    return v->add_option("-o,--out", o_->out, description)->type_name("FILE");
  }
  // Adds the option for the format of ids.
  void format(CLI::App* v) {
    v->add_option(
         "--format", o_->format,
         "text, bin, llmc or npy (default: bin, npy or llmc by the name, else text)")
        ->check(CLI::IsMember({"text", "bin", "llmc", "npy"}));
  }
  // Adds the option for texts that are not UTF-8.
  void text(CLI::App* v) {
    v->add_flag("--replace", o_->replace,
                "Read U+FFFD in place of bytes that are not UTF-8");
  }
  // Adds the option that leaves special ids out.
  void plain(CLI::App* v) {
    v->add_flag("--plain", o_->plain,
                "Without the special ids that the post-processor adds");
  }

  CLI::App& group_;
  action& chosen_;
  std::shared_ptr<tokens_options> o_ = std::make_shared<tokens_options>();
};

}  // namespace

void add_tokens_verbs(CLI::App& app, action& chosen) {
  auto* group = app.add_subcommand("tokens", "Turn text into token ids and back");
  group->require_subcommand(1);
  // The object is needed only for registering.
  tokens_verbs verbs(*group, chosen);
  verbs.add_encode();
  verbs.add_decode();
  verbs.add_count();
  verbs.add_pack();
}

}  // namespace weir::tools
