// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers the verbs of `weir model` with the command line parser.
///
/// All verbs share one options object: a command line has one verb, so no other verb can
/// have set a field.
#include "model/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace weir::tools {

namespace {

using action = std::function<command_result(output&)>;
using model_command = command_result (*)(const model_options&, output&);

constexpr const char* import_example =
    "weir model import SmolLM2-135M-Instruct.Q4_1.gguf models.hn4 --tag smollm2\n"
    "  weir model import all-MiniLM-L6-v2/ models.hn4 --tag minilm\n\n"
    "Beside a safetensors file stand config.json and tokenizer.json. A volume that is "
    "not\n"
    "there is made: with profile AI (a sparse file of 1 TiB) for 64 MiB or more, else\n"
    "with profile GENERIC";

/// Adds the verbs to the group `model`.
class model_verbs {
 public:
  model_verbs(CLI::App& group, action& chosen) : group_(group), chosen_(chosen) {}

  void add_import() {
    auto* v = group_.add_subcommand(
        "import", "Store a model of a GGUF or safetensors file in an HN4 volume");
    v->add_option("SOURCE", o_->source, "GGUF or safetensors file, or folder with one")
        ->required();
    finish(v, import_example, &model_import);
    v->add_option("--tag", o_->tag, "Name of the model in the volume")->required();
    v->add_flag("--replace", o_->replace, "Replace what the tag holds");
  }
  void add_ls() {
    auto* v = group_.add_subcommand(
        "ls", "List the models; exit 1 if the record of one is damaged");
    finish(v, "weir model ls models.hn4", &model_ls);
  }
  void add_verify() {
    auto* v = group_.add_subcommand(
        "verify", "Read every weight and compare digests; exit 1 if a model is damaged");
    finish(v, "weir model verify models.hn4 --tag minilm", &model_verify);
    v->add_option("--tag", o_->tag, "Model (default: all)");
  }
  void add_export() {
    auto* v = group_.add_subcommand("export", "Write a model for other programs");
    finish(v,
           "weir model export models.hn4 smollm2.gguf --tag smollm2 --to gguf "
           "--type q8_0\n"
           "  weir model export models.hn4 minilm/ --tag minilm --to safetensors\n\n"
           "--to safetensors writes a folder for Hugging Face transformers, --to gguf a "
           "file\n"
           "for llama.cpp",
           &model_export);
    v->add_option("OUT", o_->out, "File (gguf) or folder (safetensors) to write")
        ->required();
    v->add_option("--to", o_->to, "safetensors or gguf")->required();
    v->add_option("--type", o_->type,
                  "f32, or q8_0 for gguf (default: as stored where the format can)");
    v->add_option("--tag", o_->tag, "Model (default: the only one)");
    v->add_flag("--force", o_->force, "Replace existing files");
  }

 private:
  // Adds what all verbs have. Positional arguments are taken in the order in which they
  // are added: `import` has SOURCE before VOLUME, `export` has OUT behind it.
  void finish(CLI::App* v, const char* example, model_command run) {
    v->footer(std::string("Example:\n  ") + example);
    v->add_option("VOLUME", o_->volume, "HN4 volume")->required();
    v->add_flag("--json", o_->json, "Print facts as JSON");
    v->callback([o = o_, &chosen = chosen_, run] {
      chosen = [o, run](output& out) { return run(*o, out); };
    });
  }

  CLI::App& group_;
  action& chosen_;
  std::shared_ptr<model_options> o_ = std::make_shared<model_options>();
};

}  // namespace

void add_model_verbs(CLI::App& app, std::function<command_result(output&)>& chosen) {
  auto* group =
      app.add_subcommand("model", "Store models in HN4 volumes, and export them");
  group->require_subcommand(1);
  model_verbs verbs(*group, chosen);
  verbs.add_import();
  verbs.add_ls();
  verbs.add_verify();
  verbs.add_export();
}

}  // namespace weir::tools
