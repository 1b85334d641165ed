// SPDX-License-Identifier: Apache-2.0
/// @file
/// The objects through which stages see their items.
///
/// The classes `step`, `pull`, `taken` and `opening` are what a stage sees of the flow.
/// They hold a reference to the call or blank and nothing else, and are valid during one
/// call of the stage.
#include "weir/pipeline/stage.hpp"

#include <fmt/format.h>

#include "flow/stage_run.hpp"
#include "weir/base/hash.hpp"
#include "weir/base/text.hpp"
#include "weir/pipeline/paths.hpp"

namespace weir {
namespace {

/// Attributes of a call without an item.
const attributes no_attributes;

/// Returns the first item of a call that is present. Lane and attributes come from it.
const flow::item* first_item(const flow::call& c) noexcept {
  for (const auto& one : c.inputs) {
    if (one.body != nullptr) {
      return one.body;
    }
  }
  return nullptr;
}

}  // namespace

/// The engine and the calls are those of the stage for the whole run.
step::step(flow::stage_run& stage)
    : stage_(stage), host_(*stage.facts_.host), calls_(*stage.facts_.calls) {}
// All other functions of `step` are for the call that is active.
/// Number of the item, or of the call.
std::uint64_t step::seq() const noexcept {
  return stage_.active_->seq;
}
/// Steps of a loop that were made for the item.
std::uint64_t step::round() const noexcept {
  return stage_.active_->round;
}
/// Attributes of the first item that is there.
const attributes& step::about() const noexcept {
  const flow::item* one = first_item(*stage_.active_);
  return one != nullptr ? one->about : no_attributes;
}
/// The attributes of the emitted item begin as a copy of those of the input.
attributes& step::emitted() {
  // Copied only if the stage changes something.
  flow::call& c = *stage_.active_;
  if (!c.outcome.about_set) {
    c.about = about();
    c.outcome.about_set = true;
  }
  return c.about;
}
/// The stream of random numbers depends on the seed of the run, the name of the stage and
/// the number of the item, so it is the same on every machine and after a restart.
philox step::random() const noexcept {
  // The name separates stages of the same seed.
  return {stage_.facts_.seed, xxh3_64(as_view(stage_.name_)) + seq()};
}
/// @units{nanoseconds}
std::int64_t step::turn_time() const noexcept {
  return stage_.facts_.turn_ns;
}
/// When the item has left its source. @units{nanoseconds}
std::int64_t step::source_time() const noexcept {
  return stage_.left_source(*stage_.active_);
}
/// Items of the call: fewer than it takes at the end of the input.
std::size_t step::count() const noexcept {
  // A stage without inlets has one item per call.
  return stage_.in_.empty() ? 1 : stage_.active_->inputs.size() / stage_.in_.size();
}
/// False for a gap.
bool step::has(int inlet) const noexcept {
  const auto& inputs = stage_.active_->inputs;
  return inlet >= 0 && static_cast<std::size_t>(inlet) < inputs.size() &&
         inputs[static_cast<std::size_t>(inlet)].body != nullptr;
}
/// @param nth  Item of the call, from 0. @pre The item is present.
const runtime::tensor& step::input_bytes(int inlet, std::size_t nth) const {
  const std::size_t inlets = stage_.in_.size();
  // A wrong number is a mistake in the stage. A negative one is a large one here.
  WEIR_EXPECT(static_cast<std::size_t>(inlet) < inlets && (nth == 0 || nth < count()));
  // The inputs of all items of a call follow each other, inlet by inlet.
  const auto& one =
      stage_.active_->inputs[nth * inlets + static_cast<std::size_t>(inlet)];
  WEIR_EXPECT(one.body != nullptr);
  return one.body->slots[one.outlet]->tensor;
}
/// Returns whether no task writes the tensor any more.
bool step::input_complete(int inlet) const noexcept {
  const flow::call::input& one = stage_.active_->inputs[static_cast<std::size_t>(inlet)];
  return one.body != nullptr && one.body->slots[one.outlet]->complete;
}
/// The scratch memory that `on_item` has taken.
const runtime::tensor& step::scratch_of_item(int index) const {
  const flow::slot* s = stage_.active_->scratch[static_cast<std::size_t>(index)];
  WEIR_EXPECT(s != nullptr);
  return s->tensor;
}

/// Takes a slot for an outlet. An item of the same type and shape as before costs no
/// check.
result<const runtime::tensor*> step::output_bytes(int outlet, dtype type,
                                                  std::span<const std::int64_t> shape) {
  const auto o = static_cast<std::size_t>(outlet);
  WEIR_EXPECT(outlet >= 0 && o < stage_.pools_.size() && stage_.pools_[o] &&
              stage_.active_->made[o] == nullptr);
  // Usually the form has not changed.
  flow::slot* s = stage_.pools_[o]->take_same(type, shape);
  if (s == nullptr) {
    return output_of_new_form(o, type, shape);
  }
  // The slot belongs to the call until the item is emitted.
  stage_.active_->made[o] = s;
  return &s->tensor;
}

/// Takes a slot and gives its tensor another type or shape.
[[gnu::noinline]] result<const runtime::tensor*> step::output_of_new_form(
    std::size_t outlet, dtype type, std::span<const std::int64_t> shape) {
  WEIR_CHECK(stage_.fits(outlet, type, shape));
  WEIR_TRY(flow::slot * s, stage_.pools_[outlet]->take(type, shape));
  stage_.active_->made[outlet] = s;
  return &s->tensor;
}

/// Takes a scratch memory, which is the call's until its tasks have ended.
result<runtime::tensor> step::scratch_bytes(int index, dtype type,
                                            std::initializer_list<std::int64_t> shape) {
  const auto i = static_cast<std::size_t>(index);
  WEIR_EXPECT(index >= 0 && i < stage_.scratch_.size() &&
              stage_.active_->scratch[i] == nullptr);
  // The type of scratch was fixed by the check.
  WEIR_TRY(flow::slot * s,
           stage_.scratch_[i]->take(type, std::span(shape.begin(), shape.size())));
  stage_.active_->scratch[i] = s;
  return s->tensor;
}

/// The number of the call becomes a gap.
void step::skip() {
  stage_.active_->outcome.skipped = true;
}
/// Hands the tensor of an inlet on. Both items then name the same slot.
void step::pass(int inlet, int outlet) {
  flow::call& c = *stage_.active_;
  const auto& one = c.inputs[static_cast<std::size_t>(inlet)];
  const auto o = static_cast<std::size_t>(outlet);
  WEIR_EXPECT(one.body != nullptr && c.made[o] == nullptr);
  flow::slot* s = one.body->slots[one.outlet];
  // One more name: the input keeps its own until the call has ended.
  ++s->names;
  c.made[o] = s;
}
/// Notes a task of the call; tasks have rising numbers.
void step::note_task(task_id id) noexcept {
  if (id == 0) {
    return;  // its kernel was called
  }
  flow::call& c = *stage_.active_;
  if (c.first == 0) {
    c.first = c.next = id;
  }
  c.last = id;
}
/// Number of the item to be filled.
std::uint64_t pull::seq() const noexcept {
  return blank_.seq;
}
/// The source is asked again later.
void pull::nothing_yet() noexcept {
  blank_.nothing_yet = true;
}
/// A source made of others learns from it whether one of them has made an item.
bool pull::has_nothing() const noexcept {
  return blank_.nothing_yet;
}
/// The number becomes a gap.
void pull::skip() noexcept {
  blank_.skipped = true;
}
// A source and a blocking stage change the attributes in place.
attributes& pull::emitted() noexcept {
  return blank_.about;
}
/// Names the memory of a blank as a tensor. It is called on the thread of the stage.
result<const runtime::tensor*> pull::fill_slot(int port, dtype type,
                                               std::span<const std::int64_t> shape) {
  const auto o = static_cast<std::size_t>(port);
  flow::slot& s = *blank_.slots[o];
  // Most items have the form of the item before.
  // Its thread may be another one than that of the engine.
  if (s.has(type, shape)) {
    blank_.filled[o] = true;
    return &s.tensor;
  }
  if (auto fits = blank_.stage->fits(o, type, shape); !fits) {
    // What a source reads decides the type, so that the data are wrong and no call is.
    const bool data = blank_.stage->info().face == flow::face::source;
    // The text stays, and the code changes.
    error& e = fits.error();
    return data ? error(errc::corrupt, e.text()).hint(e.hint()) : std::move(e);
  }
  // The memory grows if the item is larger than the slot.
  WEIR_CHECK(s.home->shape(s, type, shape));
  s.fits = s.home->keeps_tensors();
  blank_.filled[o] = true;
  return &s.tensor;
}
/// The tensor is a copy, because most callers keep it.
result<runtime::tensor> pull::fill_bytes(int port, dtype type,
                                         std::span<const std::int64_t> shape) {
  WEIR_TRY(const runtime::tensor* const filled, fill_slot(port, type, shape));
  return *filled;
}

/// Number of the item.
std::uint64_t taken::seq() const noexcept {
  return ready_.holder->seq;
}
/// Attributes of the first item that is there.
const attributes& taken::about() const noexcept {
  const flow::item* one = first_item(*ready_.holder);
  return one != nullptr ? one->about : no_attributes;
}
/// False for a gap.
bool taken::has_bytes(int inlet) const noexcept {
  return ready_.holder->inputs[static_cast<std::size_t>(inlet)].body != nullptr;
}
/// @pre The inlet has an item.
const runtime::tensor& taken::bytes(int inlet) const {
  const auto& one = ready_.holder->inputs[static_cast<std::size_t>(inlet)];
  WEIR_EXPECT(one.body != nullptr);
  return one.body->slots[one.outlet]->tensor;
}

/// A path of a setting begins at the folder of the pipeline's file.
std::string opening::path(std::string_view relative) const {
  return flow::path_in(run_.folder, relative);
}

}  // namespace weir

