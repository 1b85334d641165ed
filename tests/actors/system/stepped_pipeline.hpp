// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pipeline with all its actors on CAF's deterministic scheduler. A seed decides which
/// actor handles its next message, and where faults are.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "actors/system/stepped_system.hpp"
#include "epochs/epoch_conductor.hpp"
#include "epochs/epoch_saver.hpp"
#include "host/engine_host.hpp"
#include "host/io_host.hpp"
#include "progress/progress_observer.hpp"
#include "supervisor/supervisor.hpp"

namespace weir::test {

/// What the host of a sink does when it is to make items durable.
enum class flush_fault { none, dies_before, dies_after };

/// An answer that the host of one stage gives wrongly, once.
enum class answer_fault {
  none,
  kept,          ///< the work is done, and its answer never comes
  loses_credit,  ///< the sink has written an item more than its answer says
};

/// Configuration of an I/O host that stands before another one.
struct proxy_config {
  actors::io_host_actor inner;                ///< does the work
  bool twice = false;                         ///< every answer is delivered a second time
  flush_fault fault = flush_fault::none;      ///< happens at `fault_at`
  int fault_at = 0;                           ///< number of the flush, from 0
  answer_fault answers = answer_fault::none;  ///< happens at `answer_at`
  int answer_at = 0;        ///< number of the answer that a fault can meet, from 0
  int* repeated = nullptr;  ///< counts second answers to the engine host
  int* faults = nullptr;    ///< counts the wrong answers
};
struct proxy_shell {
  static constexpr const char* name = "weir.proxy_io";
  int flushes = 0;
  int answers = 0;
};
using proxy_pointer = actors::io_host_actor::stateful_pointer<proxy_shell>;

/// Delivers an answer two times. A promise forgets its receiver with the first answer, so
/// the second one needs a copy. Returns the number of second answers that were sent: 0 if
/// the promise had no receiver.
template <class T>
int deliver_twice(caf::typed_response_promise<T> promise, const T& answer) {
  caf::typed_response_promise<T> again = promise;
  promise.deliver(answer);
  const bool sends = static_cast<caf::response_promise&>(again).pending();
  again.deliver(answer);
  return sends ? 1 : 0;
}

/// Spoils an answer at the time of the fault. Returns false if it is to be kept.
template <class T>
bool spoil(proxy_pointer self, const proxy_config& c, T& answer) {
  constexpr bool counts = std::is_same_v<T, std::uint64_t>;
  const bool meets = c.answers == answer_fault::kept ||
                     (c.answers == answer_fault::loses_credit && counts);
  if (!meets || self->state.answers++ != c.answer_at) {
    return true;
  }
  ++*c.faults;
  if constexpr (counts) {
    answer -= c.answers == answer_fault::loses_credit ? 1 : 0;
  }
  return c.answers != answer_fault::kept;
}

/// Passes a request on, and its answer back.
template <class T, class... As>
caf::typed_response_promise<T> pass_on(proxy_pointer self, const proxy_config& c,
                                       bool dies, As... as) {
  auto promise = self->make_response_promise<T>();
  self->request(c.inner, caf::infinite, std::move(as)...)
      .then(
          [self, promise, dies, c](T answer) mutable {
            if (dies) {
              self->quit(
                  actors::to_caf(error(errc::io, "the host died behind its sync")));
              return;
            }
            if (!spoil(self, c, answer)) {
              return;
            }
            if (c.twice) {
              *c.repeated += deliver_twice(promise, answer);
            } else {
              promise.deliver(answer);
            }
          },
          [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

/// An I/O host that passes all requests on to another one, so that its answers are late.
inline actors::io_host_actor::behavior_type proxy_host(proxy_pointer self,
                                                       const proxy_config& c) {
  using namespace actors;
  install_defaults(self);
  return {
      [=](fill_atom a, const local<blank_batch>& b) {
        return pass_on<local<filled_batch>>(self, c, false, a, b);
      },
      [=](work_atom a, const local<exchange_batch>& b) {
        return pass_on<local<exchanged_batch>>(self, c, false, a, b);
      },
      [=](write_atom a, const local<ready_batch>& b) {
        return pass_on<std::uint64_t>(self, c, false, a, b);
      },
      [=](cursor_atom a) {
        return pass_on<local<flow::small_record>>(self, c, false, a);
      },
      [=](flush_atom a) {
        const bool now =
            c.fault != flush_fault::none && self->state.flushes++ == c.fault_at;
        if (now && c.fault == flush_fault::dies_before) {
          self->quit(to_caf(error(errc::io, "the host died before its sync")));
        }
        return pass_on<local<flow::small_record>>(self, c, now, a);
      },
  };
}

/// Options of a stepped run, with its faults.
struct stepped_options {
  std::uint32_t seed = 0;
  run_options run;
  flush_fault fault = flush_fault::none;
  int fault_at = 0;
  bool proxies = false;                       ///< answers of I/O hosts are late
  bool twice = false;                         ///< and come twice
  answer_fault answers = answer_fault::none;  ///< fault of one answer of `answers_of`
  std::string answers_of{};                   ///< name of a stage
  int answer_at = 0;                          ///< number of the answer, from 0
  std::optional<int> stop_at{};  ///< step at which the run is asked to stop, many times
  /// Time without progress after which the run fails. @units{nanoseconds}
  std::int64_t stall_ns = 60'000'000'000;
  /// Real time that passes with each step in which no actor has a message.
  std::chrono::nanoseconds rest{};
  std::function<void(flow::plan&)> edit{};  ///< changes the plan behind its check
};

/// The actors of one run.
class stepped_pipeline : private stepped_system {
 public:
  stepped_pipeline(pipeline& p, std::shared_ptr<actors::epoch_store> store,
                   stepped_options o)
      : stepped_system(o.seed), options_(std::move(o)), store_(std::move(store)) {
    start(p);
  }
  ~stepped_pipeline() {
    host_ = nullptr;
    conductor_ = nullptr;
    supervisor_ = nullptr;
    stop();
  }
  stepped_pipeline(const stepped_pipeline&) = delete;
  stepped_pipeline& operator=(const stepped_pipeline&) = delete;

  /// Runs to the end. Returns nothing if the run does not end.
  const std::optional<result<pipeline_report>>& run() {
    self()->send(host_, actors::launch_atom_v);
    int steps = 0;
    for (int silent = 0; !end_ && silent < 200;) {
      if (options_.stop_at && steps >= *options_.stop_at &&
          steps < *options_.stop_at + 3) {
        self()->send(conductor_, actors::drain_atom_v);
      }
      ++steps;
      if (step()) {
        check_credits();
        continue;
      }
      ++silent;
      std::this_thread::sleep_for(options_.rest);
      advance(std::chrono::milliseconds(100));
    }
    return end_;
  }
  /// Returns whether all credits of all edges are free.
  [[nodiscard]] bool all_credits_free() const {
    const auto all = parts_->run->credits();
    return std::all_of(all.begin(), all.end(),
                       [](const auto& e) { return e.free == e.window; });
  }
  /// Returns whether some step has found an edge with more or fewer credits than its
  /// window.
  [[nodiscard]] bool lost_credits() const noexcept { return lost_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Returns how many answers were sent to the engine host a second time.
  [[nodiscard]] int repeated() const noexcept { return repeated_; }
  /// Returns how many answers had an `answer_fault`.
  [[nodiscard]] int faults() const noexcept { return faults_; }

 private:
  void check_credits() {
    if (!parts_->run) {
      return;
    }
    for (const flow::edge_credits& e : parts_->run->credits()) {
      lost_ = lost_ || e.free + e.waiting + e.held != e.window;
    }
  }
  void end(result<pipeline_report> e) {
    if (!end_) {
      end_ = std::move(e);
    }
  }
  template <class Fun, class Config>
  auto child(const std::string& name, Fun fun, Config config) {
    auto handle = spawn(fun, std::move(config));
    self()->send(
        supervisor_, actors::adopt_atom_v,
        actors::by_reference(actors::child_spec{name, actors::stop_group::last,
                                                caf::actor_cast<caf::actor>(handle)}));
    return handle;
  }
  std::vector<actors::hosted_stage> hosts(flow::face kind) {
    std::vector<actors::hosted_stage> out;
    for (std::uint32_t i = 0; i < planned_.source.stages.size(); ++i) {
      const flow::graph_stage& s = planned_.source.stages[i];
      if (s.info.face != kind) {
        continue;
      }
      auto inner = child(s.name, actors::io_host,
                         actors::io_host_config{parts_->objects[i].get(), s.name,
                                                &parts_->busy_ns[i], parts_});
      if (options_.proxies) {
        proxy_config c{inner, options_.twice, flush_fault::none, options_.fault_at};
        c.fault = kind == flow::face::sink ? options_.fault : flush_fault::none;
        c.answers = s.name == options_.answers_of ? options_.answers : answer_fault::none;
        c.answer_at = options_.answer_at;
        c.repeated = &repeated_;
        c.faults = &faults_;
        inner = child(s.name, proxy_host, c);
      }
      out.push_back({i, inner});
    }
    return out;
  }
  void start(pipeline& p) {
    using namespace actors;
    planned_ = or_throw(p.check());
    if (options_.edit) {
      options_.edit(planned_);
    }
    supervisor_config watch;
    watch.failed = [this](error e) { end(std::move(e)); };
    supervisor_ = spawn(supervisor, std::move(watch));
    parts_->objects = or_throw(p.take_stages());
    parts_->busy_ns = std::vector<std::atomic<std::int64_t>>(parts_->objects.size());
    auto config = std::make_shared<engine_host_config>();
    if (store_ && !or_throw(store_->empty())) {
      auto stored = or_throw(epoch_in(or_throw(store_->read(0))));
      config->generation = stored.generation;
      config->from = std::make_shared<const flow::image>(std::move(stored.state));
    }
    epoch_conductor_config conducting;
    conducting.rules.every_items = options_.run.every_items;
    conducting.rules.every_ns =
        static_cast<std::int64_t>(options_.run.every_seconds * 1e9);
    if (store_) {
      conducting.saver = child("saver", epoch_saver, epoch_saver_config{store_});
    }
    conducting.warning = [this](std::string text) {
      warnings_.push_back(std::move(text));
    };
    conductor_ = child("conductor", epoch_conductor, std::move(conducting));
    progress_observer_config watching;
    watching.stall_ns = options_.stall_ns;
    for (const auto& s : planned_.source.stages) {
      watching.stages.push_back(s.name);
    }
    watching.warning = [](const std::string&) {};
    watching.ended = [this](pipeline_report r) { end(std::move(r)); };
    watching.stalled = [this](error e) { end(std::move(e)); };
    config->observer = child("observer", progress_observer, std::move(watching));
    config->parts = parts_;
    config->planned = planned_;
    config->options = options_.run;
    config->conductor = conductor_;
    config->stored = store_ != nullptr;
    config->sources = hosts(flow::face::source);
    config->sinks = hosts(flow::face::sink);
    config->blocking = hosts(flow::face::blocking);
    config->failed = [this](error e) { end(std::move(e)); };
    host_ = child("engine_host", engine_host, config);
  }

  stepped_options options_;
  std::shared_ptr<actors::epoch_store> store_;
  flow::plan planned_;
  std::shared_ptr<actors::pipeline_parts> parts_ =
      std::make_shared<actors::pipeline_parts>();
  actors::supervisor_actor supervisor_;
  actors::epoch_conductor_actor conductor_;
  actors::engine_host_actor host_;
  std::optional<result<pipeline_report>> end_;
  std::vector<std::string> warnings_;
  bool lost_ = false;
  int repeated_ = 0;
  int faults_ = 0;
};

}  // namespace weir::test
