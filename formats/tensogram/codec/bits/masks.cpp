// SPDX-License-Identifier: Apache-2.0
/// @file
/// Masks: takes non-finite values out of elements, stores their positions as bit lists,
/// and restores the values. A masked element is stored as zero, so codecs that need
/// finite numbers can encode the rest. A NaN loses its payload bits: a mask records the
/// kind only.
#include "tensogram/codec/bits/masks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <exception>

#include "tensogram/codec/bits/bits.hpp"
#include "tensogram/codec/blosc2/blosc2.hpp"
#include "tensogram/codec/lz4.hpp"
#include "tensogram/codec/zstd.hpp"
#include "tensogram/write/finite.hpp"

namespace weir::formats {

namespace {

/// Names in the descriptor, in the order of `mask_method`.
constexpr std::array<std::string_view, 6> method_names{"none", "rle",  "roaring",
                                                       "lz4",  "zstd", "blosc2"};
/// Level of zstd for masks; a descriptor has no parameter for it.
constexpr int mask_zstd_level = 3;

/// Bit patterns of the non-finite values of a type.
struct float_form {
  unsigned size = 0;        ///< bytes of a component; 0: the type has only finite values
  unsigned components = 1;  ///< numbers in an element
  std::uint64_t exponent = 0;  ///< all bits of the exponent; alone they are an infinity
  std::uint64_t quiet = 0;     ///< the bit that makes it a quiet NaN
};

/// Returns the bit patterns of a type; of size 0 for types without non-finite values.
float_form form_of(dtype type) noexcept {
  switch (type) {
    case dtype::fp16: return {2, 1, 0x7C00, 0x0200};
    case dtype::bf16: return {2, 1, 0x7F80, 0x0040};
    case dtype::fp32: return {4, 1, 0x7F80'0000, 0x0040'0000};
    case dtype::complex64: return {4, 2, 0x7F80'0000, 0x0040'0000};
    case dtype::fp64: return {8, 1, 0x7FF0'0000'0000'0000, 0x0008'0000'0000'0000};
    case dtype::complex128: return {8, 2, 0x7FF0'0000'0000'0000, 0x0008'0000'0000'0000};
    default: return {};
  }
}

/// Returns the bits of a component of `size` bytes.
std::uint64_t component_at(const std::byte* from, unsigned size,
                           byte_order order) noexcept {
  // The most significant byte comes first into the result.
  std::uint64_t out = 0;
  for (unsigned k = 0; k < size; ++k) {
    const unsigned index = order == byte_order::big ? k : size - 1 - k;
    out = out << 8 | std::to_integer<std::uint64_t>(from[index]);
  }
  return out;
}

/// Classes of an element; the last three have a mask each.
enum class value_class : std::uint8_t { finite, nan, positive, negative };

/// Returns the class of an element. A complex element is NaN if one component is;
/// otherwise an infinity of one component decides, a positive one first.
value_class class_of(const std::byte* element, const float_form& form,
                     byte_order order) noexcept {
  bool positive = false;
  bool negative = false;
  // The sign is the highest bit of a component.
  const std::uint64_t sign = std::uint64_t{1} << (8 * form.size - 1);
  for (unsigned c = 0; c < form.components; ++c) {
    const std::uint64_t bits = component_at(element + c * form.size, form.size, order);
    // Without all bits of the exponent it is a finite number.
    if ((bits & form.exponent) != form.exponent) {
      continue;
    }
    // Any further bit makes a NaN of it.
    if ((bits & ~(form.exponent | sign)) != 0) {
      return value_class::nan;
    }
    positive = positive || (bits & sign) == 0;
    negative = negative || (bits & sign) != 0;
  }
  // One element has one class, since it is replaced as a whole.
  return positive ? value_class::positive
                  : (negative ? value_class::negative : value_class::finite);
}

/// Sets bit `index` of a list of `count` bits, which gets its memory with the first bit.
/// Lists without a set bit stay empty and are not stored.
void mark(byte_vector& bits, std::uint64_t count, std::uint64_t index) {
  // Resizing to the same size does nothing.
  bits.resize((count + 7) / 8);
  set_bit(bits, index);
}

/// Walks over elements and takes the non-finite ones out. Blocks without such a value,
/// which are nearly all, are passed over by a vectorised search. The elements are copied
/// only when the first such value is found.
class mask_taker {
 public:
  mask_taker(bytes_view elements, const object_descriptor& descriptor,
             const mask_options& options, bool keep_others)
      : from_(elements),
        descriptor_(descriptor),
        options_(options),
        keep_others_(keep_others),
        form_(form_of(descriptor.type)),
        width_(form_.size * form_.components),
        count_(width_ == 0 ? 0 : elements.size() / width_) {}

