// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files at an address.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capi/files.hpp"

namespace weir::capi {

/// An address with the options of its storage, as tgm_async_file_open_remote takes them.
struct remote_address {
  std::string url;
  std::vector<std::pair<std::string, std::string>> options;
  bool both_ends = false;  ///< messages are looked for from both ends
};

/// Opens the file at an address. This is the one place that knows which addresses can be
/// read: "file://" with an absolute path. It may block, and stops early once `stop` says
/// so.
/// @error{TGM_ERROR_REMOTE, the address cannot be read}
[[nodiscard]] outcome<std::shared_ptr<message_file>> open_remote(
    const remote_address& address, const stop_check& stop);

}  // namespace weir::capi
