// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random launches, copies, fills and functions of the host.
#pragma once

#include "serial/generate/writer.hpp"

namespace weir::test::serial {

/// Adds random operations that read and write memory.
class memory_operations : protected writer {
 public:
  using writer::writer;

 protected:
  void launch(int stream, bool captures = false);
  void copy(int stream) { emit_if(stream == none ? std::nullopt : random_copy(stream)); }
  void fill(int stream) { emit_if(stream == none ? std::nullopt : random_fill(stream)); }
  void emit_if(std::optional<operation> o);

  std::optional<operation> random_launch(int stream);

  std::optional<operation> random_copy(int stream);
  std::optional<operation> random_fill(int stream);

  void on_host();
  void on_host(int stream, bool in_stream);

 private:
  void take_effort(operation& o);
  /// Returns whether a copy has overlapping source and destination on any rank.
  [[nodiscard]] bool overlaps(const operation& o) const;
};

}  // namespace weir::test::serial
