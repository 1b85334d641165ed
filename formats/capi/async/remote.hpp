// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files behind addresses, for tgm_async_file_open_remote().
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "capi/files.hpp"

namespace weir::capi {

/// The arguments of tgm_async_file_open_remote.
struct remote_request {
  std::string url;                                           ///< as the caller gave it
  std::vector<std::pair<std::string, std::string>> options;  ///< key and value
  bool both_ends = false;  ///< messages are searched from both ends of the file
};

/// Opens the file at an address of http, https or S3 and finds its messages, or opens the
/// file of this machine that a file:// address names. Blocks; ends early if a stop is
/// requested. @error{TGM_ERROR_REMOTE, the file cannot be opened for any reason}
[[nodiscard]] outcome<std::shared_ptr<message_store>> open_remote(
    const remote_request& request, const std::stop_token& stop);

}  // namespace weir::capi
