// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the names and parameters of the stages, and which stages can be combined.
///
/// For writing, combinations are refused that the format allows but some reader gets
/// wrong or crashes on; for reading, everything that can be decoded is accepted.
///
/// A plan is made in this order: the names of the stages, the parameters of packing, the
/// size of the elements (from shape and type) and of the encoded bytes, the filter, the
/// codec, and last the sizes against the stored bytes. Nothing is decoded, and no memory
/// is taken for elements.
#include <algorithm>
#include <array>
#include <limits>

#include "tensogram/codec/lz4.hpp"
#include "tensogram/codec/parameters.hpp"
#include "tensogram/codec/pipeline.hpp"
#include "tensogram/codec/zstd.hpp"

namespace weir::formats {

namespace {

/// A name of the format, and whether this build has the stage.
struct stage_name {
  std::string_view name;
  bool built;
};

/// Tables have the names of the format, also those that are not built.
constexpr std::array encodings{stage_name{"none", true},
                               stage_name{"simple_packing", true}};
constexpr std::array filters{stage_name{"none", true}, stage_name{"shuffle", true}};
/// In the order of the enumeration `codec`, followed by those that are not built.
constexpr std::array compressions{
    stage_name{"none", true}, stage_name{"lz4", true},     stage_name{"zstd", true},
    stage_name{"szip", true}, stage_name{"zfp", true},     stage_name{"blosc2", true},
    stage_name{"rle", true},  stage_name{"roaring", true}, stage_name{"sz3", false}};

using stage_names = std::span<const stage_name>;

/// Returns the support of one name.
pipeline_support support_of(stage_names names, std::string_view name) noexcept {
  // A few names, so a search is fast enough.
  for (const stage_name& row : names) {
    if (row.name == name) {
      return row.built ? pipeline_support::built : pipeline_support::known;
    }
  }
  return pipeline_support::unknown;
}

/// Returns the names of the stages that this build has, for error messages.
/// The names come in the order of the tables.
std::string built_names(stage_names names) {
  std::string out;
  for (const stage_name& row : names) {
    if (row.built) {
      out += (out.empty() ? "" : ", ") + std::string(row.name);
    }
  }
  return out;
}

/// Checks one stage; an unknown name has the error code `unknown_code`.
/// A name that the format has but this build has not is `unsupported` in any case.
result<void> check_stage(std::string_view stage, stage_names names, std::string_view name,
                         errc unknown_code) {
  const pipeline_support support = support_of(names, name);
  if (support == pipeline_support::built) {
    return {};
  }
  // The caller says whose fault an unknown name is.
  if (support == pipeline_support::unknown) {
    return error(unknown_code,
                 fmt::format("cannot run {}: expected a name of Tensogram v3, found "
                             "\"{}\"",
                             stage, name));
  }
  // The message lists what could be used instead.
  return error(errc::unsupported,
               fmt::format("cannot run {}: expected one that is built in ({}), "
                           "found \"{}\"",
                           stage, built_names(names), name));
}

/// Checks all three stages.
result<void> check_stages(const object_descriptor& descriptor, errc unknown_code) {
  WEIR_CHECK(check_stage("encoding", encodings, descriptor.encoding, unknown_code));
  WEIR_CHECK(check_stage("filter", filters, descriptor.filter, unknown_code));
  return check_stage("compression", compressions, descriptor.compression, unknown_code);
}

/// Returns the codec with a name. @pre the name is one of a codec that is built
/// The tables and the enumeration `codec` have the same order.
codec codec_named(std::string_view name) noexcept {
  std::size_t i = 0;
  // Ends, because the name was checked before.
  while (compressions[i].name != name) {
    ++i;
  }
  return static_cast<codec>(i);
}

/// Returns the error for stages that cannot be combined.
error odd_pair(errc kind, std::string_view expected, std::string_view found) {
  return error(
      kind, fmt::format("cannot run pipeline: expected {}, found {}", expected, found));
}

/// Error code of a malformed descriptor, and whether it is being written or read.
/// Writing has stricter rules than reading for the same descriptor.
struct plan_rules {
  errc kind = errc::corrupt;
  bool writing = false;
};

/// Checks parameters and sizes for one descriptor and collects them in a pipeline.
class planner {
 public:
  planner(const object_descriptor& descriptor, const plan_rules& rules)
      : d_(descriptor), rules_(rules) {}

