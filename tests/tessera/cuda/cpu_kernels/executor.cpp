// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs launches of the stand-in driver on the kernels' sources.
#include "cpu_kernels/executor.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace weir::tessera::kernel_machine {

namespace {

/// Returns true if a module has a kernel: PTX has an entry, and machine code, an ELF
/// file, a section of its name.
bool has_kernel(const std::string& module, std::string_view name) {
  return module.find(fmt::format(".entry {}(", name)) != std::string::npos ||
         module.find(fmt::format(".text.{}", name) + '\0') != std::string::npos;
}

}  // namespace

result<stand_in::module_id> source_executor::load(std::span<const std::byte> image) {
  std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  if (text.find(".entry ") == std::string::npos && !text.starts_with("\x7f"
                                                                     "ELF")) {
    return error(errc::corrupt,
                 "cannot load a module: expected PTX with a kernel, or "
                 "machine code, found none");
  }
  const std::lock_guard guard(lock_);
  modules_[next_] = std::move(text);
  return next_++;
}

void source_executor::unload(stand_in::module_id module) noexcept {
  const std::lock_guard guard(lock_);
  modules_.erase(module);
}

result<stand_in::function_facts> source_executor::find(stand_in::module_id module,
                                                       std::string_view name) {
  const auto kernel =
      std::find_if(kernels_.begin(), kernels_.end(),
                   [&](const kernel_entry& entry) { return entry.name == name; });
  const std::lock_guard guard(lock_);
  const auto text = modules_.find(module);
  if (kernel == kernels_.end() || text == modules_.end() ||
      !has_kernel(text->second, name)) {
    return error(errc::not_found, fmt::format("cannot find kernel \"{}\" in module {}: "
                                              "expected its text and its source",
                                              name, module));
  }
  stand_in::function_facts facts;
  facts.id = static_cast<std::uint64_t>(kernel - kernels_.begin());
  std::size_t offset = 0;
  for (std::size_t i = 0; i < kernel->parameter_bytes.size(); ++i) {
    const std::size_t bytes = kernel->parameter_bytes[i];
    // A structure is aligned to 8 bytes, and a number to its size.
    const std::size_t alignment = bytes < 8 ? bytes : 8;
    offset = (offset + alignment - 1) / alignment * alignment;
    facts.parameters.push_back({offset, bytes, kernel->uses[i]});
    offset += bytes;
  }
  return facts;
}

result<stand_in::launch_report> source_executor::launch(
    const stand_in::launch_request& request) {
  launch_options options;
  options.grid = request.grid;
  options.block = request.block;
  options.cooperative = request.cooperative;
  options.order = thread_order::random;
  options.seed = seed_;
  options.checked = false;
  options.accessible = request.accessible;
  const kernel_entry& kernel = kernels_[request.function];
  WEIR_CHECK(run(kernel.call, request.arguments, options));
  if (kernel.touched == nullptr) {
    return stand_in::launch_report{};
  }
  return stand_in::launch_report{true, kernel.touched(request.arguments.data())};
}

}  // namespace weir::tessera::kernel_machine
