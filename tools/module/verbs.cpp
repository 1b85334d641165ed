// SPDX-License-Identifier: Apache-2.0
/// @file
/// Registers the verbs of `weir module` with the command line parser.
///
/// All verbs share one options object. A command line has one verb, which sets its own
/// fields.
#include "module/verbs.hpp"

#include <CLI/CLI.hpp>
#include <memory>

namespace weir::tools {

namespace {

using action = std::function<command_result(output&)>;
using module_command = command_result (*)(const module_options&, output&);

constexpr const char* build_example =
    "weir module build saxpy.toml saxpy.fatbin --so x86-64-v3=saxpy-v3.so\n"
    "where saxpy.toml says\n"
    "  sources = [\"saxpy.cpp\"]\n"
    "  [[kernel]]\n"
    "  name = \"saxpy\"\n"
    "  parameters = [\"const fp32* x\", \"fp32* y\", \"int64 n\", \"fp32 a\"]\n"
    "  block = [128, 1, 1]\n"
    "  flags = [\"deterministic\"]\n"
    "and may have tables [[code]] (kind, arch, file), [[plan]] and [policy]";

}  // namespace

void add_module_verbs(CLI::App& app, action& chosen) {
  auto* group =
      app.add_subcommand("module", "Build, inspect and sign modules of kernels");
  group->require_subcommand(1);
  const auto o = std::make_shared<module_options>();
  // Adds a verb with its positional argument FILE and with `--json`, and returns it for
  // further options.
  const auto add = [&](const char* name, const char* description, const char* example,
                       const char* file, module_command run) {
    CLI::App* v = group->add_subcommand(name, description);
    v->footer(std::string("Example:\n  ") + example);
    v->add_option("FILE", o->file, file)->required();
    v->add_flag("--json", o->json, "Print facts as JSON");
    v->callback(
        [o, &chosen, run] { chosen = [o, run](output& out) { return run(*o, out); }; });
    return v;
  };

  auto* build = add("build", "Pack kernels and their code into a fatbin", build_example,
                    "Description in TOML", &module_build);
  build->add_option("OUT", o->out, "Fatbin to write")->required();
  // Each use of the option takes one value, so that the positional arguments behind it
  // are not taken for further values.
  build->add_option("--so", o->code, "A shared object for one level; repeatable")
      ->type_name("LEVEL=FILE")
      ->take_all()
      ->allow_extra_args(false);
  build
      ->add_option("--gpu", o->gpu_code,
                   "PTX, a cubin, or a CUDA source that nvcc compiles; repeatable")
      ->type_name("[ARCH=]FILE")
      ->take_all()
      ->allow_extra_args(false);
  build->add_option("--key", o->key, "Sign with this secret key")->type_name("FILE");
  build->add_flag("--force", o->force, "Replace an existing file");

  add("ls", "List kernels, parameters and code sections",
      "weir module ls build/release/demos/kernels.fatbin", "Fatbin, or \"-\"",
      &module_ls);
  add("explain", "Print all that a module says of itself, as JSON",
      "weir module explain build/release/demos/kernels.fatbin", "Fatbin, or \"-\"",
      &module_explain);
  auto* verify = add("verify", "Check every hash, and the signature if there is one",
                     "weir module verify kernels.fatbin --trusted release.pub --require",
                     "Fatbin, or \"-\"", &module_verify);
  verify
      ->add_option("--trusted", o->trusted,
                   "Public keys, or a file of them (default: TESS_TRUSTED_KEYS)")
      ->type_name("KEYS");
  verify->add_flag("--require", o->require_signature,
                   "Fail without a signature of a trusted key");
  auto* sign =
      add("sign", "Sign a module, replacing a signature that is there",
          "weir module sign kernels.fatbin --key release.key", "Fatbin", &module_sign);
  sign->add_option("--key", o->key, "Secret key")->type_name("FILE")->required();
  sign->add_option("--out", o->out, "Write here instead")->type_name("FILE");
  sign->add_flag("--force", o->force, "Replace the file of --out");
  add("keygen", "Make a secret key, and FILE.pub beside it",
      "weir module keygen release.key", "Where the secret key goes", &module_keygen);
}

}  // namespace weir::tools
