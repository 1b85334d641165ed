// SPDX-License-Identifier: Apache-2.0
/// @file
/// All definitions of the graph's members: included by each file that instantiates it for
/// one real type.
#pragma once

#include "prose/graph/allocate.hpp"
#include "prose/graph/backward.hpp"
#include "prose/graph/forward.hpp"
#include "prose/graph/gradients.hpp"
#include "prose/graph/head.hpp"
#include "prose/graph/mlp.hpp"
#include "prose/graph/optimize.hpp"
#include "prose/graph/submit.hpp"
