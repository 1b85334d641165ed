// SPDX-License-Identifier: Apache-2.0
/// @file
/// A volume with tiny models for the stages of texts.
#pragma once

#include <string>

namespace weir::test {

/// Makes a link to a volume with the tiny models `encoder`, of three layers, and
/// `decoder`. The volume is made once in a process, and must not be written.
void link_text_models(const std::string& path);

}  // namespace weir::test
