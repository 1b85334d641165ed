// SPDX-License-Identifier: Apache-2.0
/// @file
/// Images of epochs: what each stage adds at a barrier, and how it continues from one.
///
/// A stage adds its part in the place of the submission order where the barrier stands.
/// Tensors are copied by tasks that read them, so that later items need not wait unless
/// they overwrite bytes that are still being copied.
///
/// Sections of a stage named S: `STAGE/S` its counters, `STATE/S/...` its state,
/// `CURSOR/S` of a source, `OFFSET/S` of a sink, `HELD/S` items of a call that is not
/// complete, `LOOP/S/...` items on feedback edges that begin at it, `CONSTANT/S/n`
/// digests of constants, `FAILURES/S` the count of failed items.
///
/// Invariant: the parts of all stages belong to the same barrier. Each stage adds its
/// part when the barrier has reached it, so earlier items are in it and later ones are
/// not; copies that run as tasks read the bytes of that moment, because later writers
/// wait for them.
#include "weir/pipeline/host/image.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "epoch/item_record.hpp"
#include "flow/stage_run.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::flow {
namespace {

/// Returns the record of an item, or that of a gap.
stored_item record_of(const item* one) {
  return one == nullptr ? stored_item{}
                        : stored_item{true, one->seq, one->lane, one->about};
}

/// Returns memory for a section. That of the image before needs no new pages, which would
/// take longer than copying the bytes.
// Sections of the same name and size exist in most images, because the pipeline is the
// same.
byte_vector memory_for(const std::string& name, std::size_t bytes,
                       std::vector<image_section>& spare) {
  // Sections are found by name and size; their order may have changed.
  for (image_section& old : spare) {
    if (old.name == name && old.data.size() == bytes) {
      return std::exchange(old.data, {});
    }
  }
  return byte_vector(bytes);
}

}  // namespace

// A linear search: it is used on resuming only.
const image_section* image::find(std::string_view name) const noexcept {
  for (const image_section& s : sections) {
    if (s.name == name) {
      return &s;
    }
  }
  return nullptr;
}

/// The memory stays valid until the image is complete, although sections are added.
mutable_bytes state_writer::add(const std::string& name, std::size_t bytes) {
  image_section& s = growing_.sections.emplace_back();
  s.name = "STATE/" + stage_ + "/" + name;
  s.shape = {static_cast<std::int64_t>(bytes)};
  s.data = memory_for(s.name, bytes, spare_);
  return s.data;
}

/// Takes a section that exists already, for example from a child process.
void state_writer::adopt(image_section part) {
  // Parts of a child process have the names that the stage has given them.
  part.name = "STATE/" + stage_ + "/" + part.name;
  growing_.sections.push_back(std::move(part));
}

/// @error{corrupt; the image has no such part}
result<bytes_view> state_reader::part(const std::string& name) const {
  const std::string section = "STATE/" + stage_ + "/" + name;
  const image_section* s = from_.find(section);
  if (s == nullptr) {
    return bad_section(section, "the section", "none");
  }
  return bytes_view(s->data);
}

/// Adds a section with the bytes of a tensor. @param at_rest  No task writes the tensor
/// and the stage is not called now, so the bytes are copied at once; otherwise a task
/// copies them.
result<void> stage_run::copy_tensor(std::string section, const runtime::tensor& t,
                                    bool at_rest) {
  // The image has the elements in row-major order, whatever the strides are.
  if (!t.row_major()) {
    return error(errc::invalid_argument,
                 fmt::format("cannot store \"{}\": expected a row-major tensor, found "
                             "one with gaps",
                             section));
  }
  image_section& s = facts_.growing->sections.emplace_back();
  s.name = std::move(section);
  s.type = t.type();
  s.shape.assign(t.shape().begin(), t.shape().end());
  WEIR_TRY(const std::int64_t bytes, byte_size(t.type(), t.count()));
  s.data = memory_for(s.name, static_cast<std::size_t>(bytes), facts_.spare);
  // The kernel is a structure of three words, so that submitting it allocates nothing.
  struct copy {
    const std::byte* from;
    std::byte* to;
    std::int64_t bytes;
    void operator()(const runtime::task_context&) const {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    }
  };
  if (bytes == 0) {
    return {};
  }
  if (at_rest) {  // the host of the stage writes without tasks, and is not running now
    copy{t.data(), s.data.data(), bytes}(runtime::task_context{});
    return {};
  }
  const std::array accesses{runtime::reads(t)};
  WEIR_TRY(const task_id id,
           facts_.host->base().submit("copy state", accesses,
                                      copy{t.data(), s.data.data(), bytes}));
  // The image is complete only when these tasks have ended.
  facts_.copies.push_back(id);
  return {};
}

