// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds NCCL and its functions at run time.
///
/// The library is not linked, so programs run on machines without it.
#include <dlfcn.h>

#include <fmt/core.h>

#include "device/cuda/collectives/nccl_api.hpp"

namespace weir::tessera::cuda {
namespace {

/// Looks up one function. @error{unsupported; the library lacks it}
template <class F>
result<void> find_in_nccl(void* handle, F& function, const char* name) {
  function = reinterpret_cast<F>(::dlsym(handle, name));
  if (function == nullptr) {
    return error(
               errc::unsupported,
               fmt::format("cannot use NCCL: expected the function {}, found none", name))
        .hint("install NCCL 2.19 or newer");
  }
  return {};
}

}  // namespace

result<nccl_library> load_nccl(const std::string& library) {
  // The library stays loaded until the process ends.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const text = ::dlerror();
    return error(errc::not_found,
                 fmt::format("cannot load NCCL: expected the library {}, found none: {}",
                             library, text != nullptr ? text : "no reason given"))
        .hint("install NCCL, or use collectives of level 1 or 2, which do not need it");
  }
  nccl_library made;
  // The version is asked first, so that an old library is named and not its first gap.
  WEIR_CHECK(find_in_nccl(handle, made.api.get_version, "ncclGetVersion"));
  if (made.api.get_version(&made.version) != nccl_status::success ||
      made.version < least_nccl_version) {
    return error(errc::unsupported,
                 fmt::format("cannot use NCCL {}: expected version 2.19 or newer, found "
                             "version code {}",
                             library, made.version))
        .hint("install NCCL 2.19 or newer");
  }
/// One line per function of the table in nccl_api.hpp.
#define WEIR_NCCL_FIND(member, name, parameters) \
  WEIR_CHECK(find_in_nccl(handle, made.api.member, #name));
  WEIR_NCCL_FUNCTIONS(WEIR_NCCL_FIND)
#undef WEIR_NCCL_FIND
  // It has another type of result than the others.
  WEIR_CHECK(find_in_nccl(handle, made.api.error_string, "ncclGetErrorString"));
  return made;
}

/// Most failures of NCCL are faults of its use or of itself.
errc code_of(nccl_status s) noexcept {
  switch (s) {
    case nccl_status::unhandled_cuda_error: return errc::device_lost;
    case nccl_status::system_error: return errc::io;
    case nccl_status::remote_error: return errc::rank_lost;
    default: return errc::internal;
  }
}

/// `action` is what was tried, as a verb with its object.
error failure_of(const nccl_api& api, nccl_status s, std::string_view action) {
  const char* const text = api.error_string(s);
  return error(
      code_of(s),
      fmt::format("cannot {}: expected success of NCCL, found status {} ({})", action,
                  static_cast<int>(s), text != nullptr ? text : "without a text"));
}

}  // namespace weir::tessera::cuda
