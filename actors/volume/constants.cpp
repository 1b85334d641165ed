// SPDX-License-Identifier: Apache-2.0
/// @file
/// Constants of pipeline stages come from HN4 volumes.
#include "volume/constants.hpp"

#include <cstring>

#include <fmt/format.h>

#include "weir/storage/hn4_tensors.hpp"

namespace weir::actors {

result<runtime::tensor> load_constant(weir::engine& host, const std::string& path,
                                      const std::string& name) {
  WEIR_TRY(const auto volume, storage::hn4_volume::open(path));
  WEIR_TRY(const auto stored, storage::find_tensor(volume, name));
  const storage::stored_tensor& info = stored.info();
  if (info.shape.size() > runtime::max_dims) {
    return error(errc::unsupported,
                 fmt::format("cannot load the tensor \"{}\" of \"{}\": expected at most "
                             "{} dimensions, found {}",
                             name, path, runtime::max_dims, info.shape.size()));
  }
  const bytes_view bytes = stored.bytes();
  WEIR_TRY(const auto memory,
           host.base().allocate(static_cast<std::int64_t>(bytes.size()), name));
  WEIR_TRY(
      const auto loaded,
      runtime::tensor::over(memory, info.type, {info.shape.data(), info.shape.size()}));
  if (!bytes.empty()) {
    std::memcpy(loaded.data(), bytes.data(), bytes.size());
  }
  return loaded;
}

}  // namespace weir::actors