  /// Plans all stages. `packed` are the packing parameters, which the caller has read.
  /// Each step uses the sizes that the step before has set.
  result<pipeline> run(std::optional<packing> packed) {
    out_.packed = packed;
    out_.compression = codec_named(d_.compression);
    // Fails for shapes that no memory can hold.
    WEIR_TRY(out_.decoded, decoded_size(d_));
    out_.count = static_cast<std::uint64_t>(element_count(d_.shape));
    // Without an encoding, the sizes are equal.
    out_.encoded = out_.decoded;
    // Packing replaces each number by some bits.
    if (packed) {
      if (d_.type != dtype::fp64) {
        return odd_pair(rules_.kind, "simple_packing of float64 elements",
                        info_of(d_.type).tensogram);
      }
      WEIR_TRY(out_.encoded, packed_size(out_.count, packed->bits));
    }
    WEIR_CHECK(plan_filter());
    WEIR_CHECK(plan_codec());
    return std::move(out_);
  }

 private:
  // Elements of one bit each.
  bool bitmask() const noexcept { return d_.type == dtype::bitmask; }

  /// Plans the shuffle. Its items must divide the encoded bytes.
  result<void> plan_filter() {
    // Zero, the default, means no shuffle.
    if (d_.filter == "none") {
      return {};
    }
    // The largest number is not a limit of the format: a size that does not divide the
    // bytes is refused below.
    WEIR_TRY(const std::int64_t size,
             integer_parameter(d_.parameters, "shuffle_element_size", 1,
                               std::numeric_limits<std::int64_t>::max(), rules_.kind));
    // Behind packing, these are packed bytes.
    if (out_.encoded % static_cast<std::uint64_t>(size) != 0) {
      return bad_parameter(rules_.kind, "shuffle_element_size",
                           fmt::format("a divisor of {} bytes", out_.encoded),
                           std::to_string(size));
    }
    out_.shuffle = static_cast<std::size_t>(size);
    return {};
  }

  /// Plans the compression.
  result<void> plan_codec() {
    switch (out_.compression) {
      case codec::none:
      // Both need no parameters.
      case codec::lz4: return {};
      case codec::zstd: {
        // The level matters to the writer only; frames say what the reader needs.
        if (rules_.writing) {
          WEIR_TRY(out_.zstd_level, zstd_level(d_.parameters));
        }
        return {};
      }
      case codec::szip: return plan_szip();
      case codec::zfp: return plan_zfp();
      case codec::blosc2: return plan_blosc2();
      // Both are codecs of bits.
      case codec::rle:
      case codec::roaring:
        // Run lengths are defined on single bits, which only bitmasks have.
        if (!bitmask() || out_.shuffle != 0) {
          return odd_pair(rules_.kind,
                          fmt::format("{} of bitmask elements", d_.compression),
                          out_.shuffle != 0 ? "a filter" : info_of(d_.type).tensogram);
        }
    }
    return {};
  }

  /// Plans szip. Its samples are the packed integers, single bytes behind a shuffle, or
  /// the elements.
  result<void> plan_szip() {
    szip_samples samples;
    samples.packed = out_.packed.has_value();
    // The width of a sample decides how szip predicts.
    samples.bits = samples.packed ? out_.packed->bits
                                  : (out_.shuffle != 0 ? 8u : 8u * info_of(d_.type).size);
    // With other widths szip keeps no true values.
    if (samples.packed && samples.bits % 8 != 0) {
      return odd_pair(
          rules_.writing ? errc::invalid_argument : errc::unsupported,
          "szip of 8, 16, 24 or 32 packed bits",
          fmt::format("{}, of which szip keeps no true values", samples.bits));
    }
    // Reads interval, block size and flags.
    WEIR_TRY(out_.aec, read_szip(d_.parameters, samples, rules_.kind));
    if (rules_.writing && out_.aec.padded) {
      return error(errc::unsupported,
                   "cannot run szip: expected intervals that follow at once, found the "
                   "flag for padded ones (32)")
          .hint("the reference reads wrong values from such a stream");
    }
    // The last sample must be whole.
    if (out_.encoded % out_.aec.sample_bytes != 0) {
      return odd_pair(
          rules_.kind,
          fmt::format("whole szip samples of {} bytes", out_.aec.sample_bytes),
          fmt::format("{} bytes", out_.encoded));
    }
    return {};
  }

