// SPDX-License-Identifier: Apache-2.0
/// @file
/// Errors, options and memory of the C interface.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "capi/handles.hpp"
#include "tensogram/codec/bits/masks.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "tensogram/write/frame_writer.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::formats {

namespace {

thread_local std::string last_error;

tgm_error code_of(const error& e) noexcept {
  switch (e.code()) {
    case errc::corrupt:
    case errc::torn:
    case errc::unsupported_version: return TGM_FRAMING;
    case errc::unknown_key: return TGM_METADATA;
    case errc::invalid_argument:
    case errc::unsupported:
    case errc::internal: return TGM_ENCODING;
    case errc::not_found:
    case errc::out_of_range: return TGM_OBJECT;
    case errc::hash_mismatch: return TGM_HASH_MISMATCH;
    case errc::missing_hash: return TGM_MISSING_HASH;
    case errc::timeout: return TGM_TIMEOUT;
    case errc::interrupted: return TGM_CANCELLED;
    default: return TGM_IO;
  }
}

}  // namespace

tgm_error keep_error(const error& e) {
  return keep_error(code_of(e), e.message());
}

tgm_error keep_error(tgm_error code, std::string text) {
  last_error = std::move(text);
  return code;
}

tgm_error missing_pointer() {
  return keep_error(TGM_INVALID_ARG,
                    "cannot go on: expected a pointer to all that is needed, found NULL");
}

result<message_options> options_of(const tgm_encode_options* from) {
  const tgm_encode_options o = from != nullptr ? *from : tgm_encode_options_default();
  message_options out;
  out.hashes = o.hashing != 0;
  if (o.aggregate_hash < TGM_LIST_AUTO || o.aggregate_hash > TGM_LIST_BOTH) {
    return error(errc::invalid_argument,
                 "cannot encode: expected a place of the digest list, found another "
                 "number");
  }
  out.list = static_cast<hash_list>(o.aggregate_hash);
  out.threads = o.threads;
  out.masks.nan = o.allow_nan != 0;
  out.masks.infinity = o.allow_inf != 0;
  out.masks.small_mask_bytes = o.small_mask_threshold_bytes;
  out.writer.reproducible = false;
  const auto method = [](const char* name, mask_method& to) -> result<void> {
    if (name != nullptr) {
      WEIR_TRY(to, mask_method_named(name));
    }
    return {};
  };
  WEIR_CHECK(method(o.nan_mask_method, out.masks.nan_method));
  WEIR_CHECK(method(o.pos_inf_mask_method, out.masks.positive_method));
  WEIR_CHECK(method(o.neg_inf_mask_method, out.masks.negative_method));
  return out;
}

read_options options_of(const tgm_decode_options* from) {
  const tgm_decode_options o = from != nullptr ? *from : tgm_decode_options_default();
  read_options out;
  out.native_order = o.native_byte_order != 0;
  out.restore_non_finite = o.restore_non_finite != 0;
  out.hashes = o.verify_hash != 0 ? hash_check::required : hash_check::present;
  out.legacy_hashes = out.legacy_packing = o.legacy != 0;
  out.threads = o.threads;
  out.max_object_bytes =
      o.max_object_bytes != 0 ? o.max_object_bytes : out.max_object_bytes;
  return out;
}

result<tgm_bytes> hand_out(bytes_view bytes) {
  auto* data = static_cast<std::uint8_t*>(std::malloc(bytes.empty() ? 1 : bytes.size()));
  if (data == nullptr) {
    return error(errc::out_of_memory,
                 "cannot hand out bytes: expected enough memory, found too little");
  }
  if (!bytes.empty()) {
    std::memcpy(data, bytes.data(), bytes.size());
  }
  return tgm_bytes{data, bytes.size()};
}

error with_kind(errc kind, const error& e) {
  error out = error(kind, e.text()).at(e.where()).hint(e.hint());
  return e.cause() != nullptr ? std::move(out).because(*e.cause()) : std::move(out);
}

error refused(const error& e, std::span<const object_to_write> objects) {
  const auto described = [](const object_to_write& one) {
    return check_described(one).has_value();
  };
  return std::all_of(objects.begin(), objects.end(), described)
             ? e
             : with_kind(errc::unknown_key, e);
}

