// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the PTX of the kernels that this build uses.
#include "ptx/ptx_kernels.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "support/folders.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"

namespace weir::tessera::ptx {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Returns the texts in a folder.
std::vector<std::string> texts_of(const std::string& folder) {
  std::vector<std::string> out;
  for (const fs::path& path : entries_of(folder)) {
    out.emplace_back(as_text(or_throw(read_file(posix_file_system(), path.string()))));
  }
  return out;
}

}  // namespace

std::vector<std::string> repository_texts() {
  return texts_of(weir::test::kernel_ptx_folder());
}

bool of_repository() {
  return weir::test::kernel_ptx_folder().starts_with(weir::test::source_folder() +
                                                     "/tessera/");
}

std::string conformance_text() {
  return texts_of(weir::test::conformance_ptx_folder()).at(0);
}

std::vector<kernel> repository_kernels() {
  std::vector<kernel> out;
  for (const std::string& text : repository_texts()) {
    std::vector<kernel> more = or_throw(parse(text));
    std::move(more.begin(), more.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace weir::tessera::ptx
