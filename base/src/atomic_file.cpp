// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writing a whole file so that a crash leaves the old or the new one.
#include <unistd.h>

#include <atomic>

#include "weir/base/file.hpp"

namespace weir {

namespace {

// No other writer of the same file has this name, whatever thread or process it is.
// In the same folder, because a rename across file systems is no rename.
std::string temporary_of(const std::string& path) {
  static std::atomic<unsigned> calls{0};
  return path + "." + std::to_string(::getpid()) + "-" + std::to_string(calls++) + ".tmp";
}

result<void> fill(file_system& fs, const std::string& name,
                  const std::function<result<void>(file&)>& write) {
  WEIR_TRY(const auto f, fs.open(name, open_mode::create_new));
  WEIR_CHECK(write(*f));
  return f->sync();
}

}  // namespace

result<void> write_file_atomically(file_system& fs, const std::string& path,
                                   const std::function<result<void>(file&)>& write) {
  const std::string temporary = temporary_of(path);
  if (fs.exists(temporary)) {  // of a process that had this number and was killed
    WEIR_CHECK(fs.remove(temporary));
  }
  auto written = fill(fs, temporary, write);
  if (written) {
    written = fs.rename(temporary, path);
  }
  if (!written) {
    if (fs.exists(temporary)) {
      // The first failure is the one to report.
      static_cast<void>(fs.remove(temporary));
    }
    return written;
  }
  return fs.sync_folder(folder_of(path));
}

result<void> write_file_atomically(file_system& fs, const std::string& path,
                                   bytes_view content) {
  return write_file_atomically(fs, path,
                               [&](file& f) { return write_all(f, 0, content); });
}

}  // namespace weir
