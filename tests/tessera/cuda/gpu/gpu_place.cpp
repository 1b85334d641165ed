// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the GPU, the libraries and the PTX of the bundle.
#include "gpu/gpu_place.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "cpu_kernels/executor.hpp"
#include "tessera/cuda/stand_in/stand_in.hpp"
#include "tessera_kernel.h"
#include "weir/base/dtype.hpp"
#include "weir/base/file.hpp"

namespace weir::tessera::gpu {
namespace {

namespace fs = std::filesystem;

/// Returns the folder of the bundle: programs lie in its folder `bin`.
fs::path bundle_folder() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path();
}

}  // namespace

bool wants_stand_in() {
  const char* const value = std::getenv("WEIR_GPU_STAND_IN");
  return value != nullptr && std::string_view(value) == "1";
}

result<gpu_place> open_place(const place_wish& wish) {
  gpu_place place;
  place.stand_in = wants_stand_in();
  cuda_options options;
  options.memory = wish.memory;
  std::string nccl = "libnccl.so.2";
  if (place.stand_in) {
    stand_in::machine shown;
    shown.devices = wish.stand_in_devices;
    shown.nccl_polls = 2;
    stand_in::set_up(shown, wish.executor != nullptr
                                ? wish.executor
                                : std::make_shared<kernel_machine::source_executor>());
    const fs::path folder = bundle_folder() / "stand_in";
    options.library = (folder / "libcuda.so.1").string();
    nccl = (folder / "libnccl.so.2").string();
  }
  WEIR_TRY(place.driver, cuda::load_driver(options.library));
  WEIR_TRY(place.backend, make_cuda_backend(options));
  if (auto found = cuda::load_nccl(nccl)) {
    place.nccl = *std::move(found);
  }
  return place;
}

std::vector<std::string> ptx_texts(const std::string& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& e : fs::directory_iterator(bundle_folder() / folder)) {
    files.push_back(e.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const fs::path& file : files) {
    texts.emplace_back(as_text(or_throw(read_file(posix_file_system(), file.string()))));
  }
  return texts;
}

result<byte_vector> module_of(const std::string& ptx, const std::string& kernel,
                              const std::vector<std::size_t>& sizes, bool persistent) {
  fatbin_builder builder;
  builder.add_code(
      section_kind::ptx, "compute_75",
      bytes_view(reinterpret_cast<const std::byte*>(ptx.data()), ptx.size()));
  kernel_record record;
  record.name = kernel;
  record.flags = persistent ? TESS_KERNEL_PERSISTENT_CAPABLE : 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const dtype type = sizes[i] == 8   ? dtype::int64
                       : sizes[i] == 4 ? dtype::int32
                       : sizes[i] == 2 ? dtype::int16
                                       : dtype::int8;
    record.parameters.push_back(
        sizes[i] <= 8
            ? scalar_parameter("p" + std::to_string(i), static_cast<std::uint32_t>(type))
            : opaque_parameter("p" + std::to_string(i),
                               static_cast<std::uint32_t>(sizes[i])));
  }
  WEIR_CHECK(builder.add_kernel(std::move(record)));
  return builder.build();
}

}  // namespace weir::tessera::gpu
