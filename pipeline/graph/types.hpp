// SPDX-License-Identifier: Apache-2.0
/// @file
/// Unification of the types of ports along edges.
#pragma once

#include "weir/pipeline/graph.hpp"

namespace weir::flow {

/// Enters the type of each port and of each piece of scratch into the plan.
///
/// A letter has one value at all ports of its stage. Along an edge, both ends have one
/// element type and one number of dimensions, and extents that are numbers or letters are
/// equal; `?` accepts each extent. A port of type `any` takes over the type of the other
/// end. All ports of type `any` of a stage that forwards have one type. Where such a port
/// takes over `?` from an outlet, the extent stays unknown.
///
/// Letters that remain unknown belong to one stage: two ports of a stage show one letter
/// exactly if their extents are equal.
/// @param p  A plan whose stages are connected.
/// @error{invalid_argument, the types at the ends of an edge differ}
[[nodiscard]] result<void> unify_types(plan& p);

}  // namespace weir::flow
