// SPDX-License-Identifier: Apache-2.0
/// @file
/// Loads plug-ins.
///
/// A plug-in is a shared object of C++ with a function `weir_stages_v1`, or a file of
/// Python. Loading a shared object runs its constructors, so everything that can be
/// checked is checked on the bytes of the file before: that it is complete, and that it
/// was built with the same headers and compiler, which its stamp says. This finds
/// mistakes; it is no protection against a hostile file.
///
/// Stages are first added to an empty catalog. An error half-way thus leaves the catalog
/// of the program as it was.
#include "weir/actors/plugins.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "weir/actors/python_stages.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/plugin.hpp"

namespace weir {
namespace {

namespace fs = std::filesystem;

error not_loaded(errc code, const std::string& path, std::string_view expected,
                 std::string_view found) {
  return error(code, fmt::format("cannot load the plug-in \"{}\": expected {}, found {}",
                                 path, expected, found));
}

/// @pre `stamp` begins with the mark.
std::string_view without_mark(std::string_view stamp) {
  return stamp.substr(flow::stamp_mark.size());
}

/// Returns the stamp in the bytes of a plug-in, or an empty text. A copy of the mark
/// alone, such as the one that this file has, is no stamp.
/// The stamp ends at a null byte and is no longer than `build_stamp::text`.
std::string_view stamp_in(std::string_view bytes) {
  std::size_t at = bytes.find(flow::stamp_mark);
  while (at != std::string_view::npos) {
    std::string_view text = bytes.substr(at, flow::build_stamp{}.text.size());
    text = text.substr(0, text.find('\0'));
    if (text.size() > flow::stamp_mark.size()) {
      return text;
    }
    at = bytes.find(flow::stamp_mark, at + 1);
  }
  return {};
}

/// Refuses a file that ends before its segments do: loading one ends the process.
/// Only the fields that say where segments lie are checked; the loader checks the rest.
result<void> check_segments(std::string_view bytes, const std::string& path) {
  const auto refused = [&](errc code, std::string_view found) {
    return not_loaded(code, path, "a shared object of this machine", found);
  };
  Elf64_Ehdr head{};
  if (bytes.size() < sizeof head) {
    return refused(errc::torn, fmt::format("a file of {} bytes", bytes.size()));
  }
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_type != ET_DYN ||
      head.e_phentsize != sizeof(Elf64_Phdr)) {
    return refused(errc::corrupt, "another kind of ELF file");
  }
  const std::uint64_t size = bytes.size();
  for (std::uint64_t i = 0; i < head.e_phnum; ++i) {
    const std::uint64_t begin = head.e_phoff + i * sizeof(Elf64_Phdr);
    if (head.e_phoff > size || begin + sizeof(Elf64_Phdr) > size) {
      return refused(errc::torn, "a file that ends in its table of segments");
    }
    Elf64_Phdr segment{};
    std::memcpy(&segment, bytes.data() + begin, sizeof segment);
    if (segment.p_offset > size || segment.p_filesz > size - segment.p_offset) {
      return refused(
          errc::torn,
          fmt::format("a file of {} bytes, which ends in segment {}", size, i));
    }
  }
  return {};
}

/// Compares the build of a plug-in with that of this program. The file is only read,
/// because loading it would run its constructors.
/// The order of the checks is that of their messages: kind of file, completeness, stamp,
/// build.
result<void> check_file(const std::string& path) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  const std::string_view bytes = as_text(content);
  if (!bytes.starts_with("\x7f"
                         "ELF")) {
    return not_loaded(errc::corrupt, path, "a shared object or a file that ends in .py",
                      "another file");
  }
  WEIR_CHECK(check_segments(bytes, path));
  const std::string_view stamp = stamp_in(bytes);
  if (stamp.empty()) {
    return not_loaded(errc::not_found, path, "a build stamp", "none")
        .hint("its source needs WEIR_STAGES(...) with its stages");
  }
  constexpr auto& own = flow::this_stamp;
  const std::string_view expected(own.text.data(), own.size);
  if (stamp != expected) {
    return not_loaded(errc::build_mismatch, path,
                      fmt::format("the build \"{}\"", without_mark(expected)),
                      fmt::format("\"{}\"", without_mark(stamp)))
        .hint("rebuild the plug-in with the headers and the compiler of this program");
  }
  return {};
}

/// @pre A function of dlfcn.h has just failed.
std::string loader_message() {
  const char* const text = dlerror();
  return text == nullptr ? "an unknown error" : text;
}

/// Loads the shared object and lets it add its stages to a catalog of their own.
result<void> add_stages_of(const std::string& path, flow::catalog& to) {
  WEIR_CHECK(check_file(path));
  // RTLD_NOW finds missing functions here and not in the middle of a run. The object is
  // never closed, because stages and their types stay in use until the end.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return not_loaded(errc::corrupt, path, "a shared object that can be loaded",
                      fmt::format("\"{}\"", loader_message()));
  }
  void* const found = dlsym(library, "weir_stages_v1");
  if (found == nullptr) {
    return not_loaded(errc::not_found, path, "the function weir_stages_v1", "none")
        .hint("its source needs WEIR_STAGES(...) with its stages");
  }
  const auto add = reinterpret_cast<flow::plugin_function>(found);
  std::string failure;
  // The function is called in the plug-in; it returns false with a text for each mistake.
  if (!add(to, failure)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot add the stages of the plug-in \"{}\": {}", path, failure));
  }
  return {};
}

}  // namespace

/// Loads a plug-in once: the same file under another path is recognised.
result<void> load_plugin(flow::catalog& to, const std::string& path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    return not_loaded(errc::not_found, path, "a file", "none");
  }
  const fs::path canonical = fs::canonical(path, failure);
  const std::string file = failure ? fs::absolute(path).string() : canonical.string();
  if (to.has_plugin(file)) {
    return {};
  }
  flow::catalog added;
  if (file.ends_with(".py")) {
    WEIR_CHECK(add_python_stages(added, file));
  } else {
    WEIR_CHECK(add_stages_of(file, added));
  }
  return to.add_plugin(std::move(added), file);
}

}  // namespace weir
