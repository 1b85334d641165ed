// SPDX-License-Identifier: Apache-2.0
/// @file
/// Choosing and loading the plug-in for an MPI library.
///
/// Weir is built without MPI and loads a small library, the plug-in, that was built with
/// the headers of the MPI library in use. The launcher shows by variables of the
/// environment which one that is.
#include "loading.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "weir/mpi/ranks.hpp"

namespace weir::mpi {
namespace {

/// Returns the value of a variable of the environment, empty if there is none.
std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

/// Returns true if a variable holds a number of at least 2. Text that is no number
/// counts as 0.
bool is_several(const char* name) {
  const std::string_view text = variable(name);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number >= 2;
}

/// Returns the folders that may have plug-ins, the first choice first. A folder that is
/// given counts alone; else the variable; else the folders of an installation.
std::vector<std::string> plugin_folders(const std::string& given) {
  if (!given.empty()) {
    return {given};
  }
  if (const std::string_view named = variable("WEIR_MPI_FOLDER"); !named.empty()) {
    return {std::string(named)};
  }
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  return {(program.parent_path() / "../lib/weir").lexically_normal().string(),
          WEIR_MPI_INSTALLED};
}

/// Returns the path of a file in the first folder that has it; empty if none has.
std::string first_with(const std::vector<std::string>& folders, const std::string& file) {
  for (const std::string& one : folders) {
    std::string path = (std::filesystem::path(one) / file).string();
    std::error_code failed;
    if (std::filesystem::exists(path, failed)) {
      return path;
    }
  }
  return {};
}

/// Returns the name of the file of a plug-in. One file per MPI library.
const char* file_of(library which) {
  return which == library::openmpi ? "libweir-openmpi.so" : "libweir-mpich.so";
}

/// Returns the file of the MPI library that a plug-in is linked with. Unlike the
/// plug-in's own calls, dlsym does not look into the libraries of the program first.
std::string library_of_plugin(void* loaded) {
  Dl_info facts{};
  void* const function = dlsym(loaded, "MPI_Get_library_version");
  const bool known = function != nullptr && dladdr(function, &facts) != 0;
  return known ? facts.dli_fname : "an unknown file";
}

/// Checks that the plug-in calls the library that it was built for. A program that is
/// linked with another one gives its functions to the plug-in.
/// `describe` tells the version text of the library whose functions the plug-in really
/// calls, and the file that they come from.
result<void> check_library(const std::string& path, void* loaded, const calls& plugin) {
  std::array<char, PATH_MAX> version{};
  std::array<char, PATH_MAX> found{};
  plugin.describe(version.data(), found.data(), version.size());
  // MPI itself says what it is.
  if (std::string_view(version.data()).find(plugin.library) != std::string_view::npos) {
    return {};
  }
  return error(errc::unsupported,
               fmt::format("cannot use the MPI plug-in \"{}\": expected that it calls {} "
                           "in {}, found that this process has {} in {}",
                           path, plugin.library, library_of_plugin(loaded),
                           version.data(), found.data()))
      .hint("start the program with the launcher of the library that it is linked with");
}

/// Loads the plug-in in a file.
///
/// The library stays loaded until the process ends.
result<const calls*> open_plugin(const std::string& path) {
  // Symbols stay local, so they cannot replace those of the program.
  void* const loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    return error(
        errc::unsupported,
        fmt::format("cannot load the MPI plug-in \"{}\": expected a library that "
                    "this machine can load, found: {}",
                    path, dlerror()));
  }
  const auto entry = reinterpret_cast<entry_function>(dlsym(loaded, entry_name));
  const calls* const plugin = entry == nullptr ? nullptr : entry();
  // The plug-in must have the same structure of calls.
  if (plugin == nullptr || plugin->version != calls_version) {
    return error(errc::unsupported,
                 fmt::format(
                     "cannot use the MPI plug-in \"{}\": expected version {}, found {}",
                     path, calls_version, plugin == nullptr ? 0 : plugin->version))
        .hint("install the plug-in of this version of Weir");
  }
  WEIR_CHECK(check_library(path, loaded, *plugin));
  return plugin;
}

}  // namespace

/// One process alone needs no MPI. PMIX_RANK alone is set by srun with PMIx, and by
/// OpenMPI itself in a program that has called MPI_Init under the launcher of MPICH.
result<library> library_of_launcher() {
  if (is_several("OMPI_COMM_WORLD_SIZE")) {
    return library::openmpi;
  }
  if (is_several("PMI_SIZE")) {
    return library::mpich;
  }
  if (variable("OMPI_COMM_WORLD_SIZE").empty() && !variable("PMIX_RANK").empty()) {
    return library::openmpi;
  }
  // A launcher that starts one process sets the variables as well: that is a run of one
  // rank.
  const bool is_launched =
      !variable("OMPI_COMM_WORLD_SIZE").empty() || !variable("PMI_SIZE").empty();
  // Without a connection each task would run as a world of its own, which is a mistake
  // in most cases.
  if (!is_launched && is_several("SLURM_NTASKS") && !variable("SLURM_STEP_ID").empty()) {
    return error(
               errc::unsupported,
               fmt::format("ranks not started: expected that srun connects its {} tasks "
                           "by MPI, found a task without a connection",
                           variable("SLURM_NTASKS")))
        .hint("start with srun --mpi=pmix for OpenMPI, or --mpi=pmi2 for MPICH");
  }
  return library::none;
}

/// OpenMPI, Slurm and MPICH have variables of their own.
std::optional<std::uint32_t> rank_of_launcher() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const std::string_view text = variable(name);
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    if (!text.empty() && std::from_chars(text.data(), end, number).ptr == end) {
      return number;
    }
  }
  return std::nullopt;
}

/// The first folder that has the file counts.
result<const calls*> load_plugin(library which, const std::string& folder) {
  const char* const file = file_of(which);
  const std::vector<std::string> folders = plugin_folders(folder);
  if (const std::string path = first_with(folders, file); !path.empty()) {
    return open_plugin(path);
  }
  return error(errc::not_found,
               fmt::format("cannot load an MPI plug-in: expected {} in {}, found none",
                           file, fmt::join(folders, " or in ")))
      .hint(
          "set WEIR_MPI_FOLDER to its folder; a build makes it if the headers of the "
          "MPI library are installed");
}

}  // namespace weir::mpi

namespace weir {

/// Serves `weir doctor`: which plug-ins and which launchers this machine has.
std::vector<mpi_finding> find_mpi(const std::string& folder) {
  std::vector<std::string> programs;
  std::string_view left = mpi::variable("PATH");
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(':'), left.size());
    programs.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  const std::vector<std::string> folders = mpi::plugin_folders(folder);
  std::vector<mpi_finding> found;
  for (const char* const name : {"openmpi", "mpich"}) {
    found.push_back({name, mpi::first_with(folders, fmt::format("libweir-{}.so", name)),
                     mpi::first_with(programs, fmt::format("mpirun.{}", name))});
  }
  return found;
}

}  // namespace weir
