// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies objects to other messages, as they are stored or encoded again. Encoding
/// chooses a pipeline that this build can write and all readers can read, and the masks.
///
/// To encode an object again means to decode it, adjust its descriptor, write a message
/// of this one object, and take descriptor, payload and masks from that message. So the
/// library does all of the encoding, and the descriptor that it stores is the right one.
#include "tgm/recode.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace weir::tools {

using formats::byte_order;
using formats::cbor_entry;
using formats::cbor_map;
using formats::cbor_value;
using formats::mask_method;
using formats::message_reader;
using formats::object_descriptor;

namespace {

/// Flag of a preamble: the message has digests.
/// @source{Tensogram v3, preamble flags}
constexpr std::uint16_t hashes_present = 0x80;

/// Only elements of these types can be NaN or infinite.
bool holds_floats(dtype type) noexcept {
  constexpr std::array floats{dtype::fp16, dtype::bf16,      dtype::fp32,
                              dtype::fp64, dtype::complex64, dtype::complex128};
  return std::find(floats.begin(), floats.end(), type) != floats.end();
}

/// Encodes an object again. Notes about the changes that this needed are printed by
/// `print_changes`, because a caller may find that it does not need the new object.
class object_recoder {
 public:
  object_recoder(const message_reader& reader, std::size_t number, std::size_t i)
      : reader_(reader),
        i_(i),
        place_(fmt::format("message {}, object {}", number, i)),
        d_(reader.descriptor(i)) {}

  /// Returns a message that holds the object alone, without metadata.
  result<byte_vector> encode_alone(const encoding_overrides& overrides) {
    // Errors are passed on. The caller decides whether an object that cannot be decoded
    // may stay.
    WEIR_TRY(byte_vector elements, reader_.decode(i_));
    // Decoding gives native order, whatever the file had.
    // The order in the descriptor says how the new payload is stored, so the elements are
    // brought into it. zfp of big-endian elements is changed instead, because some
    // readers fail on it.
    if (d_.compression == "zfp" && d_.order == byte_order::big) {
      note("zfp of big-endian elements", "little-endian ones");
      d_.order = byte_order::little;
    } else if (d_.order != formats::native_byte_order) {
      swap_units(elements, info_of(d_.type).swap_unit);
    }
    formats::message_options options;
    options.threads = overrides.threads;
    // Values that are not finite stay as they are, unless masks are asked for below.
    options.floats = formats::non_finite::store;
    // First the masks that the object has, and then the options, which override them.
    settle_masks(options.masks);
    follow(overrides, options.masks);
    settle_blosc2();
    return encode(elements, options);
  }

  /// Prints the changes to standard error.
  void print_changes() const {
    for (const std::string& change : changes_) {
      fmt::print(stderr, "weir: {}: {}\n", place_, change);
    }
  }
  /// Prints to standard error that the object was not encoded again, and why.
  void print_kept(const error& why) const {
    fmt::print(stderr,
               "weir: {}: stays as it is stored, since it cannot be decoded: {}\n",
               place_, why.root().text());
  }

 private:
  // Remembers a change of the object for `print_changes`.
  void note(std::string_view had, std::string_view has) {
    changes_.push_back(fmt::format("{} becomes {}", had, has));
  }

  /// Encodes with the pipeline of the object. If that cannot be written, uses zstd in
  /// place of its compression, and if that fails, too, no encoding and no filter.
  result<byte_vector> encode(const byte_vector& elements,
                             const formats::message_options& options) {
    formats::object_to_write one{d_, {}, elements};
    // The first attempt is the pipeline of the object, with no change but those above.
    auto message = formats::encode_message({&one, 1}, options);
    if (message) {
      return message;
    }
    // The error of the failed attempt is the reason in the note.
    note(fmt::format("compression {} ({})", d_.compression, message.error().text()),
         "zstd");
    one.descriptor.compression = "zstd";
    message = formats::encode_message({&one, 1}, options);
    if (message) {
      return message;
    }
    // An encoding such as simple packing may be impossible for the elements at all, as
    // for NaN. The last attempt stores the elements as they are and compresses them.
    note(fmt::format("encoding {} with filter {} ({})", d_.encoding, d_.filter,
                     message.error().text()),
         "none");
    one.descriptor.encoding = "none";
    one.descriptor.filter = "none";
    return formats::encode_message({&one, 1}, options);
  }

