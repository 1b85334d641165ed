// SPDX-License-Identifier: Apache-2.0
/// @file
/// Interprets launches of the stand-in driver.
#include "ptx/executor.hpp"

#include <fmt/core.h>

namespace weir::tessera::ptx {

result<stand_in::module_id> ptx_executor::load(std::span<const std::byte> image) {
  std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  text = text.substr(0, text.find('\0'));
  WEIR_TRY(kernels made, parse(text));
  if (made.empty()) {
    return error(errc::corrupt,
                 "cannot load a module: expected PTX with a kernel, found none");
  }
  const std::lock_guard guard(lock_);
  modules_[next_] = std::make_shared<const kernels>(std::move(made));
  return next_++;
}

void ptx_executor::unload(stand_in::module_id module) noexcept {
  const std::lock_guard guard(lock_);
  modules_.erase(module);
}

std::shared_ptr<const ptx_executor::kernels> ptx_executor::module_of(
    stand_in::module_id module) {
  const std::lock_guard guard(lock_);
  const auto found = modules_.find(module);
  return found == modules_.end() ? nullptr : found->second;
}

result<stand_in::function_facts> ptx_executor::find(stand_in::module_id module,
                                                    std::string_view name) {
  const auto loaded = module_of(module);
  for (std::size_t i = 0; loaded && i < loaded->size(); ++i) {
    const kernel& k = (*loaded)[i];
    if (k.name == name) {
      stand_in::function_facts facts;
      facts.id = i;
      facts.static_shared_bytes = k.shared_bytes;
      for (const parameter& p : k.parameters) {
        facts.parameters.push_back({p.offset, p.bytes});
      }
      return facts;
    }
  }
  return error(errc::not_found, fmt::format("cannot find kernel \"{}\" in module {}: "
                                            "expected a kernel of this name, found none",
                                            name, module));
}

result<stand_in::launch_report> ptx_executor::launch(
    const stand_in::launch_request& request) {
  const auto loaded = module_of(request.module);
  if (!loaded || request.function >= loaded->size()) {
    return error(errc::not_found, fmt::format("cannot launch kernel {} of module {}: "
                                              "expected a loaded kernel",
                                              request.function, request.module));
  }
  struct launch what;
  what.options.grid = request.grid;
  what.options.block = request.block;
  what.options.cooperative = request.cooperative;
  what.options.order = kernel_machine::thread_order::random;
  what.options.seed = seed_;
  what.options.checked = false;
  what.arguments = request.arguments;
  what.accessible = request.accessible;
  if (!what.accessible) {  // the accesses are noted only if they are asked for
    what.accessible = [](const void*, std::size_t, bool) { return true; };
  }
  const outcome done = interpret((*loaded)[request.function], what);
  if (!done.fault.empty()) {
    return error(done.code, done.fault);
  }
  stand_in::launch_report report;
  report.exact = true;
  for (const auto& [first, written] : done.touched) {
    if (!report.touched.empty() && report.touched.back().written == written &&
        report.touched.back().first + report.touched.back().bytes == first) {
      report.touched.back().bytes += 16;
    } else {
      report.touched.push_back({first, 16, written});
    }
  }
  return report;
}

}  // namespace weir::tessera::ptx
