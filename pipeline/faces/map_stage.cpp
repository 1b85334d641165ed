// SPDX-License-Identifier: Apache-2.0
/// @file
/// The description of a function as a stage, and the shape of its results.
///
/// The types of both ports follow from the parameters of the function: their elements and
/// ranks are known to the compiler, their extents come from a text such as "f32[n,4]".
#include "weir/pipeline/map_stage.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace weir::flow {
namespace {

/// Reads the type of a port and compares it with the parameter.
result<port_type> type_for(std::string_view text, dtype element, int rank,
                           std::string_view port) {
  WEIR_TRY(port_type type, port_type::parse(text));
  // The type is compared by element and by number of dimensions; extents are free.
  if (type.element != element || type.shape.size() != static_cast<std::size_t>(rank)) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make a stage of a function: expected a port \"{}\" "
                             "of {} with {} dimensions, as its parameter has, found {}",
                             port, port_text(element), rank, text));
  }
  return type;
}

/// Returns the extent of a type that has a letter, or null.
const extent* letter_in(const port_type& type, char letter) {
  const auto found =
      std::find_if(type.shape.begin(), type.shape.end(), [&](const extent& e) {
        return e.is == extent::kind::letter && e.letter == letter;
      });
  return found == type.shape.end() ? nullptr : &*found;
}

}  // namespace

/// Describes the function as a stage with the ports x and y.
result<stage_info> describe_map(std::string_view from, dtype from_element, int from_rank,
                                std::string_view to, dtype to_element, int to_rank) {
  stage_info info;
  info.name = "map";
  info.documentation = "a function of the program, as one task for each item";
  info.stateless = true;
  WEIR_TRY(port_type x, type_for(from, from_element, from_rank, "x"));
  WEIR_TRY(port_type y, type_for(to, to_element, to_rank, "y"));
  // Every extent of the result must be known when an item comes.
  for (const extent& e : y.shape) {
    const bool known = e.is == extent::kind::fixed ||
                       (e.is == extent::kind::letter && letter_in(x, e.letter));
    if (!known) {
      return error(errc::invalid_argument,
                   fmt::format("cannot make a stage of a function: expected extents of "
                               "{} that are numbers or letters of {}, found '{}'",
                               to, from, e.letter));
    }
  }
  info.ports = {{"x", std::move(x), true}, {"y", std::move(y), false}};
  return info;
}

/// Computes the shape of a result from that of an item; `to` keeps its memory.
void map_shape(const stage_info& info, std::span<const std::int64_t> from,
               std::vector<std::int64_t>& to) {
  const port_type& x = info.ports[0].type;
  to.clear();
  for (const extent& e : info.ports[1].type.shape) {
    // An extent without a letter is a number.
    const extent* letter =
        e.is == extent::kind::letter ? letter_in(x, e.letter) : nullptr;
    // A letter has the extent of the item at the place of the letter.
    to.push_back(letter == nullptr
                     ? e.number
                     : from[static_cast<std::size_t>(letter - x.shape.data())]);
  }
}

}  // namespace weir::flow
