// SPDX-License-Identifier: Apache-2.0
/// @file
/// The folder in which the rows about the context stream have their files.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "bench.hpp"
#include "weir/base/file.hpp"
#include "weir/base/philox.hpp"

namespace weir::bench {

constexpr std::size_t corpus_bytes = std::size_t{32} << 20;

/// A folder with a corpus. The corpus is made once; the folder is removed at the end.
struct workplace {
  workplace() {
    std::string name =
        (std::filesystem::temp_directory_path() / "weir-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot create a temporary folder");
    }
    folder = name;
  }
  workplace(const workplace&) = delete;
  workplace& operator=(const workplace&) = delete;
  ~workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  const std::string& corpus() {
    if (path.empty()) {
      byte_vector bytes(corpus_bytes);
      const philox random(1, 1);
      for (std::size_t i = 0; i < bytes.size(); i += 8) {
        store_le(bytes.data() + i, random.bits(i));
        sum += load_le<std::uint64_t>(bytes.data() + i) & 0xFF;
      }
      path = folder + "/corpus";
      or_throw(write_file_atomically(posix_file_system(), path, bytes));
    }
    return path;
  }
  std::string folder;
  std::string path;
  std::uint64_t sum = 0;  ///< of every eighth byte of the corpus
};

/// Returns the folder of this program.
inline workplace& place() {
  static workplace p;
  return p;
}

/// Adds a row for each format of token files.
void add_token_rows(program& all);

}  // namespace weir::bench
