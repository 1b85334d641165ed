// SPDX-License-Identifier: Apache-2.0
/// @file
/// The verbs of `weir module` that write files: build, sign and keygen.
///
/// A build reads the description, adds the code of the command line to it, loads or
/// compiles every file of code, and gives all to `tessera::fatbin_builder`, which writes
/// the fatbin. Signing reads a fatbin, and builds the same content again with a
/// signature. Nothing is written before the whole image exists in memory, and the file
/// appears at once (`write_file_atomically`), so a failed build leaves an older file as
/// it was.
#include <deque>
#include <optional>

#include "module/description.hpp"
#include "module/gpu_code.hpp"
#include "module/keys.hpp"
#include "module/verbs.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tools {

namespace {

using tessera::secret_key;

// Returns the key of `--key`, or none if the module stays unsigned.
result<std::optional<secret_key>> key_of(const module_options& options) {
  if (options.key.empty()) {
    return std::optional<secret_key>();
  }
  WEIR_TRY(const secret_key key, read_secret_key(options.key));
  return std::optional(key);
}

// Returns one bit for each code section, set if the kernel's targets include its machine;
// all bits if the kernel has no targets.
result<std::uint64_t> mask_of(const described_kernel& kernel,
                              const std::vector<code_file>& code) {
  if (kernel.targets.empty()) {
    return ~std::uint64_t{0};
  }
  std::uint64_t mask = 0;
  for (const std::string& target : kernel.targets) {
    bool found = false;
    for (std::size_t i = 0; i < code.size() && i < 64; ++i) {
      // A kernel may run on several sections of one machine, such as a shared object and
      // PTX.
      if (code[i].arch == target) {
        mask |= std::uint64_t{1} << i;
        found = true;
      }
    }
    if (!found) {
      return error(errc::invalid_argument,
                   fmt::format("cannot build kernel \"{}\": expected code for its "
                               "targets, found none for {}",
                               kernel.record.name, json_quote(target)));
    }
  }
  return mask;
}

// Returns the bytes of the fatbin that a description asks for, signed if there is a key.
// The architecture of PTX is known only after its file was read, so the code comes before
// the targets of the kernels. A section without a file stands for functions that the
// program registers itself.
result<byte_vector> build_image(module_description& from, const secret_key* sign_with) {
  tessera::fatbin_builder builder;
  std::deque<byte_vector>
      code_bytes;  // the builder refers to the code until it has built
  for (code_file& code : from.code) {
    if (!code.path.empty()) {
      WEIR_TRY(byte_vector bytes, content_of(code));
      code_bytes.push_back(std::move(bytes));
    }
    builder.add_code(code.kind, code.arch,
                     code.path.empty() ? bytes_view() : bytes_view(code_bytes.back()));
  }
  for (const described_kernel& kernel : from.kernels) {
    tessera::kernel_record record = kernel.record;
    WEIR_TRY(record.targets, mask_of(kernel, from.code));
    WEIR_CHECK(builder.add_kernel(std::move(record)));
  }
  // One hash over the lengths and the contents of all sources in their order. Names of
  // files are not part of it.
  if (!from.sources.empty()) {
    tessera::sha256_stream hash;
    for (const std::string& source : from.sources) {
      WEIR_TRY(const byte_vector bytes, read_file(posix_file_system(), source));
      hash.text(as_text(bytes));
    }
    builder.set_source_hash(hash.digest());
  }
  for (const tessera::plan_record& plan : from.plans) {
    builder.add_plan(plan);
  }
  if (from.has_policy) {
    builder.set_policy(from.policy);
  }
  builder.set_explain(from.explain);
  return builder.build(sign_with);
}

// Writes a fatbin and prints its facts. It is parsed before it is written, so that the
// facts are those of the file and an image that cannot be read replaces no file.
result<void> write_fatbin(const std::string& path, bytes_view image, bool json,
                          output& out) {
  WEIR_TRY(const tessera::fatbin module, tessera::parse_fatbin(image));
  WEIR_CHECK(write_file_atomically(posix_file_system(), path, image));
  const std::string key =
      module.signature ? json_quote(tessera::to_hex(module.signature->key)) : "null";
  if (json) {
    out.print(R"({{"file":{},"bytes":{},"kernels":{},"sections":{},"content_hash":"{}",)"
              R"("key":{}}})"
              "\n",
              json_quote(path), image.size(), module.kernels.size(), module.code.size(),
              tessera::to_hex(module.content_hash), key);
  } else {
    out.print("{}: {}, {} kernels, {} code sections, {}\n", path,
              human_bytes(image.size()), module.kernels.size(), module.code.size(),
              module.signature ? "signed" : "not signed");
  }
  return {};
}

// Refuses the file of `OUT` or `--out` if it exists and `--force` is not set.
result<void> check_output(const module_options& options) {
  if (!options.force && posix_file_system().exists(options.out)) {
    return error(errc::already_exists,
                 fmt::format("cannot write {}: expected no file of that name, found one",
                             options.out))
        .hint("--force replaces it");
  }
  return {};
}

}  // namespace

// The output is checked first, because compiling may take minutes.
command_result module_build(const module_options& options, output& out) {
  WEIR_CHECK(check_output(options));
  WEIR_TRY(const byte_vector text, read_input(options.file));
  WEIR_TRY(module_description from,
           read_description(as_text(text), options.file, folder_of(options.file)));
  for (const std::string& argument : options.code) {
    WEIR_TRY(code_file code, read_code_argument(argument));
    from.code.push_back(std::move(code));
  }
  for (const std::string& argument : options.gpu_code) {
    WEIR_TRY(code_file code, read_gpu_argument(argument));
    from.code.push_back(std::move(code));
  }
  WEIR_TRY(const std::optional<secret_key> key, key_of(options));
  WEIR_TRY(const byte_vector image, build_image(from, key ? &*key : nullptr));
  WEIR_CHECK(write_fatbin(options.out, image, options.json, out));
  return 0;
}

// The module is parsed first, so that a damaged module is never signed. Without `--out`
// the input is replaced, which is known to be a module; another file might be anything.
command_result module_sign(const module_options& options, output& out) {
  if (!options.out.empty()) {
    WEIR_CHECK(check_output(options));
  }
  WEIR_TRY(const secret_key key, read_secret_key(options.key));
  WEIR_TRY(const byte_vector image, read_file(posix_file_system(), options.file));
  WEIR_TRY(const tessera::fatbin module, tessera::parse_fatbin(image));
  WEIR_TRY(const byte_vector done, tessera::fatbin_builder(module).build(&key));
  WEIR_CHECK(write_fatbin(options.out.empty() ? options.file : options.out, done,
                          options.json, out));
  return 0;
}

// The secret key is printed nowhere; only the file has it.
command_result module_keygen(const module_options& options, output& out) {
  WEIR_TRY(const tessera::key_pair keys, tessera::make_key_pair());
  WEIR_CHECK(write_key_files(options.file, keys));
  const std::string open = tessera::to_hex(keys.open);
  if (options.json) {
    out.print("{{\"secret\":{},\"public\":{},\"key\":\"{}\"}}\n",
              json_quote(options.file), json_quote(options.file + ".pub"), open);
  } else {
    out.print("{}: keep it secret\n{}.pub: {}\n", options.file, options.file, open);
  }
  return 0;
}

}  // namespace weir::tools
