// SPDX-License-Identifier: Apache-2.0
/// @file
/// From a container to entry points that can be called on this processor.
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

/// Type of entries until their flags say which of the two they are.
using kernel_entry = void (*)();

/// A function of this program that modules may name instead of bringing code: their
/// CPU_REGISTERED section stands for it.
struct host_kernel {
  std::string name;
  kernel_entry entry = nullptr;
  std::vector<kernel_parameter> parameters;  ///< offsets are worked out
  std::uint32_t flags = 0;                   ///< TESS_KERNEL_*
};
/// @error{invalid_argument, no entry, a name that is no C identifier, unknown flags,
/// parameters that cannot be laid out; already_exists}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> register_host_kernel(host_kernel kernel);
/// Modules that are loaded keep calling it: unload them before the function goes.
/// @error{not_found}
/// @threads{safe to call concurrently}
[[nodiscard]] result<void> unregister_host_kernel(std::string_view name);
[[nodiscard]] std::optional<host_kernel> find_host_kernel(std::string_view name);

/// A kernel that can be called.
struct loaded_kernel {
  kernel_record record;
  argument_extent arguments;
  kernel_entry entry = nullptr;
  std::size_t section = 0;  ///< in `loaded_module::sections`

  [[nodiscard]] bool per_thread() const noexcept {
    return (record.flags & TESS_KERNEL_PER_THREAD) != 0;
  }
  /// Null for entries of the other type.
  [[nodiscard]] tessBlockEntry block_entry() const noexcept;
  [[nodiscard]] tessThreadEntry thread_entry() const noexcept;
};

/// What is known of a code section after loading.
struct section_facts {
  section_kind kind = section_kind::cpu_so;
  std::string arch;
  std::uint64_t bytes = 0;
  bool selected = false;  ///< some kernel runs from it
};

enum class signature_state : std::uint8_t { absent, valid, trusted };
[[nodiscard]] std::string_view name_of(signature_state state) noexcept;

struct load_options {
  trust_policy trust;
  abi_version abi = runtime_abi;
  /// Highest level of the processor to use, e.g. "x86-64-v2"; empty: the host's.
  std::string most_level;
  /// Where code goes if it cannot be loaded from memory; may be null. Has to live while
  /// `load_module` runs.
  module_cache* cache = nullptr;
  /// Never load from memory, as on systems that forbid it.
  bool from_files = false;
};

/// A module whose code is in memory until the object dies. Nothing of the image is kept
/// but what is copied here.
/// @threads{immutable; destroy it when nothing runs in its kernels}
class loaded_module {
 public:
  ~loaded_module();
  loaded_module(const loaded_module&) = delete;
  loaded_module& operator=(const loaded_module&) = delete;

  [[nodiscard]] abi_version abi() const noexcept;
  [[nodiscard]] const digest256& source_hash() const noexcept;
  [[nodiscard]] const digest256& content_hash() const noexcept;
  /// In the order of the container.
  [[nodiscard]] std::span<const loaded_kernel> kernels() const noexcept;
  /// Exact match; null if there is none.
  [[nodiscard]] const loaded_kernel* find(std::string_view name) const noexcept;
  [[nodiscard]] const std::optional<policy_record>& policy() const noexcept;
  [[nodiscard]] std::span<const plan_record> plans() const noexcept;
  [[nodiscard]] std::span<const section_facts> sections() const noexcept;
  [[nodiscard]] signature_state signature() const noexcept;
  /// JSON: kernels, parameters, targets present and selected, plans, policy, and what the
  /// container says of tiles and fusion.
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
/// @error{corrupt; unsupported_version; unsupported; out_of_memory: as of `parse_fatbin`;
/// invalid_argument, no signature that counts where one is required, or a shared object
/// that does not load or whose table disagrees with the container; arch_mismatch, a
/// kernel without code for this processor, or a registered function that is not there;
/// unsupported, a kernel that comes as bitcode alone, or no way to load code;
/// cache_corrupt, only with a strict cache}
/// @threads{safe to call concurrently}
[[nodiscard]] result<std::shared_ptr<const loaded_module>> load_module(
    bytes_view image, const load_options& options = {});

/// The JSON of `loaded_module::explain` for a container that is not loaded: no target is
/// selected.
[[nodiscard]] std::string explain(const fatbin& module);

}  // namespace weir::tessera
