// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the arguments of C functions and converts them to options of the library.
///
/// A C caller can pass anything, so enumerations are read as plain integers, option
/// structures are read for as many bytes as the caller says they have, and texts must be
/// UTF-8 before they reach C++ code.
#include "capi/arguments.hpp"

#include <algorithm>
#include <atomic>
#include <string_view>

#include "tensogram/codec/bits/masks.hpp"
#include "weir/base/utf8.hpp"

namespace weir::capi {

using namespace weir::formats;  // NOLINT: this file translates between the two

namespace {

/// Limit of C++ callers, from which the process starts.
constexpr std::uint64_t initial_limit = read_options().max_object_bytes;
/// Largest object that is decoded, for the whole process, in bytes. Relaxed order
/// suffices: the value guards no other memory, and a call that runs beside a change may
/// use either limit.
std::atomic<std::uint64_t> limit_of_process = initial_limit;

/// Reads an option structure, whose first member is its size. The size is that of the
/// header that the caller was compiled with. Members that an older caller does not have
/// are zero, which requests the default. Members that only a newer caller has must be
/// zero, because this version cannot honour them.
template <class Options>
outcome<Options> sized(const Options* from) {
  Options out{};
  if (from == nullptr) {
    return out;
  }
  const std::size_t size = from->struct_size;
  // The size itself is the least that a structure has.
  if (size < sizeof size) {
    return invalid_argument(
        "cannot read options: expected struct_size to be the size of "
        "the structure, found " +
        std::to_string(size));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  // The bytes of the caller are looked at only up to the size that it states.
  if (size > sizeof out && std::any_of(bytes + sizeof out, bytes + size,
                                       [](unsigned char byte) { return byte != 0; })) {
    return invalid_argument(
        "cannot read options: expected zeros behind the members that this version knows, "
        "found other bytes");
  }
  // Members that the caller lacks stay zero.
  std::memcpy(&out, from, std::min(size, sizeof out));
  return out;
}

/// Returns the number in an enumeration. A C caller may have stored any number there;
/// reading it as the enumeration would be undefined, so its bytes are copied.
template <class Enumeration>
outcome<int> checked_choice(const Enumeration& choice, int largest, const char* subject) {
  int number = 0;
  static_assert(sizeof number == sizeof choice);
  // Both have 4 bytes, so the bytes of the one are those of the other.
  std::memcpy(&number, &choice, sizeof number);
  if (number < 0 || number > largest) {
    return invalid_argument(std::string("cannot read options: expected ") + subject +
                            " from 0 to " + std::to_string(largest) + ", found " +
                            std::to_string(number));
  }
  return number;
}

/// Sets `to` to the method of this name; a null pointer keeps the default.
outcome<void> take_mask_method(const char* name, mask_method& to) {
  if (name == nullptr) {
    return {};
  }
  WEIR_TRY(const std::string method, text_argument(name, "the mask method"));
  const auto found = mask_method_named(method);
  if (!found) {
    return invalid_argument(found.error().message());
  }
  to = *found;
  return {};
}

/// Converts the mask options; a negative threshold keeps the default.
outcome<void> take_masks(const TgmEncodeMaskOptions* from, mask_options& to) {
  if (from == nullptr) {
    return {};
  }
  // `allow_nan` and `allow_inf` decide; methods of kinds that are not allowed are checked
  // too.
  to.nan = from->allow_nan;
  to.infinity = from->allow_inf;
  WEIR_CHECK(take_mask_method(from->nan_mask_method, to.nan_method));
  WEIR_CHECK(take_mask_method(from->pos_inf_mask_method, to.positive_method));
  WEIR_CHECK(take_mask_method(from->neg_inf_mask_method, to.negative_method));
  if (from->small_mask_threshold_bytes >= 0) {
    to.small_mask_bytes = static_cast<std::uint64_t>(from->small_mask_threshold_bytes);
  }
  return {};
}

/// Messages written through the C interface carry the time and an identifier, as those of
/// the reference implementation do, unless the caller asks for reproducible ones.
message_options with_provenance() {
  message_options out;
  out.writer.reproducible = false;
  return out;
}

}  // namespace

std::uint64_t max_object_bytes() noexcept {
  return limit_of_process.load(std::memory_order_relaxed);
}

/// Copies a text of the caller. It must be UTF-8, because it may become a CBOR text,
/// which has to be UTF-8 by RFC 8949, 3.1.
outcome<std::string> text_argument(const char* text, const char* subject) {
  std::string out(text);
  if (!is_utf8(out)) {
    return invalid_argument(std::string("cannot read ") + subject +
                            ": expected UTF-8, found other bytes");
  }
  return out;
}

/// A null pointer is allowed for an object of 0 bytes, as an empty C array often has
/// none.
outcome<std::vector<bytes_view>> data_arguments(const std::uint8_t* const* pointers,
                                                const std::size_t* lengths,
                                                std::size_t count) {
  // Arrays of no objects may be missing.
  if (count > 0 && !given(pointers, lengths)) {
    return missing_pointer();
  }
  std::vector<bytes_view> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (pointers[i] == nullptr && lengths[i] > 0) {
      return invalid_argument(
          "cannot encode object " + std::to_string(i) + ": expected a pointer to its " +
          std::to_string(lengths[i]) + " bytes, found a null pointer");
    }
    out.push_back(view_of(pointers[i], lengths[i]));
  }
  return out;
}

/// Without an argument no digests are written.
outcome<bool> hash_argument(const char* algorithm) {
  if (algorithm == nullptr) {
    return false;
  }
  // The names are compared as they are.
  WEIR_TRY(const std::string name, text_argument(algorithm, "the hash algorithm"));
  if (name != "xxh3" && name != "none") {
    return invalid_argument(
        "cannot choose the hash algorithm: expected \"xxh3\" or \"none\", found \"" +
        name + "\"");
  }
  return name == "xxh3";
}

/// Takes the separate arguments of a function of tensogram.h.
outcome<message_options> encode_arguments(const char* hash_algorithm,
                                          std::uint32_t threads,
                                          const TgmEncodeMaskOptions* masks) {
  message_options out = with_provenance();
  WEIR_TRY(out.hashes, hash_argument(hash_algorithm));
  // 0 means the calling thread alone, as everywhere in the library.
  out.threads = threads;
  WEIR_CHECK(take_masks(masks, out.masks));
  return out;
}

/// Takes an option structure. The alignment is checked here as well, so that its error
/// has the code of a wrong argument.
outcome<message_options> encode_arguments(const tgm_x_encode_options_t* options) {
  WEIR_TRY(const tgm_x_encode_options_t o, sized(options));
  WEIR_TRY(message_options out, encode_arguments(o.hash_algo, o.threads, o.mask_options));
  WEIR_TRY(const int list,
           checked_choice(o.hash_list, TGM_X_HASH_LIST_BOTH, "a place of the digests"));
  out.list = static_cast<hash_list>(list);
  // The limits are those of the encoder (encoder.cpp).
  const std::uint32_t alignment = o.payload_alignment;
  if (alignment != 0 &&
      (alignment < 16 || alignment > 4096 || (alignment & (alignment - 1)) != 0)) {
    return invalid_argument(
        "cannot align payloads: expected a power of two from 16 to 4096, found " +
        std::to_string(alignment));
  }
  out.payload_alignment = alignment;
  // Time and identifier are left out only on request.
  out.writer.reproducible = o.reproducible;
  return out;
}

/// Translates the plain arguments that most functions have. The limit of the process
/// bounds the size of the objects. Digests that are present are always checked;
/// `verify_hash` makes them required.
read_options decode_arguments(bool native_byte_order, std::uint32_t threads,
                              bool verify_hash, bool restore_non_finite) {
  read_options out;
  out.native_order = native_byte_order;
  out.threads = threads;
  out.hashes = verify_hash ? hash_check::required : hash_check::present;
  out.restore_non_finite = restore_non_finite;
  out.max_object_bytes = max_object_bytes();
  return out;
}

/// An option structure adds to the usual arguments: digests that are not checked at all,
/// old formats, and a limit of its own.
outcome<read_options> decode_arguments(const tgm_x_decode_options_t* options) {
  WEIR_TRY(const tgm_x_decode_options_t o, sized(options));
  WEIR_TRY(const int check,
           checked_choice(o.hash_check, TGM_X_HASH_CHECK_NONE, "a check of digests"));
  // The structure states the exceptions, the functions the rule; hence the negations.
  read_options out = decode_arguments(!o.file_byte_order, o.threads,
                                      check == TGM_X_HASH_CHECK_REQUIRED, !o.keep_masked);
  if (check == TGM_X_HASH_CHECK_NONE) {
    out.hashes = hash_check::none;
  }
  out.legacy_hashes = out.legacy_packing = o.legacy;
  // 0 keeps the limit of the process.
  if (o.max_object_bytes != 0) {
    out.max_object_bytes = o.max_object_bytes;
  }
  return out;
}

/// The levels have the names of the reference. "checksum" is the default level without
/// trial decoding.
outcome<validation_options> validate_arguments(const char* level, bool canonical,
                                               bool metadata) {
  std::string name = "default";
  if (level != nullptr) {
    WEIR_TRY(name, text_argument(level, "the level of a validation"));
  }
  // The default level is that of the options: integrity with trial decoding.
  validation_options out;
  out.canonical = canonical;
  out.max_object_bytes = max_object_bytes();
  if (name == "quick") {
    out.level = validation_level::structure;
  } else if (name == "full") {
    out.level = validation_level::fidelity;
  } else if (name == "checksum") {
    out.trial_decode = false;
  } else if (name == "metadata" && metadata) {
    out.level = validation_level::metadata;
  } else if (name != "default") {
    return invalid_argument(std::string("cannot validate: expected the level quick, ") +
                            (metadata ? "metadata, " : "") +
                            "default, checksum or full, found \"" + name + "\"");
  }
  return out;
}

/// All levels may be named here.
outcome<validation_options> validate_arguments(const char* level,
                                               const tgm_x_validate_options_t* options) {
  WEIR_TRY(const tgm_x_validate_options_t o, sized(options));
  WEIR_TRY(validation_options out, validate_arguments(level, o.check_canonical, true));
  out.legacy_hashes = o.legacy;
  if (o.max_object_bytes != 0) {
    out.max_object_bytes = o.max_object_bytes;
  }
  return out;
}

/// malloc() does not throw; a size that would overflow is treated like lack of memory.
outcome<owned_bytes> owned_bytes::make(std::size_t size) {
  owned_bytes out;
  // Allocates one byte more, so that even zero bytes have an address that can be freed.
  out.data_.reset(static_cast<std::uint8_t*>(
      size == static_cast<std::size_t>(-1) ? nullptr : std::malloc(size + 1)));
  if (out.data_ == nullptr) {
    return failure(TGM_ERROR_IO, "cannot hand out " + std::to_string(size) +
                                     " bytes: expected enough memory, found too little");
  }
  out.size_ = size;
  return out;
}

/// Copies bytes into memory that C code can own and free.
outcome<owned_bytes> owned_bytes::copy_of(bytes_view bytes) {
  WEIR_TRY(owned_bytes out, make(bytes.size()));
  if (!bytes.empty()) {
    std::memcpy(out.view().data(), bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace weir::capi

extern "C" {

/// The counterpart of owned_bytes::release(); a null pointer is allowed.
void tgm_bytes_free(tgm_bytes_t buf) {
  std::free(buf.data);
}

/// 0 restores the first limit.
void tgm_x_set_max_object_bytes(uint64_t bytes) {
  weir::capi::limit_of_process = bytes != 0 ? bytes : weir::capi::initial_limit;
}

uint64_t tgm_x_get_max_object_bytes(void) {
  return weir::capi::max_object_bytes();
}

}  // extern "C"
