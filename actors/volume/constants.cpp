// SPDX-License-Identifier: Apache-2.0
/// @file
/// Constants of pipeline stages come from HN4 volumes.
#include "volume/constants.hpp"

#include <fmt/format.h>

#include "weir/actors/tensor_loader.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {
namespace {

/// Tasks of the engine read the tensor from the device into its memory.
result<runtime::tensor> load(runtime::engine& engine, const std::string& path,
                             const std::string& name) {
  WEIR_TRY(const auto volume, storage::hn4_volume::open(path));
  WEIR_TRY(auto found, storage::locate_tensor(volume, name));
  tensor_loader loader(engine, std::move(found.stream));
  WEIR_TRY(const loaded_tensor loaded, loader.load(found.info, name));
  WEIR_CHECK(engine.wait(loaded.tensor));
  return loaded.tensor;
}

}  // namespace

result<runtime::tensor> load_constant(weir::engine& host, const std::string& path,
                                      const std::string& name) {
  auto loaded = load(host.base(), path, name);
  if (!loaded) {
    const errc code = loaded.error().root().code();
    return error(code,
                 fmt::format("cannot load the constant \"{}\" of \"{}\"", name, path))
        .because(std::move(loaded.error()));
  }
  return loaded;
}

}  // namespace weir::actors
