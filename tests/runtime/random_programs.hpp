// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs over strided views of hash-valued memory, and their serial execution:
/// the oracle of the engine.
#pragma once

#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "random_views.hpp"
#include "weir/runtime/engine.hpp"

namespace weir::test {

/// An access of a task to a view of a storage.
struct program_access {
  std::size_t storage = 0;
  runtime::access_mode mode = runtime::access_mode::read;
  runtime::tensor view;  ///< only offset and strides are used, not the base
  byte_set bytes;
};

/// A task: its accesses, whether it fails, and how long it takes.
struct program_task {
  std::uint64_t salt = 0;
  bool fails = false;
  int delay = 0;  ///< 0 none, 1 yield, 2 spin, 3 sleep
  std::vector<program_access> accesses;
};

/// Memory of one execution: the base of each storage, and the hash of each task's reads.
struct program_memory {
  std::vector<std::byte*> bases;
  std::vector<std::uint64_t> seen;
};

/// Combines two numbers so that their order changes the result.
inline std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15U;
  return h ^ (h >> 29);
}

/// The sizes of the storages, and the tasks in the order of submission.
struct program {
  std::vector<std::int64_t> sizes;
  std::vector<program_task> tasks;
};

/// Returns a random program. Each task fails with the probability 1 / failing_one_in; 0
/// means that no task fails.
inline program random_program(dice& d, std::int64_t failing_one_in) {
  program p;
  std::vector<runtime::storage> stores;
  for (std::int64_t i = d.in(1, 3); i > 0; --i) {
    const std::int64_t size = d.in(24, 200);
    p.sizes.push_back(size);
    stores.push_back({{static_cast<std::uint32_t>(stores.size()), 1}, nullptr, size});
  }
  for (std::int64_t i = d.in(4, 48); i > 0; --i) {
    program_task t;
    t.salt = static_cast<std::uint64_t>(d.in(1, INT64_MAX - 1));
    t.fails = failing_one_in > 0 && d.one_in(failing_one_in);
    t.delay = d.one_in(4) ? static_cast<int>(d.in(1, d.one_in(8) ? 3 : 2)) : 0;
    for (std::int64_t k = d.in(0, 3); k > 0; --k) {
      program_access a;
      a.storage =
          static_cast<std::size_t>(d.in(0, static_cast<std::int64_t>(stores.size()) - 1));
      a.mode = static_cast<runtime::access_mode>(d.in(0, 2));
      a.view = random_view(d, stores[a.storage],
                           all_view_classes[static_cast<std::size_t>(d.in(0, 4))]);
      a.bytes = bytes_in(a.view);
      t.accesses.push_back(a);
    }
    p.tasks.push_back(std::move(t));
  }
  return p;
}

/// Executes a task: hashes all bytes that it may read, then writes some of the bytes that
/// it may write.
inline void run_task(const program_task& t, std::size_t index, program_memory& m) {
  const auto each = [&](const program_access& a, auto&& visit) {
    std::byte* base = m.bases[a.storage];
    for_each_byte(a.view.offset(), a.view.shape(), a.view.strides(),
                  info_of(a.view.type()).size, [&](std::int64_t b) { visit(base[b]); });
  };
  std::uint64_t h = t.salt;
  for (const program_access& a : t.accesses) {
    if (a.mode != runtime::access_mode::write) {
      each(a, [&](std::byte b) { h = mix(h, static_cast<std::uint64_t>(b) + 1); });
    }
  }
  m.seen[index] = h;
  for (const program_access& a : t.accesses) {
    if (a.mode == runtime::access_mode::read) {
      continue;
    }
    std::uint64_t position = 0;
    each(a, [&](std::byte& b) {
      const std::uint64_t v = mix(h, ++position);
      if ((v >> 60) != 0) {  // a write may leave some bytes unchanged
        b = static_cast<std::byte>(v >> 20);
      }
    });
  }
}

/// Delays the calling thread as `program_task::delay` says.
inline void delay(int kind) {
  if (kind == 1) {
    ::usleep(0);
  } else if (kind == 2) {
    std::uint64_t h = 1;
    for (std::uint64_t i = 0; i < 3000; ++i) {
      h = mix(h, i);
    }
    volatile std::uint64_t sink = h;
    static_cast<void>(sink);
  } else if (kind == 3) {
    ::usleep(60);
  }
}

/// Returns, for each task, the id of the oldest failed task that it depends on (possibly
/// itself), or 0. The first task has the id `first`. A failure passes from the bytes that
/// a task wrote to tasks that read or write one of them later.
inline std::vector<runtime::task_id> expected_roots(const program& p,
                                                    runtime::task_id first) {
  std::vector<runtime::task_id> roots(p.tasks.size(), 0);
  for (std::size_t i = 0; i < p.tasks.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (roots[k] == 0 || (roots[i] != 0 && roots[i] <= roots[k])) {
        continue;
      }
      for (const program_access& a : p.tasks[i].accesses) {
        for (const program_access& b : p.tasks[k].accesses) {
          if (b.mode != runtime::access_mode::read && a.storage == b.storage &&
              (a.bytes & b.bytes).any()) {
            roots[i] = roots[k];
          }
        }
      }
    }
    if (roots[i] == 0 && p.tasks[i].fails) {
      roots[i] = first + i;
    }
  }
  return roots;
}

}  // namespace weir::test
