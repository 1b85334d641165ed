// SPDX-License-Identifier: Apache-2.0
/// @file
/// Modules, kernels, the cache, and determinism.
///
/// Handles of kernels belong to their module and disappear with it. Operations hold the
/// loaded code itself, so a module may be unloaded while its kernels still run.
///
///   tessModule_t -> module_object -> loaded_module (code, records of kernels)
///   tessKernel_t -> kernel_object -> the same loaded_module, and one record of it
///
/// A loaded module is shared: its last user, which may be an operation in flight, frees
/// it.
#include <fmt/core.h>

#include "capi/objects.hpp"

namespace weir::tessera::capi {
namespace {

using tessera::kernel_parameter;

/// Loads a module into a context.
/// The image is copied or loaded before the call returns, so the program may free it.
result<void> load(tessContext_t ctx, const void* image, std::size_t size,
                  tessModule_t* out) {
  constexpr std::string_view call = "tessModuleLoad";
  WEIR_TRY(const auto c, find(ctx, call));
  if (image == nullptr || out == nullptr) {
    return null_argument(call, "an image and a place for the module");
  }
  WEIR_TRY(auto code, c->load_module({static_cast<const std::byte*>(image), size}));
  auto made = std::make_shared<module_object>();
  made->context = c;
  made->code = std::move(code);
  *out = handle_of<tessModule_t>(all().modules.add(std::move(made)));
  return {};
}

/// Removes the handles of a module and of its kernels. Operations that use its code keep
/// the code itself until they end.
/// The handle of the module disappears first, so `get_kernel` of a later call finds
/// nothing; a call that is under way sees `gone`.
result<void> unload(tessModule_t handle) {
  const auto m = all().modules.remove(number_of(handle));
  if (m == nullptr) {
    return no_object("tessModuleUnload", "module");
  }
  const std::lock_guard lock(m->mutex);
  m->gone = true;
  // The context also forgets the plans and the policy of the module.
  m->context->forget_module(*m->code);
  for (const auto& [name, kernel] : m->kernels) {
    static_cast<void>(all().kernels.remove(kernel));
  }
  return {};
}

/// Returns the handle of a kernel. A module hands out one handle for each name. `gone` is
/// checked under the lock, so that no handle is added after `unload` has removed all.
result<void> get_kernel(tessModule_t handle, const char* name, tessKernel_t* out) {
  constexpr std::string_view call = "tessKernelGet";
  WEIR_TRY(const auto m, find(handle, call));
  if (name == nullptr || out == nullptr) {
    return null_argument(call, "a name and a place for the kernel");
  }
  // Two threads that ask for one name get one handle.
  const std::lock_guard lock(m->mutex);
  if (m->gone) {
    return no_object(call, "module");
  }
  if (const auto known = m->kernels.find(std::string_view(name));
      known != m->kernels.end()) {
    *out = handle_of<tessKernel_t>(known->second);
    return {};
  }
  const tessera::loaded_kernel* const found = m->code->find(name);
  if (found == nullptr) {
    // The message lists the kernels of the module.
    std::string known;
    for (const auto& k : m->code->kernels()) {
      known += (known.empty() ? "" : ", ") + k.record.name;
    }
    return error(errc::invalid_argument,
                 fmt::format("kernel not found \"{}\": expected one of {}", name, known));
  }
  auto made = std::make_shared<kernel_object>();
  made->context = m->context;
  made->code = {m->code, found};
  const std::uintptr_t number = all().kernels.add(std::move(made));
  m->kernels.emplace(name, number);
  *out = handle_of<tessKernel_t>(number);
  return {};
}

/// Converts the description of a parameter whose numbers have been checked.
/// Conversions of enumerations are safe here: `parameters_of` has compared kind and
/// direction, and an unknown address space is refused when the parameters are laid out.
kernel_parameter parameter_of(const tessParamInfo& info) {
  kernel_parameter out;
  out.name = info.name == nullptr ? "" : info.name;
  out.kind = static_cast<tessera::parameter_kind>(info.kind);
  out.dtype = info.dtype;
  out.size = info.size;
  out.space = static_cast<tessera::address_space>(info.space);
  out.direction = static_cast<tessera::parameter_direction>(info.direction);
  return out;
}

/// Registers a function of the program as a kernel.
/// The layout of the arguments is computed at registration, and compared with that of a
/// module when one is loaded.
result<void> register_kernel(const char* name, void (*entry)(void),
                             const tessParamInfo* params, int count,
                             std::uint32_t flags) {
  constexpr std::string_view call = "tessRegisterHostKernel";
  if (name == nullptr || entry == nullptr || count < 0 ||
      (params == nullptr && count > 0)) {
    return null_argument(call, "a name, a function and its parameters");
  }
  // The function stays in the program; only its address is kept.
  tessera::host_kernel made;
  made.name = name;
  made.entry = entry;
  made.flags = flags;
  WEIR_TRY(made.parameters, parameters_of(params, count, call));
  return tessera::register_host_kernel(std::move(made));
}

/// Packs arguments by the kernel's parameters. `*size` is set to the needed size in any
/// case, and a null buffer asks for the size alone.
result<void> pack(tessKernel_t kernel, const void* const* values, int count, void* buffer,
                  std::size_t* size) {
  constexpr std::string_view call = "tessPackArgs";
  WEIR_TRY(const auto k, find(kernel, call));
  const auto& parameters = k->code.kernel->record.parameters;
  if (size == nullptr) {
    return null_argument(call, "a size");
  }
  // The padded size, which is also the size of the kernel's structure of arguments.
  const std::size_t needed = k->code.kernel->arguments.padded;
  const std::size_t capacity = std::exchange(*size, needed);
  if (buffer == nullptr) {
    return {};
  }
  if (count < 0 || static_cast<std::size_t>(count) != parameters.size() ||
      (values == nullptr && count > 0)) {
    return error(errc::invalid_argument,
                 fmt::format("arguments not packed: expected {} values, found {}",
                             parameters.size(), count));
  }
  if (capacity < needed) {
    return error(
        errc::invalid_argument,
        fmt::format("arguments not packed: expected space for {} bytes, found {}", needed,
                    capacity));
  }
  // Each value has the size of its parameter; alignment in the program's memory does not
  // matter.
  std::vector<bytes_view> views;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (values[i] == nullptr) {
      return null_argument(call, fmt::format("a value for {}", parameters[i].name));
    }
    views.push_back({static_cast<const std::byte*>(values[i]), parameters[i].size});
  }
  WEIR_TRY(const auto packed, tessera::pack_arguments(parameters, views));
  std::memcpy(buffer, packed.data(), packed.size());
  return {};
}

}  // namespace

