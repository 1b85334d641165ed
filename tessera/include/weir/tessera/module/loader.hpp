// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads containers: makes their kernels callable on this processor or on devices.
///
/// Errors of this folder and the status that the C interface makes of them:
/// | invalid_argument, corrupt | TESS_ERR_INVALID_VALUE |
/// | unsupported_version | TESS_ERR_ABI_VERSION_MISMATCH |
/// | arch_mismatch | TESS_ERR_ARCH_MISMATCH |
/// | unsupported | TESS_ERR_UNSUPPORTED |
/// | out_of_memory | TESS_ERR_OUT_OF_MEMORY |
/// | cache_corrupt | TESS_ERR_CACHE_CORRUPT |
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera_kernel.h"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/cache.hpp"
#include "weir/tessera/module/fatbin.hpp"
#include "weir/tessera/module/signature.hpp"

namespace weir::tessera {

/// Entry of a kernel: a tessBlockEntry or, by its flags, a tessThreadEntry.
using kernel_entry = void (*)();

/// A function of this program that modules may name instead of containing code, by a
/// section CPU_REGISTERED.
struct host_kernel {
  std::string name;                          ///< name of the kernels
  kernel_entry entry = nullptr;              ///< the function
  std::vector<kernel_parameter> parameters;  ///< parameters; offsets are computed
  std::uint32_t flags = 0;                   ///< TESS_KERNEL_*
};
/// Registers a function.
/// @error{invalid_argument; no entry, a name that is no C identifier, unknown flags, or
/// parameters without a layout} @error{already_exists; the name is taken}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> register_host_kernel(host_kernel kernel);
/// Forgets a function. Loaded modules keep calling it: unload them before it ends.
/// @error{not_found; no function has this name}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> unregister_host_kernel(std::string_view name);
/// Returns the function of this name, or nothing. @threads{safe to call concurrently}
[[nodiscard]] std::optional<host_kernel> find_host_kernel(std::string_view name);

/// A kernel that can be called.
struct loaded_kernel {
  kernel_record record;          ///< description in the container
  argument_extent arguments;     ///< size of the parameter buffer
  kernel_entry entry = nullptr;  ///< entry that can be called
  std::size_t section = 0;       ///< number in `loaded_module::sections`

  /// Returns true if the entry is a tessThreadEntry.
  [[nodiscard]] bool per_thread() const noexcept {
    return (record.flags & TESS_KERNEL_PER_THREAD) != 0;
  }
  /// Returns the entry of a block, or null for an entry of the other type.
  [[nodiscard]] tessBlockEntry block_entry() const noexcept;
  /// Returns the entry of a thread, or null for an entry of the other type.
  [[nodiscard]] tessThreadEntry thread_entry() const noexcept;
};

/// Facts about a code section after loading.
struct section_facts {
  section_kind kind = section_kind::cpu_so;  ///< kind of the section
  std::string arch;                          ///< processor that runs it
  std::uint64_t bytes = 0;                   ///< size in bytes
  bool selected = false;                     ///< true if a kernel runs from it
};

/// States of a signature.
enum class signature_state : std::uint8_t { absent, valid, trusted };
/// Returns the name of a state.
[[nodiscard]] std::string_view name_of(signature_state state) noexcept;

/// Code of a module for devices other than processors. @threads{immutable}
class device_code {
 public:
  virtual ~device_code() = default;
  /// Returns the entry that the backend of the devices knows.
  /// @error{not_found; the module has no such kernel}
  [[nodiscard]] virtual result<kernel_entry> entry(std::string_view kernel) const = 0;
  /// Returns the numbers in `fatbin::code` of the sections that the devices run.
  [[nodiscard]] virtual const std::vector<std::size_t>& sections() const = 0;
};
/// Loads the code of a module on devices.
using device_loader =
    std::function<result<std::shared_ptr<const device_code>>(const fatbin& module)>;

/// Options of loading.
struct load_options {
  trust_policy trust;             ///< trusted keys
  abi_version abi = runtime_abi;  ///< version of the ABI of the program
  /// Highest level of the processor to use, such as "x86-64-v2"; empty: that of the host.
  std::string max_level;
  /// Cache for code that cannot be loaded from memory; may be null. It lives while
  /// `load_module` runs.
  module_cache* cache = nullptr;
  /// True to load code from files alone, as on systems that forbid code in memory.
  bool from_files = false;
  /// Loads code for other devices; empty: the kernels run on this processor.
  device_loader devices;
};

/// A module whose code stays in memory for the life of the object. The image may go.
/// @threads{immutable; destroy it when nothing runs in its kernels}
class loaded_module {
 public:
  ~loaded_module();
  loaded_module(const loaded_module&) = delete;
  loaded_module& operator=(const loaded_module&) = delete;

  /// Returns the version of the ABI.
  [[nodiscard]] abi_version abi() const noexcept;
  /// Returns the hash of the source.
  [[nodiscard]] const digest256& source_hash() const noexcept;
  /// Returns the hash of the content.
  [[nodiscard]] const digest256& content_hash() const noexcept;
  /// Returns the kernels in the order of the container.
  [[nodiscard]] std::span<const loaded_kernel> kernels() const noexcept;
  /// Returns the kernel of this name, or null.
  [[nodiscard]] const loaded_kernel* find(std::string_view name) const noexcept;
  /// Returns the policy of the module, or nothing.
  [[nodiscard]] const std::optional<policy_record>& policy() const noexcept;
  /// Returns the hints for collectives.
  [[nodiscard]] std::span<const plan_record> plans() const noexcept;
  /// Returns facts about the code sections.
  [[nodiscard]] std::span<const section_facts> sections() const noexcept;
  /// Returns the state of the signature.
  [[nodiscard]] signature_state signature() const noexcept;
  /// Returns JSON: kernels, parameters, targets that exist and that were selected, plans,
  /// policy, and the JSON of the container about tiles and fusion.
  [[nodiscard]] const std::string& explain() const noexcept;

 private:
  struct content;
  friend class module_loader;
  explicit loaded_module(std::unique_ptr<content> c);
  std::unique_ptr<content> content_;
};

/// Reads and checks a container, chooses for each kernel the best section that this
/// processor runs, and loads those sections. The choice comes before any of their code
/// runs. A kernel takes the highest level it has; else the program's registered function.
/// With `load_options::devices`, that function loads the code instead, with its errors.
/// @error{corrupt; see parse_fatbin} @error{unsupported_version; see parse_fatbin}
/// @error{invalid_argument; no trusted signature where one is required, or a shared
/// object that does not load or whose table differs from the container}
/// @error{arch_mismatch; a kernel without code for this processor, or a registered
/// function that does not exist}
/// @error{unsupported; see parse_fatbin, a kernel that comes as bitcode alone, or no way
/// to load code}
/// @error{cache_corrupt; a damaged entry of a strict cache}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::shared_ptr<const loaded_module>> load_module(
    bytes_view image, const load_options& options = {});

/// Returns the JSON of `loaded_module::explain` for a container that is not loaded, in
/// which no target is selected.
[[nodiscard]] std::string explain(const fatbin& module);

}  // namespace weir::tessera
