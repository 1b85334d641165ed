// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loading of modules: trust, the choice of code for each kernel, and the entries in that
/// code.
///
/// Nothing of a module runs before its container has been read, its hashes agree and its
/// signature satisfies the trust policy. Then a section is chosen for each kernel, and
/// code is loaded only from chosen sections.
///
///   image -> parse_fatbin (hashes, signature, layout)
///         -> check_trust
///         -> a section for each kernel: by level of the processor, or by the devices
///         -> code from memory, or from a file of the cache
///         -> entry of each kernel: size of arguments and flags must agree
///         -> loaded_module
#include "weir/tessera/module/loader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <utility>

#include "explain.hpp"
#include "module/cpu_level.hpp"
#include "shared_object.hpp"

namespace weir::tessera {

/// Everything that a loaded module has. It owns the loaded code, so entries of kernels
/// are valid as long as it exists.
struct loaded_module::content {
  abi_version abi;
  digest256 source_hash{};
  digest256 content_hash{};
  std::optional<policy_record> policy;
  std::vector<plan_record> plans;
  std::vector<section_facts> sections;
  signature_state signature = signature_state::absent;
  std::string explain;
  std::vector<loaded_kernel> kernels;
  std::vector<std::unique_ptr<shared_object>> code;
  std::shared_ptr<const device_code> devices;
};

// An entry is called once for each block or once for each thread. The flag of the kernel
// says which type its function has.
// The other function returns null, so callers choose by the one that is set.
tessBlockEntry loaded_kernel::block_entry() const noexcept {
  return per_thread() ? nullptr : reinterpret_cast<tessBlockEntry>(entry);
}
tessThreadEntry loaded_kernel::thread_entry() const noexcept {
  // Null if the kernel is entered once per block.
  return per_thread() ? reinterpret_cast<tessThreadEntry>(entry) : nullptr;
}

// The words of descriptions. Trusted means that the key is listed, valid only that the
// signature fits the key beside it.
std::string_view name_of(signature_state state) noexcept {
  switch (state) {
    case signature_state::absent: return "absent";
    case signature_state::valid: return "valid";
    case signature_state::trusted: return "trusted";
  }
  return "unknown";
}

// The accessors return references into the content, which never changes.
loaded_module::loaded_module(std::unique_ptr<content> c) : content_(std::move(c)) {}
loaded_module::~loaded_module() = default;
abi_version loaded_module::abi() const noexcept {
  return content_->abi;
}
const digest256& loaded_module::source_hash() const noexcept {
  return content_->source_hash;
}
const digest256& loaded_module::content_hash() const noexcept {
  return content_->content_hash;
}
/// In the order of the container.
std::span<const loaded_kernel> loaded_module::kernels() const noexcept {
  return content_->kernels;
}
/// The result lives as long as the module.
const loaded_kernel* loaded_module::find(std::string_view name) const noexcept {
  const auto& kernels = content_->kernels;
  const auto found =
      std::find_if(kernels.begin(), kernels.end(),
                   [&](const loaded_kernel& k) { return k.record.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}
const std::optional<policy_record>& loaded_module::policy() const noexcept {
  return content_->policy;
}
std::span<const plan_record> loaded_module::plans() const noexcept {
  return content_->plans;
}
std::span<const section_facts> loaded_module::sections() const noexcept {
  return content_->sections;
}
signature_state loaded_module::signature() const noexcept {
  return content_->signature;
}
const std::string& loaded_module::explain() const noexcept {
  return content_->explain;
}

namespace {

/// Returns the state of the signature, which the parser has verified against its key.
/// A key that is not in the list is no error unless the policy requires one: the state is
/// then `valid`.
/// @error{invalid_argument; the policy requires a trusted key, and there is none}
result<signature_state> check_trust(const fatbin& module, const trust_policy& trust) {
  if (module.signature && trust.trusts(module.signature->key)) {
    return signature_state::trusted;
  }
  // A required signature must be of a trusted key; a valid one of another key is not
  // enough.
  if (trust.required) {
    return error(
        errc::invalid_argument,
        module.signature
            ? fmt::format("cannot load a module: expected the signature of one of {} "
                          "trusted keys, found one of {}",
                          trust.keys.size(), to_hex(module.signature->key))
            : fmt::format("cannot load a module: expected a signature, found none"));
  }
  return module.signature ? signature_state::valid : signature_state::absent;
}

/// Returns true if the kernel has code in this section.
bool has_code(const kernel_record& kernel, std::size_t section) {
  return (kernel.targets >> section & 1) != 0;
}

bool is_bitcode(section_kind kind) {
  return kind == section_kind::nvvm_bitcode || kind == section_kind::rocdl_bitcode;
}

/// Returns the machines for which a kernel has code, as text for messages.
/// "CPU_SO x86-64-v3, PTX compute_75", for example.
std::string targets_of(const fatbin& module, const kernel_record& kernel) {
  std::string out;
  for (std::size_t i = 0; i < module.code.size(); ++i) {
    if (has_code(kernel, i)) {
      const code_section& s = module.code[i];
      out += fmt::format("{}{}{}{}", out.empty() ? "" : ", ", name_of(s.kind),
                         s.arch.empty() ? "" : " ", s.arch);
    }
  }
  return out.empty() ? "none" : out;
}

// Returns the section that a kernel runs from: the one for the best level of this
// processor, or else the registered function. If there is neither, bitcode makes the
// error `unsupported`, since a compiler could use it.
result<std::size_t> choose_section(const fatbin& module, const kernel_record& kernel,
                                   const std::vector<std::string>& levels) {
  // Levels come best first.
  for (const std::string& level : levels) {
    for (std::size_t i = 0; i < module.code.size(); ++i) {
      const code_section& s = module.code[i];
      if (has_code(kernel, i) && s.kind == section_kind::cpu_so && s.arch == level) {
        return i;
      }
    }
  }
  // A registered function is used only if no level fits.
  bool bitcode = false;
  for (std::size_t i = 0; i < module.code.size(); ++i) {
    if (has_code(kernel, i) && module.code[i].kind == section_kind::cpu_registered) {
      return i;
    }
    bitcode = bitcode || (has_code(kernel, i) && is_bitcode(module.code[i].kind));
  }
  // The message names the best level of this processor.
  const std::string here = levels.empty() ? "registered functions" : levels.front();
  const std::string found = targets_of(module, kernel);
  if (bitcode) {
    return error(
        errc::unsupported,
        fmt::format("cannot compile kernel \"{}\": expected code for {}, found {}",
                    kernel.name, here, found));
  }
  // For another machine than this one.
  return error(errc::arch_mismatch,
               fmt::format("cannot run kernel \"{}\": expected code for {}, found {}",
                           kernel.name, here, found));
}

/// Returns the error of a kernel whose code differs from its record.
/// Such a kernel would read other arguments than those that it is given.
error disagrees(const kernel_record& kernel, std::string_view expected,
                std::string found) {
  return error(errc::invalid_argument,
               fmt::format("cannot use kernel \"{}\": expected {}, found {}", kernel.name,
                           expected, found));
}

/// Finds a kernel in the table of its code. Entries may be larger than this version
/// knows, so the next one is `entrySize` bytes further. Size of arguments and flags must
/// agree, since a wrong one would let the kernel read beyond its arguments.
result<kernel_entry> entry_in(const tessKernelLibrary& table,
                              const kernel_record& kernel) {
  const auto* next = reinterpret_cast<const std::byte*>(table.entries);
  for (std::uint32_t i = 0; i < table.entryCount; ++i, next += table.entrySize) {
    const auto* e = reinterpret_cast<const tessKernelEntry*>(next);
    if (e->name == nullptr || kernel.symbol != e->name) {
      continue;
    }
    // The layout of the record decides how large the buffer is.
    const std::uint32_t padded = extent_of(kernel.parameters).padded;
    if (e->argBytes != padded || e->flags != kernel.flags || e->entry == nullptr) {
      return disagrees(
          kernel,
          fmt::format("an entry with {} bytes and flags {:#x}", padded, kernel.flags),
          fmt::format("{} bytes and flags {:#x}", e->argBytes, e->flags));
    }
    return e->entry;
  }
  return disagrees(kernel, fmt::format("the symbol \"{}\" in its code", kernel.symbol),
                   "none");
}

/// Finds the registered function of a kernel, by the same rules.
result<kernel_entry> registered_entry(const kernel_record& kernel) {
  const std::optional<host_kernel> there = find_host_kernel(kernel.symbol);
  if (!there) {
    return error(errc::arch_mismatch,
                 fmt::format("cannot run kernel \"{}\": expected a registered function "
                             "\"{}\", found none",
                             kernel.name, kernel.symbol));
  }
  const argument_extent extent = extent_of(there->parameters);
  // Parameters are compared by the size of their buffers.
  if (extent != extent_of(kernel.parameters) || there->flags != kernel.flags) {
    return disagrees(kernel,
                     fmt::format("a registered function with {} bytes and flags {:#x}",
                                 extent_of(kernel.parameters).used, kernel.flags),
                     fmt::format("{} bytes and flags {:#x}", extent.used, there->flags));
  }
  return there->entry;
}

}  // namespace

/// One load of a module. The code of a section is loaded when the first kernel needs it.
class module_loader {
 public:
  module_loader(const fatbin& module, const load_options& options)
      : module_(module),
        options_(options),
        content_(std::make_unique<loaded_module::content>()),
        tables_(module.code.size(), nullptr) {}

  /// Chooses all sections before any code is loaded, so that a module that cannot run
  /// here runs none of its initializers.
  result<std::shared_ptr<const loaded_module>> load() {
    // Trust comes before everything else.
    WEIR_TRY(content_->signature, check_trust(module_, options_.trust));
    content_->sections = facts_of(module_);
    std::vector<std::ptrdiff_t> chosen;
    // GPUs load code by a function of the backend.
    if (options_.devices) {
      WEIR_CHECK(load_on_devices());
      // Devices of different architectures may run different sections; the description
      // shows that of the first device.
      const std::size_t section = content_->devices->sections().front();
      chosen.assign(module_.kernels.size(), static_cast<std::ptrdiff_t>(section));
    } else {
      WEIR_TRY(chosen, load_on_processor());
    }
    content_->abi = module_.abi;
    content_->source_hash = module_.source_hash;
    content_->content_hash = module_.content_hash;
    content_->policy = module_.policy;
    content_->plans = module_.plans;
    content_->explain =
        explain_json(module_, content_->sections, chosen, content_->signature);
    return std::shared_ptr<const loaded_module>(new loaded_module(std::move(content_)));
  }

 private:
  /// Returns the number of the section of each kernel.
  result<std::vector<std::ptrdiff_t>> load_on_processor() {
    std::vector<std::ptrdiff_t> chosen;
    const std::vector<std::string> levels = host_levels_up_to(options_.max_level);
    // All kernels must have code before any is loaded.
    for (const kernel_record& k : module_.kernels) {
      WEIR_TRY(const std::size_t section, choose_section(module_, k, levels));
      chosen.push_back(static_cast<std::ptrdiff_t>(section));
    }
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      WEIR_CHECK(add_kernel(module_.kernels[i], static_cast<std::size_t>(chosen[i])));
    }
    return chosen;
  }

  /// Loads the code of devices, each of which may run another section.
  result<void> load_on_devices() {
    WEIR_TRY(content_->devices, options_.devices(module_));
    const auto& used = content_->devices->sections();
    for (const kernel_record& k : module_.kernels) {
      // Every kernel needs code on every device.
      for (const std::size_t section : used) {
        if (!has_code(k, section)) {
          return error(
              errc::arch_mismatch,
              fmt::format("cannot run kernel \"{}\": expected code for {}, "
                          "found {}",
                          k.name, module_.code[section].arch, targets_of(module_, k)));
        }
        content_->sections[section].selected = true;
      }
      WEIR_TRY(const kernel_entry entry, content_->devices->entry(k.name));
      // The section of the first device is shown.
      content_->kernels.push_back({k, extent_of(k.parameters), entry, used.front()});
    }
    return {};
  }

  /// Finds the entry of a kernel in its section, and adds the kernel.
  result<void> add_kernel(const kernel_record& kernel, std::size_t section) {
    kernel_entry entry = nullptr;
    if (module_.code[section].kind == section_kind::cpu_registered) {
      WEIR_TRY(entry, registered_entry(kernel));
    } else {
      WEIR_TRY(const tessKernelLibrary* table, table_of(section));
      WEIR_TRY(entry, entry_in(*table, kernel));
    }
    content_->sections[section].selected = true;
    content_->kernels.push_back({kernel, extent_of(kernel.parameters), entry, section});
    return {};
  }

  /// Returns the table of kernels in a section's code, loading it at the first call.
  result<const tessKernelLibrary*> table_of(std::size_t section) {
    if (tables_[section] == nullptr) {
      WEIR_TRY(std::unique_ptr<shared_object> code, load_code(module_.code[section]));
      WEIR_TRY(tables_[section], code->library(options_.abi));
      // Kept as long as the module.
      content_->code.push_back(std::move(code));
    }
    return tables_[section];
  }

  /// Loads code from memory if the system allows that, or else from a file of the cache.
  /// `from_files` asks for the second way at once.
  result<std::unique_ptr<shared_object>> load_code(const code_section& section) {
    if (!options_.from_files) {
      auto loaded = shared_object::from_memory(section.bytes);
      // Any other failure would come from a file, too.
      if (loaded || loaded.error().code() != errc::unsupported) {
        return loaded;
      }
    }
    if (options_.cache == nullptr) {
      return error(errc::unsupported,
                   "cannot load the code of a module: expected a cache folder where "
                   "memory is no place for it, found none");
    }
    return load_from_cache(section);
  }

  /// Loads code by way of the cache: writes it if it is not there, and opens the entry
  /// again, so that what is loaded has been checked like every other entry.
  result<std::unique_ptr<shared_object>> load_from_cache(const code_section& section) {
    cache_key key;
    key.kind = cache_kind::code;
    // The key has no kernel: the entry is the code of a whole section.
    key.module_hash = module_.content_hash;
    key.arch = section.arch;
    WEIR_TRY(std::optional<cached_file> file, options_.cache->open_entry(key));
    if (!file) {
      // Without the cache, code cannot be loaded here.
      if (auto put = options_.cache->put(key, section.bytes); !put) {
        return error(errc::unsupported,
                     "cannot load the code of a module: expected a cache folder that "
                     "takes it, found another")
            .because(std::move(put).error());
      }
      // The entry is examined like any other.
      WEIR_TRY(file, options_.cache->open_entry(key));
    }
    if (!file) {
      return error(errc::unsupported,
                   "cannot load the code of a module: expected what was written to the "
                   "cache, found nothing");
    }
    return shared_object::from_file(std::move(*file));
  }

  const fatbin& module_;
  const load_options& options_;
  std::unique_ptr<loaded_module::content> content_;
  std::vector<const tessKernelLibrary*> tables_;
};

result<std::shared_ptr<const loaded_module>> load_module(
    bytes_view image, const load_options& options) try {
  WEIR_TRY(const fatbin module, parse_fatbin(image, options.abi));
  return module_loader(module, options).load();
} catch (const std::bad_alloc&) {
  return error(
      errc::out_of_memory,
      fmt::format("cannot load a module of {} bytes: expected memory, found none",
                  image.size()));
}

}  // namespace weir::tessera
