// SPDX-License-Identifier: Apache-2.0
/// @file
/// A C++17 wrapper around the C interface, as a user might write it: handles that free
/// themselves, one exception type per code, and futures. It calls every function of
/// tensogram.h.
#pragma once

#include "files.hpp"
#include "handles.hpp"
#include "messages.hpp"
#include "tasks.hpp"
