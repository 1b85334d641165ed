// SPDX-License-Identifier: Apache-2.0
/// @file
/// Actors from a program without CAF: actors FOLDER. Tensors of an HN4 volume become
/// Tensogram messages, and two ranks of a mesh sum a number each.
#include <array>
#include <cstdio>
#include <numeric>
#include <weir/actors/system.hpp>
#include <weir/storage/hn4_tensors.hpp>

namespace {

using namespace weir;
using namespace weir::actors;

/// Stores two tensors in a volume, each under a tag of its own.
void store(const std::string& path) {
  storage::hn4_format_options options;
  options.overwrite = true;
  or_throw(storage::hn4_format(path, options));
  auto volume = or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
  for (const std::int64_t rows : {2, 300}) {
    byte_vector elements(static_cast<std::size_t>(rows) * 4 * sizeof(float));
    const std::string name = "rows" + std::to_string(rows);
    or_throw(volume.put(
        name, or_throw(storage::make_safetensors(
                  name, dtype::fp32, std::array{rows, std::int64_t{4}}, elements))));
  }
}

/// Reads a tag of a volume into memory of its own.
std::shared_ptr<const byte_vector> read(const volume_reader_handle& reader,
                                        const opened_stream& stream) {
  auto bytes = std::make_shared<byte_vector>(stream.bytes);
  or_throw(reader.fill({stream.stream, 0, {mutable_bytes(*bytes), bytes, {}}}).get());
  return bytes;
}

/// Appends all tensors of a volume to a file, each as one message.
void archive(actor_system& system, const std::string& volume, const std::string& file) {
  const auto reader = or_throw(system.spawn_volume_reader());
  const auto appender = or_throw(system.spawn_message_appender({.path = file}));
  for (const opened_stream& stream : or_throw(reader.open({.path = volume}).get())) {
    const auto content = read(reader, stream);
    const auto directory = or_throw(storage::tensor_directory::from_bytes(*content));
    for (const storage::stored_tensor& tensor : directory.tensors()) {
      object_to_append object;
      object.descriptor.type = tensor.type;
      object.descriptor.shape = tensor.shape;
      object.metadata.set("name", tensor.name);
      const auto begin = content->begin() + static_cast<std::ptrdiff_t>(tensor.offset);
      object.data = std::make_shared<byte_vector>(
          begin, begin + static_cast<std::ptrdiff_t>(tensor.bytes));
      const auto place = or_throw(appender.append({{std::move(object)}, {}, {}}).get());
      std::printf("%s is durable: %llu bytes of the file\n", tensor.name.c_str(),
                  static_cast<unsigned long long>(place.durable));
    }
  }
}

/// Copies a number to each of two ranks, sums the numbers and returns the sum.
float sum(actor_system& system, tessera::context& runtime) {
  const std::array<std::int32_t, 2> devices = {0, 1};
  const auto mesh = or_throw(runtime.make_mesh(devices, {1, 1, 2, 1}));
  void* const memory = or_throw(runtime.allocate(mesh, sizeof(float)));
  const auto group = or_throw(system.spawn_collective({.name = "sums", .mesh = mesh}));
  const std::array<float, 2> numbers = {40, 2};
  std::vector<stream_handle> streams;
  std::vector<reply<std::uint64_t>> shares;
  for (int rank = 0; rank < 2; ++rank) {
    streams.push_back(
        or_throw(system.spawn_stream({.name = "rank " + std::to_string(rank),
                                      .mesh = mesh,
                                      .options = {.rank = rank}})));
    copy_order copy;
    copy.request.to = memory;
    copy.request.from = &numbers[static_cast<std::size_t>(rank)];
    copy.request.bytes = sizeof(float);
    or_throw(streams.back().copy(copy).get());
    join_order share;
    share.rank = rank;
    share.request.call.count = 1;
    share.request.input = share.request.output = memory;
    share.wait_points = {or_throw(streams.back().record().get())};
    shares.push_back(group.join(share));
  }
  for (auto& share : shares) {
    or_throw(share.get());
  }
  float out = 0;
  copy_order back;
  back.request.to = &out;
  back.request.from = memory;
  back.request.bytes = sizeof out;
  back.request.kind = tessera::copy_kind::device_to_host;
  or_throw(streams.front().copy(back).get());
  or_throw(streams.front().synchronize().get());
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: actors FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  store(folder + "/tensors.hn4");
  tessera::runtime_settings settings;
  settings.devices = settings.threads = 2;
  const auto runtime = or_throw(tessera::context::make(settings));
  auto system = or_throw(actor_system::start());
  archive(system, folder + "/tensors.hn4", folder + "/tensors.tgm");
  std::printf("the ranks sum to %g\n", static_cast<double>(sum(system, *runtime)));
  or_throw(system.stop());
  or_throw(runtime->shut_down());
}
