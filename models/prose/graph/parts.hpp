// SPDX-License-Identifier: Apache-2.0
/// @file
/// Includes the definitions of all members of the graph, for the files that instantiate
/// the graph for a floating point type.
#pragma once

#include "prose/graph/allocate.hpp"
#include "prose/graph/backward.hpp"
#include "prose/graph/forward.hpp"
#include "prose/graph/gradients.hpp"
#include "prose/graph/head.hpp"
#include "prose/graph/mlp.hpp"
#include "prose/graph/optimize.hpp"
#include "prose/graph/submit.hpp"