/// Copies the tensor of an item. The item gets one holder more until the copy has ended,
/// because its slot could be taken for another item otherwise.
result<void> stage_run::copy_item(std::string section, item& one, std::size_t outlet) {
  const std::size_t before = facts_.copies.size();
  WEIR_CHECK(copy_tensor(std::move(section), one.slots[outlet]->tensor, false));
  if (facts_.copies.size() != before) {
    // The holder is let go when the copy has ended; see `let_go_of_copied_items`.
    ++one.holders;
    facts_.copied_items.emplace_back(facts_.copies.back(), &one);
  }
  return {};
}

/// Adds the state of the stage. That of a source which is joined with others came with
/// its items, because the source may be ahead of the barrier.
result<void> stage_run::contribute_state() {
  // The state that came with the last item that was handed on.
  if (joined_ && !ended_) {
    auto& sections = facts_.growing->sections;
    sections.insert(sections.end(), here_.state.begin(), here_.state.end());
    return {};
  }
  // Declared state is copied here, and then the stage adds what it copies itself.
  for (const state_part& part : object_.state()) {
    const std::string section = "STATE/" + name_ + "/" + part.name;
    if (part.is_tensor) {
      WEIR_CHECK(copy_tensor(section, part.tensor, is_outside()));
    } else {
      image_section& s = facts_.growing->sections.emplace_back();
      s.name = section;
      s.shape = {static_cast<std::int64_t>(part.value.size())};
      s.data.assign(part.value.begin(), part.value.end());
    }
  }
  // The stage may copy large parts by tasks of its own, which it names to the writer.
  state_writer own(*facts_.growing, facts_.copies, facts_.spare, name_);
  return guarded([&] { return object_.copy_state(own); });
}

/// Adds everything that the stage needs to continue behind the barrier.
// The stage is now counted as contributed to the epoch (`epoch_`).
result<void> stage_run::contribute() {
  epoch_ = facts_.epoch;
  WEIR_CHECK(contribute_state());
  record_writer numbers;
  // Counters: next item taken, next item made, and whether the stage has ended.
  numbers.put(next_seq_);
  numbers.put(next_made_);
  numbers.put(static_cast<std::uint8_t>(ended_));
  image_section& s = facts_.growing->sections.emplace_back();
  s.name = "STAGE/" + name_;
  s.data = std::move(numbers).take();
  s.shape = {static_cast<std::int64_t>(s.data.size())};
  // The limit counts failed items of all runs together.
  if (max_failures_ != unlimited_failures) {
    record_writer count;
    count.put(failures_);
    image_section& f = facts_.growing->sections.emplace_back();
    f.name = "FAILURES/" + name_;
    f.data = std::move(count).take();
    f.shape = {static_cast<std::int64_t>(f.data.size())};
  }
  add_constants();
  WEIR_CHECK(copy_items());
  return copy_feedback();
}

/// Adds the items of a call that is not complete yet.
// @pre The call that collects items is the newest one.
result<void> stage_run::copy_items() {
  if (info_.takes == 1) {
    return {};
  }
  record_writer items;
  const call& c = calls_[next_open_ & (ring_size_ - 1)];
  // The number of items so far, and the number of the first.
  items.put(static_cast<std::uint32_t>(collected_));
  items.put(c.seq);
  for (std::size_t i = 0; i < collected_ * in_.size(); ++i) {
    const call::input& one = c.inputs[i];
    put_item(items, record_of(one.body));
    // A gap has no bytes.
    if (one.body != nullptr) {
      // The bytes of each item stand in a section of their own.
      WEIR_CHECK(copy_item(fmt::format("HELD/{}/{}", name_, i), *one.body, one.outlet));
    }
  }
  image_section& s = facts_.growing->sections.emplace_back();
  s.name = "HELD/" + name_;
  s.data = std::move(items).take();
  s.shape = {static_cast<std::int64_t>(s.data.size())};
  return {};
}

