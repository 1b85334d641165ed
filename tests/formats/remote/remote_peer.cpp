// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program for tests in Python. "remote_peer read ADDRESS [MESSAGE OBJECT]..." reads
/// objects of a remote file and prints their digests and the traffic; all settings come
/// from the environment. "remote_peer make FILE" writes a file of 12 MB, two messages of
/// six objects, and prints the digests of the objects.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/philox.hpp"
#include "weir/formats/remote.hpp"

namespace {

using namespace weir;

/// Writes the file and prints the digests of its objects. Returns the exit code.
int make(const char* path) {
  byte_vector file;
  std::printf("[");
  for (std::uint64_t m = 0; m < 2; ++m) {
    std::vector<byte_vector> data;
    std::vector<formats::object_to_write> objects;
    data.reserve(6);
    for (std::uint64_t i = 0; i < 6; ++i) {
      const philox random(m, i);
      byte_vector& bytes = data.emplace_back(1'000'000);
      for (std::size_t k = 0; k < bytes.size(); ++k) {
        bytes[k] = static_cast<std::byte>(random.bits(k / 8) >> (8 * (k % 8)) & 0xFF);
      }
      formats::object_descriptor descriptor;
      descriptor.type = dtype::uint8;
      descriptor.shape = {1'000'000};
      objects.push_back({descriptor, {{"name", "o" + std::to_string(i)}}, bytes});
      std::printf("%s\"%s\"", m + i > 0 ? ", " : "", hex64(xxh3_64(bytes)).c_str());
    }
    append(file, or_throw(formats::encode_message(objects)));
  }
  std::printf("]\n");
  or_throw(write_file_atomically(posix_file_system(), path, file));
  return 0;
}

/// Reads objects, given as pairs of message and object. Returns the exit code.
int read(const char* address, const std::vector<std::size_t>& numbers) {
  const auto opened = formats::remote_file::open(address);
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message().c_str());
    return exit_code_of(opened.error().code());
  }
  const formats::remote_file& file = **opened;
  std::printf("{\"messages\": %zu, \"objects\": [", file.message_count());
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    const auto reader = or_throw(file.object(numbers[i], numbers[i + 1]));
    const byte_vector elements = or_throw(reader.decode(0));
    std::printf("%s{\"bytes\": %zu, \"xxh3\": \"%s\"}", i > 0 ? ", " : "",
                elements.size(), hex64(xxh3_64(elements)).c_str());
  }
  const auto traffic = file.source()->traffic();
  std::printf("], \"size\": %llu, \"requests\": %llu, \"bytes\": %llu}\n",
              static_cast<unsigned long long>(file.source()->size()),
              static_cast<unsigned long long>(traffic.requests),
              static_cast<unsigned long long>(traffic.bytes));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::vector<std::string> given(words + 1, words + count);
    if (given.size() == 2 && given[0] == "make") {
      return make(words[2]);
    }
    if (given.size() < 2 || given[0] != "read") {
      return 2;
    }
    std::vector<std::size_t> numbers;
    for (std::size_t i = 2; i < given.size(); ++i) {
      numbers.push_back(std::stoul(given[i]));
    }
    return read(words[2], numbers);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 70;
  }
}
