// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the CUDA driver and its functions at run time.
///
/// Only cuGetProcAddress_v2 is looked up by name. It is asked for each function in the
/// form of a given version of CUDA, so that a newer driver cannot give another form.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <fmt/core.h>

#include "device/cuda/driver_api.hpp"
#include "weir/tessera/device/ptx_text.hpp"

namespace weir::tessera::cuda {
namespace {

/// Version of CUDA, first driver, version of PTX (times ten).
constexpr std::array<driver_series, 11> all_series{{{12000, "525.60", 80},
                                                    {12010, "530.30", 81},
                                                    {12020, "535.54", 82},
                                                    {12030, "545.23", 83},
                                                    {12040, "550.54", 84},
                                                    {12050, "555.42", 85},
                                                    {12060, "560.28", 85},
                                                    {12080, "570.26", 87},
                                                    {12090, "575.51", 88},
                                                    {13000, "580.65", 90},
                                                    {13010, "590.44", 91}}};

/// Returns the series of a driver: the newest that is not newer than it.
driver_series series_of(int version) noexcept {
  driver_series found{version, "before 525", 0};
  for (const driver_series& s : all_series) {
    if (s.version <= version) {
      found = s;
    }
  }
  return found;
}

/// Returns the number before the point of a version such as "580.65". Texts show
/// branches, as users know drivers by them.
std::string_view branch_of(std::string_view driver) noexcept {
  return driver.substr(0, driver.find('.'));
}

/// Returns the first driver that reads a version of PTX; empty if none is known.
std::string_view driver_for(int ptx) noexcept {
  for (const driver_series& s : all_series) {
    if (s.ptx >= ptx) {
      return branch_of(s.driver);
    }
  }
  return {};
}

/// Looks up one function. @error{unsupported; the driver lacks it and it is needed}
template <class F>
result<void> look_up(lookup_function finder, F& function, const char* name, int version,
                     bool needed) {
  void* found = nullptr;
  lookup outcome = lookup::success;
  const status s = finder(name, &found, version, 0, &outcome);
  // A function that is not needed may be missing.
  if (s != status::success || outcome != lookup::success || found == nullptr) {
    if (!needed) {
      function = nullptr;
      return {};
    }
    return error(errc::unsupported,
                 fmt::format("cannot use the CUDA driver: expected the function {} of "
                             "version {}.{}, found none (status {})",
                             // Versions are 1000 times the major number plus 10 times
                             // the minor one.
                             name, version / 1000, version % 1000 / 10,
                             static_cast<int>(s)))
        .hint("install a newer driver");
  }
  function = reinterpret_cast<F>(found);
  return {};
}

/// One line per function of the table in driver_api.hpp.
result<void> look_up_all(lookup_function finder, driver_api& api) {
#define WEIR_CUDA_LOOK_UP(member, name, version, needed, parameters) \
  WEIR_CHECK(look_up(finder, api.member, #name, version, needed));
  WEIR_CUDA_FUNCTIONS(WEIR_CUDA_LOOK_UP)
#undef WEIR_CUDA_LOOK_UP
  return {};
}

}  // namespace

/// For texts about which driver is needed.
std::span<const driver_series> known_series() noexcept {
  return all_series;
}

/// The library stays loaded until the process ends. No GPU is touched.
result<driver> load_driver(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* text = ::dlerror();
    return error(errc::not_found,
                 fmt::format("cannot load the CUDA driver: expected the library {}, "
                             "found none: {}",
                             library, text != nullptr ? text : "no reason given"))
        .hint("install the driver of the GPU, or use the processor's devices");
  }
  auto* const finder = reinterpret_cast<lookup_function>(::dlsym(handle, lookup_symbol));
  if (finder == nullptr) {
    return error(errc::unsupported,
                 fmt::format("cannot use the CUDA driver {}: expected the function {}, "
                             "found none",
                             library, lookup_symbol))
        .hint("install driver 525.60 or newer");
  }
  driver made;
  // The version is asked first, so that an old driver is named and not its first gap.
  WEIR_CHECK(look_up(finder, made.api.driver_version, "cuDriverGetVersion", 2020, true));
  if (made.api.driver_version(&made.version) != status::success ||
      made.version < least_version) {
    return error(errc::unsupported,
                 fmt::format("cannot use the CUDA driver {}: expected one for CUDA {}.{} "
                             "or newer, found one for {}.{}",
                             library, least_version / 1000, least_version % 1000 / 10,
                             made.version / 1000, made.version % 1000 / 10))
        .hint("install driver 525.60 or newer");
  }
  WEIR_CHECK(look_up_all(finder, made.api));
  return made;
}

/// Version times ten, such as 85 for 8.5; 0 if the text has none.
int version_of_ptx(std::string_view text) noexcept {
  const std::string_view version = ptx_directive(text, ".version");
  int major = 0;
  int minor = 0;
  const char* const end = version.data() + version.size();
  auto read = std::from_chars(version.data(), end, major);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != '.') {
    return 0;
  }
  read = std::from_chars(read.ptr + 1, end, minor);
  const bool sensible = read.ec == std::errc() && read.ptr == end && major > 0 &&
                        major < 100 && minor >= 0 && minor < 10;
  return sensible ? major * 10 + minor : 0;
}

/// Compares before the driver would refuse the module with a less clear message.
result<void> check_ptx_version(int driver_version, std::string_view ptx,
                               std::string_view module) {
  const int wanted = version_of_ptx(ptx);
  const driver_series present = series_of(driver_version);
  // Later drivers than the table's newest read everything that the table names.
  const bool newer = driver_version > all_series.back().version;
  // A text without a version is left to the driver.
  if (wanted == 0 || wanted <= present.ptx || (newer && driver_for(wanted).empty())) {
    return {};
  }
  const std::string_view fit = driver_for(wanted);
  return error(errc::unsupported_version,
               fmt::format("driver {} reads PTX up to {}.{}, module {} has {}.{}: "
                           "expected driver {} or newer, or the module built with a "
                           "toolkit of that driver's series",
                           present.driver, present.ptx / 10, present.ptx % 10, module,
                           wanted / 10, wanted % 10, fit.empty() ? "a later one" : fit));
}

}  // namespace weir::tessera::cuda
