// SPDX-License-Identifier: Apache-2.0
/// @file
/// A library to preload into a program. It kills the program (SIGKILL) at its n-th call
/// that changes a file, where WEIR_KILL_AT is n. With WEIR_KILL_TORN the first half of a
/// write arrives. WEIR_KILL_COUNT names a file that receives the number of such calls.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<long> calls{0};

/// Returns the function of the C library that this library replaces.
template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

/// Counts a call and returns whether the program must be killed at it.
bool is_last() {
  static const char* setting = std::getenv("WEIR_KILL_AT");
  return ++calls == (setting != nullptr ? std::atol(setting) : 0);
}

/// Kills the program.
[[noreturn]] void end() {
  ::kill(::getpid(), SIGKILL);
  for (;;) {
    ::pause();
  }
}

/// Counts a call, and kills the program if it is the last one.
void count() {
  if (is_last()) {
    end();
  }
}

/// Writes, or writes half in whole sectors and kills the program.
ssize_t write_at(int file, const void* from, size_t bytes, off_t offset) {
  static auto* real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (is_last()) {
    const size_t half = bytes / 1024 * 512;
    if (std::getenv("WEIR_KILL_TORN") != nullptr && half != 0) {
      real(file, from, half, offset);
    }
    end();
  }
  return real(file, from, bytes, offset);
}

/// Opens a file; opening counts if it may create the file.
int open_file(const char* path, int flags, mode_t mode) {
  static auto* real = next<int(const char*, int, ...)>("open");
  if ((flags & O_CREAT) != 0) {
    count();
  }
  return real(path, flags, mode);
}

/// Returns the mode argument of `open`, which exists only with O_CREAT.
mode_t mode_of(int flags, va_list& rest) {
  return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
}

/// Writes the number of calls at the end of the program.
struct counter {
  ~counter() {
    const char* path = std::getenv("WEIR_KILL_COUNT");
    if (FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr) {
      std::fprintf(file, "%ld", calls.load());
      std::fclose(file);
    }
  }
} at_exit;

}  // namespace

#define SHIM extern "C" __attribute__((visibility("default")))

SHIM ssize_t pwrite(int file, const void* from, size_t bytes, off_t offset) {
  return write_at(file, from, bytes, offset);
}
SHIM ssize_t pwrite64(int file, const void* from, size_t bytes, off_t offset) {
  return write_at(file, from, bytes, offset);
}
SHIM int fsync(int file) {
  count();
  static auto* real = next<int(int)>("fsync");
  return real(file);
}
SHIM int rename(const char* from, const char* to) {
  count();
  static auto* real = next<int(const char*, const char*)>("rename");
  return real(from, to);
}
SHIM int unlink(const char* path) {
  count();
  static auto* real = next<int(const char*)>("unlink");
  return real(path);
}
SHIM int ftruncate(int file, off_t bytes) {
  count();
  static auto* real = next<int(int, off_t)>("ftruncate");
  return real(file, bytes);
}
SHIM int ftruncate64(int file, off_t bytes) {
  return ftruncate(file, bytes);
}
SHIM int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_file(path, flags, mode);
}
SHIM int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return open_file(path, flags, mode);
}
