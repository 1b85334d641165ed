// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that submit tasks on hosts of their own: the run sees a blocking stage.
///
/// The run treats such a stage as a blocking one: it hands items out and takes results
/// back, whatever the stage does with tasks inside. The stage itself is a `nested_stage`
/// with an engine that has one worker, on the thread of its host.
#include "weir/pipeline/host/hosted_stage.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "weir/pipeline/host/nested_stage.hpp"

namespace weir::flow {
namespace {

/// Copies an item that the stage alone has made to an item of the run. Tensors cannot be
/// shared, because the engine of the run does not know their memory.
result<void> copy_made(const made_view& from, blank& to) {
  set_attributes(to, *from.about);
  pull p(to);
  for (std::size_t o = 0; o < from.tensors.size(); ++o) {
    // A gap at an outlet has no tensor.
    if (const runtime::tensor* t = from.tensors[o]; t != nullptr) {
      WEIR_TRY(const runtime::tensor made,
               p.fill_bytes(static_cast<int>(o), t->type(), t->shape()));
      WEIR_TRY(const std::int64_t bytes, byte_size(t->type(), t->count()));
      if (bytes != 0) {
        std::memcpy(made.data(), t->data(), static_cast<std::size_t>(bytes));
      }
    }
  }
  return {};
}

/// A stage with an engine of its own.
// Belongs to the thread of its I/O host.
class hosted_stage final : public batch_stage {
 public:
  hosted_stage(std::unique_ptr<nested_stage> inner, const stage_info& info)
      : inner_(std::move(inner)), gives_(info.gives), own_(info.own_numbering) {}

  /// Constants that the stage loads count for the identity of the run.
  result<void> open(opening& run) override {
    WEIR_TRY(auto loaded, inner_->open(run.run()));
    run.set_constants(std::move(loaded));
    return {};
  }
  /// Lets the stage work on all items. Results are copied as soon as they are there.
  processed_items work(std::span<exchange* const> items) override {
    // The calls refer to the exchanges of the host.
    calls_.resize(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      look_at(*items[i], calls_[i]);
    }
    std::size_t made = 0;
    std::size_t call = 0;
    processed_items done =
        inner_->work(calls_, [&](const made_view& one) -> result<bool> {
          // `made` counts the items of one call.
          made = one.call == call ? made : 0;
          call = one.call;
          // An item that the stage has skipped becomes a gap of the run.
          if (one.skipped) {
            pull(made_item(*items[call], 0)).skip();
            return true;
          }
          // The call has as many items as an exchange can hold; the rest comes later.
          if (made == gives_) {
            return false;
          }
          // The copy goes straight to the memory that the run has granted.
          WEIR_CHECK(copy_made(one, made_item(*items[call], made)));
          ++made;
          if (own_) {
            set_made(*items[call], made, false);
          }
          return true;
        });
    // The last call has more items than fit; it comes again.
    if (done.partial) {
      set_made(*items[done.processed], made, true);
    }
    return done;
  }
  result<void> copy_state(state_writer& to) override {
    WEIR_TRY(auto parts, inner_->copy_state());
    for (image_section& one : parts) {
      to.adopt(std::move(one));
    }
    return {};
  }
  /// The image has the names of the run, which are those of the nested stage as well.
  result<void> restore_state(const state_reader& from) override {
    return inner_->restore_state(from.whole());
  }
  void report(figures& to) const override { inner_->object().report(to); }

 private:
  std::unique_ptr<nested_stage> inner_;
  std::size_t gives_;
  bool own_;
  std::vector<call_view> calls_;
};

/// Stages that have a thread of their own in any case.
bool is_outside(face kind) {
  return kind == face::source || kind == face::sink || kind == face::blocking;
}

/// Changes the description of a stage so that the run treats it as a blocking one.
/// A stage with numbers of its own has one open call, because a partial call is
/// continued.
void describe_as_blocking(stage_info& info) {
  info.face = face::blocking;
  info.scratch.clear();
  info.forwards = false;
  info.max_open_calls = info.own_numbering ? 1 : 0;
}

}  // namespace

/// Automatic means: a stage of another program in a process, stages that wait on a thread
/// of their own, and all others in the engine of the run.
host_kind host_of(const graph_stage& s) noexcept {
  if (s.host != host_kind::automatic) {
    return s.host;
  }
  if (!s.origin.home.command.empty()) {
    return host_kind::process;
  }
  return is_outside(s.info.face) ? host_kind::own : host_kind::engine;
}

std::string_view name_of(host_kind kind) noexcept {
  switch (kind) {
    case host_kind::automatic: return "automatic";
    case host_kind::engine: return "engine";
    case host_kind::own: return "own";
    case host_kind::process: return "process";
  }
  return "unknown";
}

/// Returns the bytes of the largest window behind a stage, at least 1. @units{bytes}
std::int64_t window_behind(const graph& g, std::uint32_t stage) {
  std::int64_t bytes = 1;
  for (const graph_edge& e : g.edges) {
    bytes = e.from == stage ? std::max(bytes, e.window_bytes) : bytes;
  }
  return bytes;
}

/// Replaces objects and descriptions in the plan. @param process  Makes the object for a
/// child process; may be empty.
result<void> move_to_hosts(plan& p, std::vector<std::unique_ptr<stage_object>>& objects,
                           std::uint64_t seed, const process_stage_maker& process,
                           int fill_slots) {
  for (std::uint32_t i = 0; i < objects.size(); ++i) {
    // The host of a stage was decided by the user or by `host_of`.
    graph_stage& s = p.source.stages[i];
    const host_kind host = host_of(s);
    if (host == host_kind::process) {
      // A run on one thread has no processes.
      if (!process) {
        return error(errc::unsupported,
                     fmt::format("cannot run the stage \"{}\" in a child process: "
                                 "expected a run with actors, found one on one thread",
                                 s.name));
      }
      WEIR_TRY(objects[i], process(p, i));
    } else if (host == host_kind::own && !is_outside(s.info.face)) {
      // Sources, sinks and blocking stages are on threads of the run already.
      WEIR_TRY(auto inner,
               nested_stage::create(s, p.stages[i], window_behind(p.source, i), seed,
                                    std::move(objects[i]), fill_slots));
      objects[i] = std::make_unique<hosted_stage>(std::move(inner), s.info);
    }
    // The run sees the stage as blocking from now on.
    if (host != host_kind::engine && !is_outside(s.info.face)) {
      describe_as_blocking(s.info);
    }
  }
  return {};
}

}  // namespace weir::flow
