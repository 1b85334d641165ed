// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that opens a remote file. It prints the error,
/// because Google storage is not built.
#include <cstdio>

#include "weir/formats/remote.hpp"

int main() {
  const auto opened = weir::formats::remote_file::open("gs://bucket/a.tgm");
  std::puts(opened ? "opened" : opened.error().text().c_str());
}
