// SPDX-License-Identifier: Apache-2.0
/// @file
/// The actor that blocks on devices for the volume reader.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shim/shim.hpp"
#include "weir/actors/interfaces.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::actors {

using device_opener =
    std::function<result<std::unique_ptr<storage::block_device>>(const std::string&)>;

struct volume_worker_config {
  device_opener open_device;  ///< empty: files, through the page cache
};
struct volume_worker_shell {
  static constexpr const char* name = "weir.volume_worker_io";
};
volume_worker_actor::behavior_type volume_worker_io(
    volume_worker_actor::stateful_pointer<volume_worker_shell> self,
    volume_worker_config config);

}  // namespace weir::actors
