// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages that make one item of several, and several of one: `batch`, `window` and
/// `unbatch`.
///
/// A batch has a new slowest dimension, so items follow each other in memory, and each is
/// copied by a task of its own. `window` keeps earlier items in a ring, because a call
/// only has the new ones.
#include <cstring>

#include <fmt/format.h>

#include "stages/factories.hpp"

namespace weir::flow {
namespace {

/// Name of the attribute with the number of items in a batch that has been padded.
constexpr std::string_view items_attribute = "items";

/// What happens to a last batch that is not full.
enum class last_batch : std::uint8_t { keep, pad, drop };

/// See the table.
struct batch_settings {
  std::string type;
  std::uint32_t size = 2;
  last_batch last = last_batch::keep;
};

/// Adds the settings that both stages have.
void add_common(settings_table<batch_settings>& table) {
  // The type is that of one item; the batch has one dimension more.
  table
      .add("type", &batch_settings::type,
           "type of the tensor of a single item, such as f32[n,4]")
      .required()
      .rule("that is a type of a port with an element type", [](const std::string& text) {
        const auto type = port_type::parse(text);
        return type && type->element && type->shape.size() < runtime::max_dims;
      });
  table.add("size", &batch_settings::size, "number of items in a batch")
      .range(1, 4096)
      .unit("items");
}

/// The common settings, and what becomes of the last batch.
settings_table<batch_settings> batch_table() {
  settings_table<batch_settings> table("the stage batch");
  add_common(table);
  // A kept batch has a varying extent, a padded one a fixed one.
  table.add(
      "last", &batch_settings::last,
      {{"keep", last_batch::keep}, {"pad", last_batch::pad}, {"drop", last_batch::drop}},
      "treatment of the last batch if it is shorter: keep it, pad it with zeros, or "
      "drop it");
  return table;
}

/// `unbatch` has only the common settings.
settings_table<batch_settings> unbatch_table() {
  settings_table<batch_settings> table("the stage unbatch");
  add_common(table);
  return table;
}

/// Returns a view of some bytes of a row-major tensor.
result<runtime::tensor> bytes_of(const runtime::tensor& t, std::int64_t begin,
                                 std::int64_t count) {
  // The view has bytes as elements, so it works for every type.
  const std::int64_t shape[] = {count};
  return runtime::tensor::over(t.store(), dtype::uint8, shape, t.offset() + begin);
}

/// Submits a task that copies bytes between two tensors.
result<void> submit_copy(step& s, const char* name, const runtime::tensor& from,
                         const runtime::tensor& to) {
  // Accesses order the task behind those that write the item.
  const runtime::access accesses[] = {runtime::reads(from), runtime::writes(to)};
  return s.submit_bytes(name, accesses,
                        [source = from.data(), target = to.data(), count = to.count()] {
                          std::memcpy(target, source, static_cast<std::size_t>(count));
                        });
}

/// Submits a task that fills a tensor with zeros.
result<void> submit_zeros(step& s, const runtime::tensor& to) {
  const runtime::access accesses[] = {runtime::writes(to)};
  return s.submit_bytes("pad batch", accesses, [target = to.data(), count = to.count()] {
    std::memset(target, 0, static_cast<std::size_t>(count));
  });
}

/// Strides do not count: items are row-major.
bool same_shape(const runtime::tensor& a, const runtime::tensor& b) {
  return a.type() == b.type() && std::equal(a.shape().begin(), a.shape().end(),
                                            b.shape().begin(), b.shape().end());
}

/// Has no state; the flow collects the items of a call.
class batching_stage final : public stage_object {
 public:
  explicit batching_stage(batch_settings settings) : settings_(std::move(settings)) {}

  /// Makes a batch of the items of a call, of which the last may have fewer.
  result<void> on_item(step& s) override {
    // The last call may have fewer items.
    const bool whole = s.count() == settings_.size;
    if (!whole && settings_.last == last_batch::drop) {
      return {};
    }
    // All items must have the shape of the first.
    const runtime::tensor& first = input(s, 0);
    // A padded batch always has the full extent.
    const std::size_t extent_of_batch =
        settings_.last == last_batch::pad ? settings_.size : s.count();
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(extent_of_batch)};
    shape.insert(shape.end(), first.shape().begin(), first.shape().end());
    WEIR_TRY(const runtime::tensor to, s.make_bytes(0, first.type(), shape));
    WEIR_TRY(const std::int64_t bytes, byte_size(first.type(), first.count()));
    // Elements without bytes need no copies.
    for (std::size_t i = 0; bytes != 0 && i < s.count(); ++i) {
      const runtime::tensor& from = input(s, i);
      if (!same_shape(first, from)) {
        return error(
            errc::invalid_argument,
            fmt::format("cannot batch items: expected the shape [{}] of the first "
                        "item, found [{}] in item {} of the batch",
                        fmt::join(first.shape(), ","), fmt::join(from.shape(), ","), i));
      }
      WEIR_TRY(const auto source, bytes_of(from, 0, bytes));
      // Items follow each other in the batch.
      WEIR_TRY(const auto target,
               bytes_of(to, static_cast<std::int64_t>(i) * bytes, bytes));
      WEIR_CHECK(submit_copy(s, "batch", source, target));
    }
    return finish(s, to, bytes);
  }

