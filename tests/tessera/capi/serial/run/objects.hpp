// SPDX-License-Identifier: Apache-2.0
/// @file
/// Meshes, streams, events and memory of a program while it runs.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "serial/program.hpp"
#include "support.hpp"

namespace weir::test::serial {

/// The objects that a run of a program needs.
class program_objects {
 public:
  program_objects(tessContext_t context, const program& p);
  program_objects(const program_objects&) = delete;
  program_objects& operator=(const program_objects&) = delete;

 protected:
  ~program_objects() = default;

  void check(tessStatus_t status, const std::string& what);
  void open();
  /// Waits for all operations and destroys the objects. A run calls it before it frees
  /// the memory of its host functions.
  void close();
  void compare();
  void allocate(int b);
  void create_stream(int s);

  [[nodiscard]] word* instance(int b, int i);
  void write_instance(int b, int i, const std::vector<word>& words);
  [[nodiscard]] std::vector<word> read_instance(int b, int i, std::size_t words);
  [[nodiscard]] word* address(const place& where);
  [[nodiscard]] tessStream_t stream(const operation& o) { return at(streams_, o.stream); }
  [[nodiscard]] tessMesh_t mesh_of(int stream);
  static std::size_t bytes_of(const place& where);

  const program& p_;
  std::string wrong_;  ///< the first failure; empty: none
  std::vector<tessMesh_t> meshes_;
  std::vector<tessStream_t> streams_;
  std::vector<tessEvent_t> events_;
  std::vector<tessEvent_t> ends_;  ///< at the ends of destroyed streams
  std::vector<tessGraphExec_t> graphs_;
  std::vector<word*> bases_;

 private:
  /// Copies an instance of a device's buffer by a stream of its own.
  void copy_instance(int b, int i, word* host, std::size_t words, tessCopyKind kind);

  tessContext_t context_;
  bool by_copies_ = false;  ///< the host cannot use memory of devices
  std::vector<void*> pinned_;
  std::vector<void*> registered_;
  std::deque<std::vector<word>> plain_;
};

}  // namespace weir::test::serial
