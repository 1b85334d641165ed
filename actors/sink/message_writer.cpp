// SPDX-License-Identifier: Apache-2.0
/// @file
/// Encoding of the learning curve as a Tensogram message, and the handler of the actor's
/// only message.
#include "sink/message_writer.hpp"

#include <span>
#include <vector>

#include "weir/formats/tensogram.hpp"

namespace weir::actors {

namespace {

/// Returns a one-dimensional object that refers to the values.
template <class T>
formats::object_to_write column(const std::string& name, const std::string& units,
                                const std::vector<T>& values) {
  formats::object_to_write o;
  o.descriptor.type = dtype_of<T>;
  o.descriptor.shape = {static_cast<std::int64_t>(values.size())};
  o.metadata.set("name", name);
  o.metadata.set("units", units);
  o.data = std::as_bytes(std::span(values));
  return o;
}

}  // namespace

result<byte_vector> encode_curve(const curve_order& order) {
  std::vector<std::uint64_t> tokens;
  std::vector<double> bits;
  for (const curve_point& point : order.points) {
    tokens.push_back(point.tokens);
    bits.push_back(point.bits_per_byte);
  }
  const formats::object_to_write objects[] = {
      column("tokens", "tokens of Build at the end of the window", tokens),
      column("bits_per_byte", "bits per byte within the window", bits)};
  formats::message_options options;
  options.extra.set("title", "learning curve");
  options.extra.set("run", order.name);
  return formats::encode_message(objects, options);
}

message_writer_actor::behavior_type message_writer_io(
    message_writer_actor::stateful_pointer<message_writer_shell> self,
    message_writer_config config) {
  install_defaults(self);
  return {answers(
      "message writer, write",
      [config](write_atom, const local<curve_order>& order) -> result<std::uint64_t> {
        WEIR_TRY(const auto message, encode_curve(*order));
        WEIR_CHECK(write_file_atomically(*config.fs, order->path, message));
        return message.size();
      })};
}

}  // namespace weir::actors