 private:
  /// Returns item `nth` of the call.
  static const runtime::tensor& input(const step& s, std::size_t nth) {
    return s.input(any_in{0}, nth);
  }
  /// Pads the batch, notes the number of its items, and hands it on.
  result<void> finish(step& s, const runtime::tensor& to, std::int64_t bytes) {
    if (settings_.last == last_batch::pad) {
      // The attribute lets `unbatch` find the padding.
      s.emitted()[std::string(items_attribute)] = std::uint64_t{s.count()};
      const std::int64_t used = static_cast<std::int64_t>(s.count()) * bytes;
      const std::int64_t all = static_cast<std::int64_t>(settings_.size) * bytes;
      if (used != all) {
        WEIR_TRY(const auto padding, bytes_of(to, used, all - used));
        WEIR_CHECK(submit_zeros(s, padding));
      }
    }
    return s.emit();
  }

  batch_settings settings_;
};

/// Has no state.
class unbatch_stage final : public stage_object {
 public:
  explicit unbatch_stage(batch_settings settings) : settings_(std::move(settings)) {}

  /// Makes the items of a batch, without its padding.
  result<void> on_item(step& s) override {
    const runtime::tensor from = s[any_in{0}];
    // The attribute says how many items of a padded batch count.
    WEIR_TRY(const std::int64_t count, items_in(s, from));
    const auto shape = from.shape().subspan(1);
    const std::int64_t bytes_of_all = from.count() * info_of(from.type()).size;
    const std::int64_t bytes = from.shape()[0] == 0 ? 0 : bytes_of_all / from.shape()[0];
    // The attribute belongs to the batch and not to its items.
    if (s.about().contains(items_attribute)) {
      s.emitted().erase(std::string(items_attribute));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      // Every item is a copy, because items of a batch cannot share a slot.
      WEIR_TRY(const runtime::tensor to, s.make_bytes(0, from.type(), shape));
      if (bytes != 0) {
        WEIR_TRY(const auto source, bytes_of(from, i * bytes, bytes));
        WEIR_TRY(const auto target, bytes_of(to, 0, bytes));
        WEIR_CHECK(submit_copy(s, "unbatch", source, target));
      }
      WEIR_CHECK(s.emit());
    }
    return {};
  }

 private:
  /// Returns the number of items in a batch, without padding.
  result<std::int64_t> items_in(const step& s, const runtime::tensor& from) const {
    // More items than the stage gives could not be handed on.
    std::int64_t count = from.shape()[0];
    if (count > static_cast<std::int64_t>(settings_.size)) {
      return error(
                 errc::out_of_range,
                 fmt::format("cannot divide a batch: expected at most {} items, found {}",
                             settings_.size, count))
          .hint("set size to the number of items in the largest batch");
    }
    // The attribute comes from `batch`, or from a file.
    const auto note = s.about().find(items_attribute);
    if (note != s.about().end()) {
      const auto* whole = std::get_if<std::uint64_t>(&note->second);
      if (whole == nullptr || *whole > static_cast<std::uint64_t>(count)) {
        return error(
            errc::corrupt,
            fmt::format("cannot divide a batch: expected the attribute \"{}\" to "
                        "be a number up to {}, found another value",
                        items_attribute, count));
      }
      count = static_cast<std::int64_t>(*whole);
    }
    return count;
  }

