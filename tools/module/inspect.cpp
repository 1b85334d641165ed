// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir module` that read a module: ls, explain and verify. None of them
/// runs its code.
///
/// All three verbs parse the whole module, which checks every hash and the signature.
/// They differ in what they print.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "module/description.hpp"
#include "module/verbs.hpp"
#include "weir/base/text.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tools {

namespace {

/// A parsed module, and the bytes of the file that it points into.
struct read_module {
  byte_vector image;
  tessera::fatbin module;
};

/// The bytes move together with the module that points into them: moving a vector keeps
/// its memory.
result<read_module> read_fatbin(const module_options& options) {
  read_module out;
  WEIR_TRY(out.image, read_input(options.file));
  auto parsed = tessera::parse_fatbin(out.image);
  // The name of the file is the place of the error; the parser knows only bytes.
  if (!parsed) {
    return std::move(parsed.error()).located(options.file);
  }
  out.module = std::move(*parsed);
  return out;
}

// Returns the words for the signature. Its validity was checked by parsing.
std::string signature_text(const tessera::fatbin& module) {
  return module.signature ? "signed by " + tessera::to_hex(module.signature->key)
                          : "not signed";
}

/// Prints a kernel as a declaration, and the bytes of its packed arguments.
void list_kernel(const tessera::kernel_record& k, output& out) {
  std::string parameters;
  for (const tessera::kernel_parameter& p : k.parameters) {
    parameters += parameters.empty() ? "" : ", ";
    parameters += parameter_text(p);
  }
  out.print("  {}({}): {} bytes\n", k.name, parameters,
            tessera::extent_of(k.parameters).padded);
}

}  // namespace

// With `--json` it prints what `explain` prints, because that has all facts of the list.
command_result module_ls(const module_options& options, output& out) {
  WEIR_TRY(const read_module read, read_fatbin(options));
  const tessera::fatbin& m = read.module;
  if (options.json) {
    out.print("{}\n", tessera::explain(m));
    return 0;
  }
  out.print("{}: ABI {}.{}, {}, {}\nkernels\n", options.file, m.abi.major, m.abi.minor,
            human_bytes(m.bytes), signature_text(m));
  for (const tessera::kernel_record& k : m.kernels) {
    list_kernel(k, out);
  }
  // Sections in the order in which targets of kernels number them.
  out.print("code\n");
  for (const tessera::code_section& s : m.code) {
    out.print("  {} {} {}\n", name_of(s.kind), s.arch.empty() ? "-" : s.arch,
              human_bytes(s.bytes.size()));
  }
  return 0;
}

// The text of the module is compact JSON; it is parsed only to print it with indentation.
command_result module_explain(const module_options& options, output& out) {
  WEIR_TRY(const read_module read, read_fatbin(options));
  const std::string text = tessera::explain(read.module);
  if (options.json) {
    out.print("{}\n", text);
  } else {
    out.print("{}\n", nlohmann::ordered_json::parse(text).dump(2));
  }
  return 0;
}

// A valid signature proves only that somebody with that key has signed the module.
// Whether the key is trusted is decided by the list of keys: the option, else the
// variable of the environment.
command_result module_verify(const module_options& options, output& out) {
  WEIR_TRY(const read_module read, read_fatbin(options));
  const char* variable = std::getenv("TESS_TRUSTED_KEYS");
  // Keys or a file of keys; an empty text gives no key.
  const std::string keys = !options.trusted.empty() ? options.trusted
                           : variable != nullptr    ? variable
                                                    : "";
  tessera::trust_policy trust;
  WEIR_TRY(trust.keys, tessera::read_trusted_keys(keys));
  const auto& signature = read.module.signature;
  const bool trusted = signature && trust.trusts(signature->key);
  if (options.require_signature && !trusted) {
    return error(errc::corrupt,
                 fmt::format(
                     "cannot trust \"{}\": expected a signature by a trusted key ({} "
                     "are given), found {}",
                     options.file, trust.keys.size(),
                     signature ? tessera::to_hex(signature->key) : "none"))
        .hint("give trusted keys with --trusted or TESS_TRUSTED_KEYS");
  }
  if (options.json) {
    out.print(R"({{"file":{},"sound":true,"content_hash":"{}","key":{},"trusted":{}}})"
              "\n",
              json_quote(options.file), tessera::to_hex(read.module.content_hash),
              signature ? json_quote(tessera::to_hex(signature->key)) : "null", trusted);
  } else {
    out.print("{}: sound, {}{}\n", options.file, signature_text(read.module),
              trusted ? ", trusted" : "");
  }
  return 0;
}

}  // namespace weir::tools