  /// Walks in blocks of 4096 elements, which is large enough for the search to be
  /// vectorised and small enough for the elements to stay in the cache.
  result<std::optional<masked_elements>> run() {
    constexpr std::size_t block = 4096;
    for (std::size_t first = 0; first < count_; first += block) {
      const std::size_t n = std::min(block, count_ - first);
      if (find_non_finite(from_.subspan(first * width_, n * width_), descriptor_.type,
                          descriptor_.order)) {
        WEIR_CHECK(take_block(first, first + n));
      }
    }
    return std::move(out_);
  }

 private:
  /// Takes the non-finite values out of elements `first` to `last`.
  /// Elements are read from the original, because earlier ones of `out_` are zeros
  /// already.
  result<void> take_block(std::size_t first, std::size_t last) {
    // From the first find on, there is a copy, in which values are replaced.
    if (!out_) {
      out_.emplace();
      out_->elements.assign(from_.begin(), from_.end());
    }
    for (std::size_t i = first; i < last; ++i) {
      const value_class found =
          class_of(from_.data() + i * width_, form_, descriptor_.order);
      if (found == value_class::finite) {
        continue;
      }
      const bool nan = found == value_class::nan;
      // Each kind must be allowed separately.
      const bool allowed = nan ? options_.nan : options_.infinity;
      // The caller stores such elements as they are.
      if (!allowed && keep_others_) {
        continue;
      }
      if (!allowed) {
        return non_finite_error(descriptor_.type, nan, i);
      }
      // Three lists, one for each class.
      mark(nan ? out_->masks.nan
               : (found == value_class::positive ? out_->masks.positive_infinity
                                                 : out_->masks.negative_infinity),
           count_, i);
      std::fill_n(out_->elements.begin() + static_cast<std::ptrdiff_t>(i * width_),
                  width_, std::byte{});
    }
    return {};
  }