  batch_settings settings_;
};

/// See the table.
struct window_settings {
  std::string type;
  std::uint32_t count = 2;
  std::uint32_t step = 1;
};

settings_table<window_settings> window_table() {
  settings_table<window_settings> table("the stage window");
  table
      .add("type", &window_settings::type,
           "type of the tensor of a single item, such as f32[4]")
      .required()
      .rule("that is a type of a port whose extents are numbers",
            [](const std::string& text) {
              const auto type = port_type::parse(text);
              return type && type->bytes() && type->shape.size() < runtime::max_dims;
            });
  table.add("count", &window_settings::count, "number of items in a window")
      .range(1, 4096)
      .unit("items");
  // A step above the count leaves items out between two windows.
  table
      .add("step", &window_settings::step,
           "items from the start of a window to that of the next one; the same as count "
           "for windows that do not overlap")
      .range(1, 4096)
      .unit("items");
  return table;
}

/// A call takes `step` items, which complete at most one window. The items before them
/// that windows still need are in a ring of `kept_` places: item g is at g modulo kept_.
class window_stage final : public stage_object {
 public:
  window_stage(const window_settings& settings, const port_type& type)
      : count_(settings.count), step_(settings.step), element_(*type.element) {
    // Items before the newest `step_` that a window can still need, rounded up to whole
    // steps, so that the places of a call never wrap.
    kept_ = (count_ + step_ - 1) / step_ * step_ - step_;
    for (const extent& one : type.shape) {
      shape_.push_back(one.number);
    }
    bytes_ = *type.bytes();
  }

  /// The ring is part of the state; it begins with zeros, which no window contains.
  result<void> open(opening& run) override {
    // Windows that do not overlap keep nothing.
    if (kept_ * static_cast<std::uint64_t>(bytes_) == 0) {
      return {};
    }
    std::int64_t all = 0;
    if (!checked_mul(static_cast<std::int64_t>(kept_), bytes_, all)) {
      return error(errc::out_of_range,
                   fmt::format("cannot keep {} items of a window: expected less than "
                               "2^63 bytes, found items of {}",
                               kept_, bytes_));
    }
    WEIR_TRY(const runtime::storage memory, run.host().base().allocate(all, "window"));
    const std::int64_t shape[] = {all};
    WEIR_TRY(ring_, runtime::tensor::over(memory, dtype::uint8, shape, 0));
    // No task uses the memory yet.
    std::memset(ring_.data(), 0, static_cast<std::size_t>(all));
    return {};
  }
  /// The window is handed on before the new items replace old ones in the ring.
  result<void> on_item(step& s) override {
    WEIR_CHECK(complete(s));
    // The items of this call are kept for later windows.
    for (std::size_t i = 0; kept_ != 0 && bytes_ != 0 && i < s.count(); ++i) {
      WEIR_TRY(const auto source, bytes_of(s.input(any_in{0}, i), 0, bytes_));
      WEIR_TRY(const auto target, place(taken_ + i));
      WEIR_CHECK(submit_copy(s, "keep for window", source, target));
    }
    taken_ += s.count();
    return {};
  }
  /// Declared state: the flow copies the ring by a task.
  std::vector<state_part> state() override {
    std::vector<state_part> all{
        {"taken", false, {}, std::as_writable_bytes(std::span(&taken_, 1))}};
    if (kept_ != 0 && bytes_ != 0) {
      all.push_back({"items", true, ring_, {}});
    }
    return all;
  }

 private:
  /// Place of an item in the ring.
  [[nodiscard]] result<runtime::tensor> place(std::uint64_t item) const {
    return bytes_of(ring_, static_cast<std::int64_t>(item % kept_) * bytes_, bytes_);
  }
  /// Hands on the window that ends within the items of the call, if there is one.
  result<void> complete(step& s) {
    // Item numbers: the call has `taken_` to `end`, and the window begins at `first`.
    const std::uint64_t end = taken_ + step_;  // if the call has all of its items
    const std::uint64_t back = kept_ + step_;
    // The window is not complete: it begins before the first item or ends behind the
    // last.
    if (end < back || end - back + count_ > taken_ + s.count()) {
      return {};
    }
    const std::uint64_t first = end - back;
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(count_)};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    WEIR_TRY(const runtime::tensor to, s.make_bytes(0, element_, shape));
    for (std::uint64_t i = 0; bytes_ != 0 && i < count_; ++i) {
      const std::uint64_t item = first + i;
      // Old items come from the ring, new ones from the call.
      WEIR_TRY(const auto source,
               item < taken_ ? place(item)
                             : bytes_of(s.input(any_in{0}, item - taken_), 0, bytes_));
      WEIR_TRY(const auto target,
               bytes_of(to, static_cast<std::int64_t>(i) * bytes_, bytes_));
      WEIR_CHECK(submit_copy(s, "window", source, target));
    }
    // The number of its first item makes a window recognisable.
    s.emitted()["first"] = first;
    return s.emit();
  }

