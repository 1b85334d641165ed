// SPDX-License-Identifier: Apache-2.0
// A program that reads remote files.
#include <cstdio>

#include "weir/formats/remote.hpp"

int main() {
  const auto opened = weir::formats::remote_file::open("gs://bucket/a.tgm");
  std::puts(opened ? "opened" : opened.error().text().c_str());
}