// Refuses numbers that the enumerations do not have. Sizes and types are checked when the
// parameters are laid out.
result<std::vector<kernel_parameter>> parameters_of(const tessParamInfo* params,
                                                    int count, std::string_view call) {
  std::vector<kernel_parameter> out;
  for (int i = 0; i < count; ++i) {
    WEIR_CHECK(check_reserved(call, params[i].reserved));
    // The size must be exact: with another, the next description of the array would not
    // be at the next element.
    if (params[i].structSize != sizeof(tessParamInfo) || params[i].kind > 2 ||
        params[i].direction > 2) {
      return error(errc::invalid_argument,
                   fmt::format("{} failed: expected a description of parameter {} with "
                               "structSize {}, kind and direction up to 2, found {}, {}, "
                               "{}",
                               call, i, sizeof(tessParamInfo), params[i].structSize,
                               params[i].kind, params[i].direction));
    }
    out.push_back(parameter_of(params[i]));
  }
  return out;
}

}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// Trust, targets and the ABI are checked before any code is loaded.
tessStatus_t tessModuleLoad(tessContext_t ctx, const void* image, size_t size,
                            tessModule_t* outModule) {
  return run([&] { return load(ctx, image, size, outModule); });
}

// Kernels of the module that are enqueued still run.
tessStatus_t tessModuleUnload(tessModule_t module) {
  return run([&] { return unload(module); });
}

// The handle is valid until the module is unloaded or its context ends.
tessStatus_t tessKernelGet(tessModule_t module, const char* name, tessKernel_t* out) {
  return run([&] { return get_kernel(module, name, out); });
}

// The number and the order of the kernels are those of the container.
tessStatus_t tessModuleGetKernelCount(tessModule_t handle, int* count) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessModuleGetKernelCount"));
    if (count == nullptr) {
      return null_argument("tessModuleGetKernelCount", "a place for the count");
    }
    *count = static_cast<int>(m->code->kernels().size());
    return {};
  });
}

// The name belongs to the module and is valid until it is unloaded.
tessStatus_t tessModuleGetKernelName(tessModule_t handle, int index, const char** name) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessModuleGetKernelName"));
    // The records do not move as long as the module lives.
    const auto kernels = m->code->kernels();
    if (name == nullptr) {
      return null_argument("tessModuleGetKernelName", "a place for the name");
    }
    if (index < 0 || static_cast<std::size_t>(index) >= kernels.size()) {
      return error(errc::invalid_argument,
                   fmt::format("kernel not named: expected an index in [0, {}), found {}",
                               kernels.size(), index));
    }
    *name = kernels[static_cast<std::size_t>(index)].record.name.c_str();
    return {};
  });
}

