// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoding of the learning curve.
///
/// The bytes must be those that the stage `tgm.replace` makes, because a run that had
/// finished writes the curve by this function.
#include "stages/prose/job/curve.hpp"

#include <span>

#include "weir/formats/tensogram.hpp"

namespace weir::actors {
namespace {

/// Returns a one-dimensional object that refers to the values.
/// The values must outlive the message that is made of it.
template <class T>
formats::object_to_write column(const char* name, const char* units,
                                const std::vector<T>& values) {
  formats::object_to_write o;
  o.descriptor.type = dtype_of<T>;
  o.descriptor.shape = {static_cast<std::int64_t>(values.size())};
  o.metadata.set("name", std::string(name));
  o.metadata.set("units", std::string(units));
  o.data = std::as_bytes(std::span(values));
  return o;
}

}  // namespace

result<byte_vector> encode_curve(const std::vector<curve_point>& points,
                                 const std::string& run_name) {
  std::vector<std::uint64_t> tokens;
  std::vector<double> bits;
  for (const curve_point& point : points) {
    tokens.push_back(point.tokens);
    bits.push_back(point.bits_per_byte);
  }
  const formats::object_to_write objects[] = {
      column(curve_text::tokens, curve_text::tokens_unit, tokens),
      column(curve_text::bits, curve_text::bits_unit, bits)};
  formats::message_options options;
  // All values are finite and need no check: the sums are integers, and a window without
  // bytes has 0.
  options.floats = formats::non_finite::store;
  options.extra.set("title", std::string(curve_text::title));
  options.extra.set("run", run_name);
  return formats::encode_message(objects, options);
}

}  // namespace weir::actors