  std::uint64_t count_;
  std::uint64_t step_;
  dtype element_;
  std::vector<std::int64_t> shape_;  ///< of an item
  std::int64_t bytes_ = 0;           ///< of an item
  std::uint64_t kept_ = 0;           ///< items in the ring
  runtime::tensor ring_;
  std::uint64_t taken_ = 0;  ///< items so far
};

/// Returns the type with one more dimension in front.
port_type with_leading(const port_type& type, extent leading) {
  port_type out = type;
  out.shape.insert(out.shape.begin(), leading);
  return out;
}

/// Further paragraphs of the reference of `batch`.
constexpr std::string_view batch_details =
    R"(The batches have numbers of their own. Gaps are left out. All items of a batch
must have one shape.

`pad` fills the last batch with zeros and gives every batch an attribute `items` with
the number of its items, which `unbatch` understands. The batch has the attributes of
its first item.)";

/// A small pipeline with `batch`.
constexpr std::string_view batch_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "fours"
use = "batch"
type = "f32[4]"
size = 4
last = "pad"

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

/// Further paragraphs of the reference of `unbatch`.
constexpr std::string_view unbatch_details =
    R"(The items have numbers of their own. Padding of `batch` is left out.)";

/// A small pipeline with `unbatch`.
constexpr std::string_view unbatch_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "single"
use = "unbatch"
type = "f32[]"
size = 4

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

/// Further paragraphs of the reference of `window`.
constexpr std::string_view window_details =
    R"(The windows have numbers of their own. Window w has the items from w times `step`
on, in their order; gaps are left out. With a `step` below `count` windows overlap, with
the same number they follow each other, and with a larger one items between them are
dropped. Windows that the end of the input cuts short are left out; `batch` can keep or
pad them.

Attributes: `first` is the number of the first item of the window, without gaps; all
others are those of the item behind the window before, which is the newest one if `step`
is 1. State: the items that later windows need, and the number of items so far.)";

/// A small pipeline with `window`.
constexpr std::string_view window_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "last_three"
use = "window"
type = "f32[4]"
count = 3
step = 1

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// The extent of the batch is open only if the last one may be shorter.
result<void> make_batch(described_stage& made, const given_settings& given) {
  made.info.name = "batch";
  made.info.documentation =
      "joins several items of one shape to a tensor with a new slowest dimension";
  made.info.details = batch_details;
  made.info.example = batch_example;
  WEIR_TRY(batch_settings settings, read_settings(made.info, batch_table(), given));
  WEIR_TRY(const port_type type, port_type::parse(settings.type));
  extent leading{extent::kind::fixed, settings.size, '?'};
  // A batch of one item always has one.
  if (settings.last == last_batch::keep && settings.size > 1) {
    leading = extent{};
  }
  made.info.ports = {{"x", type, true}, {"y", with_leading(type, leading), false}};
  // Edges can plan with the largest batch.
  made.info.ports.back().longest = settings.size;
  made.info.takes = settings.size;
  made.info.own_numbering = true;
  made.object = std::make_unique<batching_stage>(std::move(settings));
  return {};
}

/// Makes the stage from its settings.
result<void> make_unbatch(described_stage& made, const given_settings& given) {
  made.info.name = "unbatch";
  made.info.documentation =
      "divides a tensor along its slowest dimension into items of their own";
  made.info.details = unbatch_details;
  made.info.example = unbatch_example;
  WEIR_TRY(batch_settings settings, read_settings(made.info, unbatch_table(), given));
  WEIR_TRY(const port_type type, port_type::parse(settings.type));
  made.info.ports = {{"x", with_leading(type, extent{}), true}, {"y", type, false}};
  made.info.gives = settings.size;
  made.info.own_numbering = true;
  made.object = std::make_unique<unbatch_stage>(std::move(settings));
  return {};
}

/// The state exists only if windows overlap.
result<void> make_window(described_stage& made, const given_settings& given) {
  made.info.name = "window";
  made.info.documentation =
      "joins the newest items to windows that slide or follow each other";
  made.info.details = window_details;
  made.info.example = window_example;
  WEIR_TRY(const window_settings settings,
           read_settings(made.info, window_table(), given));
  WEIR_TRY(const port_type type, port_type::parse(settings.type));
  // Every window has the same extent.
  const extent leading{extent::kind::fixed, settings.count, '?'};
  made.info.ports = {{"x", type, true}, {"y", with_leading(type, leading), false}};
  made.info.takes = settings.step;
  made.info.own_numbering = true;
  made.info.state.push_back({"taken", false});
  if (settings.count > settings.step && *type.bytes() != 0) {
    made.info.state.push_back({"items", true});
  }
  made.object = std::make_unique<window_stage>(settings, type);
  return {};
}

}  // namespace weir::flow