namespace weir::flow {

/// A tensor must have the type that the check has found for the outlet, because the
/// stages behind it rely on it.
result<void> stage_run::fits(std::size_t outlet, dtype type,
                             std::span<const std::int64_t> shape) const {
  // A port of any type takes everything.
  const port_type& expected = outlet_types_[outlet];
  if (!expected.element) {
    return {};
  }
  // Element, number of dimensions, and every extent that is fixed.
  bool same = *expected.element == type && expected.shape.size() == shape.size();
  // Letters and open extents accept everything.
  for (std::size_t i = 0; same && i < shape.size(); ++i) {
    same = expected.shape[i].is != extent::kind::fixed ||
           expected.shape[i].number == shape[i];
  }
  // The slowest extent may have a limit of its own.
  const std::int64_t most = info_.outlet(outlet).longest;
  if (same && (most == 0 || shape.empty() || shape.front() <= most)) {
    return {};
  }
  // The message shows the type of the tensor in the form of a port type.
  port_type found;
  found.element = type;
  for (const std::int64_t n : shape) {
    found.shape.push_back({extent::kind::fixed, n, '?'});
  }
  return error(
      errc::invalid_argument,
      fmt::format("cannot make an item of \"{}\": expected a tensor of type {}{}, "
                  "found {}",
                  name_, expected.text(),
                  most == 0 ? "" : fmt::format(" with an extent of at most {}", most),
                  found.text()));
}

/// Attributes that come from the input were checked before.
result<void> stage_run::check_attributes(const call& c) {
  if (!c.outcome.about_set || encoded_size(c.about) <= max_attribute_bytes) {
    return {};
  }
  return error(errc::out_of_range,
               fmt::format("cannot hand on the item: expected names and values of "
                           "attributes of at most {} bytes, found {} bytes in {}",
                           max_attribute_bytes, encoded_size(c.about),
                           counted(c.about.size(), "attribute")))
      .hint("put larger facts into a tensor");
}

}  // namespace weir::flow
