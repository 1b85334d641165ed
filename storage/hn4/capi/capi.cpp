// SPDX-License-Identifier: Apache-2.0
/// @file
/// Implements the C interface over volumes and streams. It opens volumes for reading
/// only. Every function returns a code and none throws. Texts of errors do not cross the
/// interface.
#include <atomic>
#include <cstring>

#include "weir/base/capi/guard.hpp"
#include "weir/hn4.h"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_code.hpp"

/// A volume counts its open contexts, so that closing it too early is an error.
struct hn4_volume_t {
  weir::storage::hn4_volume volume;
  bool recover = false;
  std::atomic<std::uint32_t> contexts{0};
};
/// An open stream of one tag. It refers to its volume, which must be closed later.
struct hn4_tensor_ctx_t {
  hn4_volume_t* volume;
  weir::storage::hn4_stream stream;
};

namespace {

using weir::storage::hn4_code;

constexpr auto invalid = static_cast<hn4_result_t>(hn4_code::invalid_argument);
constexpr auto no_memory = static_cast<hn4_result_t>(hn4_code::no_memory);

/// Returns the result code of an error.
hn4_result_t code(const weir::error& e) {
  return static_cast<hn4_result_t>(weir::storage::code_of(e));
}

/// Calls `run` and turns exceptions into results: none may pass through a C function.
template <class F>
hn4_result_t guarded(F&& run) noexcept {
  return weir::guarded_call(run, [](weir::errc kind, const char*) {
    // A full memory has a code of its own, so that programs can react to it.
    return kind == weir::errc::out_of_memory
               ? no_memory
               : static_cast<hn4_result_t>(hn4_code::internal);
  });
}

/// Opens a volume for reading. A strict opening also verifies copies and reserved
/// structures that reading does not need.
weir::result<weir::storage::hn4_volume> open(const char* path, bool strict) {
  using namespace weir::storage;
  WEIR_TRY(auto device, open_file_device(path, device_mode::read_only));
  return strict ? hn4_volume::open_strictly(std::move(device))
                : hn4_volume::open(std::move(device), device_mode::read_only);
}

}  // namespace

// The output is set last, so that it is set only on success.
//
// Unknown flags are refused, so that they can get a meaning later.
hn4_result_t hn4_volume_open(const char* path, uint32_t flags, hn4_volume_t** vol) {
  if (path == nullptr || vol == nullptr ||
      (flags & ~(HN4_VOLUME_STRICT | HN4_VOLUME_RECOVER)) != 0) {
    return invalid;
  }
  return guarded([&]() -> hn4_result_t {
    auto volume = open(path, (flags & HN4_VOLUME_STRICT) != 0);
    if (!volume) {
      return code(volume.error());
    }
    *vol = new hn4_volume_t{std::move(*volume), (flags & HN4_VOLUME_RECOVER) != 0};
    return HN4_OK;
  });
}

/// Closing nullptr is allowed, as with `free`. The count is not a lock: a program must
/// not close a volume while another thread opens a stream of it.
hn4_result_t hn4_volume_close(hn4_volume_t* vol) {
  if (vol == nullptr) {
    return HN4_OK;
  }
  if (vol->contexts.load() != 0) {
    return HN4_ERR_BUSY;
  }
  delete vol;
  return HN4_OK;
}

/// The recovery flag of the volume decides whether a stream with lost shards can be
/// opened.
hn4_result_t hn4_tensor_open(hn4_volume_t* vol, const char* model_tag,
                             hn4_tensor_ctx_t** out) {
  if (vol == nullptr || model_tag == nullptr || out == nullptr) {
    return invalid;
  }
  return guarded([&]() -> hn4_result_t {
    weir::storage::hn4_stream_options options;
    options.recover = vol->recover;
    auto stream = vol->volume.stream(model_tag, options);
    if (!stream) {
      return code(stream.error());
    }
    *out = new hn4_tensor_ctx_t{vol, std::move(*stream)};
    // Counted only after success, so a failed opening does not keep the volume open.
    vol->contexts.fetch_add(1);
    return HN4_OK;
  });
}

// The count is set to 0 first, because it is valid after every error.
hn4_result_t hn4_tensor_read_count(hn4_tensor_ctx_t* ctx, uint64_t global_offset,
                                   void* buf, uint64_t len, uint64_t* count) {
  if (count != nullptr) {
    *count = 0;
  }
  if (ctx == nullptr || buf == nullptr) {
    return invalid;
  }
  if (len == 0) {
    return HN4_OK;
  }
  return guarded([&]() -> hn4_result_t {
    // Reading may end early. `count` then says how many bytes of the buffer are valid,
    // whatever the result code is.
    const auto part = ctx->stream.read_partial(
        global_offset, {static_cast<std::byte*>(buf), static_cast<std::size_t>(len)});
    if (count != nullptr) {
      *count = part.bytes;
    }
    if (part.failure) {
      return code(*part.failure);
    }
    return part.ended_in_hole ? HN4_INFO_SPARSE : HN4_OK;
  });
}

/// Serves programs that need no count.
hn4_result_t hn4_tensor_read(hn4_tensor_ctx_t* ctx, uint64_t global_offset, void* buf,
                             uint64_t len) {
  return hn4_tensor_read_count(ctx, global_offset, buf, len, nullptr);
}

void hn4_tensor_close(hn4_tensor_ctx_t* ctx) {
  if (ctx != nullptr) {
    ctx->volume->contexts.fetch_sub(1);
    delete ctx;
  }
}

uint64_t hn4_tensor_size(const hn4_tensor_ctx_t* ctx) {
  return ctx != nullptr ? ctx->stream.size() : 0;
}

uint32_t hn4_tensor_shard_count(const hn4_tensor_ctx_t* ctx) {
  return ctx != nullptr ? static_cast<uint32_t>(ctx->stream.shards().size()) : 0;
}

const char* hn4_result_name(hn4_result_t result) {
  // The names are literals, so a NUL follows them.
  return weir::storage::name_of(static_cast<hn4_code>(result)).data();
}