/// Adds the items on the feedback edges that begin at the stage.
// The tail of the loop adds them when the barrier passes it; the head waits until then.
result<void> stage_run::copy_feedback() {
  for (std::size_t outlet = 0; outlet < out_.size(); ++outlet) {
    for (std::size_t t = 0; t < out_[outlet].size(); ++t) {
      const target& to = out_[outlet][t];
      if (to.delay == 0) {
        continue;
      }
      const std::string section = fmt::format("LOOP/{}/{}/{}", name_, outlet, t);
      record_writer items;
      items.put(static_cast<std::uint32_t>(to.to->size()));
      for (std::size_t i = 0; i < to.to->size(); ++i) {
        const entry& e = to.to->peek(i);
        stored_item one = record_of(e.body);
        // The number on the edge is that of the place in the loop.
        one.seq = e.number;
        put_item(items, one);
        if (e.body != nullptr) {
          WEIR_CHECK(copy_item(fmt::format("{}/{}", section, i), *e.body, outlet));
        }
      }
      image_section& s = facts_.growing->sections.emplace_back();
      s.name = section;
      s.data = std::move(items).take();
      s.shape = {static_cast<std::int64_t>(s.data.size())};
    }
  }
  return {};
}

/// Adds the part of a stage that has ended: its state does not change any more. A sink
/// settles first.
result<void> stage_run::contribute_final() {
  if (info_.face == face::sink) {
    wants_settle_ = true;
    return {};
  }
  if (info_.face == face::source) {
    return mark(final_cursor_);
  }
  return contribute();
}

/// Adds the cursor of a source and sends the barrier on behind the delivered items.
result<void> stage_run::mark(const small_record& cursor) {
  image_section& s = facts_.growing->sections.emplace_back();
  s.name = "CURSOR/" + name_;
  s.data.assign(cursor.view().begin(), cursor.view().end());
  s.shape = {static_cast<std::int64_t>(cursor.size)};
  // Everything before this number is in front of the barrier.
  marked_ = next_seq_;
  WEIR_CHECK(contribute());
  if (!ended_) {
    push_marker(entry_kind::barrier, facts_.epoch);
  }
  return {};
}

/// Keeps the position at which a joined source begins, in case that a barrier comes
/// before its first item.
result<void> stage_run::mark_begin() {
  WEIR_TRY(here_, mark_of(object_, name_));
  return {};
}

/// The position of a joined source is that of the last item that was handed on, and not
/// that of its host, which may be ahead.
result<void> stage_run::mark_here() {
  return mark(here_.cursor);
}

/// A sink passes its barrier here, because it has to settle first.
result<void> stage_run::settled(const small_record& offset) {
  WEIR_EXPECT(wants_settle_);
  wants_settle_ = false;
  for (inlet& i : in_) {
    // The barrier waits at each inlet that has not ended.
    if (!ended_ && !i.ended && !i.from->empty() &&
        i.from->front().kind == entry_kind::barrier) {
      i.from->pop();
    }
  }
  image_section& s = facts_.growing->sections.emplace_back();
  s.name = "OFFSET/" + name_;
  s.data.assign(offset.view().begin(), offset.view().end());
  s.shape = {static_cast<std::int64_t>(offset.size)};
  return contribute();
}

namespace {

/// Fills a tensor that no task uses with the bytes of a section.
/// The type must be the same, and the shape too, unless the tensor has none.
result<void> fill(const runtime::tensor& t, const image_section& from) {
  const bool same =
      t.type() == from.type && t.row_major() &&
      (t.shape().empty() || std::equal(t.shape().begin(), t.shape().end(),
                                       from.shape.begin(), from.shape.end())) &&
      byte_size(t.type(), t.count()) == static_cast<std::int64_t>(from.data.size());
  if (!same) {
    return bad_section(
        from.name,
        fmt::format("{} bytes of type {}", t.count() * info_of(t.type()).size,
                    port_text(t.type())),
        fmt::format("{} bytes of type {}, or another shape", from.data.size(),
                    port_text(from.type)));
  }
  if (!from.data.empty()) {
    std::memcpy(t.data(), from.data.data(), from.data.size());
  }
  return {};
}

/// Returns a section that must be there.
result<const image_section*> section(const image& from, const std::string& name) {
  const image_section* s = from.find(name);
  if (s == nullptr) {
    return bad_section(name, "the section", "none");
  }
  return s;
}

}  // namespace

