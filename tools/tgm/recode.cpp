// SPDX-License-Identifier: Apache-2.0
/// @file
/// The choice of a safe pipeline, and the way through it.
#include "tgm/recode.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "tgm/messages.hpp"

namespace weir::tools {

using formats::byte_order;
using formats::cbor_entry;
using formats::cbor_value;
using formats::mask_method;
using formats::message_reader;
using formats::object_descriptor;

namespace {

class object_recoder {
 public:
  object_recoder(const message_reader& reader, std::size_t i, std::string place)
      : reader_(reader), i_(i), place_(std::move(place)), d_(reader.descriptor(i)) {}

  result<void> run(stored_message& to, unsigned threads, const mask_wishes& wishes) {
    WEIR_TRY(byte_vector elements, reader_.decode(i_));
    // Decoding gives native order, whatever the file had.
    if (d_.compression == "zfp" && d_.order == byte_order::big) {
      say("zfp of big-endian elements", "little-endian ones");
      d_.order = byte_order::little;
    } else if (d_.order != formats::native_byte_order) {
      swap_units(elements, info_of(d_.type).swap_unit);
    }
    formats::message_options options;
    options.threads = threads;
    options.floats = formats::non_finite::store;
    settle_masks(options.masks);
    follow(wishes, options.masks);
    settle_blosc2();
    WEIR_TRY(const byte_vector alone, encode(elements, options));
    WEIR_TRY(const message_reader again, message_reader::open(alone));
    WEIR_CHECK(to.take(again, 0));
    formats::cbor_map base = reader_.metadata(i_);
    base.erase("_reserved_");
    to.metadata.back() = std::move(base);
    return {};
  }

 private:
  void say(std::string_view had, std::string_view has) const {
    fmt::print(stderr, "weir: {}: {} becomes {}\n", place_, had, has);
  }

  /// With the pipeline as it stands; with zstd alone where a writer must refuse it.
  result<byte_vector> encode(const byte_vector& elements,
                             const formats::message_options& options) {
    formats::object_to_write one{d_, {}, elements};
    auto message = formats::encode_message({&one, 1}, options);
    if (message) {
      return message;
    }
    say(fmt::format("compression {} ({})", d_.compression, message.error().text()),
        "zstd");
    one.descriptor.compression = "zstd";
    message = formats::encode_message({&one, 1}, options);
    if (message) {
      return message;
    }
    say(fmt::format("encoding {} with filter {} ({})", d_.encoding, d_.filter,
                    message.error().text()),
        "none");
    one.descriptor.encoding = "none";
    one.descriptor.filter = "none";
    return formats::encode_message({&one, 1}, options);
  }

  void settle_blosc2() {
    const cbor_value* codec = d_.parameters.find("blosc2_codec");
    if (d_.compression != "blosc2" || codec == nullptr || codec->text() == nullptr) {
      return;
    }
    const std::string had = *codec->text();
    const std::string has = had == "zlib" ? "zstd" : "lz4";
    if (had == "blosclz" || had == "lz4hc" || had == "zlib") {
      say("codec " + had + " of blosc2", has);
      d_.parameters.set("blosc2_codec", has);
    }
  }

  void follow(const mask_wishes& wishes, formats::mask_options& masks) const {
    masks.nan = masks.nan || wishes.nan;
    masks.infinity = masks.infinity || wishes.infinity;
    const auto choose = [&](const std::string& name, mask_method& method) {
      method = name.empty() ? method : method_of(name);
    };
    choose(wishes.nan_method, masks.nan_method);
    choose(wishes.positive_method, masks.positive_method);
    choose(wishes.negative_method, masks.negative_method);
    masks.small_mask_bytes = wishes.small_mask_bytes.value_or(masks.small_mask_bytes);
  }

  void settle_masks(formats::mask_options& masks) {
    if (d_.masks.empty()) {
      return;
    }
    masks.nan = masks.infinity = true;
    masks.small_mask_bytes = 0;
    for (const cbor_entry& entry : d_.masks) {
      if (entry.key.text() == nullptr || entry.value.map() == nullptr) {
        continue;
      }
      const cbor_value* method = entry.value.map()->find("method");
      const mask_method wanted = method_of(
          method != nullptr && method->text() != nullptr ? *method->text() : "");
      const std::string& kind = *entry.key.text();
      (kind == "nan" ? masks.nan_method
                     : (kind == "inf+" ? masks.positive_method : masks.negative_method)) =
          wanted;
    }
  }
  mask_method method_of(const std::string& name) const {
    constexpr std::array names{
        std::pair("none", mask_method::none), std::pair("rle", mask_method::rle),
        std::pair("lz4", mask_method::lz4), std::pair("zstd", mask_method::zstd)};
    for (const auto& [known, method] : names) {
      if (name == known) {
        return method;
      }
    }
    if (name == "blosc2") {
      say("a mask in blosc2", "roaring");
    }
    return mask_method::roaring;
  }

  const message_reader& reader_;
  std::size_t i_;
  std::string place_;
  object_descriptor d_;
};

}  // namespace

result<byte_vector> recode_message(const message_reader& reader, std::size_t number,
                                   unsigned threads, const mask_wishes& wishes) {
  stored_message out;
  out.hashes = (reader.flags() & 0x80) != 0;
  out.extra = reader.metadata().extra;
  for (std::size_t i = 0; i < reader.object_count(); ++i) {
    const std::string place = fmt::format("message {}, object {}", number, i);
    WEIR_CHECK(object_recoder(reader, i, place).run(out, threads, wishes));
  }
  return out.encode();
}

}  // namespace weir::tools
