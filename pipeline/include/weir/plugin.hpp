// SPDX-License-Identifier: Apache-2.0
/// @file
/// Plug-ins: shared objects with stages, which a pipeline's file or a command line names.
///
/// ```
/// #include <weir/plugin.hpp>
/// struct twice { ... };  // a stage, see weir/pipeline/faces.hpp
/// WEIR_STAGES(twice)
/// ```
///
/// A plug-in links nothing of Weir: it uses the engine, the pipeline and the catalog of
/// the program that loads it. Both must therefore be built from the same headers, by the
/// same compiler, which the build stamp tells before anything of the plug-in is called.
/// @source{docs/pipelines.md}
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <version>

#include "weir/pipeline.hpp"
#include "weir/pipeline/host/execution.hpp"

namespace weir::flow {

/// First bytes of a build stamp, by which a loader finds it in the file of a plug-in.
inline constexpr std::string_view stamp_mark = "weir plug-in stamp 1: ";
/// Version of the headers.
inline constexpr std::string_view headers_version = "0.1.0";

/// A build stamp: a text that ends with a zero byte.
/// @threads{a value}
struct build_stamp {
  std::array<char, 512> text{};  ///< the text behind `stamp_mark`, with the mark
  std::size_t size = 0;          ///< bytes of the text

  /// Appends a text. @pre It fits
  constexpr void add(std::string_view more) {
    for (const char c : more) {
      text.at(size) = c;
      ++size;
    }
  }
  /// Appends a number. @pre It fits
  constexpr void add(std::size_t number) {
    if (number >= 10) {
      add(number / 10);
    }
    text.at(size) = static_cast<char>('0' + number % 10);
    ++size;
  }
};

/// Returns the name of the compiler that compiles this line.
/// @threads{safe to call concurrently}
constexpr std::string_view compiler_name() noexcept {
#if defined(__clang__)
  return "clang++ ";
#else
  return "g++ ";
#endif
}

/// Returns the stamp of this build: the version of Weir, the compiler, the C++ library,
/// and the sizes of the structures that a plug-in and its program share.
/// @threads{safe to call concurrently}
constexpr build_stamp make_stamp() {
  build_stamp s;
  s.add(stamp_mark);
  s.add("Weir ");
  s.add(headers_version);
  s.add(", ");
  s.add(compiler_name());
#if defined(__clang__)
  s.add(std::size_t{__clang_major__});
#else
  s.add(std::size_t{__GNUC__});
#endif
  s.add(", C++ ABI ");
  s.add(std::size_t{__GXX_ABI_VERSION});
#if defined(_LIBCPP_VERSION)
  s.add(", libc++ ");
  s.add(std::size_t{_LIBCPP_VERSION});
#elif defined(_GLIBCXX_RELEASE)
  s.add(", libstdc++ ");
  s.add(std::size_t{_GLIBCXX_RELEASE});
#if defined(_GLIBCXX_DEBUG)
  s.add(" debug");
#endif
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
  s.add(" old strings");
#endif
#endif
  s.add(", sizes");
  for (const std::size_t size :
       {sizeof(void*), sizeof(std::string), sizeof(error), sizeof(setting_value),
        sizeof(setting_info), sizeof(runtime::tensor), sizeof(runtime::access),
        sizeof(weir::engine), sizeof(port_info), sizeof(stage_info),
        sizeof(described_stage), sizeof(given_value), sizeof(catalog), sizeof(attributes),
        sizeof(opening), sizeof(figures), sizeof(small_record), sizeof(state_part)}) {
    s.add(" ");
    s.add(size);
  }
  return s;
}

/// The stamp of what is compiled with this header.
inline constexpr build_stamp this_stamp = make_stamp();

/// The function `weir_stages_v1` of a plug-in: adds its stages to a catalog.
/// @param failure  Receives the text of an error.
/// @returns False if there was an error. No exception leaves the function.
using plugin_function = bool (*)(catalog& to, std::string& failure) noexcept;

/// Adds stage classes to a catalog; the work of `WEIR_STAGES`.
/// @returns False if there was an error, whose text is in `failure`.
/// @threads{thread-compatible}
template <class... Stage>
bool add_plugin_stages(catalog& to, std::string& failure) noexcept {
  try {
    result<void> done;
    static_cast<void>(((done = to.add<Stage>(), done.has_value()) && ...));
    if (!done) {
      failure = done.error().message();
    }
    return done.has_value();
  } catch (const std::exception& e) {
    failure = std::string("expected no exception, found \"") + e.what() + "\"";
  } catch (...) {
    failure = "expected no exception, found one of an unknown type";
  }
  return false;
}

}  // namespace weir::flow

/// Makes a shared object a plug-in with the stage classes that are listed. It stands once
/// in a plug-in, outside of namespaces.
#define WEIR_STAGES(...)                                                            \
  extern "C" {                                                                      \
  __attribute__((                                                                   \
      visibility("default"))) extern const weir::flow::build_stamp weir_stamp_v1;   \
  __attribute__((visibility("default"))) bool weir_stages_v1(                       \
      weir::flow::catalog& to, std::string& failure) noexcept;                      \
  }                                                                                 \
  constinit const weir::flow::build_stamp weir_stamp_v1 = weir::flow::make_stamp(); \
  bool weir_stages_v1(weir::flow::catalog& to, std::string& failure) noexcept {     \
    return weir::flow::add_plugin_stages<__VA_ARGS__>(to, failure);                 \
  }                                                                                 \
  static_assert(true, "a semicolon may follow")