/// Restores declared state and then the state that the stage has copied itself.
result<void> stage_run::restore_state(const image& from) {
  for (state_part& part : object_.state()) {
    WEIR_TRY(const image_section* s, section(from, "STATE/" + name_ + "/" + part.name));
    if (part.is_tensor) {
      WEIR_CHECK(fill(part.tensor, *s));
    } else if (s->data.size() == part.value.size()) {
      // A value must have exactly its size.
      std::memcpy(part.value.data(), s->data.data(), s->data.size());
    } else {
      return bad_section(s->name, fmt::format("{} bytes", part.value.size()),
                         fmt::format("{}", s->data.size()));
    }
  }
  return object_.restore_state(state_reader(from, name_));
}

/// Continues from an image. The order matters: the stage knows its state before it is
/// told its position, and items come last.
result<void> stage_run::restore(const image& from) {
  epoch_ = from.epoch;
  WEIR_CHECK(same_constants(from));
  WEIR_CHECK(restore_state(from));
  WEIR_TRY(const image_section* s, section(from, "STAGE/" + name_));
  record_reader numbers(s->data);
  next_seq_ = numbers.get<std::uint64_t>();
  next_made_ = numbers.get<std::uint64_t>();
  // Whether the stage had ended: it will see the end again.
  static_cast<void>(numbers.get<std::uint8_t>());
  if (numbers.failed()) {
    return bad_section(s->name, "17 bytes", fmt::format("{}", s->data.size()));
  }
  // Without a limit, the section does not exist.
  if (const image_section* count = from.find("FAILURES/" + name_)) {
    record_reader number(count->data);
    failures_ = number.get<std::uint64_t>();
    if (number.failed() || !number.rest().empty()) {
      return bad_section(count->name, "8 bytes", fmt::format("{}", count->data.size()));
    }
  }
  if (info_.face == face::source) {
    WEIR_TRY(const image_section* cursor, section(from, "CURSOR/" + name_));
    WEIR_CHECK(object_.seek(cursor->data));
  }
  if (info_.face == face::sink) {
    WEIR_TRY(const image_section* offset, section(from, "OFFSET/" + name_));
    WEIR_CHECK(object_.rewind(offset->data));
  }
  return restore_items(from);
}

/// Makes an item that the image holds, or of zeros if there is no section.
// Slots and items of these come from pools of their own, made at the first use; the size
// of the pools is the number of items that an image can hold at most.
result<item*> stage_run::make_initial(std::size_t outlet, const stored_item& one,
                                      const port_type& type, const image_section* bytes) {
  if (!initial_slots_) {
    std::size_t capacity = info_.takes * in_.size();
    for (const auto& targets : out_) {
      for (const target& t : targets) {
        capacity += t.delay;
      }
    }
    // Space for the items of an incomplete call and those of all feedback edges.
    WEIR_TRY(initial_slots_,
             slot_pool::create(*facts_.host, capacity, 0, std::int64_t{1} << 40,
                               name_ + " (first items)"));
    initial_items_ = std::make_unique<item_pool>(capacity);
  }
  std::vector<std::int64_t> shape;
  for (const extent& e : type.shape) {
    shape.push_back(e.number);
  }
  const dtype element = bytes != nullptr ? bytes->type : *type.element;
  // Shape and size come from the image and are compared by `fill`.
  WEIR_TRY(slot * s,
           initial_slots_->take(element, bytes != nullptr ? bytes->shape : shape));
  if (bytes != nullptr) {
    WEIR_CHECK(fill(s->tensor, *bytes));
  } else {
    std::memset(s->tensor.data(), 0, static_cast<std::size_t>(s->bytes));
  }
  // The item has no holder yet; the caller adds them.
  item& made = initial_items_->take();
  made.seq = one.seq;
  made.lane = one.lane;
  made.about = one.about;
  made.slots[outlet] = s;
  return &made;
}

