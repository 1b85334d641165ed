// SPDX-License-Identifier: Apache-2.0
/// @file
/// Includes toml++ as a library of headers without exceptions and without its assertions.
/// It asserts, and in release builds assumes, that a key begins with a valid character,
/// although its parser reports an error for a key that does not. An assertion must not
/// end the program for a malformed file.
#pragma once

#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
