// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds accesses that nothing orders.
#include "cpu_kernels/access_check.hpp"

#include <algorithm>
#include <array>

#include <fmt/core.h>

namespace weir::tessera::kernel_machine {

access_check::access_check(std::size_t blocks) : clocks_(blocks, clock(blocks, 0)) {
  for (std::size_t b = 0; b < blocks; ++b) {
    clocks_[b][b] = 1;
  }
}

void access_check::add(const void* first, std::size_t bytes, bool written) {
  byte_state fresh;
  fresh.written = written;
  ranges_.push_back(
      {reinterpret_cast<std::uintptr_t>(first), std::vector<byte_state>(bytes, fresh)});
}

void access_check::remove(const void* first) {
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  std::erase_if(ranges_, [&](const range& r) { return r.first == address; });
}

access_check::range* access_check::find(std::uintptr_t first, std::size_t bytes) {
  for (range& r : ranges_) {
    if (first >= r.first && first - r.first <= r.bytes.size() &&
        bytes <= r.bytes.size() - (first - r.first)) {
      return &r;
    }
  }
  return nullptr;
}

// Returns true if an earlier access happens before one that is made now. A mark whose
// time is 0 stands for no access.
bool access_check::ordered(const mark& before, accessor by) const {
  if (before.time == 0) {
    return true;
  }
  if (before.block == by.block) {
    return before.thread == by.thread || before.epoch < by.epoch;
  }
  return clocks_[by.block][before.block] >= before.time;
}

bool access_check::ordered(const block_reads& before, accessor by) const {
  const bool others = before.several && before.last.block == by.block;
  return ordered(before.last, by) && !(others && before.last.epoch >= by.epoch);
}

void access_check::note_read(byte_state& byte, const mark& now) {
  // Blocks often run one after the other, so the newest entry comes first.
  for (std::size_t i = byte.reads.size(); i-- > 0;) {
    block_reads& r = byte.reads[i];
    if (r.last.block == now.block) {
      r.several = r.last.epoch == now.epoch && (r.several || r.last.thread != now.thread);
      r.last = now;
      return;
    }
  }
  byte.reads.push_back({now, false});
}

const char* access_check::fault_of(byte_state& byte, access_kind kind, accessor by) {
  if (kind != access_kind::write && !byte.written) {
    return "memory is read before it is written";
  }
  const bool both_atomic = byte.atomic && kind == access_kind::atomic;
  if (!both_atomic && !ordered(byte.write, by)) {
    return kind == access_kind::read ? "a read and a write are not ordered"
                                     : "two writes are not ordered";
  }
  const mark now{by.block, by.thread, by.epoch, clocks_[by.block][by.block]};
  if (kind == access_kind::read) {
    note_read(byte, now);
    return nullptr;
  }
  for (const block_reads& read : byte.reads) {
    if (!ordered(read, by)) {
      return "a read and a write are not ordered";
    }
  }
  byte.reads.clear();
  byte.write = now;
  byte.atomic = kind == access_kind::atomic;
  byte.written = true;
  return nullptr;
}

// Orders an atomic operation behind the earlier ones at its address: its block takes over
// the clocks that their blocks had.
void access_check::synchronise(std::uintptr_t address, accessor by) {
  clock& mine = clocks_[by.block];
  clock& atom = atoms_.try_emplace(address, clock(mine.size(), 0)).first->second;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    mine[i] = std::max(mine[i], atom[i]);
  }
  atom = mine;
  ++mine[by.block];
}

std::string access_check::note(const void* address, std::size_t bytes, access_kind kind,
                               accessor by) {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  const char* fault = nullptr;
  range* in = find(first, bytes);
  if (first % bytes != 0) {
    fault = "the address is not a multiple of the size";
  } else if (in == nullptr) {
    fault = "the address is outside of the memory of the launch";
  } else {
    if (kind == access_kind::atomic) {
      synchronise(first, by);
    }
    for (std::size_t i = 0; i < bytes && fault == nullptr; ++i) {
      fault = fault_of(in->bytes[first - in->first + i], kind, by);
    }
  }
  if (fault == nullptr) {
    return {};
  }
  constexpr std::array<const char*, 3> names = {"read", "write", "atomic operation"};
  return fmt::format("{} of {} bytes by thread {} of block {}: {}",
                     names[static_cast<std::size_t>(kind)], bytes, by.thread, by.block,
                     fault);
}

}  // namespace weir::tessera::kernel_machine
