// SPDX-License-Identifier: Apache-2.0
/// @file
/// Constants of pipeline stages come from HN4 volumes.
///
/// A constant is loaded once per run, when its stage is opened.
#include "volume/constants.hpp"

#include <fmt/format.h>

#include "weir/actors/tensor_loader.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {
namespace {

/// Tasks of the engine read the tensor from the device into its memory.
// The engine keeps the memory; the volume is closed when the tasks have ended.
result<runtime::tensor> load(runtime::engine& engine, const std::string& path,
                             const std::string& name) {
  WEIR_TRY(const auto volume, storage::hn4_volume::open(path));
  // The name may be the tag, or tag and tensor; see `locate_tensor`.
  WEIR_TRY(auto found, storage::locate_tensor(volume, name));
  tensor_loader loader(engine, std::move(found.stream));
  WEIR_TRY(const loaded_tensor loaded, loader.load(found.info, name));
  // The loader waits for its tasks as well, but their failure is only seen here.
  WEIR_CHECK(engine.wait(loaded.tensor));
  return loaded.tensor;
}

}  // namespace

result<runtime::tensor> load_constant(weir::engine& host, const std::string& path,
                                      const std::string& name) {
  auto loaded = load(host.base(), path, name);
  if (!loaded) {
    // The code of the root tells callers whether the file, the tag or the tensor is
    // missing.
    const errc code = loaded.error().root().code();
    return error(code,
                 fmt::format("cannot load the constant \"{}\" of \"{}\"", name, path))
        .because(std::move(loaded.error()));
  }
  return loaded;
}

}  // namespace weir::actors