// The two sizes of arguments are those without and with the padding at the end.
tessStatus_t tessKernelGetInfo(tessKernel_t handle, tessKernelInfo* info) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto k, find(handle, "tessKernelGetInfo"));
    const tessera::loaded_kernel& kernel = *k->code.kernel;
    tessKernelInfo out{};
    out.flags = kernel.record.flags;
    out.paramCount = static_cast<std::uint32_t>(kernel.record.parameters.size());
    // Structures of C have the padding; `tessLaunch` accepts both sizes.
    out.argBytes = kernel.arguments.used;
    out.argBytesPadded = kernel.arguments.padded;
    std::copy(kernel.record.default_block.begin(), kernel.record.default_block.end(),
              out.defaultBlock);
    out.maxThreads = kernel.record.max_threads;
    out.sharedBytes = kernel.record.shared_bytes;
    return copy_struct("tessKernelGetInfo", out, info);
  });
}

// The name of the parameter belongs to the module.
tessStatus_t tessKernelGetParam(tessKernel_t handle, int index, tessParamInfo* info) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto k, find(handle, "tessKernelGetParam"));
    const auto& parameters = k->code.kernel->record.parameters;
    if (index < 0 || static_cast<std::size_t>(index) >= parameters.size()) {
      return error(errc::invalid_argument,
                   fmt::format("parameter not found: expected an index in [0, {}), found "
                               "{}",
                               parameters.size(), index));
    }
    const kernel_parameter& p = parameters[static_cast<std::size_t>(index)];
    tessParamInfo out{};
    out.kind = static_cast<std::uint32_t>(p.kind);
    out.dtype = p.dtype;
    out.size = p.size;
    out.offset = p.offset;
    out.space = static_cast<std::uint32_t>(p.space);
    out.direction = static_cast<std::uint32_t>(p.direction);
    out.name = p.name.c_str();
    return copy_struct("tessKernelGetParam", out, info);
  });
}

// A helper for programs that have values instead of a structure; launches take any buffer
// of the right layout.
tessStatus_t tessPackArgs(tessKernel_t kernel, const void* const* values, int valueCount,
                          void* buffer, size_t* size) {
  return run([&] { return pack(kernel, values, valueCount, buffer, size); });
}

// The text is JSON with all facts of the module and the sections that were chosen.
tessStatus_t tessExplain(tessModule_t handle, char* buffer, size_t* size) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto m, find(handle, "tessExplain"));
    return copy_text("tessExplain", m->code->explain(), buffer, size);
  });
}

tessStatus_t tessRegisterHostKernel(const char* name, void (*entry)(void),
                                    const tessParamInfo* params, int paramCount,
                                    uint32_t flags) {
  return run([&] { return register_kernel(name, entry, params, paramCount, flags); });
}

// Modules that were loaded with the function keep it.
tessStatus_t tessUnregisterHostKernel(const char* name) {
  return run([&]() -> result<void> {
    if (name == nullptr) {
      return null_argument("tessUnregisterHostKernel", "a name");
    }
    return tessera::unregister_host_kernel(name);
  });
}

// Without a cache on disk, the calls about it succeed and do nothing.
tessStatus_t tessCacheVerify(tessContext_t ctx) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessCacheVerify"));
    return c->cache() == nullptr ? result<void>() : c->cache()->verify();
  });
}

tessStatus_t tessCacheClear(tessContext_t ctx) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessCacheClear"));
    return c->cache() == nullptr ? result<void>() : c->cache()->clear();
  });
}

// Without a cache on disk, all members are 0.
tessStatus_t tessCacheGetStats(tessContext_t ctx, tessCacheStats* stats) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessCacheGetStats"));
    tessCacheStats out{};
    if (c->cache() != nullptr) {
      const tessera::cache_stats s = c->cache()->stats();
      out.enabled = 1;
      out.hits = s.hits;
      out.misses = s.misses;
      out.stale = s.stale;
      out.quarantined = s.quarantined;
      out.writes = s.writes;
      out.entries = s.entries;
      out.bytes = s.bytes;
    }
    return copy_struct("tessCacheGetStats", out, stats);
  });
}

// Counts for launches from now on.
tessStatus_t tessSetDeterminism(tessContext_t ctx, uint64_t seed,
                                uint32_t stableToggles) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto c, find(ctx, "tessSetDeterminism"));
    return c->set_determinism(seed, stableToggles);
  });
}

// The descriptor is that of the last launch or collective, and zeros if there was none.
tessStatus_t tessStreamGetDeterminism(tessStream_t stream, tessDeterminism* out) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto s, find(stream, "tessStreamGetDeterminism"));
    return copy_struct("tessStreamGetDeterminism", s->stream->last_determinism(), out);
  });
}

}  // extern "C"
