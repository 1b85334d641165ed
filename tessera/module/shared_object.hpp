// SPDX-License-Identifier: Apache-2.0
/// @file
/// Native code that is loaded from memory or from a file of the cache.
///
/// The loader keeps these objects as long as its module, because kernels are entries in
/// them.
#pragma once

#include <memory>

#include "tessera_kernel.h"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/cache.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera {

/// A shared object that stays loaded while this object exists.
///
/// The dynamic linker identifies a loaded object by its file name, even if the file has
/// changed. These names contain the number of a descriptor, which therefore stays open
/// while its object is loaded.
/// @threads{immutable}
class shared_object {
 public:
  /// Loads from anonymous memory.
  /// @error{invalid_argument; the dynamic linker refuses the bytes}
  /// @error{unsupported; the system has no anonymous files, or does not run code in them}
  /// @error{out_of_memory; no memory for the bytes}
  static result<std::unique_ptr<shared_object>> from_memory(bytes_view code);
  /// Loads from an open file of the cache. Errors are those of `from_memory`.
  static result<std::unique_ptr<shared_object>> from_file(cached_file file);
  ~shared_object();
  shared_object(const shared_object&) = delete;
  shared_object& operator=(const shared_object&) = delete;

  /// Returns the exported table of kernels.
  /// @error{invalid_argument; no table, or one that cannot be read}
  /// @error{unsupported_version; a table of another ABI}
  [[nodiscard]] result<const tessKernelLibrary*> library(abi_version abi) const;

 private:
  shared_object(int descriptor, void* handle, std::string name)
      : descriptor_(descriptor), handle_(handle), name_(std::move(name)) {}
  /// Loads from a descriptor, which the object keeps.
  static result<std::unique_ptr<shared_object>> load(int descriptor);

  int descriptor_;  ///< stays open while the linker has the name
  void* handle_;
  std::string name_;
};

}  // namespace weir::tessera
