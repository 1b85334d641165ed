// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measurement on one processor, for rows about processor time: on several, the time in
/// which one thread waits for another one would count.
#pragma once

#include <sched.h>

#include <cstddef>

namespace weir::bench {

/// Keeps this thread, and the threads that it creates, on the present processor.
class one_processor {
 public:
  one_processor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~one_processor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  one_processor(const one_processor&) = delete;
  one_processor& operator=(const one_processor&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace weir::bench