  /// Replaces codecs of blosc2 that this build does not write by codecs that it writes.
  void settle_blosc2() {
    const cbor_value* codec = d_.parameters.find("blosc2_codec");
    // Without the key the library takes its own default, which it can write.
    if (d_.compression != "blosc2" || codec == nullptr || codec->text() == nullptr) {
      return;
    }
    const std::string had = *codec->text();
    // The replacement is near to the codec it replaces: strong for strong, fast for fast.
    const std::string has = had == "zlib" ? "zstd" : "lz4";
    if (had == "blosclz" || had == "lz4hc" || had == "zlib") {
      note("codec " + had + " of blosc2", has);
      d_.parameters.set("blosc2_codec", has);
    }
  }

  /// Applies the options of the command line.
  void follow(const encoding_overrides& overrides, formats::mask_options& masks) {
    // Options switch masks on. They never switch off what the object has.
    masks.nan = masks.nan || overrides.allow_nan;
    masks.infinity = masks.infinity || overrides.allow_inf;
    const auto choose = [&](const std::string& name, mask_method& method) {
      method = name.empty() ? method : method_of(name);
    };
    choose(overrides.nan_method, masks.nan_method);
    choose(overrides.positive_method, masks.positive_method);
    choose(overrides.negative_method, masks.negative_method);
    masks.small_mask_bytes = overrides.small_mask_bytes.value_or(masks.small_mask_bytes);
  }

  /// Asks for masks with the methods that the object has, so that a new encoding does not
  /// lose them.
  void settle_masks(formats::mask_options& masks) {
    if (d_.masks.empty()) {
      return;
    }
    // All kinds are switched on, because a new encoding makes only the masks that the
    // elements need.
    masks.nan = masks.infinity = true;
    // Small masks are normally stored without compression, whatever the method. Zero
    // turns this off, so that each keeps the method of the object.
    masks.small_mask_bytes = 0;
    for (const cbor_entry& entry : d_.masks) {
      // A damaged entry is passed over, and gets the default method.
      if (entry.key.text() == nullptr || entry.value.map() == nullptr) {
        continue;
      }
      // An absent method reads as an empty text, for which the default is taken.
      const cbor_value* method = entry.value.map()->find("method");
      const mask_method wanted = method_of(
          method != nullptr && method->text() != nullptr ? *method->text() : "");
      const std::string& kind = *entry.key.text();
      (kind == "nan" ? masks.nan_method
                     : (kind == "inf+" ? masks.positive_method : masks.negative_method)) =
          wanted;
    }
  }
  // Returns the method of a name, and roaring for names that cannot be written.
  mask_method method_of(const std::string& name) {
    constexpr std::array names{
        std::pair("none", mask_method::none), std::pair("rle", mask_method::rle),
        std::pair("lz4", mask_method::lz4), std::pair("zstd", mask_method::zstd)};
    for (const auto& [known, method] : names) {
      if (name == known) {
        return method;
      }
    }
    // Only this name is a method of the format that this build does not write.
    if (name == "blosc2") {
      note("a mask in blosc2", "roaring");
    }
    return mask_method::roaring;
  }