  /// Plans zfp, which takes only plain float64 elements.
  result<void> plan_zfp() {
    // The parameters are read first, so a wrong one is named before the type.
    WEIR_TRY(out_.zfp, read_zfp(d_.parameters, rules_.kind));
    if (d_.type != dtype::fp64 || out_.packed || out_.shuffle != 0) {
      return odd_pair(rules_.kind, "zfp of float64 elements without encoding or filter",
                      out_.packed || out_.shuffle != 0
                          ? "one of them"
                          : std::string(info_of(d_.type).tensogram));
    }
    if (rules_.writing && d_.order != byte_order::little) {
      return odd_pair(rules_.kind, "zfp of little-endian elements",
                      "big-endian ones, which readers return scrambled");
    }
    return {};
  }

  /// Plans blosc2. A reader ignores the parameters: frames carry their own.
  result<void> plan_blosc2() {
    // The size of an item decides how the writer shuffles; single bytes behind a filter.
    out_.item = out_.packed ? (out_.packed->bits + 7) / 8
                            : (out_.shuffle != 0 ? 1u : info_of(d_.type).size);
    if (!rules_.writing) {
      return {};
    }
    // An item of zero bytes comes from bitmasks.
    if (out_.item == 0 || out_.encoded == 0 || out_.encoded % out_.item != 0) {
      return odd_pair(rules_.kind, "blosc2 of whole items of at least a byte",
                      fmt::format("{} bytes in items of {}, which readers may crash on",
                                  out_.encoded, out_.item));
    }
    WEIR_TRY(out_.blosc2, read_blosc2(d_.parameters, out_.item));
    return {};
  }