namespace {

/// Whether a writer would miss a parameter in a descriptor of a message.
bool misses_parameters(bytes_view message) {
  read_options all;
  all.hashes = hash_check::none;
  const auto reader = message_reader::open(message, all);
  for (std::size_t i = 0; reader && i < reader->object_count(); ++i) {
    const auto good = check_stored(reader->descriptor(i), 0);
    if (!good && good.error().code() == errc::unknown_key) {
      return true;
    }
  }
  return false;
}

/// The kind of an error of a validation of structure and metadata.
errc kind_of(const validation_issue& issue, errc framing) {
  const std::string_view code = issue.code;
  if (code == "decode_object_failed") {  // a mask: where it lies, or how it is stored
    return issue.description.find("a method of") == std::string::npos
               ? framing
               : errc::invalid_argument;
  }
  if (issue.level == validation_level::structure &&
      code != "cbor_before_boundary_unknown" && code != "no_metadata_frame") {
    return framing;
  }
  return code == "decoded_size_mismatch" || code.substr(0, 8) == "unknown_"
             ? errc::invalid_argument
             : errc::unknown_key;
}

}  // namespace

error of_kind(const error& e, bytes_view message) {
  if (e.code() != errc::corrupt && e.code() != errc::torn) {
    return e;
  }
  validation_options structure_and_metadata;
  structure_and_metadata.level = validation_level::metadata;
  for (const auto& issue : validate_message(message, structure_and_metadata).issues) {
    if (issue.severity == issue_severity::error) {
      return with_kind(kind_of(issue, e.code()), e);
    }
  }
  return with_kind(
      misses_parameters(message) ? errc::unknown_key : errc::invalid_argument, e);
}

namespace {

result<void> fill_message(tgm_message& to, const read_options& options, bool elements) {
  WEIR_TRY(message_reader reader, message_reader::open(bytes_view(to.bytes), options));
  to.reader.emplace(std::move(reader));
  to.elements.resize(to.reader->object_count());
  if (elements) {
    WEIR_TRY(std::vector<byte_vector> all, to.reader->decode_all());
    for (std::size_t i = 0; i < all.size(); ++i) {
      to.elements[i] = std::move(all[i]);
    }
  }
  return {};
}

}  // namespace

result<std::unique_ptr<tgm_message>> make_message(byte_vector bytes,
                                                  const read_options& options,
                                                  bool elements) {
  auto out = std::make_unique<tgm_message>();
  out->bytes = std::move(bytes);
  if (const auto done = fill_message(*out, options, elements); !done) {
    return of_kind(done.error(), out->bytes);
  }
  return out;
}

}  // namespace weir::formats

extern "C" {

const char* tgm_error_string(tgm_error code) {
  switch (code) {
    case TGM_OK: return "OK";
    case TGM_FRAMING: return "FRAMING";
    case TGM_METADATA: return "METADATA";
    case TGM_ENCODING: return "ENCODING";
    case TGM_COMPRESSION: return "COMPRESSION";
    case TGM_OBJECT: return "OBJECT";
    case TGM_IO: return "IO";
    case TGM_HASH_MISMATCH: return "HASH_MISMATCH";
    case TGM_INVALID_ARG: return "INVALID_ARG";
    case TGM_END_OF_ITER: return "END_OF_ITER";
    case TGM_REMOTE: return "REMOTE";
    case TGM_MISSING_HASH: return "MISSING_HASH";
    case TGM_TIMEOUT: return "TIMEOUT";
    case TGM_CANCELLED: return "CANCELLED";
  }
  return "unknown";
}

const char* tgm_last_error(void) {
  return weir::formats::last_error.c_str();
}
const char* tgm_version(void) {
  return WEIR_VERSION;
}
void tgm_bytes_free(tgm_bytes bytes) {
  std::free(bytes.data);
}

tgm_encode_options tgm_encode_options_default(void) {
  tgm_encode_options out{};
  out.hashing = 1;
  out.small_mask_threshold_bytes = 128;
  return out;
}
tgm_decode_options tgm_decode_options_default(void) {
  tgm_decode_options out{};
  out.native_byte_order = 1;
  out.restore_non_finite = 1;
  return out;
}

void tgm_compute_hash(const void* data, size_t length, char digits[17]) {
  const std::string text =
      weir::hex64(weir::xxh3_64({static_cast<const std::byte*>(data), length}));
  std::memcpy(digits, text.c_str(), 17);
}

}  // extern "C"