  const message_reader& reader_;
  std::size_t i_;
  std::string place_;
  object_descriptor d_;
  std::vector<std::string> changes_;
};

/// Appends the only object of the message `alone` to `to`, with the given metadata.
/// The message `alone` has no metadata, so those of the original object are attached.
/// Keys that the library reserves are removed; it writes them anew.
result<void> append_alone(stored_message& to, const byte_vector& alone,
                          const cbor_map& metadata) {
  WEIR_TRY(const message_reader again, message_reader::open(alone));
  WEIR_CHECK(to.take(again, 0));
  to.metadata.back() = metadata;
  to.metadata.back().erase("_reserved_");
  return {};
}

/// Returns kind and method of each mask of an object, sorted.
/// Kind and method are compared as JSON, so values of unexpected types do not matter.
std::vector<std::pair<std::string, std::string>> mask_methods(
    const object_descriptor& descriptor) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const cbor_entry& entry : descriptor.masks) {
    const cbor_map* mask = entry.value.map();
    const cbor_value* method = mask == nullptr ? nullptr : mask->find("method");
    out.emplace_back(formats::to_json(entry.key),
                     method == nullptr ? "" : formats::to_json(*method));
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns whether two objects mask the same elements with the same methods. The offsets
/// of the masks are not compared, because they depend on the size of the payload.
result<bool> same_masks(const message_reader& one, std::size_t i,
                        const message_reader& other, std::size_t k) {
  // Cheap: needs the descriptors alone. The masks themselves are decoded only if the
  // methods agree.
  if (mask_methods(one.descriptor(i)) != mask_methods(other.descriptor(k))) {
    return false;
  }
  WEIR_TRY(const formats::value_masks left, one.masks(i));
  WEIR_TRY(const formats::value_masks right, other.masks(k));
  return left == right;
}

}  // namespace

void stored_message::take_head(const message_reader& reader) {
  hashes = (reader.flags() & hashes_present) != 0;
  extra = reader.metadata().extra;
}

result<void> stored_message::take(const message_reader& reader, std::size_t i) {
  // The library writes these keys when the new message is encoded.
  formats::cbor_map base = reader.metadata(i);
  base.erase("_reserved_");
  // Payload and masks are one range of bytes, which stays as it is.
  WEIR_TRY(byte_vector region, reader.stored_region(i));
  descriptors.push_back(reader.descriptor(i));
  metadata.push_back(std::move(base));
  regions.push_back(std::move(region));
  return {};
}

result<byte_vector> stored_message::encode() const {
  std::vector<formats::object_to_write> objects;
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    // The last member says that the region is already encoded.
    objects.push_back({descriptors[i], metadata[i], regions[i], true});
  }
  formats::message_options options;
  options.extra = extra;
  options.hashes = hashes;
  // Not reproducible: a fresh message gets time and identifier of its own.
  options.writer.reproducible = false;
  return formats::encode_message(objects, options);
}

result<byte_vector> recode_message(const message_reader& reader, std::size_t number,
                                   const encoding_overrides& overrides) {
  stored_message out;
  out.take_head(reader);
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    // The digest of an object is checked while it is decoded. One that stays as it is
    // must be verified separately.
    object_recoder object(reader, number, i);
    const auto alone = object.encode_alone(overrides);
    if (alone) {
      object.print_changes();
      WEIR_CHECK(append_alone(out, *alone, reader.metadata(i)));
    } else if (alone.error().code() == errc::unsupported) {
      object.print_kept(alone.error());
      WEIR_CHECK(reader.verify());
      WEIR_CHECK(out.take(reader, i));
    } else {
      return alone.error();
    }
  }
  return out.encode();
}

result<void> take_with_masks(stored_message& to, const message_reader& reader,
                             std::size_t number, std::size_t i,
                             const encoding_overrides& overrides) {
  // Without options for masks, and for integers, nothing can change.
  if (!(overrides.allow_nan || overrides.allow_inf) ||
      !holds_floats(reader.descriptor(i).type)) {
    return to.take(reader, i);
  }
  object_recoder object(reader, number, i);
  const auto alone = object.encode_alone(overrides);
  // An object that cannot be decoded cannot get masks either, and stays as it is stored.
  if (!alone && alone.error().code() == errc::unsupported) {
    return to.take(reader, i);
  }
  if (!alone) {
    return alone.error();
  }
  // The new object is made in any case, since only that shows which masks it would get.
  // It is used only if they differ.
  WEIR_TRY(const message_reader again, message_reader::open(*alone));
  WEIR_TRY(const bool same, same_masks(again, 0, reader, i));
  if (same) {
    return to.take(reader, i);
  }
  object.print_changes();
  return append_alone(to, *alone, reader.metadata(i));
}

result<stored_message> stored_copy(const message_reader& reader, std::size_t number,
                                   const encoding_overrides& overrides) {
  WEIR_CHECK(reader.verify());
  stored_message out;
  out.take_head(reader);
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    WEIR_CHECK(take_with_masks(out, reader, number, i, overrides));
  }
  return out;
}

}  // namespace weir::tools