/// Restores the items of a call that is not complete, and those on feedback edges.
result<void> stage_run::restore_items(const image& from) {
  if (info_.takes > 1) {
    WEIR_TRY(const image_section* s, section(from, "HELD/" + name_));
    // The records come first, and then each item with its bytes.
    record_reader items(s->data);
    const std::size_t count = items.get<std::uint32_t>();
    call& c = current();
    c.seq = items.get<std::uint64_t>();
    // A call with all items would have been run.
    if (count >= info_.takes) {
      return bad_section(s->name, fmt::format("fewer than {} items", info_.takes),
                         fmt::format("{}", count));
    }
    for (std::size_t i = 0; i < count * in_.size(); ++i) {
      const inlet& in = in_[i % in_.size()];
      const stored_item one = get_item(items);
      // The call input keeps the edge, so that the credit goes back there.
      call::input taken_input{nullptr, in.from, in.outlet, 0};
      if (one.present) {
        WEIR_TRY(const image_section* bytes,
                 section(from, fmt::format("HELD/{}/{}", name_, i)));
        WEIR_TRY(taken_input.body, make_initial(in.outlet, one, {}, bytes));
        // The call holds the item, and the edge counts its credit as used.
        taken_input.body->holders = 1;
        taken_input.bytes = taken_input.body->slots[in.outlet]->bytes;
        in.from->take_credit(taken_input.bytes);
      }
      c.inputs.push_back(taken_input);
    }
    if (items.failed()) {
      return bad_section(s->name, "records of items", "fewer bytes");
    }
    collected_ = count;
  }
  for (std::size_t outlet = 0; outlet < out_.size(); ++outlet) {
    for (std::size_t t = 0; t < out_[outlet].size(); ++t) {
      if (out_[outlet][t].delay != 0) {
        WEIR_CHECK(restore_feedback(from, outlet, t));
      }
    }
  }
  return {};
}

/// Puts the items of a feedback edge back on it.
result<void> stage_run::restore_feedback(const image& from, std::size_t outlet,
                                         std::size_t nth) {
  target& to = out_[outlet][nth];
  const std::string name = fmt::format("LOOP/{}/{}/{}", name_, outlet, nth);
  WEIR_TRY(const image_section* s, section(from, name));
  record_reader items(s->data);
  const std::size_t count = items.get<std::uint32_t>();
  // The pool of these items has space for as many as the delay says.
  if (count > to.delay) {
    return bad_section(name, fmt::format("at most {} items", to.delay),
                       fmt::format("{}", count));
  }
  // The edge begins behind the barrier of the image.
  to.to->epoch_passed = from.epoch;
  for (std::size_t i = 0; i < count && !items.failed(); ++i) {
    const stored_item one = get_item(items);
    // A damaged count must not fill more places than the edge has.
    if (!to.to->has_credit(1)) {
      return bad_section(name, "as many items as the window of the edge allows",
                         fmt::format("{}", count));
    }
    if (!one.present) {
      to.to->push_gap(one.seq);
      continue;
    }
    WEIR_TRY(const image_section* bytes, section(from, fmt::format("{}/{}", name, i)));
    WEIR_TRY(item * made, make_initial(outlet, one, {}, bytes));
    to.to->push(*made, one.seq, made->slots[outlet]->bytes);
  }
  if (items.failed()) {
    return bad_section(name, "records of items", "fewer bytes");
  }
  return {};
}

/// Begins a loop: as many items of zeros as the delay says, or gaps if the size of an
/// item is not known.
result<void> stage_run::fill_feedback() {
  for (std::size_t outlet = 0; outlet < out_.size(); ++outlet) {
    for (target& to : out_[outlet]) {
      for (std::uint32_t n = 0; n < to.delay; ++n) {
        const port_type& type = outlet_types_[outlet];
        // Items of varying size cannot be made without knowing their size.
        if (!type.bytes()) {
          to.to->push_gap(n);
          continue;
        }
        stored_item one;
        one.seq = n;
        WEIR_TRY(item * made, make_initial(outlet, one, type, nullptr));
        to.to->push(*made, n, made->slots[outlet]->bytes);
      }
    }
  }
  return {};
}

}  // namespace weir::flow
