// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loading of plug-ins: shared objects and Python files with stages.
/// @source{docs/pipelines.md}
#pragma once

#include <string>

#include "weir/pipeline/catalog.hpp"

namespace weir {

/// Adds the stages of a plug-in to a catalog, which then knows the file of each of them,
/// see `flow::catalog::home_of`. A plug-in that the catalog has already is not loaded
/// again, and none is ever unloaded.
///
/// The program must export what plug-ins use, as `weir` does: with CMake it links
/// `weir::plugin_host`. Nothing of the plug-in is called before its build stamp was
/// compared with that of the program.
/// @param path  Shared object whose source has `WEIR_STAGES`, or a Python file, whose
/// name ends in `.py`. A relative path begins in the current folder.
/// @error{not_found, there is no such file} @error{io, the file cannot be read}
/// @error{corrupt, the file is no shared object, or cannot be loaded}
/// @error{torn, the file ends before its content does}
/// @error{not_found, the shared object has no stamp or no function of a plug-in}
/// @error{build_mismatch, the plug-in was built with another compiler or with other
/// headers; the message shows both stamps}
/// @error{invalid_argument, the plug-in throws or returns an error while it adds its
/// stages}
/// @error{already_exists, another plug-in, or the program, has a stage of one of its
/// names; the message names both files} Errors of `add_python_stages` are passed on.
/// @threads{thread-compatible: load plug-ins before the first pipeline is made}
[[nodiscard]] result<void> load_plugin(flow::catalog& to, const std::string& path);

}  // namespace weir
