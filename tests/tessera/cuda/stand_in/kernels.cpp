// SPDX-License-Identifier: Apache-2.0
/// @file
/// Libraries, kernels and launches of the stand-in. The executor runs the kernels.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "tessera/cuda/stand_in/kernels.hpp"

namespace weir::tessera::stand_in {
namespace {

using cuda::status;

/// Copies the text of a failure to the buffer of the options.
void put_log(const std::string& text, cuda::jit_option* options, void** values,
             unsigned count) {
  char* buffer = nullptr;
  std::size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == cuda::jit_option::error_log_buffer) {
      buffer = static_cast<char*>(values[i]);
    } else if (options[i] == cuda::jit_option::error_log_buffer_size_bytes) {
      size = reinterpret_cast<std::size_t>(values[i]);
    }
  }
  if (buffer != nullptr && size > 0) {
    const std::size_t kept = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), kept);
    buffer[kept] = '\0';
  }
}

/// Returns a number of an ELF file.
template <class T>
std::size_t elf_number(const std::byte* file, std::size_t offset) {
  T value{};
  std::memcpy(&value, file + offset, sizeof value);
  return value;
}

/// Returns the bytes of code. Machine code is an ELF file of 64 bits, whose header tells
/// its size, and PTX is a text that ends with a zero.
std::span<const std::byte> bytes_of_code(const void* code) {
  const auto* const file = static_cast<const std::byte*>(code);
  const std::string_view text(static_cast<const char*>(code));
  if (!text.starts_with("\x7f"
                        "ELF")) {
    return {file, text.size()};
  }
  const std::size_t sections = elf_number<std::uint64_t>(file, 40);
  const std::size_t section_bytes = elf_number<std::uint16_t>(file, 58);
  const std::size_t section_count = elf_number<std::uint16_t>(file, 60);
  std::size_t end = sections + section_bytes * section_count;
  end = std::max(
      end, elf_number<std::uint64_t>(file, 32) +
               elf_number<std::uint16_t>(file, 54) * elf_number<std::uint16_t>(file, 56));
  constexpr std::size_t no_bits = 8;  // a section that is not in the file
  for (std::size_t i = 0; i < section_count; ++i) {
    const std::byte* const s = file + sections + i * section_bytes;
    if (elf_number<std::uint32_t>(s, 4) != no_bits) {
      end = std::max(end,
                     elf_number<std::uint64_t>(s, 24) + elf_number<std::uint64_t>(s, 32));
    }
  }
  return {file, end};
}

