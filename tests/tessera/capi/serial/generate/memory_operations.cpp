// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random operands, and operations on them.
#include "serial/generate/memory_operations.hpp"

namespace weir::test::serial {

void memory_operations::take_effort(operation& o) {
  o.how = static_cast<arithmetic>(d_.in(0, 3));
  o.salt = static_cast<std::uint32_t>(d_.in(1, 1'000'000));
  if (d_.in(1, 5) <= 2) {
    o.spin =
        static_cast<int>(d_.one_in(4) ? d_.in(20'000, 150'000) : d_.in(1'000, 20'000));
  }
}

void memory_operations::launch(int stream, bool captures) {
  auto o = stream == none ? std::nullopt : random_launch(stream);
  if (o && captures) {
    o->captures = true;
    o->recorded_in = p_.graphs++;
  }
  emit_if(std::move(o));
}

void memory_operations::emit_if(std::optional<operation> o) {
  if (o) {
    emit(std::move(*o));
  }
}

std::optional<operation> memory_operations::random_launch(int stream) {
  const int words = any_length();
  const auto operand = [&]() -> std::optional<place> {
    if (with_.shared_launches && d_.one_in(4)) {
      return any_on_host(words);
    }
    return any_on_device(stream, words, with_.shared_launches && d_.one_in(3));
  };
  const auto to = operand();
  const auto from = d_.one_in(4) ? std::optional(place{}) : operand();
  if (!to || !from) {
    return std::nullopt;
  }
  operation o = on(verb::launch, stream);
  o.to = *to;
  o.from = *from;
  take_effort(o);
  const int ranks = p_.mesh_of(stream).ranks();
  o.slow_rank = d_.one_in(3) ? none : pick(d_, ranks);
  o.urgent = d_.one_in(10);
  if (o.from.buffer != o.to.buffer && o.how != arithmetic::rotate && d_.one_in(5)) {
    o.blocks = static_cast<int>(d_.in(2, 4));
  }
  return o;
}

std::optional<operation> memory_operations::random_copy(int stream) {
  const int words = any_length();
  operation o = on(verb::copy, stream);
  o.way = static_cast<copy_way>(d_.in(0, with_.host_copies ? 3 : 2));
  const auto device = [&] {
    return any_on_device(stream, words, with_.peer_copies && d_.one_in(2));
  };
  const bool to_host = o.way == copy_way::to_host || o.way == copy_way::on_host;
  const bool from_host = o.way == copy_way::to_device || o.way == copy_way::on_host;
  const auto to = to_host ? std::optional(any_on_host(words)) : device();
  const auto from = from_host ? std::optional(any_on_host(words)) : device();
  if (!to || !from) {
    return std::nullopt;
  }
  o.to = *to;
  o.from = *from;
  const stream_spec& s = at(p_.streams, stream);
  if (d_.one_in(3)) {
    o.rank = s.rank != none ? s.rank : pick(d_, p_.mesh_of(stream).ranks());
  }
  return overlaps(o) ? std::nullopt : std::optional(o);
}

bool memory_operations::overlaps(const operation& o) const {
  if (o.to.buffer != o.from.buffer) {
    return false;
  }
  const bool near =
      o.to.first < o.from.first + o.from.words && o.from.first < o.to.first + o.to.words;
  return near && (o.to.rank == o.from.rank || o.to.first != o.from.first);
}

std::optional<operation> memory_operations::random_fill(int stream) {
  const int words = any_length();
  const auto to = any_on_device(stream, words, with_.peer_copies && d_.one_in(3));
  if (!to) {
    return std::nullopt;
  }
  operation o = on(verb::fill, stream);
  o.to = *to;
  o.salt = static_cast<std::uint32_t>(d_.in(0, 255));
  return o;
}

void memory_operations::on_host() {
  const bool in_stream = !d_.one_in(4);
  on_host(in_stream ? any_stream() : none, in_stream);
}

void memory_operations::on_host(int stream, bool in_stream) {
  if (in_stream && stream == none) {
    return;
  }
  operation o = on(in_stream ? verb::host_function : verb::host_write, stream);
  const int words = any_length();
  o.to = any_on_host(words);
  o.from = d_.one_in(2) ? place{} : any_on_host(words);
  take_effort(o);
  o.spin = in_stream ? o.spin : 0;
  emit(o);
}

}  // namespace weir::test::serial
