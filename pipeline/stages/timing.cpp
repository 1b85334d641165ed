// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that ask a clock: `rate` delays items, and `deadline` looks for late ones.
///
/// `rate` changes no result, only the time. `deadline` can change the result with every
/// run, unless it only counts.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "stages/factories.hpp"
#include "weir/base/clock.hpp"

namespace weir::flow {
namespace {

/// @units{nanoseconds}
constexpr double second_ns = 1e9;

/// See the table.
struct rate_settings {
  std::string type;
  double items_per_second = 1;
  std::uint32_t burst = 1;
};

/// The type is needed, because the stage copies its items.
settings_table<rate_settings> rate_table() {
  settings_table<rate_settings> table("the stage rate");
  table.add("type", &rate_settings::type, "type of the tensors, such as f32[n,4]")
      .required()
      .rule("that is a type of a port with an element type", [](const std::string& text) {
        const auto type = port_type::parse(text);
        return type && type->element;
      });
  table
      .add("items_per_second", &rate_settings::items_per_second,
           "largest number of items that pass in a second")
      .range(0.1, 1e9)
      .may_change();
  table
      .add("burst", &rate_settings::burst,
           "items that may pass at once after a time without items")
      .range(1, 1000000)
      .unit("items")
      .may_change();
  return table;
}

/// Waits on a thread of its own, so that no other stage stands still.
/// A passing item is due one interval after the one before, but a time without items is
/// credited up to `slack_ns_`.
class rate_stage final : public stage_object {
 public:
  explicit rate_stage(const rate_settings& settings)
      : interval_ns_(second_ns / settings.items_per_second),
        slack_ns_(interval_ns_ * (settings.burst - 1)) {}

  /// Copies the item first, so that the wait comes last.
  result<void> on_ready(taken& from, pull& to) override {
    const runtime::tensor& x = from[any_in{0}];
    WEIR_TRY(const runtime::tensor y, to.fill_bytes(0, x.type(), x.shape()));
    WEIR_TRY(const std::int64_t bytes, byte_size(x.type(), x.count()));
    // Elements without bytes have nothing to copy.
    if (bytes != 0) {
      std::memcpy(y.data(), x.data(), static_cast<std::size_t>(bytes));
    }
    const auto now = static_cast<double>(now_ns());
    // An item that comes late does not move the ones behind it.
    const double due = std::max(due_ns_, now - slack_ns_);
    // Every item moves the time of the next one by an interval.
    due_ns_ = due + interval_ns_;
    if (due > now) {
      waited_ns_ += due - now;
      std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(due - now));
    }
    return {};
  }
  void report(figures& to) const override {
    // Only waiting is reported; copying is part of the stage's own time.
    to.set("waited_seconds", waited_ns_ / second_ns);
  }

 private:
  /// Time between two items at the rate. @units{nanoseconds}
  double interval_ns_;
  /// Time that items may be ahead of the rate in a burst. @units{nanoseconds}
  double slack_ns_;
  /// When the next item is due.
  double due_ns_ = 0;
  /// Time that items have waited in this process. @units{nanoseconds}
  double waited_ns_ = 0;
};

/// What happens to a late item.
enum class late_items : std::uint8_t { keep, mark, drop };
/// From when deadlines count.
enum class deadline_clock : std::uint8_t { source, since_1970 };

/// See the table.
struct deadline_settings {
  late_items late = late_items::keep;
  std::string attribute = "deadline";
  deadline_clock clock = deadline_clock::source;
  std::uint64_t preset = 0;
};

/// An item can have a deadline of its own.
settings_table<deadline_settings> deadline_table() {
  settings_table<deadline_settings> table("the stage deadline");
  table.add(
      "late", &deadline_settings::late,
      {{"keep", late_items::keep},
       {"mark", late_items::mark},
       {"drop", late_items::drop}},
      "late items: keep: they are counted; mark: they get the attribute late; drop: "
      "they become gaps");
  table
      .add("attribute", &deadline_settings::attribute,
           "name of the attribute with the deadline of an item in nanoseconds")
      .rule("that is not empty", [](const std::string& text) { return !text.empty(); });
  table.add("clock", &deadline_settings::clock,
            {{"source", deadline_clock::source}, {"unix", deadline_clock::since_1970}},
            "begin of deadlines: source: when the item left its source; unix: 1970 UTC");
  table
      .add("preset", &deadline_settings::preset,
           "deadline of items without the attribute; 0: they have none")
      .unit("nanoseconds");
  return table;
}

/// Returns the deadline of an item; without the attribute, the preset counts.
/// @error{invalid_argument, it is no integer from 0 on}
result<std::uint64_t> deadline_of(const attributes& about, const std::string& name,
                                  std::uint64_t preset) {
  const auto found = about.find(name);
  if (found == about.end()) {
    return preset;
  }
  if (const auto* whole = std::get_if<std::uint64_t>(&found->second)) {
    return *whole;
  }
  // Integers from JSON or metadata may be signed.
  if (const auto* whole = std::get_if<std::int64_t>(&found->second);
      whole != nullptr && *whole >= 0) {
    return static_cast<std::uint64_t>(*whole);
  }
  return error(errc::invalid_argument,
               fmt::format("cannot use the attribute \"{}\" as a deadline: expected an "
                           "integer from 0 on, found {}",
                           name,
                           std::visit([](const auto& v) { return fmt::format("{}", v); },
                                      found->second)));
}

/// An item is late if its bytes are complete behind its deadline. A task that reads them,
/// and so runs after those that write them, tells when.
class deadline_stage final : public stage_object {
 public:
  explicit deadline_stage(deadline_settings settings) : settings_(std::move(settings)) {}

