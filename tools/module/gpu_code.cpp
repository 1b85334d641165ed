// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads code for GPUs, and runs nvcc.
///
/// Code for GPUs is packed as it is (PTX, cubin) or compiled to PTX by nvcc, which runs
/// as a child process with a limit of time. The flags keep arithmetic exact: no
/// contraction of products and sums, no flushing of subnormals, and divisions and roots
/// that are rounded correctly, as IEEE 754 says.
#include "module/gpu_code.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/core.h>

#include "weir/actors/child_output.hpp"
#include "weir/base/file.hpp"
#include "weir/base/text.hpp"
#include "weir/tessera/device/ptx_text.hpp"

namespace weir::tools {

namespace {

namespace fs = std::filesystem;
using tessera::section_kind;

/// PTX for this architecture runs on all later ones, too; the driver compiles it there.
constexpr const char* default_arch = "compute_75";
/// Time after which nvcc is ended.
constexpr std::chrono::milliseconds longest_compilation{600'000};

/// A folder for files of nvcc. The destructor removes it with everything in it.
class scratch_folder {
 public:
  /// Makes the folder in that of temporary files, which TMPDIR names, or in /tmp.
  /// @error{io, no folder can be made there}
  static result<std::unique_ptr<scratch_folder>> make() {
    std::error_code failed;
    const fs::path named = fs::temp_directory_path(failed);
    // An absolute path does not begin with "-", so nvcc takes it for no option.
    const fs::path parent = failed ? named : fs::absolute(named, failed);
    if (failed) {
      return error(errc::io, fmt::format("cannot make a folder for the output of nvcc: "
                                         "expected TMPDIR to name a folder, found: {}",
                                         failed.message()));
    }
    std::string name = (parent / "weir-nvcc-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      const int number = errno;
      return system_error("make a folder for the output of nvcc in", parent.string(),
                          number)
          .hint("set TMPDIR to a folder in which files can be made");
    }
    return std::unique_ptr<scratch_folder>(new scratch_folder(std::move(name)));
  }
  ~scratch_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  /// Returns the path of a file in it.
  [[nodiscard]] std::string file(const char* name) const { return path_ + "/" + name; }

 private:
  explicit scratch_folder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

/// Returns a path as an argument of a program: a name that begins with "-" would be an
/// option, so the current folder is put before it.
std::string argument_of(const std::string& path) {
  return path.starts_with('-') ? "./" + path : path;
}

/// Returns the path of nvcc, or an empty string.
/// Searches PATH first, then CUDA_HOME/bin. Empty entries, which stand for the current
/// folder, are skipped.
std::string nvcc_path() {
  const char* const path = std::getenv("PATH");
  const char* const home = std::getenv("CUDA_HOME");
  std::string folders = path != nullptr ? path : "";
  folders += home != nullptr ? std::string(":") + home + "/bin" : "";
  // Takes one folder after the other from the front of the list.
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string found = folders.substr(0, end) + "/nvcc";
    if (end != 0 && ::access(found.c_str(), X_OK) == 0) {
      return found;
    }
    folders.erase(0, end + 1);
  }
  return {};
}

/// Compiles a source to PTX.
/// Needs nvcc. Its whole output becomes part of the message if it fails.
result<byte_vector> compiled_source(const code_file& code) {
  const std::string nvcc = nvcc_path();
  if (nvcc.empty()) {
    return error(
               errc::not_found,
               fmt::format("cannot compile {}: expected nvcc on PATH or below CUDA_HOME, "
                           "found none",
                           code.path))
        .hint("install the CUDA toolkit, or pack PTX that was made elsewhere");
  }
  WEIR_TRY(const auto folder, scratch_folder::make());
  const std::string out = folder->file("code.ptx");
  std::string arch = code.arch;
  // PTX has a virtual architecture: "sm_90" becomes "compute_90".
  arch.replace(0, arch.find('_') + 1, "compute_");
  WEIR_TRY(const actors::child_output nvcc_end,
           actors::run_child(
               {nvcc, "-ptx", "-std=c++20", "-arch=" + arch, "--fmad=false", "-ftz=false",
                "-prec-div=true", "-prec-sqrt=true", argument_of(code.path), "-o", out},
               {.time = longest_compilation}));
  // The number is the status of the program, or the signal that has ended it.
  if (!nvcc_end.exited || nvcc_end.status != 0) {
    return error(errc::invalid_argument,
                 fmt::format("cannot compile {}: nvcc ended with {} {}: {}{}", code.path,
                             nvcc_end.exited ? "status" : "signal", nvcc_end.status,
                             nvcc_end.out, nvcc_end.error));
  }
  return read_file(posix_file_system(), out);
}

/// Returns the architecture that PTX names in its directive ".target".
/// Options may follow the name, such as in ".target sm_75, texmode_independent".
result<std::string> target_of(std::string_view ptx, const std::string& path) {
  const std::string_view arch = tessera::ptx_directive(ptx, ".target");
  if (arch.empty()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot take {} for PTX: expected a directive \".target\" "
                             "with an architecture, found none",
                             path))
        .hint("a directive in a comment does not count");
  }
  return std::string(arch);
}

}  // namespace

result<code_file> read_gpu_argument(const std::string& text) {
  const std::size_t equals = text.find('=');
  const bool has_arch = equals != std::string::npos;
  code_file out;
  out.arch = has_arch ? text.substr(0, equals) : "";
  out.path = has_arch ? text.substr(equals + 1) : text;
  const std::string ending = fs::path(out.path).extension().string();
  // An empty architecture in front of the equals sign is a mistake, not a missing one.
  const bool known = ending == ".ptx" || ending == ".cubin" || ending == ".cu";
  if (!known || (has_arch && out.arch.empty())) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot take code for GPUs: expected [ARCH=]FILE with a file "
                    "that ends in .ptx, .cubin or .cu, found {}",
                    json_quote(text)));
  }
  if (ending == ".cubin" && !has_arch) {
    return error(errc::invalid_argument,
                 fmt::format("cannot take a cubin: expected ARCH=FILE such as sm_90={}, "
                             "found {}",
                             out.path, json_quote(text)));
  }
  out.kind = ending == ".cubin" ? section_kind::cubin : section_kind::ptx;
  return out;
}

// Sources are told by their ending, because a description may give them any kind.
result<byte_vector> content_of(code_file& code) {
  if (fs::path(code.path).extension() == ".cu") {
    code.kind = section_kind::ptx;
    code.arch = code.arch.empty() ? default_arch : code.arch;
    return compiled_source(code);
  }
  WEIR_TRY(byte_vector bytes, read_file(posix_file_system(), code.path));
  if (code.kind == section_kind::ptx && code.arch.empty()) {
    WEIR_TRY(code.arch, target_of(as_text(bytes), code.path));
  }
  return bytes;
}

}  // namespace weir::tools
