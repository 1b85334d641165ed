// SPDX-License-Identifier: Apache-2.0
/// @file
/// Native code out of bytes.
#pragma once

#include <memory>

#include "tessera_kernel.h"
#include "weir/base/bytes.hpp"
#include "weir/base/error.hpp"
#include "weir/tessera/module/cache.hpp"
#include "weir/tessera/module/fatbin.hpp"

namespace weir::tessera {

/// A shared object in memory, until the object dies.
///
/// The dynamic linker takes an object that it has loaded for another one of the same
/// name, whatever the file behind the name is by now. Ours are named after descriptors,
/// so a descriptor stays open as long as anything of its object is loaded.
/// @threads{immutable}
class shared_object {
 public:
  /// Loads from anonymous memory, or from an open file.
  /// @error{invalid_argument, the dynamic linker refuses the bytes; unsupported, the
  /// system gives no such memory; out_of_memory}
  static result<std::unique_ptr<shared_object>> from_memory(bytes_view code);
  static result<std::unique_ptr<shared_object>> from_file(cached_file file);
  ~shared_object();
  shared_object(const shared_object&) = delete;
  shared_object& operator=(const shared_object&) = delete;

  /// What it exports. @error{invalid_argument, no table, or one that cannot be read;
  /// unsupported_version, a table of another ABI}
  [[nodiscard]] result<const tessKernelLibrary*> library(abi_version abi) const;

 private:
  shared_object(int descriptor, void* handle, std::string name)
      : descriptor_(descriptor), handle_(handle), name_(std::move(name)) {}
  static result<std::unique_ptr<shared_object>> load(int descriptor);

  int descriptor_;
  void* handle_;
  std::string name_;
};

}  // namespace weir::tessera
