// SPDX-License-Identifier: Apache-2.0
/// @file
/// The table of outcomes of the driver.
///
/// The driver documents for each outcome whether the process can go on using the context.
/// Those after which it cannot are sticky here.
#include "device/cuda/status_table.hpp"

#include <array>

#include <fmt/core.h>

namespace weir::tessera::cuda {
namespace {

/// One outcome: its kind, which says if the context can be used afterwards, and the code
/// of the error that it becomes.
///
/// An outcome that is "returned" leaves the context as it was.
struct status_row {
  status code;
  status_kind kind;
  errc error;
};
/// The rows have the order of the numbers of the driver.
using enum status_kind;
constexpr std::array<status_row, 45> status_rows{{
    {status::invalid_value, returned, errc::invalid_argument},
    {status::out_of_memory, returned, errc::out_of_memory},
    {status::not_initialized, returned, errc::not_initialized},
    {status::deinitialized, returned, errc::not_initialized},
    {status::stub_library, returned, errc::unsupported},
    {status::device_unavailable, sticky, errc::device_lost},
    {status::no_device, returned, errc::not_found},
    {status::invalid_device, returned, errc::out_of_range},
    {status::invalid_image, returned, errc::corrupt},
    {status::invalid_context, returned, errc::internal},
    {status::no_binary_for_gpu, returned, errc::arch_mismatch},
    {status::ecc_uncorrectable, sticky, errc::device_lost},
    {status::peer_access_unsupported, returned, errc::unsupported},
    {status::invalid_ptx, returned, errc::corrupt},
    {status::nvlink_uncorrectable, sticky, errc::device_lost},
    {status::jit_compiler_not_found, returned, errc::unsupported},
    {status::unsupported_ptx_version, returned, errc::unsupported_version},
    {status::contained, sticky, errc::device_lost},
    {status::invalid_source, returned, errc::corrupt},
    {status::operating_system, returned, errc::io},
    {status::invalid_handle, returned, errc::internal},
    {status::illegal_state, returned, errc::internal},
    {status::not_found, returned, errc::not_found},
    {status::not_ready, pending, errc::internal},
    {status::illegal_address, sticky, errc::device_lost},
    {status::launch_out_of_resources, returned, errc::invalid_argument},
    {status::launch_timeout, sticky, errc::device_lost},
    {status::context_is_destroyed, sticky, errc::device_lost},
    {status::assertion, sticky, errc::device_lost},
    {status::host_memory_already_registered, returned, errc::already_exists},
    {status::host_memory_not_registered, returned, errc::not_found},
    {status::hardware_stack_error, sticky, errc::device_lost},
    {status::illegal_instruction, sticky, errc::device_lost},
    {status::misaligned_address, sticky, errc::device_lost},
    {status::invalid_address_space, sticky, errc::device_lost},
    {status::invalid_pc, sticky, errc::device_lost},
    {status::launch_failed, sticky, errc::device_lost},
    {status::cooperative_launch_too_large, returned, errc::invalid_argument},
    {status::not_permitted, returned, errc::internal},
    {status::not_supported, returned, errc::unsupported},
    {status::system_not_ready, returned, errc::source_unavailable},
    {status::system_driver_mismatch, returned, errc::unsupported_version},
    {status::compat_not_supported_on_device, returned, errc::unsupported},
    {status::external_device, sticky, errc::device_lost},
    {status::unknown, sticky, errc::device_lost},
}};

/// Null for an outcome that the table does not have.
const status_row* row_of(status s) noexcept {
  for (const status_row& row : status_rows) {
    if (row.code == s) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace

/// Newer drivers may have outcomes that are not known here. Those from 700 to 799 are
/// errors of kernels, after which a context cannot be used.
status_kind kind_of(status s) noexcept {
  // A row of the table decides.
  if (const status_row* const row = row_of(s)) {
    return row->kind;
  }
  const int number = static_cast<int>(s);
  return number >= 700 && number < 800 ? sticky : returned;
}

errc code_of(status s) noexcept {
  if (const status_row* const row = row_of(s)) {
    return row->error;
  }
  return kind_of(s) == sticky ? errc::device_lost : errc::internal;
}

/// Name and text as the driver has them.
std::string text_of(const driver_api& api, status s) {
  const char* name = nullptr;
  const char* text = nullptr;
  // An outcome that the driver does not know either.
  if (api.error_name(s, &name) != status::success || name == nullptr) {
    return fmt::format("status {} of the driver", static_cast<int>(s));
  }
  if (api.error_string(s, &text) != status::success || text == nullptr) {
    return name;
  }
  return fmt::format("{} ({})", name, text);
}

/// `action` is what was tried, as a verb with its object.
error failure_of(const driver_api& api, status s, std::string_view action) {
  return error(code_of(s), fmt::format("cannot {}: expected success of the driver, "
                                       "found {}",
                                       action, text_of(api, s)));
}

}  // namespace weir::tessera::cuda