  bytes_view from_;
  const object_descriptor& descriptor_;
  const mask_options& options_;
  bool keep_others_;
  float_form form_;
  std::size_t width_;
  std::size_t count_;
  std::optional<masked_elements> out_;
};

/// Encodes one bit list. Refuses blosc2 for the reason that the hint gives.
result<byte_vector> encode_mask(bytes_view bits, std::uint64_t count,
                                mask_method method) {
  // Only two methods give a buffer of their own.
  code_buffer code;
  switch (method) {
    case mask_method::none: return byte_vector(bits.begin(), bits.end());
    case mask_method::rle: return rle_encode(bits, count);
    case mask_method::roaring: return roaring_encode(bits, count);
    case mask_method::lz4: {
      WEIR_TRY(code, lz4_encode(bits));
      break;
    }
    case mask_method::zstd: {
      WEIR_TRY(code, zstd_encode(bits, mask_zstd_level));
      break;
    }
    case mask_method::blosc2:
      return error(errc::unsupported,
                   "cannot write mask: expected none, rle, roaring, lz4 or zstd, found "
                   "blosc2")
          .hint("a reader that has not used blosc2 before cannot open such a mask");
  }
  // The code may be larger than the bits. That is accepted, as the method was asked for.
  return byte_vector(code.bytes.begin(), code.bytes.end());
}

/// Decodes one bit list of `count` bits.
/// `to` may have no memory; then the method only checks that it could fill it.
result<void> decode_mask(bytes_view from, std::uint64_t count, mask_method method,
                         const decode_target& to) {
  switch (method) {
    case mask_method::none:
      // Raw bits have exactly their size.
      if (from.size() != to.size()) {
        return error(errc::corrupt,
                     fmt::format("cannot read mask: expected {} bytes, found {}",
                                 to.size(), from.size()));
      }
      std::copy_n(from.begin(), to.bytes().size(), to.bytes().begin());
      return {};
    case mask_method::rle: return rle_decode(from, count, to);
    case mask_method::roaring: return roaring_decode(from, count, to);
    case mask_method::lz4: return lz4_decode(from, to);
    case mask_method::zstd: return zstd_decode(from, to);
    // Masks of other writers may use blosc2, so it can be read.
    case mask_method::blosc2: return blosc2_decode(from, to.size(), 0, to);
  }
  return {};
}

/// Names in the `masks` map, in the order in which masks are stored.
constexpr std::array<std::string_view, 3> mask_kinds{"nan", "inf+", "inf-"};

/// A mask as it is stored in a frame.
struct stored_mask {
  mask_method method = mask_method::none;
  bytes_view blob;
};

/// Finds the mask of a kind in the `masks` map of a descriptor; an empty optional if
/// there is none.
/// @pre the contents of the message have been checked: its keys are there and in bounds
result<std::optional<stored_mask>> find_mask(const cbor_map& map, std::string_view kind,
                                             bytes_view region) {
  // An unknown kind in the map is never looked for, and is ignored.
  const cbor_value* entry = map.find(kind);
  if (entry == nullptr) {
    return std::optional<stored_mask>();
  }
  WEIR_EXPECT(entry->map() != nullptr);
  const auto number = [&](const char* name) {
    return entry->map()->find(name)->uint64().value_or(0);
  };
  // The contents have checked the names, so this cannot fail for them.
  WEIR_TRY(const mask_method method,
           mask_method_named(*entry->map()->find("method")->text()));
  return std::optional(
      stored_mask{method, region.subspan(number("offset"), number("length"))});
}

}  // namespace

/// `index` counts elements, not components.
error non_finite_error(dtype type, bool nan, std::uint64_t index) {
  return error(
             errc::invalid_argument,
             fmt::format("cannot write object: expected finite {} elements, found {} at "
                         "element {}",
                         info_of(type).tensogram, nan ? "NaN" : "an infinity", index))
      .hint("allow masks, or non_finite::store, which writes the bits as they are");
}

/// Returns the method of a mask by its name in the descriptor.
result<mask_method> mask_method_named(std::string_view name) {
  const auto found = std::find(method_names.begin(), method_names.end(), name);
  if (found == method_names.end()) {
    return error(errc::corrupt,
                 fmt::format("cannot read mask: expected a method of Tensogram v3, found "
                             "\"{}\"",
                             name));
  }
  // The table has the order of the enumeration.
  return static_cast<mask_method>(found - method_names.begin());
}

/// The walk makes the copy, so elements that are all finite cost one search and no
/// memory.
result<std::optional<masked_elements>> take_masks(bytes_view elements,
                                                  const object_descriptor& descriptor,
                                                  const mask_options& options,
                                                  bool keep_others) {
  return mask_taker(elements, descriptor, options, keep_others).run();
}

/// Small bit lists are stored raw, whatever the method: no code would be shorter.
result<stored_masks> store_masks(const value_masks& masks, std::uint64_t count,
                                 std::uint64_t payload_size,
                                 const mask_options& options) {
  stored_masks out;
  // Stores one list behind the lists that were stored before.
  const auto add = [&](std::string_view key, const byte_vector& bits,
                       mask_method method) -> result<void> {
    // A list without a bit was never made.
    if (bits.empty()) {
      return {};
    }
    if (bits.size() <= options.small_mask_bytes) {
      method = mask_method::none;
    }
    WEIR_TRY(const byte_vector blob, encode_mask(bits, count, method));
    out.map.set(key, cbor_map{{"method", method_names[static_cast<std::size_t>(method)]},
                              // Masks stand behind the payload, and offsets count from
                              // its start.
                              {"offset", payload_size + out.bytes.size()},
                              {"length", blob.size()}});
    append(out.bytes, blob);
    return {};
  };
  // The order is part of the format.
  WEIR_CHECK(add("nan", masks.nan, options.nan_method));
  WEIR_CHECK(add("inf+", masks.positive_infinity, options.positive_method));
  WEIR_CHECK(add("inf-", masks.negative_infinity, options.negative_method));
  return out;
}

/// Loads each kind of mask that the map has.
/// `load` decodes one mask into its list.
result<value_masks> load_masks(const cbor_map& map, bytes_view region,
                               std::uint64_t count) {
  value_masks out;
  const std::uint64_t bytes = (count + 7) / 8;
  const auto load = [&](const stored_mask& mask, byte_vector& bits) -> result<void> {
    // A small mask may announce a huge bit list. It is decoded once without keeping the
    // bits before memory is taken for them; must_be_shown() says when that is necessary.
    if (must_be_shown(bytes, mask.blob.size())) {
      WEIR_CHECK(
          decode_mask(mask.blob, count, mask.method, decode_target::nowhere(bytes)));
    }
    // The size comes from the file, so memory may not be there.
    try {
      bits.resize(bytes);
    } catch (const std::exception&) {
      return error(errc::out_of_memory,
                   fmt::format("cannot read mask: expected memory for {} bytes, found "
                               "too little",
                               bytes));
    }
    return decode_mask(mask.blob, count, mask.method, bits);
  };
  // In the order of `mask_kinds`.
  const std::array<byte_vector*, mask_kinds.size()> lists{
      &out.nan, &out.positive_infinity, &out.negative_infinity};
  for (std::size_t k = 0; k < mask_kinds.size(); ++k) {
    WEIR_TRY(const auto mask, find_mask(map, mask_kinds[k], region));
    if (mask) {
      WEIR_CHECK(load(*mask, *lists[k]));
    }
  }
  return out;
}

/// Never holds the bits of two masks at once.
result<void> check_masks(const cbor_map& map, bytes_view region, std::uint64_t count) {
  const std::uint64_t bytes = (count + 7) / 8;
  // Each mask is decoded without being kept.
  for (const std::string_view kind : mask_kinds) {
    WEIR_TRY(const auto mask, find_mask(map, kind, region));
    if (!mask) {
      continue;
    }
    WEIR_CHECK(
        decode_mask(mask->blob, count, mask->method, decode_target::nowhere(bytes)));
    // Without memory these decoders may check only the beginning of a stream.
    if (mask->method == mask_method::lz4 || mask->method == mask_method::zstd) {
      // So they are decoded once more, into memory that is thrown away.
      WEIR_TRY(code_buffer bits, make_buffer(bytes));
      WEIR_CHECK(decode_mask(mask->blob, count, mask->method, bits.writable()));
    }
  }
  return {};
}

/// Builds the bytes of each replacement value once, in the byte order of the elements. A
/// complex element gets the value in both components, because a mask does not say which
/// one was not finite.
/// Elements `first` and following may be a range of the object, while the masks always
/// cover all of it. The bits before the range are skipped by whole bytes.
void restore_values(const value_masks& masks, dtype type, byte_order order,
                    std::uint64_t first, mutable_bytes elements) noexcept {
  // Other types have no masks.
  const float_form form = form_of(type);
  if (form.size == 0) {
    return;
  }
  // An element takes `width` bytes; `count` elements are in the range.
  const std::size_t width = form.size * form.components;
  const std::uint64_t count = elements.size() / width;
  const std::uint64_t sign = std::uint64_t{1} << (8 * form.size - 1);
  // Writes one value to all places of a list that lie in the range.
  const auto put = [&](const byte_vector& bits, std::uint64_t value) {
    std::array<std::byte, 8> image{};
    // The value in the byte order of the elements.
    for (unsigned k = 0; k < form.size; ++k) {
      const unsigned index = order == byte_order::little ? k : form.size - 1 - k;
      image[index] = static_cast<std::byte>(value >> (8 * k) & 0xFF);
    }
    // Only these bytes of the mask can contain bits of the range.
    const std::uint64_t from = std::min<std::uint64_t>(first / 8, bits.size());
    const std::uint64_t to =
        std::min<std::uint64_t>((first + count + 7) / 8, bits.size());
    for_each_bit(bytes_view(bits).subspan(from, to - from), [&](std::uint64_t i) {
      // The list counts from its first byte, which is bit `from * 8` of the object.
      const std::uint64_t element = i + from * 8;
      if (element < first || element >= first + count) {
        return;
      }
      std::byte* out = elements.data() + (element - first) * width;
      for (unsigned c = 0; c < form.components; ++c) {
        std::copy_n(image.begin(), form.size, out + c * form.size);
      }
    });
  };
  // A mask of NaN has lost the payload of the NaN; all come back as quiet NaNs without
  // payload, without a sign.
  put(masks.nan, form.exponent | form.quiet);
  put(masks.positive_infinity, form.exponent);
  put(masks.negative_infinity, form.exponent | sign);
}

}  // namespace weir::formats
