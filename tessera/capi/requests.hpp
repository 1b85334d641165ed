// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converts the arguments of calls to requests for operations, for calls that enqueue
/// operations and for calls that put them into graphs.
///
/// Requests are values of the stream layer. The functions check numbers and structures of
/// C; whether addresses and kernels fit is checked by the stream layer.
#pragma once

#include <string_view>

#include "capi/objects.hpp"
#include "weir/tessera/stream/collective.hpp"
#include "weir/tessera/stream/work.hpp"

namespace weir::tessera::capi {

/// Converts a launch, except its kernel. @error{invalid_argument; unknown flags}
[[nodiscard]] result<tessera::launch_request> request_of(tessKernel_t kernel,
                                                         const tessLaunchConfig& cfg,
                                                         const void* args,
                                                         std::size_t bytes);
/// Checks the context of a kernel.
/// @error{invalid_argument; the kernel is of another context than the stream}
[[nodiscard]] result<void> check_context(const kernel_object& kernel,
                                         const tessera::stream& stream);

/// Converts a copy. @error{invalid_argument; an unknown kind of copy}
[[nodiscard]] result<tessera::copy_request> request_of(void* dst, const void* src,
                                                       std::size_t bytes, int kind,
                                                       int rank, std::string_view call);
/// Converts the description of a copy.
/// @error{invalid_argument; a description that cannot be read, or an unknown kind}
[[nodiscard]] result<tessera::copy_request> request_of(const tessCopyDesc* desc,
                                                       std::string_view call);
/// Converts a fill of bytes.
[[nodiscard]] tessera::fill_request request_of(void* destination, int value,
                                               std::size_t bytes);

/// Converts the description of a collective.
/// @error{invalid_argument; a description that cannot be read, or members with unknown
/// values}
[[nodiscard]] result<tessera::collective_request> request_of(
    const tessCollectiveDesc* desc, std::string_view call);

}  // namespace weir::tessera::capi
