// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages of Python files in a catalog.
#include "weir/actors/python_stages.hpp"

#include <fmt/format.h>

namespace weir {

result<void> add_python_stages(flow::catalog& to, const std::string& file) {
  static_cast<void>(to);
  return error(errc::unsupported,
               fmt::format("cannot load \"{}\": expected a plug-in, found a Python file",
                           file));
}

}  // namespace weir
