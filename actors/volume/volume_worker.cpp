// SPDX-License-Identifier: Apache-2.0
/// @file
/// The handlers of a volume worker's messages: opening and reading.
///
/// A worker has its own thread and serves one reader. It keeps nothing between two
/// messages: an opened volume lives on in its streams.
#include "volume/volume_worker.hpp"

namespace weir::actors {

namespace {

/// Opens a volume and returns the streams of the tags of `spec`, or of all tags if it
/// names none.
/// A damaged tag is an error only if all tags are wanted, because a client that names
/// tags may not need it.
result<local<tag_streams>> open_tags(const device_opener& open_device,
                                     const volume_spec& spec) {
  WEIR_TRY(auto device, open_device ? open_device(spec.path)
                                    : storage::open_file_device(
                                          spec.path, storage::device_mode::read_only));
  WEIR_TRY(const auto volume,
           storage::hn4_volume::open(std::move(device), storage::device_mode::read_only));
  std::vector<std::string> tags = spec.tags;
  if (tags.empty()) {
    WEIR_TRY(const auto all, volume.tags());
    WEIR_TRY(const auto damaged, volume.damaged_tags());
    if (!damaged.empty()) {
      return damaged.front().problem;
    }
    for (const storage::hn4_tag& each : all) {
      tags.push_back(each.name);
    }
  }
  tag_streams streams;
  for (const std::string& tag : tags) {
    WEIR_TRY(auto stream, volume.stream(tag, spec.options));
    streams.push_back(std::move(stream));
  }
  return by_reference(std::move(streams));
}

}  // namespace

volume_worker_actor::behavior_type volume_worker_io(
    volume_worker_actor::stateful_pointer<volume_worker_shell> self,
    volume_worker_config config) {
  install_defaults(self);
  return {
      // Writes into the memory of the order, which the order keeps alive.
      answers("volume worker, read",
              [](read_atom, const local<read_order>& order) -> result<std::uint64_t> {
                WEIR_TRY(const std::size_t count,
                         order->stream.read(order->offset, order->memory));
                return count;
              }),
      // Tests give a device of their own.
      answers(
          "volume worker, open",
          [open_device = config.open_device](open_atom, const local<volume_spec>& spec) {
            return open_tags(open_device, *spec);
          }),
  };
}

}  // namespace weir::actors
