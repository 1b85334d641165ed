// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage of each face. With MISSPELT, one member of each is misspelt, which the
/// compiler must refuse with a message that names the face; `misspelt_test.py` reads it.
#include "weir/pipeline.hpp"

#ifdef MISSPELT
#define SPELT(right, wrong) wrong
#else
#define SPELT(right, wrong) right
#endif

namespace weir::test {

struct undescribed {
  static void SPELT(describe, descrieb)(stage_spec<undescribed>& s) {
    s.name("test.undescribed", "a stage");
  }
  result<void> on_item(step&) { return {}; }
};

struct task {
  static void describe(stage_spec<task>& s) { s.name("test.task", "a stage"); }
  result<void> SPELT(on_item, on_itme)(step&) { return {}; }
};

struct late {
  static void describe(stage_spec<late>& s) { s.name("test.late", "a stage").late(); }
  result<void> on_item(step&) { return {}; }
  result<void> SPELT(on_done, on_doen)(step&) { return {}; }
};

struct looping {
  static void describe(stage_spec<looping>& s) {
    s.name("test.looping", "a stage").looping();
  }
  result<void> on_item(step&) { return {}; }
  result<bool> SPELT(on_step, on_setp)(step&) { return false; }
};

struct blocking {
  static void describe(stage_spec<blocking>& s) {
    s.name("test.blocking", "a stage").blocking();
  }
  result<void> SPELT(on_ready, on_raedy)(taken&, pull&) { return {}; }
};

struct source {
  using cursor = int;
  static void describe(stage_spec<source>& s) { s.name("test.source", "a stage"); }
  result<bool> SPELT(next, nxet)(pull&) { return false; }
  [[nodiscard]] cursor position() const { return 0; }
  result<void> seek(cursor) { return {}; }
};

struct sink {
  using offset = int;
  static void describe(stage_spec<sink>& s) { s.name("test.sink", "a stage"); }
  result<void> put(taken&) { return {}; }
  result<offset> SPELT(settle, settel)() { return 0; }
  result<void> rewind(offset) { return {}; }
};

/// Members of the right name with a wrong type.
struct wrong_done {
  static void describe(stage_spec<wrong_done>& s) { s.name("test.done", "a stage"); }
  result<void> on_item(step&) { return {}; }
  SPELT(result<void>, bool) on_done(step&) { return {}; }
};
struct wrong_step {
  static void describe(stage_spec<wrong_step>& s) { s.name("test.step", "a stage"); }
  result<void> on_item(step&) { return {}; }
  SPELT(result<bool>, result<void>) on_step(step&) {
    return SPELT(false, result<void>());
  }
};
struct wrong_ready {
  static void describe(stage_spec<wrong_ready>& s) { s.name("test.ready", "a stage"); }
  result<void> on_ready(SPELT(taken, step) &, pull&) { return {}; }
};

struct doubling {
  void SPELT(operator(), call)(view<const float, 1>, view<float, 1>) const {}
};

void use(pipeline& p) {
  flow::require_face<undescribed>();
  flow::require_face<task>();
  flow::require_face<late>();
  flow::require_face<looping>();
  flow::require_face<blocking>();
  flow::require_face<source>();
  flow::require_face<sink>();
  flow::require_face<wrong_done>();
  flow::require_face<wrong_step>();
  flow::require_face<wrong_ready>();
  p.map("map", "f32[n]", "f32[n]", doubling{});
}

}  // namespace weir::test