status library_load(cuda::library_handle* made, const void* code,
                    cuda::jit_option* options, void** values, unsigned count,
                    cuda::library_option* /*library_options*/, void** /*library_values*/,
                    unsigned /*library_count*/) {
  entered call("cuLibraryLoadData", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto loaded = the_world().executor->load(bytes_of_code(code));
  if (!loaded) {
    put_log(loaded.error().message(), options, values, count);
    const errc why = loaded.error().code();
    return why == errc::arch_mismatch         ? status::no_binary_for_gpu
           : why == errc::unsupported_version ? status::unsupported_ptx_version
                                              : status::invalid_ptx;
  }
  auto library = std::make_unique<library_state>();
  library->module = *loaded;
  *made = reinterpret_cast<cuda::library_handle>(library.get());
  the_world().libraries.emplace(library.get(), std::move(library));
  return status::success;
}

status library_unload(cuda::library_handle handle) {
  entered call("cuLibraryUnload", need::initialised);
  world& w = the_world();
  library_state* const library = live(w.libraries, handle, "cuLibraryUnload");
  if (library == nullptr) {
    return status::invalid_handle;
  }
  if (library->running > 0) {
    // What a broken context still runs ends without the caller's doing.
    const bool whole = std::all_of(w.devices.begin(), w.devices.end(), [](const auto& d) {
      return d.broken == status::success;
    });
    if (whole) {
      report("library_in_use", fmt::format("cuLibraryUnload got a library of which {} "
                                           "launches have not ended",
                                           library->running));
    }
    w.ended.wait(call.lock(), [&] { return library->running == 0; });
  }
  w.executor->unload(library->module);
  w.libraries.erase(handle);
  return call.refused();
}

status library_kernel(cuda::kernel_handle* made, cuda::library_handle handle,
                      const char* name) {
  entered call("cuLibraryGetKernel", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  library_state* const library =
      live(the_world().libraries, handle, "cuLibraryGetKernel");
  if (library == nullptr) {
    return status::invalid_handle;
  }
  auto found = library->kernels.find(name);
  if (found == library->kernels.end()) {
    auto facts = the_world().executor->find(library->module, name);
    if (!facts) {
      return status::not_found;
    }
    auto kernel = std::make_unique<kernel_state>();
    kernel->library = library;
    kernel->name = name;
    kernel->facts = *std::move(facts);
    kernel->max_dynamic_shared =
        (48 << 10) - static_cast<int>(kernel->facts.static_shared_bytes);
    found = library->kernels.emplace(name, std::move(kernel)).first;
  }
  *made = reinterpret_cast<cuda::kernel_handle>(found->second.get());
  return status::success;
}

/// Returns the kernel with a handle, or null with a breach.
kernel_state* kernel_at(void* handle, const char* function) {
  for (const auto& [key, library] : the_world().libraries) {
    for (const auto& [name, kernel] : library->kernels) {
      if (kernel.get() == handle) {
        return kernel.get();
      }
    }
  }
  report("handle_live", fmt::format("{} got a kernel that is not alive", function));
  return nullptr;
}

status kernel_function(cuda::function_handle* made, cuda::kernel_handle handle) {
  entered call("cuKernelGetFunction", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  kernel_state* const kernel = kernel_at(handle, "cuKernelGetFunction");
  if (kernel == nullptr) {
    return status::invalid_handle;
  }
  auto& here = kernel->functions[&call.device()];
  if (here == nullptr) {
    here = std::make_unique<function_state>();
    here->kernel = kernel;
    here->device = &call.device();
  }
  *made = reinterpret_cast<cuda::function_handle>(here.get());
  return status::success;
}

status kernel_set(cuda::function_attribute wanted, int value, cuda::kernel_handle handle,
                  cuda::device_number /*device*/) {
  entered call("cuKernelSetAttribute", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  kernel_state* const kernel = kernel_at(handle, "cuKernelSetAttribute");
  if (kernel == nullptr) {
    return status::invalid_handle;
  }
  if (wanted != cuda::function_attribute::max_dynamic_shared_size_bytes || value < 0 ||
      value > (227 << 10)) {
    return status::invalid_value;
  }
  kernel->max_dynamic_shared = value;
  return status::success;
}

status kernel_parameter(cuda::kernel_handle handle, std::size_t index,
                        std::size_t* offset, std::size_t* bytes) {
  entered call("cuKernelGetParamInfo", need::initialised);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const kernel_state* const kernel = kernel_at(handle, "cuKernelGetParamInfo");
  if (kernel == nullptr) {
    return status::invalid_handle;
  }
  if (index >= kernel->facts.parameters.size()) {
    return status::invalid_value;
  }
  *offset = kernel->facts.parameters[index].offset;
  *bytes = kernel->facts.parameters[index].bytes;
  return status::success;
}

/// Number of blocks of a size that one multiprocessor runs at the same time.
int blocks_at_once(std::int64_t threads) {
  return static_cast<int>(threads < 1 ? 0 : std::min<std::int64_t>(2048 / threads, 32));
}

status resident_blocks(int* blocks, cuda::function_handle handle, int threads,
                       std::size_t /*shared_bytes*/) {
  entered call("cuOccupancyMaxActiveBlocksPerMultiprocessor", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  if (function_at(handle, "cuOccupancyMaxActiveBlocksPerMultiprocessor") == nullptr) {
    return status::invalid_handle;
  }
  *blocks = blocks_at_once(threads);
  return status::success;
}

/// Checks the extents, shared memory and cooperation of a launch.
status check_shape(const char* call, const cuda::launch_config& config,
                   const function_state& f, bool cooperative) {
  const auto& b = config.block;
  const auto& g = config.grid;
  const std::int64_t threads = std::int64_t{b[0]} * b[1] * b[2];
  if (threads < 1 || threads > f.kernel->facts.max_threads || b[2] > 64 || g[0] < 1 ||
      g[1] < 1 || g[2] < 1 || g[1] > 65535 || g[2] > 65535) {
    report("launch_extents", fmt::format("{} got a grid of {}x{}x{} blocks of {}x{}x{}",
                                         call, g[0], g[1], g[2], b[0], b[1], b[2]));
    return status::invalid_value;
  }
  if (static_cast<int>(config.shared_bytes) > f.kernel->max_dynamic_shared) {
    report("launch_shared",
           fmt::format("{} got {} bytes of shared memory, where the "
                       "kernel allows {}",
                       call, config.shared_bytes, f.kernel->max_dynamic_shared));
    return status::invalid_value;
  }
  const std::int64_t most =
      std::int64_t{blocks_at_once(threads)} * the_world().shown.multiprocessors;
  if (cooperative && std::int64_t{g[0]} * g[1] * g[2] > most) {
    report("cooperative_size",
           fmt::format("{} got {} cooperative blocks, of which {} fit", call,
                       std::int64_t{g[0]} * g[1] * g[2], most));
    return status::cooperative_launch_too_large;
  }
  return status::success;
}

/// Copies the arguments of a launch. Returns false if one is missing.
bool copy_arguments_of(const function_state& f, const char* call,
                       const char* of_arguments, void** parameters,
                       described_launch& to) {
  const auto& places = f.kernel->facts.parameters;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (parameters == nullptr || parameters[i] == nullptr) {
      report(of_arguments, fmt::format("{} got no address for argument {} of {}", call, i,
                                       f.kernel->name));
      return false;
    }
    const auto* const from = static_cast<const std::byte*>(parameters[i]);
    to.arguments.emplace_back(from, from + places[i].bytes);
  }
  return true;
}

/// Returns the allocation that contains an address as an access to all of it, or nothing.
/// Registered memory of the host is left out: one range of it serves many operations.
std::optional<touched_range> allocation_around(std::uintptr_t address, bool written) {
  const world& w = the_world();
  for (const auto* const all : {&w.memory, &w.leaving}) {
    auto after = all->upper_bound(address);
    if (after != all->begin() && address - (--after)->first < after->second.bytes) {
      return touched_range{after->first, after->second.bytes, written};
    }
  }
  return std::nullopt;
}

/// Returns the allocations behind the pointer arguments of a launch.
std::vector<touched_range> allocations_behind(const described_launch& launch) {
  std::vector<touched_range> found;
  const auto& places = launch.function->kernel->facts.parameters;
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::uintptr_t address = 0;
    if (places[i].use == pointer_use::none || places[i].bytes != sizeof address) {
      continue;
    }
    std::memcpy(&address, launch.arguments[i].data(), sizeof address);
    if (const auto range =
            allocation_around(address, places[i].use == pointer_use::writes)) {
      found.push_back(*range);
    }
  }
  return found;
}

status launch(const cuda::launch_config* config, cuda::function_handle handle,
              void** parameters, void** /*extra*/) {
  entered call("cuLaunchKernelEx", need::context);
  if (call.refused() != status::success) {
    return call.refused();
  }
  const auto stream = stream_of(config->stream, "cuLaunchKernelEx");
  if (stream == nullptr) {
    return status::invalid_handle;
  }
  std::shared_ptr<described_launch> made;
  if (const status s = describe_launch("cuLaunchKernelEx", "launch_arguments", *config,
                                       handle, *stream->device, parameters, made);
      s != status::success) {
    return s;
  }
  begin_launch(*made);
  queued op;
  op.name = made->function->kernel->name;
  join(stream->clock, the_world().host_clock);
  op.run = [made, stream, number = stream->given + 1, before = stream->clock] {
    return run_launch(*made, *stream, number, before);
  };
  op.dropped = [made] { end_launch(*made); };
  enqueue(stream, std::move(op));
  return status::success;
}

}  // namespace

function_state* function_at(void* handle, const char* call) {
  for (const auto& [key, library] : the_world().libraries) {
    for (const auto& [name, kernel] : library->kernels) {
      for (const auto& [device, made] : kernel->functions) {
        if (made.get() == handle) {
          return made.get();
        }
      }
    }
  }
  report("handle_live", fmt::format("{} got a function that is not alive", call));
  return nullptr;
}

status describe_launch(const char* call, const char* of_arguments,
                       const cuda::launch_config& config, cuda::function_handle handle,
                       const device_state& device, void** parameters,
                       std::shared_ptr<described_launch>& made) {
  function_state* const f = function_at(handle, call);
  if (f == nullptr) {
    return status::invalid_handle;
  }
  if (f->device != &device) {
    report("launch_context",
           fmt::format("{} got {} of device {} for device {}", call, f->kernel->name,
                       f->device->number, device.number));
    return status::invalid_handle;
  }
  bool cooperative = false;
  for (unsigned i = 0; i < config.attribute_count; ++i) {
    cooperative = config.attributes[i].cooperative != 0;
  }
  if (const status s = check_shape(call, config, *f, cooperative); s != status::success) {
    return s;
  }
  made = std::make_shared<described_launch>();
  if (!copy_arguments_of(*f, call, of_arguments, parameters, *made)) {
    return status::invalid_value;
  }
  made->function = f;
  made->handle = handle;
  made->assumed = allocations_behind(*made);
  made->request.module = f->kernel->library->module;
  made->request.function = f->kernel->facts.id;
  made->request.grid = config.grid;
  made->request.block = config.block;
  made->request.dynamic_shared_bytes = config.shared_bytes;
  made->request.cooperative = cooperative;
  made->request.accessible = [](const void* first, std::size_t bytes, bool) {
    const std::lock_guard lock(the_world().mutex);
    return usable_by_kernels(reinterpret_cast<std::uintptr_t>(first), bytes);
  };
  return status::success;
}

void begin_launch(const described_launch& launch) {
  ++the_world().running_launches;
  ++launch.function->kernel->library->running;
}

void end_launch(const described_launch& launch) {
  --the_world().running_launches;
  --launch.function->kernel->library->running;
  the_world().ended.notify_all();
}

status run_launch(const described_launch& launch, const stream_state& on,
                  std::uint64_t number, const vector_clock& before,
                  const graph_place& place) {
  world& w = the_world();
  std::vector<const void*> places;
  for (const auto& b : launch.arguments) {
    places.push_back(b.data());
  }
  launch_request request = launch.request;
  request.arguments = places;
  auto done = w.executor->launch(request);
  const std::lock_guard lock(w.mutex);
  if (done) {
    note_accesses(on, number, before, launch.function->kernel->name,
                  done->exact ? done->touched : launch.assumed, place);
  }
  end_launch(launch);
  if (done) {
    return status::success;
  }
  switch (done.error().code()) {
    case errc::out_of_range: return status::illegal_address;
    case errc::invalid_argument: return status::misaligned_address;
    case errc::kernel_failed: return status::assertion;
    default: return status::launch_failed;
  }
}

std::vector<named_function> kernel_functions() {
  return {{"cuLibraryLoadData", 12000, reinterpret_cast<void*>(&library_load)},
          {"cuLibraryUnload", 12000, reinterpret_cast<void*>(&library_unload)},
          {"cuLibraryGetKernel", 12000, reinterpret_cast<void*>(&library_kernel)},
          {"cuKernelGetFunction", 12000, reinterpret_cast<void*>(&kernel_function)},
          {"cuKernelSetAttribute", 12000, reinterpret_cast<void*>(&kernel_set)},
          {"cuKernelGetParamInfo", 12040, reinterpret_cast<void*>(&kernel_parameter)},
          {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050,
           reinterpret_cast<void*>(&resident_blocks)},
          {"cuLaunchKernelEx", 11060, reinterpret_cast<void*>(&launch)}};
}

}  // namespace weir::tessera::stand_in
