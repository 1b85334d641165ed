// SPDX-License-Identifier: Apache-2.0
/// @file
/// Construction of modules. A module under construction has a lock of its own, so several
/// threads may add parts to it.
///
/// The order of the calls is free, except that the targets of a kernel name sections by
/// the indexes that `tessFatbinAddCode` has returned. Everything is checked when the
/// container is built.
///
/// A program makes a module in these steps:
///
///   tessFatbinCreate -> tessFatbinAdd... and tessFatbinSet...
///                    -> tessFatbinBuild without a buffer, which asks for the size
///                    -> tessFatbinBuild, which fetches the bytes
///                    -> tessFatbinDestroy
#include <limits>

#include <fmt/core.h>

#include "capi/objects.hpp"

namespace weir::tessera::capi {
namespace {

/// Adds code. The bytes are copied, because the builder keeps references until the end.
result<void> add_code(tessFatbin_t handle, const char* kind, const char* arch,
                      const void* bytes, std::size_t size, int* index) {
  constexpr std::string_view call = "tessFatbinAddCode";
  WEIR_TRY(const auto f, find(handle, call));
  if (kind == nullptr || arch == nullptr || (bytes == nullptr && size != 0)) {
    return null_argument(call, "a kind of code, an architecture and the bytes");
  }
  auto known = tessera::code_kind_named(kind);
  if (!known) {
    return error(
        errc::invalid_argument,
        fmt::format("{} failed: expected a kind of code, found \"{}\"", call, kind));
  }
  const std::lock_guard lock(f->mutex);
  const auto* const first = static_cast<const std::byte*>(bytes);
  // A list, because its elements do not move when others are added.
  // The index is that of the section among those of code, which targets of kernels count.
  f->code.emplace_back(first, first + size);
  const std::size_t section = f->change().add_code(*known, arch, f->code.back());
  if (index != nullptr) {
    *index = static_cast<int>(section);
  }
  return {};
}

/// Adds a kernel. Members that are 0 keep the defaults of the record.
result<void> add_kernel(tessFatbin_t handle, const tessFatbinKernel* kernel) {
  constexpr std::string_view call = "tessFatbinAddKernel";
  WEIR_TRY(const auto f, find(handle, call));
  WEIR_TRY(const tessFatbinKernel d, read_struct(call, kernel, sizeof(tessFatbinKernel)));
  if (d.name == nullptr || d.paramCount < 0 ||
      (d.params == nullptr && d.paramCount > 0)) {
    return null_argument(call, "a name and the parameters");
  }
  tessera::kernel_record record;
  record.name = d.name;
  record.symbol = d.symbol == nullptr ? "" : d.symbol;
  record.flags = d.flags;
  WEIR_TRY(record.parameters, parameters_of(d.params, d.paramCount, call));
  std::copy(d.defaultBlock, d.defaultBlock + 3, record.default_block.begin());
  if (d.maxThreads != 0) {
    record.max_threads = d.maxThreads;
  }
  record.shared_bytes = d.sharedBytes;
  // 0 keeps the default of the record, with which the kernel runs from all sections of
  // code.
  if (d.targets != 0) {
    record.targets = d.targets;
  }
  const std::lock_guard lock(f->mutex);
  return f->change().add_kernel(std::move(record));
}

/// Adds the plan of a collective. A largest size of 0 means no limit.
result<void> add_plan(tessFatbin_t handle, const tessFatbinPlan* plan) {
  constexpr std::string_view call = "tessFatbinAddPlan";
  WEIR_TRY(const auto f, find(handle, call));
  WEIR_TRY(const tessFatbinPlan d, read_struct(call, plan, sizeof(tessFatbinPlan)));
  WEIR_CHECK(check_reserved(call, d.reserved));
  tessera::plan_record record;
  record.collective = d.collective;
  record.dtype = d.dtype;
  // Only checks the text; the container stores it as it is.
  WEIR_CHECK(collective::parse_axes(d.axis));
  record.axis = d.axis == nullptr ? "" : d.axis;
  record.algorithm = d.algorithm;
  record.least_bytes = d.leastBytes;
  record.max_bytes =
      d.mostBytes == 0 ? std::numeric_limits<std::uint64_t>::max() : d.mostBytes;
  record.chunk_bytes = d.chunkBytes;
  record.wire_dtype = d.wireDtype;
  const std::lock_guard lock(f->mutex);
  f->change().add_plan(std::move(record));
  return {};
}

/// Sets the policy that contexts take over from the module.
/// Each field of the policy must be 0 or 1. The seed may have any value.
result<void> set_policy(tessFatbin_t handle, const tessNumericsPolicy* policy, int wire,
                        std::uint64_t seed) {
  constexpr std::string_view call = "tessFatbinSetPolicy";
  WEIR_TRY(const auto f, find(handle, call));
  if (policy == nullptr) {
    return null_argument(call, "a policy");
  }
  WEIR_CHECK(check_policy(*policy));
  const std::lock_guard lock(f->mutex);
  f->change().set_policy({policy->stableReductions != 0, policy->deterministic != 0,
                          policy->rngStateless != 0, policy->allowFastMath != 0,
                          wire != 0, seed});
  return {};
}

/// Builds the container. A program first asks for the size, with a null buffer. The
/// container is kept from then on until it is fetched, so that both calls see the same
/// bytes and the work is done once. Another key or a change builds it again. The key
/// itself is not kept, only its digest.
result<void> build(tessFatbin_t handle, const void* key, void* buffer,
                   std::size_t* size) {
  constexpr std::string_view call = "tessFatbinBuild";
  WEIR_TRY(const auto f, find(handle, call));
  if (size == nullptr) {
    return null_argument(call, "a size");
  }
  // The key has 64 bytes by the rule of the interface. Its copy is erased at the end.
  struct erased_key {
    tessera::secret_key bytes{};
    erased_key() = default;
    erased_key(const erased_key&) = delete;
    erased_key& operator=(const erased_key&) = delete;
    ~erased_key() { ::explicit_bzero(bytes.data(), bytes.size()); }
  } copy;
  tessera::secret_key& secret = copy.bytes;
  if (key != nullptr) {
    std::memcpy(secret.data(), key, secret.size());
  }
  const std::lock_guard lock(f->mutex);
  const std::optional digest =
      key == nullptr ? std::nullopt : std::optional(tessera::sha256(secret));
  if (!f->made || f->key_digest != digest) {
    WEIR_TRY(f->made, f->builder.build(key == nullptr ? nullptr : &secret));
    f->key_digest = digest;
  }
  const byte_vector& made = *f->made;
  const std::size_t capacity = std::exchange(*size, made.size());
  if (buffer == nullptr) {
    return {};
  }
  if (capacity < made.size()) {
    return error(errc::invalid_argument,
                 fmt::format("{} failed: expected space for {} bytes, found {}", call,
                             made.size(), capacity));
  }
  // The container was fetched, so its memory is given back. A further call builds it
  // again.
  std::memcpy(buffer, made.data(), made.size());
  f->made.reset();
  return {};
}

}  // namespace
}  // namespace weir::tessera::capi