  /// Submits a task that ends when the item is complete.
  result<void> on_item(step& s) override {
    const runtime::access accesses[] = {runtime::reads(s[any_in{0}])};
    return s.submit_bytes("item is complete", accesses, [] {});
  }
  /// Compares the time at which the task was seen to have ended.
  result<void> on_done(step& s) override {
    WEIR_TRY(const std::uint64_t deadline,
             deadline_of(s.about(), settings_.attribute, settings_.preset));
    // The age counts from the source, or is the time since 1970.
    const std::uint64_t age = time_of(s);
    const bool late = deadline != 0 && age > deadline;
    late_ += late ? 1 : 0;
    if (late && settings_.late == late_items::drop) {
      s.skip();
      return {};
    }
    // The attribute says by how much the item is late.
    if (late && settings_.late == late_items::mark) {
      s.emitted()["late"] = age - deadline;
    }
    s.forward(any_in{0}, any_out{0});
    return s.emit();
  }
  void report(figures& to) const override { to.set("late_items", late_); }

 private:
  /// Returns the time that deadlines are compared with.
  /// @units{nanoseconds}
  [[nodiscard]] std::uint64_t time_of(const step& s) const {
    if (settings_.clock == deadline_clock::source) {
      // A clock that goes backwards gives an age of 0.
      return static_cast<std::uint64_t>(
          std::max<std::int64_t>(now_ns() - s.source_time(), 0));
    }
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }

  deadline_settings settings_;
  /// Late items of this process.
  std::uint64_t late_ = 0;
};

/// Further paragraphs of the reference of `rate`.
constexpr std::string_view rate_details =
    R"(Items wait on the thread of the stage, and nothing is dropped: when the window of
its edge is full, the stages before it wait, too. The result does not depend on the
clock, only the time at which an item passes does. Inlet `x` and outlet `y` have the
type of the setting; the stage copies the elements.)";

/// A small pipeline with `rate`.
constexpr std::string_view rate_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 5
shape = [4]

[[stage]]
name = "slow"
use = "rate"
type = "f32[4]"
items_per_second = 50

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

/// Further paragraphs of the reference of `deadline`.
constexpr std::string_view deadline_details =
    R"(An item is late if its elements are complete only after its deadline. A deadline
of 0 is none. The attribute `late` is the number of nanoseconds behind the deadline. The
figure `late_items` counts late items since the process began.

Which items are late depends on the clock. With `mark` or `drop` the output of a resumed
run may therefore differ, so the guarantee of the pipeline is "none".)";

/// A small pipeline with `deadline`.
constexpr std::string_view deadline_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 5
shape = [4]

[[stage]]
name = "in_time"
use = "deadline"
preset = 1000000000
late = "mark"

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// A blocking stage, because it sleeps.
result<void> make_rate(described_stage& made, const given_settings& given) {
  made.info.name = "rate";
  made.info.documentation = "lets a limited number of items pass in a second, drops none";
  made.info.face = face::blocking;
  made.info.stateless = true;
  made.info.details = rate_details;
  made.info.example = rate_example;
  WEIR_TRY(const rate_settings settings, read_settings(made.info, rate_table(), given));
  WEIR_TRY(const port_type type, port_type::parse(settings.type));
  made.info.ports = {{"x", type, true}, {"y", type, false}};
  made.object = std::make_unique<rate_stage>(settings);
  return {};
}

/// A stage that drops or marks makes no promise about its output.
result<void> make_deadline(described_stage& made, const given_settings& given) {
  made.info.name = "deadline";
  made.info.documentation = "keeps, marks or drops items that are later than a deadline";
  made.info.face = face::late;
  made.info.stateless = true;
  made.info.forwards = true;
  made.info.details = deadline_details;
  made.info.example = deadline_example;
  WEIR_TRY(deadline_settings settings, read_settings(made.info, deadline_table(), given));
  made.info.ports = {{"x", {}, true}, {"y", {}, false}};
  // With `keep`, the stage only counts, and the output is always the same.
  if (settings.late != late_items::keep) {
    made.info.promise = guarantee::none;
  }
  made.object = std::make_unique<deadline_stage>(std::move(settings));
  return {};
}

}  // namespace weir::flow