  const object_descriptor& d_;
  plan_rules rules_;
  pipeline out_;
};

/// Returns the largest number of decoded bytes per stored byte; 0 means no known limit.
/// A limit makes absurd shapes an error without decoding.
std::uint64_t largest_ratio(const pipeline& plan) noexcept {
  switch (plan.compression) {
    case codec::zstd: return zstd_largest_ratio;
    case codec::lz4: return lz4_largest_ratio;
    default: return 0;
  }
}

/// Compares the sizes that shape and parameters demand with the stored size, before
/// anything is decoded, and with the caller's limit. Raw payloads are exempt from the
/// limit, because their memory is no more than what is stored.
result<void> check_sizes(const pipeline& plan, std::uint64_t stored,
                         std::uint64_t limit) {
  // Raw payloads have exactly their size.
  if (plan.compression == codec::none && stored != plan.encoded) {
    return error(
        errc::corrupt,
        fmt::format("cannot read payload: expected {} bytes from shape and {}, "
                    "found {}",
                    plan.encoded, plan.packed ? "bits per value" : "dtype", stored));
  }
  const std::uint64_t ratio = largest_ratio(plan);
  // A division instead of a product, which could overflow.
  if (ratio != 0 && plan.encoded / ratio > stored) {
    return error(
        errc::corrupt,
        fmt::format(
            "cannot read payload: expected at most {} times its {} bytes, found a "
            "shape of {} bytes",
            ratio, stored, plan.encoded));
  }
  // The limit guards against small payloads that decode to much.
  if (!plan.raw() && plan.decoded > limit) {
    return error(errc::out_of_range,
                 fmt::format("cannot read payload: expected at most {} decoded bytes, "
                             "found {}",
                             limit, plan.decoded))
        .hint("raise max_object_bytes");
  }
  return {};
}

/// Returns the number of szip intervals, and so of offsets.
std::uint64_t interval_count(const pipeline& plan) noexcept {
  const std::uint64_t samples = plan.encoded / plan.aec.sample_bytes;
  // The last interval may be shorter.
  return (samples + plan.aec.interval() - 1) / plan.aec.interval();
}

}  // namespace

/// The order of the enumerators makes the largest one the lowest support.
pipeline_support support_of(const object_descriptor& descriptor) noexcept {
  return std::max({support_of(encodings, descriptor.encoding),
                   support_of(filters, descriptor.filter),
                   support_of(compressions, descriptor.compression)});
}

result<void> check_readable(const object_descriptor& descriptor) {
  // The names alone; parameters are checked when a plan is made.
  return check_stages(descriptor, errc::corrupt);
}

/// Sizes are compared before offsets are read, since the number of offsets follows from
/// them.
result<pipeline> plan_reading(const object_descriptor& descriptor, std::uint64_t stored,
                              const read_options& options) {
  constexpr errc kind = errc::corrupt;
  WEIR_CHECK(check_stages(descriptor, kind));
  std::optional<packing> packed;
  if (descriptor.encoding == "simple_packing") {
    // Old names of parameters are accepted only if the caller allows it.
    WEIR_TRY(packed, read_packing(descriptor.parameters, {kind, options.legacy_packing}));
  }
  WEIR_TRY(pipeline plan, planner(descriptor, {kind, false}).run(packed));
  WEIR_CHECK(check_sizes(plan, stored, options.max_object_bytes));
  if (plan.compression == codec::szip) {
    WEIR_TRY(plan.offsets, read_szip_offsets(descriptor.parameters, interval_count(plan),
                                             stored, kind));
    // Ranges use the offsets only if their digest shows that the writer vouches for them
    // and for this size of the payload.
    // Padded intervals have no marks: the writer does not make them.
    plan.offsets_marked =
        !plan.aec.padded && !plan.offsets.empty() &&
        descriptor.szip_offsets == szip_offsets_digest(plan.offsets, stored);
  }
  return plan;
}

/// Removes offsets that the caller may have left: they belong to another payload.
result<pipeline> plan_writing(object_descriptor& descriptor, bytes_view elements,
                              unsigned threads) {
  constexpr errc kind = errc::invalid_argument;
  // Names first, as everything else depends on them.
  WEIR_CHECK(check_stages(descriptor, kind));
  descriptor.parameters.erase("szip_block_offsets");
  descriptor.szip_offsets = 0;
  std::optional<packing> packed;
  if (descriptor.encoding == "simple_packing") {
    if (descriptor.type != dtype::fp64) {
      return odd_pair(kind, "simple_packing of float64 elements",
                      info_of(descriptor.type).tensogram);
    }
    // Computes what the caller has left open, from the elements.
    WEIR_TRY(packed, settle_packing(descriptor.parameters, elements, threads));
  }
  return planner(descriptor, {kind, true}).run(packed);
}

/// A payload from elsewhere is checked like one that is read, but its faults are the
/// caller's.
result<void> check_stored(const object_descriptor& descriptor, std::uint64_t stored) {
  constexpr errc kind = errc::invalid_argument;
  // A codec that this build lacks cannot be checked; the shape and the type still are.
  if (support_of(descriptor) == pipeline_support::known) {
    return decoded_size(descriptor).map([](std::uint64_t) {});
  }
  WEIR_CHECK(check_stages(descriptor, kind));
  std::optional<packing> packed;
  if (descriptor.encoding == "simple_packing") {
    // Parameters must be given, since the elements are not known here.
    WEIR_TRY(packed, read_packing(descriptor.parameters, {kind, false}));
  }
  WEIR_TRY(const pipeline plan, planner(descriptor, {kind, false}).run(packed));
  // Offsets without szip would be ignored by readers and left behind by mistake.
  const bool offsets = descriptor.parameters.find("szip_block_offsets") != nullptr;
  if (offsets && plan.compression != codec::szip) {
    return bad_parameter(kind, "szip_block_offsets", "compression szip",
                         descriptor.compression);
  }
  if (offsets) {
    // Offsets must lie within the payload and ascend.
    WEIR_CHECK(
        read_szip_offsets(descriptor.parameters, interval_count(plan), stored, kind));
  }
  if (plan.compression == codec::none && stored != plan.encoded) {
    return error(kind, fmt::format("cannot write object: expected {} stored bytes, found "
                                   "{}",
                                   plan.encoded, stored));
  }
  return {};
}

}  // namespace weir::formats
