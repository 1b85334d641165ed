// SPDX-License-Identifier: Apache-2.0
/// @file
/// Assembles random programs, and adds operations on events, streams and pooled memory.
#include "serial/generate/generator.hpp"

#include <algorithm>

#include "serial/generate/graph_operations.hpp"

namespace weir::test::serial {
namespace {

/// Assembles a random program operation by operation.
class generator : private graph_operations {
 public:
  using graph_operations::graph_operations;

  program make() {
    const std::int64_t wanted = d_.in(10, 55);
    while (count_of(p_.operations) < wanted) {
      step();
    }
    p_.calls =
        with_.merged_calls && d_.one_in(2) ? merged_calls(p_, d_) : calls_in_order(p_);
    return std::move(p_);
  }

 private:
  void step() {
    const std::int64_t kind = d_.in(1, 100);
    if (kind <= 32) {
      launch(any_stream());
    } else if (kind <= 55) {
      copy(any_stream());
    } else if (kind <= 61) {
      fill(any_stream());
    } else if (kind <= 67) {
      on_host();
    } else if (kind <= 81) {
      collective();
    } else if (kind <= 87) {
      event_or_query();
    } else if (kind <= 90) {
      memory_of_pool();
    } else if (kind <= 92) {
      stream_comes_or_goes();
    } else if (kind <= 98) {
      graph();
    } else {
      flagged_capture();
    }
  }

  void event_or_query() {
    const int stream = any_stream();
    const int event = pick(d_, shared_events);
    if (stream == none) {
      return;
    }
    const std::int64_t kind = d_.in(1, 10);
    operation o = on(kind <= 5   ? verb::record
                     : kind == 6 ? verb::wait
                     : kind == 7 ? verb::query_event
                     : kind == 8 ? verb::query_stream
                     : kind == 9 ? verb::synchronize
                                 : verb::await_event,
                     stream);
    if (o.what == verb::query_stream || o.what == verb::synchronize) {
      if (rules_.flagged_in(stream) != none) {
        return;
      }
      o.recorded_in = none;
    } else {
      o.event = event;
    }
    if (o.what == verb::query_event || o.what == verb::await_event) {
      o.stream = none;
      o.recorded_in = none;
    }
    emit(o);
  }

  void memory_of_pool() {
    std::vector<int> pooled;
    for (int b = 0; b < count_of(p_.buffers); ++b) {
      if (at(p_.buffers, b).pooled || (at(p_.buffers, b).of_graph && rules_.there(b))) {
        pooled.push_back(b);
      }
    }
    const int b = any_of(pooled);
    std::vector<int> streams;
    for (const int s : open_streams()) {
      if (b != none && at(p_.streams, s).mesh == at(p_.buffers, b).mesh &&
          at(p_.streams, s).rank == none) {
        streams.push_back(s);
      }
    }
    const int stream = any_of(streams);
    if (stream == none) {
      return;
    }
    operation o = on(rules_.there(b) ? verb::give_memory : verb::take_memory, stream);
    o.to = {b, none, 0, at(p_.buffers, b).words};
    o.salt = static_cast<std::uint32_t>(d_.in(0, 255));
    emit(o);
  }

  void stream_comes_or_goes() {
    std::vector<int> closed;
    for (int s = 0; s < count_of(p_.streams); ++s) {
      if (!rules_.open(s) && at(p_.streams, s).late && !closed_.at(s)) {
        closed.push_back(s);
      }
    }
    if (!closed.empty()) {
      push(on(verb::open_stream, any_of(closed)));
      return;
    }
    const std::vector<int> open = open_streams();
    const int s = any_of(open);
    if (count_of(open) < 2 || !with_.late_streams || at(p_.streams, s).rank != none ||
        rules_.flagged_in(s) != none || !d_.one_in(3)) {
      return;
    }
    record(new_event(), s);  // later operations can wait for this event
    closed_.mark(s);
    push(on(verb::close_stream, s));
  }

  /// A set of streams that have been destroyed.
  class marks {
   public:
    void mark(int s) { list_.push_back(s); }
    [[nodiscard]] bool at(int s) const {
      return std::find(list_.begin(), list_.end(), s) != list_.end();
    }

   private:
    std::vector<int> list_;
  };

  marks closed_;
};

}  // namespace

program random_program(std::uint64_t seed, const features& with) {
  return generator(seed, with).make();
}

}  // namespace weir::test::serial