using namespace weir;                 // NOLINT: the functions of the interface are global
using namespace weir::tessera::capi;  // NOLINT

extern "C" {

// Needs no context: a compiler can make modules without running any.
tessStatus_t tessFatbinCreate(tessFatbin_t* fatbin) {
  return run([&]() -> result<void> {
    if (fatbin == nullptr) {
      return null_argument("tessFatbinCreate", "a place for the module");
    }
    *fatbin =
        handle_of<tessFatbin_t>(all().fatbins.add(std::make_shared<fatbin_object>()));
    return {};
  });
}

// A call of another thread that uses it ends normally, since it holds the object.
tessStatus_t tessFatbinDestroy(tessFatbin_t fatbin) {
  return run([&]() -> result<void> {
    if (all().fatbins.remove(number_of(fatbin)) == nullptr) {
      return no_object("tessFatbinDestroy", "module in the making");
    }
    return {};
  });
}

// `index` may be null.
tessStatus_t tessFatbinAddCode(tessFatbin_t fatbin, const char* kind, const char* arch,
                               const void* bytes, size_t size, int* index) {
  return run([&] { return add_code(fatbin, kind, arch, bytes, size, index); });
}

// Names and types are checked by the layout of the parameters, all else when the
// container is built.
tessStatus_t tessFatbinAddKernel(tessFatbin_t fatbin, const tessFatbinKernel* kernel) {
  return run([&] { return add_kernel(fatbin, kernel); });
}

tessStatus_t tessFatbinAddPlan(tessFatbin_t fatbin, const tessFatbinPlan* plan) {
  return run([&] { return add_plan(fatbin, plan); });
}

tessStatus_t tessFatbinSetPolicy(tessFatbin_t fatbin, const tessNumericsPolicy* policy,
                                 int wireQuantisation, uint64_t seed) {
  return run([&] { return set_policy(fatbin, policy, wireQuantisation, seed); });
}

// The text is checked when the container is built.
tessStatus_t tessFatbinSetExplain(tessFatbin_t fatbin, const char* json) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto f, find(fatbin, "tessFatbinSetExplain"));
    if (json == nullptr) {
      return null_argument("tessFatbinSetExplain", "a text");
    }
    const std::lock_guard lock(f->mutex);
    f->change().set_explain(json);
    return {};
  });
}

// The hash is that of the sources; the library only stores it.
tessStatus_t tessFatbinSetSourceHash(tessFatbin_t fatbin, const void* hash32) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto f, find(fatbin, "tessFatbinSetSourceHash"));
    if (hash32 == nullptr) {
      return null_argument("tessFatbinSetSourceHash", "a hash");
    }
    tessera::digest256 hash{};
    std::memcpy(hash.data(), hash32, hash.size());
    const std::lock_guard lock(f->mutex);
    f->change().set_source_hash(hash);
    return {};
  });
}

// Lets a compiler make modules for an older ABI than its own.
tessStatus_t tessFatbinSetAbi(tessFatbin_t fatbin, int major, int minor) {
  return run([&]() -> result<void> {
    WEIR_TRY(const auto f, find(fatbin, "tessFatbinSetAbi"));
    constexpr int max_number = std::numeric_limits<std::uint16_t>::max();
    if (major < 0 || major > max_number || minor < 0 || minor > max_number) {
      return error(errc::invalid_argument,
                   fmt::format("tessFatbinSetAbi failed: expected numbers in [0, {}], "
                               "found {} and {}",
                               max_number, major, minor));
    }
    const std::lock_guard lock(f->mutex);
    f->change().set_abi(
        {static_cast<std::uint16_t>(major), static_cast<std::uint16_t>(minor)});
    return {};
  });
}

tessStatus_t tessFatbinBuild(tessFatbin_t fatbin, const void* secretKey64, void* buffer,
                             size_t* size) {
  return run([&] { return build(fatbin, secretKey64, buffer, size); });
}

}  // extern "C"
