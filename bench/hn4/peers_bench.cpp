// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows about the tensors of a stored safetensors file, compared with the package of that
/// name, and about streams, compared with plain pread. All bytes are in the page cache.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"
#include "weir/storage/hn4.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace {

using namespace weir;
using namespace weir::storage;

constexpr std::size_t tensors = 48;
constexpr std::size_t tensor_bytes = std::size_t{4} << 20;
constexpr int repeats = 7;

/// A file of 192 MiB with 48 tensors, and a volume that contains it.
struct stored_model {
  stored_model() {
    folder = (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) {
      throw std::runtime_error("cannot create a temporary folder");
    }
    std::string header = "{";
    for (std::size_t i = 0; i < tensors; ++i) {
      header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
                "\":{\"dtype\":\"F32\",\"shape\":[1024,1024],\"data_offsets\":[" +
                std::to_string(i * tensor_bytes) + "," +
                std::to_string((i + 1) * tensor_bytes) + "]}";
    }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    content.resize(8 + header.size() + tensors * tensor_bytes);
    store_le(content.data(), std::uint64_t{header.size()});
    std::copy_n(reinterpret_cast<const std::byte*>(header.data()), header.size(),
                content.begin() + 8);
    const philox random(1, 1);
    for (std::size_t i = 8 + header.size(); i < content.size(); i += 8) {
      // Clears the sign and the highest exponent bit, so that all numbers are of ordinary
      // size and none is a NaN.
      store_le(content.data() + i, random.bits(i) & 0x3FFF'FFFF'3FFF'FFFFU);
    }
    file = folder + "/model.safetensors";
    or_throw(write_file_atomically(posix_file_system(), file, content));
    image = folder + "/model.hn4";
    hn4_format_options options;
    options.capacity = std::uint64_t{512} << 20;
    or_throw(hn4_format(image, options));
    or_throw(or_throw(hn4_volume::open(image, device_mode::writable)).put("m", content));
  }
  stored_model(const stored_model&) = delete;
  stored_model& operator=(const stored_model&) = delete;
  ~stored_model() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string folder, file, image;
  byte_vector content;
};

const stored_model& model() {
  static const stored_model m;
  return m;
}

double gigabytes_per_second(double seconds) {
  return static_cast<double>(tensors * tensor_bytes) * 1e-9 / seconds;
}

/// Returns the seconds of the package for `load` or `checked`; nothing if it is not
/// there.
std::optional<double> package_seconds(const std::string& measure) {
  static const std::string answer = [] {
    const std::string command = std::string("python3 '") + WEIR_BENCH_SCRIPT + "' '" +
                                model().file + "' '" + WEIR_BENCH_WORK + "'";
    std::string text;
    if (FILE* const pipe = ::popen(command.c_str(), "r")) {
      char line[200];
      while (std::fgets(line, sizeof line, pipe) != nullptr) {
        text += line;
      }
      ::pclose(pipe);
    }
    return text;
  }();
  const std::size_t position = answer.find("\"" + measure + "\": ");
  return position == std::string::npos
             ? std::nullopt
             : std::optional(std::stod(answer.substr(position + measure.size() + 4)));
}

/// Opens the volume and loads every tensor by name into memory of its own, as the package
/// does. The checksums of all blocks are verified.
double load_seconds() {
  const auto load = [] {
    const hn4_volume volume = or_throw(hn4_volume::open(model().image));
    const hn4_stream stream = or_throw(volume.stream("m"));
    const auto directory = or_throw(tensor_directory::from_stream(stream));
    std::vector<hn4_tensor> all;
    for (const stored_tensor& t : directory.tensors()) {
      all.push_back(or_throw(read_tensor(stream, t)));
    }
    return all;
  };
  const auto loaded = load();
  for (const hn4_tensor& t : loaded) {
    if (!std::equal(
            t.bytes().begin(), t.bytes().end(),
            model().content.begin() + static_cast<std::ptrdiff_t>(t.info().offset))) {
      throw std::runtime_error("a tensor is not what was stored");
    }
  }
  return bench::median_seconds(repeats, [&] { bench::keep(load().size()); });
}

/// Returns gigabytes per second of both.
bench::measured against_package(const std::string& measure) {
  const double mine = gigabytes_per_second(load_seconds());
  const auto peer = package_seconds(measure);
  return {mine, peer ? std::optional(gigabytes_per_second(*peer)) : std::nullopt};
}

/// Compares a verified stream with reading as many bytes of the image by pread.
bench::measured stream_against_pread() {
  const hn4_volume volume = or_throw(hn4_volume::open(model().image));
  const hn4_stream stream = or_throw(volume.stream("m"));
  byte_vector buffer(std::size_t{1} << 20);
  const std::uint64_t bytes = tensors * tensor_bytes;
  const int file = ::open(model().image.c_str(), O_RDONLY | O_CLOEXEC);
  const auto mine = [&] {
    for (std::uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
      or_throw(stream.read(offset, buffer));
    }
  };
  const auto plain = [&] {
    for (std::uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
      if (::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(offset)) !=
          static_cast<ssize_t>(buffer.size())) {
        throw std::runtime_error("cannot read the image");
      }
    }
  };
  mine();
  plain();
  const bench::measured m{gigabytes_per_second(bench::median_seconds(repeats, mine)),
                          gigabytes_per_second(bench::median_seconds(repeats, plain))};
  ::close(file);
  return m;
}

}  // namespace

int main(int argc, char** argv) {
  bench::program program;
  program.add("hn4_load_tensors_gbs", "GB/s", bench::no_bar,
              [] { return against_package("load"); });
  program.add("hn4_load_tensors_checked_gbs", "GB/s", bench::no_bar,
              [] { return against_package("checked"); });
  program.add("hn4_stream_pread_gbs", "GB/s", bench::no_bar, stream_against_pread);
  return program.run(argc, argv);
}
