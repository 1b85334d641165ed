// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions of the program that modules may name as the code of kernels. The table
/// belongs to the process.
///
/// A module names such a function by its symbol and contains no code for it. The function
/// must have the arguments and flags that the module's record has.
#include <fmt/core.h>

#include <map>
#include <mutex>
#include <utility>

#include "fatbin_layout.hpp"
#include "fatbin_sections.hpp"
#include "weir/base/system/fork.hpp"
#include "weir/base/text.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {

namespace {

/// The registered functions by name.
struct host_kernel_table {
  std::mutex lock;
  std::map<std::string, host_kernel, std::less<>> kernels;
};

// Returns the table. It is never destroyed, because modules may be loaded while the
// program ends. Its lock is usable in children of `fork`.
host_kernel_table& host_kernels() {
  static auto* const table = new host_kernel_table;
  static const bool watched = unlock_in_child_of_fork(table->lock);
  static_cast<void>(watched);
  return *table;
}

}  // namespace

// The layout of the parameters is computed here, so that loading can compare it with that
// of a module.
result<void> register_host_kernel(host_kernel kernel) {
  // The name must be one that a module can have.
  if (kernel.entry == nullptr || !is_kernel_name(kernel.name) ||
      (kernel.flags & ~fatbin_layout::known_kernel_flags) != 0) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot register a kernel: expected an entry, a C identifier "
                    "and known flags, found {} with flags {:#x}",
                    json_quote(kernel.name), kernel.flags));
  }
  WEIR_CHECK(lay_out(kernel.parameters));
  host_kernel_table& table = host_kernels();
  const std::lock_guard guard(table.lock);
  const std::string name = kernel.name;
  // Replacing a function could change a loaded module.
  if (!table.kernels.emplace(name, std::move(kernel)).second) {
    return error(
        errc::already_exists,
        fmt::format("cannot register a kernel: expected a new name, found \"{}\"", name));
  }
  return {};
}

/// Modules that are loaded keep the function.
result<void> unregister_host_kernel(std::string_view name) {
  host_kernel_table& table = host_kernels();
  const std::lock_guard guard(table.lock);
  const auto found = table.kernels.find(name);
  if (found == table.kernels.end()) {
    return error(
        errc::not_found,
        fmt::format("cannot take back a kernel: expected one that is registered, found "
                    "{}",
                    json_quote(name)));
  }
  table.kernels.erase(found);
  return {};
}

// Returns a copy, so that the function may be taken back meanwhile.
std::optional<host_kernel> find_host_kernel(std::string_view name) {
  host_kernel_table& table = host_kernels();
  const std::lock_guard guard(table.lock);
  const auto found = table.kernels.find(name);
  return found == table.kernels.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace weir::tessera
