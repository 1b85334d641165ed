// SPDX-License-Identifier: Apache-2.0
/// @file
/// The way in which actors and stages open devices, which tests replace by devices that
/// fail.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weir/base/error.hpp"
#include "weir/storage/block_device.hpp"

namespace weir::actors {

/// Opens the device with a path.
using device_opener =
    std::function<result<std::unique_ptr<storage::block_device>>(const std::string&)>;

}  // namespace weir::actors
