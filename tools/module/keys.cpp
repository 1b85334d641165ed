// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads and writes the files of signing keys.
///
/// A key file is one line of hexadecimal digits: 128 for the secret key, whose file only
/// its owner may read, and 64 for the public key in FILE.pub.
#include "module/keys.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "weir/base/file.hpp"

namespace weir::tools {

namespace {

constexpr mode_t for_the_owner = 0600, for_all = 0644;

// Creates a file and never replaces one, because a key that is lost cannot be recovered.
result<void> write_new(const std::string& path, const std::string& text, mode_t mode) {
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) {
    return system_error("create the key file", path, errno);
  }
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const bool whole = written == static_cast<ssize_t>(text.size());
  // The content is on the disk before the command reports success.
  const bool good = whole && ::fsync(descriptor) == 0;
  // A write that stores only a part sets no errno: the disk is full.
  const int problem = written >= 0 && !whole ? ENOSPC : errno;
  ::close(descriptor);
  if (!good) {
    ::unlink(path.c_str());
    return system_error("write the key file", path, problem);
  }
  return {};
}

}  // namespace

// White space at the end is allowed, as editors add it. The message never shows the
// content.
result<tessera::secret_key> read_secret_key(const std::string& path) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  std::string_view text = as_text(content);
  // `npos + 1` is 0, so a file of white space becomes an empty text, which is refused
  // below.
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  tessera::secret_key key;
  if (const auto read = tessera::from_hex(text, key); !read) {
    return error(errc::invalid_argument,
                 fmt::format(
                     "cannot read secret key \"{}\": expected 128 hexadecimal digits, "
                     "found something else",
                     path))
        .hint("`weir module keygen FILE` makes one");
  }
  return key;
}

// The public file is tested before the secret one is written, and the secret one is
// removed if the public one cannot be written, so that no secret key is left without its
// public key.
result<void> write_key_files(const std::string& path, const tessera::key_pair& keys) {
  const std::string open = path + ".pub";
  if (posix_file_system().exists(open)) {
    return error(
        errc::already_exists,
        fmt::format("cannot write key \"{}\": expected no file of that name, found one",
                    open));
  }
  WEIR_CHECK(write_new(path, tessera::to_hex(keys.secret) + "\n", for_the_owner));
  auto written = write_new(open, tessera::to_hex(keys.open) + "\n", for_all);
  // Nobody has used the new secret key yet, so nothing is lost by its removal.
  if (!written) {
    ::unlink(path.c_str());
    return written;
  }
  // The names of both files are durable before the command reports success.
  return posix_file_system().sync_folder(folder_of(path));
}

}  // namespace weir::tools
