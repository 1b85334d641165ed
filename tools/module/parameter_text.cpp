// SPDX-License-Identifier: Apache-2.0
/// @file
/// Parses and prints parameters of kernels, and arguments of `--so`.
///
/// The notation is that of C declarations, reduced to what a kernel parameter can be.
/// `read_parameter` and `parameter_text` are inverse to each other, which the listing of
/// a module relies on: its lines can be copied into a description.
#include <fmt/core.h>

#include <charconv>
#include <vector>

#include "module/description.hpp"
#include "weir/base/text.hpp"

namespace weir::tools {

using tessera::address_space;
using tessera::kernel_parameter;
using tessera::parameter_direction;
using tessera::parameter_kind;

namespace {

constexpr std::string_view opaque_word = "opaque:";

// Splits a text into words at blanks. A star is a word of its own.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  bool inside = false;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t';
    // A star begins a word and ends it, so "fp32*x" and "fp32 * x" have the same words.
    if (c == '*' || (!blank && !inside)) {
      out.emplace_back();
    }
    if (!blank) {
      out.back() += c;
    }
    inside = !blank && c != '*';
  }
  return out;
}

// Returns the error for a text that has another form.
error unreadable(std::string_view text, std::string_view expected) {
  return error(errc::invalid_argument,
               fmt::format("cannot read a parameter: expected {}, found {}", expected,
                           json_quote(text)));
}

// Returns the id of a type of the ABI by its name; 0 for "void".
result<std::uint32_t> type_named(std::string_view text, std::string_view name) {
  std::vector<std::string> names{"void"};
  // Ids are dense from 1 on; the names of all types serve as suggestions for a misspelt
  // one.
  for (std::uint32_t id = 1; tessera::size_of_dtype(id) != 0; ++id) {
    if (tessera::name_of_dtype(id) == name) {
      return id;
    }
    names.emplace_back(tessera::name_of_dtype(id));
  }
  if (name == "void") {
    return 0U;
  }
  return unreadable(text, "a type" + did_you_mean(name, names));
}

}  // namespace

// The words are [QUALIFIER] TYPE [*] NAME. They are taken away from the end: the name
// first, then the star, and the qualifier stays if two words are left.
result<kernel_parameter> read_parameter(std::string_view text) {
  std::vector<std::string> words = words_of(text);
  if (words.size() < 2) {
    return unreadable(text, "a type and a name");
  }
  const std::string name = words.back();
  words.pop_back();
  const bool pointer = words.back() == "*";
  if (pointer) {
    words.pop_back();
  }
  std::string qualifier;
  if (words.size() == 2) {
    qualifier = words.front();
    words.erase(words.begin());
  }
  // Only pointers have a qualifier, since it says how the elements are used.
  const bool qualified =
      qualifier.empty() || (pointer && (qualifier == "const" || qualifier == "out" ||
                                        qualifier == "constant"));
  if (words.size() != 1 || !qualified) {
    return unreadable(text, "[const|out|constant] TYPE* NAME, or TYPE NAME");
  }
  const std::string_view type = words.front();
  // The size of an opaque value is checked when the kernel is added to the fatbin.
  if (!pointer && type.starts_with(opaque_word)) {
    std::uint32_t bytes = 0;
    const char* end = type.data() + type.size();
    const auto read = std::from_chars(type.data() + opaque_word.size(), end, bytes);
    if (read.ec != std::errc() || read.ptr != end) {
      return unreadable(text, "opaque:BYTES NAME");
    }
    return tessera::opaque_parameter(name, bytes);
  }
  // Only pointers can be "void*"; `scalar_parameter` of type 0 has no size, which the
  // builder refuses.
  WEIR_TRY(const std::uint32_t id, type_named(text, type));
  if (!pointer) {
    return tessera::scalar_parameter(name, id);
  }
  // Without a qualifier, the kernel reads and writes. "const" and "constant" are read
  // only.
  const auto direction = qualifier == "out"  ? parameter_direction::out
                         : qualifier.empty() ? parameter_direction::inout
                                             : parameter_direction::in;
  return tessera::pointer_parameter(
      name, id, direction,
      qualifier == "constant" ? address_space::constant : address_space::global);
}

// A pointer to constant memory is read only, so "constant" says the direction, too.
std::string parameter_text(const kernel_parameter& p) {
  if (p.kind == parameter_kind::opaque) {
    return fmt::format("{}{} {}", opaque_word, p.size, p.name);
  }
  const std::string_view type =
      p.dtype == 0 ? std::string_view("void") : tessera::name_of_dtype(p.dtype);
  if (p.kind == parameter_kind::scalar) {
    return fmt::format("{} {}", type, p.name);
  }
  const std::string_view qualifier = p.space == address_space::constant ? "constant "
                                     : p.direction == parameter_direction::in  ? "const "
                                     : p.direction == parameter_direction::out ? "out "
                                                                               : "";
  return fmt::format("{}{}* {}", qualifier, type, p.name);
}

// The level is checked by the loader; a level of a later processor is no error here.
result<code_file> read_code_argument(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot take a shared object: expected LEVEL=FILE, found {}",
                             json_quote(text)));
  }
  return code_file{tessera::section_kind::cpu_so, text.substr(0, equals),
                   text.substr(equals + 1)};
}

}  // namespace weir::tools
