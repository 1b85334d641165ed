// SPDX-License-Identifier: Apache-2.0
/// @file
/// Creates and frees the objects of a program, finds their addresses and compares memory.
#include "serial/run/objects.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "serial/interpreter.hpp"

namespace weir::test::serial {

program_objects::program_objects(tessContext_t context, const program& p)
    : p_(p), context_(context) {
  tessDeviceProps facts{};
  facts.structSize = sizeof facts;
  EXPECT_TESS(tessDeviceGetProps(context, 0, &facts));
  by_copies_ = std::string_view(facts.backend) != "cpu";
  streams_.resize(p.streams.size());
  graphs_.resize(static_cast<std::size_t>(p.graphs));
  events_.resize(static_cast<std::size_t>(p.events));
}

void program_objects::close() {
  for (const auto& s : streams_) {
    if (s != nullptr) {
      static_cast<void>(tessStreamSynchronize(s));
      static_cast<void>(tessStreamDestroy(s));
    }
  }
  for (const auto* events : {&events_, &ends_}) {
    for (const tessEvent_t e : *events) {
      static_cast<void>(tessEventSynchronize(e));
      static_cast<void>(tessEventDestroy(e));
    }
  }
  for (const auto& g : graphs_) {
    if (g != nullptr) {
      static_cast<void>(tessGraphExecDestroy(g));
    }
  }
  for (const auto& m : meshes_) {
    static_cast<void>(tessMeshDestroy(m));
  }
  for (const auto& h : pinned_) {
    static_cast<void>(tessHostFree(h));
  }
  for (const auto& h : registered_) {
    static_cast<void>(tessHostUnregister(h));
  }
}

void program_objects::check(tessStatus_t status, const std::string& what) {
  if (status != TESS_OK && wrong_.empty()) {
    wrong_ = fmt::format("{} returned {}: {}", what, tessGetErrorName(status),
                         tessGetLastErrorMessage());
  }
}

void program_objects::open() {
  for (const mesh_spec& m : p_.meshes) {
    meshes_.emplace_back();
    check(tessMeshCreate(context_, m.devices.data(), m.ranks(), {m.tp, 1, m.dp, 1},
                         &meshes_.back()),
          "the creation of a mesh");
  }
  const memory first = first_memory(p_);
  for (int b = 0; b < count_of(p_.buffers); ++b) {
    bases_.push_back(nullptr);
    if (!at(p_.buffers, b).comes()) {
      allocate(b);
      for (int i = 0; wrong_.empty() && i < p_.instances(b); ++i) {
        write_instance(b, i, at(at(first, b), i));
      }
    }
  }
  for (int s = 0; s < count_of(p_.streams); ++s) {
    if (!at(p_.streams, s).late) {
      create_stream(s);
    }
  }
  for (auto& e : events_) {
    check(tessEventCreate(&e), "the creation of an event");
  }
}

void program_objects::allocate(int b) {
  const buffer_spec& buffer = at(p_.buffers, b);
  const std::size_t bytes = static_cast<std::size_t>(buffer.words) * sizeof(word);
  void* base = nullptr;
  if (buffer.on_device()) {
    check(tessMalloc(at(meshes_, buffer.mesh), bytes, &base), "an allocation");
  } else if (buffer.kind == memory_kind::pinned) {
    check(tessHostAlloc(bytes, &base, TESS_MEM_PINNED_HOST), "an allocation");
    pinned_.push_back(base);
  } else {
    plain_.emplace_back(static_cast<std::size_t>(buffer.words));
    base = plain_.back().data();
    if (buffer.kind == memory_kind::registered) {
      check(tessHostRegister(base, bytes), "tessHostRegister");
      registered_.push_back(base);
    }
  }
  at(bases_, b) = static_cast<word*>(base);
}

void program_objects::create_stream(int s) {
  const stream_spec& spec = at(p_.streams, s);
  const tessStreamDesc desc{sizeof desc, spec.urgent ? -1 : 0, spec.rank, 0, 0, -1};
  check(tessStreamCreateEx(at(meshes_, spec.mesh), &desc, &at(streams_, s)),
        "the creation of a stream");
}

word* program_objects::instance(int b, int i) {
  const buffer_spec& buffer = at(p_.buffers, b);
  void* out = at(bases_, b);
  if (buffer.on_device()) {
    check(tessMemGetRankPtr(at(meshes_, buffer.mesh), at(bases_, b), i, &out),
          "tessMemGetRankPtr");
  }
  return static_cast<word*>(out);
}

void program_objects::copy_instance(int b, int i, word* host, std::size_t words,
                                    tessCopyKind kind) {
  const tessMesh_t mesh = at(meshes_, at(p_.buffers, b).mesh);
  word* const device = at(bases_, b);
  tessStream_t stream = nullptr;
  check(tessStreamCreate(mesh, 0, &stream), "a stream for memory");
  const bool down = kind == TESS_COPY_H2D;
  check(tessMemcpyRankAsync(down ? device : host, down ? host : device,
                            words * sizeof(word), kind, i, stream),
        "a copy of memory");
  check(tessStreamSynchronize(stream), "a copy of memory");
  check(tessStreamDestroy(stream), "the end of a stream for memory");
}

void program_objects::write_instance(int b, int i, const std::vector<word>& words) {
  if (by_copies_ && at(p_.buffers, b).on_device()) {
    std::vector<word> copy = words;
    copy_instance(b, i, copy.data(), copy.size(), TESS_COPY_H2D);
  } else {
    std::copy(words.begin(), words.end(), instance(b, i));
  }
}

std::vector<word> program_objects::read_instance(int b, int i, std::size_t words) {
  std::vector<word> out(words);
  if (by_copies_ && at(p_.buffers, b).on_device()) {
    copy_instance(b, i, out.data(), words, TESS_COPY_D2H);
  } else {
    const word* const found = instance(b, i);
    std::copy(found, found + words, out.begin());
  }
  return out;
}

word* program_objects::address(const place& where) {
  if (!where.there()) {
    return nullptr;
  }
  word* const base =
      where.rank == none ? at(bases_, where.buffer) : instance(where.buffer, where.rank);
  return base + where.first;
}

tessMesh_t program_objects::mesh_of(int stream) {
  return at(meshes_, at(p_.streams, stream).mesh);
}

std::size_t program_objects::bytes_of(const place& where) {
  return static_cast<std::size_t>(where.words) * sizeof(word);
}

void program_objects::compare() {
  const memory expected = interpret(p_);
  for (int b = 0; b < count_of(expected); ++b) {
    for (int i = 0; i < count_of(at(expected, b)); ++i) {
      const auto& words = at(at(expected, b), i);
      const std::vector<word> found = read_instance(b, i, words.size());
      for (int w = 0; w < count_of(words); ++w) {
        if (at(found, w) != at(words, w)) {
          wrong_ = fmt::format(
              "word {} of b{} on rank {}: expected {:08x}, found "
              "{:08x}",
              w, b, i, at(words, w), at(found, w));
          return;
        }
      }
    }
  }
}
}  // namespace weir::test::serial
