// SPDX-License-Identifier: Apache-2.0
/// @file
/// Hands items to a child process by shared memory, 32 with a message, and checks every
/// field of its answers.
#include "process/process_stage.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "process/child.hpp"
#include "process/memory.hpp"
#include "process/messages.hpp"
#include "weir/pipeline/host/batch_stage.hpp"
#include "weir/pipeline/host/hosted_stage.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::actors {
namespace {

/// Largest payload of a state. @units{bytes}
constexpr std::uint64_t max_state = std::uint64_t{1} << 40;

flow::small_record small_record_of(bytes_view from) {
  flow::small_record r;
  r.size = from.size();
  std::memcpy(r.data.data(), from.data(), from.size());
  return r;
}

/// Stands for a stage in the run and lets a child process do its work. Its I/O host calls
/// one function at a time.
///
/// A tensor of an input that lies in `slots_` is not copied: the child gets its offset.
/// Others are copied into the region `in`. The child writes its results into the slots
/// that `offer` names, or into the region `out`.
class process_stage final : public flow::batch_stage {
 public:
  process_stage(start_message start, shared_memory memory,
                std::unique_ptr<child_process> child)
      : start_(std::move(start)),
        layout_(start_.layout),
        whole_(std::make_shared<shared_memory>(std::move(memory))),
        memory_(*whole_),
        slots_(std::make_shared<flow::slot_memory>(memory_.at(layout_.slots),
                                                   layout_.slot_bytes, whole_)),
        child_(std::move(child)) {
    const flow::stage_info& info = start_.stage.info;
    inlets_ = info.inlets();
    outlets_ = info.outlets();
    owned_ = outlets_ - info.dead_letters();
  }

  /// The answer has the constants that the child has loaded, for the identity of the run.
  result<void> open(opening& run) override {
    WEIR_CHECK(begin(run));
    WEIR_TRY(const auto answer, child_->ask(wire::kind::open));
    WEIR_TRY(auto loaded, readable(constants_of(as_text(answer.payload))));
    run.set_constants(std::move(loaded));
    return note_position();
  }
  /// Asks a sink of a finished run whether its output is complete. The payload is the
  /// length of the offset, the offset, and the sections of the state.
  result<bool> verify(opening& run, bytes_view offset,
                      const flow::state_reader& state) override {
    WEIR_CHECK(begin(run));
    const auto bytes = static_cast<std::uint32_t>(offset.size());
    byte_vector payload(sizeof(bytes) + offset.size());
    std::memcpy(payload.data(), &bytes, sizeof(bytes));
    std::copy(offset.begin(), offset.end(), payload.begin() + sizeof(bytes));
    put_sections(payload, sections_in(state));
    WEIR_TRY(const auto answer, child_->ask(wire::kind::verify, 0, payload));
    return answer.head.count == 1;
  }

  /// Slots of the items that the stage takes and makes come from here while there is
  /// space.
  [[nodiscard]] std::shared_ptr<flow::slot_memory> memory() const override {
    return slots_;
  }
  /// Processes as many items as possible. A request takes only as many as fit into its
  /// region, so that several requests may be necessary.
  flow::processed_items work(std::span<flow::exchange* const> items) override {
    flow::processed_items done;
    while (done.processed < items.size()) {
      const flow::processed_items some = work_some(items.subspan(done.processed));
      done.processed += some.processed;
      done.failed = some.failed;
      done.partial = some.partial;
      if (some.failed || some.partial) {
        break;
      }
    }
    return done;
  }
  flow::filled_items fill(std::span<flow::blank* const> items) override {
    flow::filled_items done;
    auto filled = fill_some(items, done);
    if (!filled) {
      done.failure = at_item(pull(*items[done.filled]).seq(), std::move(filled.error()));
    }
    return done;
  }
  flow::processed_items write(std::span<const flow::ready* const> items) override {
    flow::processed_items done;
    while (done.processed < items.size() && !done.failed) {
      const auto rest = items.subspan(done.processed);
      auto written = write_some(rest, done);
      if (!written) {
        const std::size_t at = std::min(done.processed, items.size() - 1);
        done.failed = at_item(taken(*items[at]).seq(), std::move(written.error()));
      }
    }
    return done;
  }

  [[nodiscard]] flow::small_record position() const override { return position_; }
  result<void> seek(bytes_view cursor) override {
    WEIR_CHECK(tell(wire::kind::seek, cursor));
    return note_position();
  }
  result<flow::small_record> settle() override { return ask_record(wire::kind::settle); }
  result<void> rewind(bytes_view offset) override {
    return tell(wire::kind::rewind, offset);
  }
  result<void> copy_state(flow::state_writer& to) override {
    WEIR_TRY(auto parts, ask_state());
    for (flow::image_section& one : parts) {
      to.adopt(std::move(one));
    }
    return {};
  }
  result<void> restore_state(const flow::state_reader& from) override {
    byte_vector payload;
    put_sections(payload, sections_in(from));
    return tell(wire::kind::restore_state, payload);
  }
  /// Figures that are missing are a problem in the report and no failure of the run.
  void report(figures& to) const override {
    const auto answer = child_->ask(wire::kind::report);
    if (!answer) {
      to.problem(answer.error().message());
    } else if (!add_figures(as_text(answer->payload), to)) {
      to.problem("the child process has sent figures that are no JSON");
    }
  }

 private:
  [[nodiscard]] error at_item(std::uint64_t seq, error cause) const {
    return flow::item_error(start_.stage.name, seq, std::move(cause));
  }
  result<void> begin(opening& run) {
    start_.resuming = run.resuming();
    start_.kernels = run.kernels();
    return tell(wire::kind::start, as_view(wire_text(start_)));
  }
  /// Sends a request whose answer has nothing but its success.
  result<void> tell(wire::kind kind, bytes_view payload) {
    WEIR_TRY([[maybe_unused]] const auto answer, child_->ask(kind, 0, payload));
    return {};
  }
  /// Asks where a source is, because `position` cannot fail.
  result<void> note_position() {
    if (start_.stage.info.face == flow::face::source) {
      WEIR_TRY(position_, ask_record(wire::kind::cursor));
    }
    return {};
  }
  result<flow::small_record> ask_record(wire::kind kind) {
    WEIR_TRY(const auto answer, child_->ask(kind));
    return record_in(answer.payload);
  }
  result<flow::small_record> record_in(bytes_view payload) {
    if (payload.size() > flow::max_record) {
      return wrong(
          fmt::format("a cursor or an offset of at most {} bytes", flow::max_record),
          fmt::format("{}", payload.size()));
    }
    return small_record_of(payload);
  }
  result<std::vector<flow::image_section>> ask_state() {
    WEIR_TRY(const auto answer, child_->ask(wire::kind::copy_state, 0, {}, max_state));
    return readable(sections_of(answer.payload));
  }
  /// Ends the child if a part of its answer could not be read.
  template <class T>
  result<T> readable(result<T> read) {
    return read ? std::move(read) : result<T>(child_->broken(read.error()));
  }
  /// Returns the parts of the state of this stage in an image.
  [[nodiscard]] std::vector<flow::image_section> sections_in(
      const flow::state_reader& from) const {
    const std::string prefix = "STATE/" + start_.stage.name + "/";
    std::vector<flow::image_section> all;
    for (const flow::image_section& one : from.whole().sections) {
      if (one.name.starts_with(prefix)) {
        all.push_back(one);
        all.back().name.erase(0, prefix.size());
      }
    }
    return all;
  }
  error wrong(const std::string& expected, const std::string& found) {
    return child_->broken(error(
        errc::corrupt,
        fmt::format("cannot use an answer: expected {}, found {}", expected, found)));
  }

  /// Returns the offset of bytes in the shared memory.
  [[nodiscard]] std::uint64_t offset_of(const std::byte* at) const {
    return static_cast<std::uint64_t>(at - memory_.at(0));
  }
  /// Returns the record of a tensor, which is copied unless it lies in the shared memory.
  /// A tensor in a slot is only named by its offset. Slots whose address is not aligned
  /// for the wire are copied.
  std::optional<wire::tensor_record> place(const runtime::tensor& t, region& space) {
    const auto bytes =
        static_cast<std::uint64_t>(byte_size(t.type(), t.count()).value_or(0));
    const bool there = bytes != 0 && slots_->holds(t.data(), bytes) &&
                       offset_of(t.data()) % wire::alignment == 0;
    return there ? record_of(t, offset_of(t.data())) : put_tensor(memory_, space, t);
  }
  /// Stores a call in the shared memory. Returns false without space for its tensors.
  bool put_call(std::size_t nth, const flow::call_view& one, region& space) {
    const std::uint32_t takes = start_.stage.info.takes;
    for (std::size_t i = 0; i < one.inputs.size(); ++i) {
      wire::tensor_record record{};
      if (one.inputs[i] != nullptr) {
        const auto placed = place(*one.inputs[i], space);
        if (!placed) {
          return false;
        }
        record = *placed;
      }
      memory_.write(layout_.inputs, nth * takes * inlets_ + i, record);
    }
    wire::call_record c{};
    c.seq = one.seq;
    c.lane = one.lane;
    c.count = static_cast<std::uint32_t>(one.inputs.size() / inlets_);
    c.source_ns = one.source_ns;
    c.turn_ns = one.turn_ns;
    if (!one.about->empty()) {
      c.about_bytes = put_attributes(
          memory_.at(layout_.attributes + nth * wire::attribute_bytes), *one.about);
    }
    memory_.write(layout_.calls, nth, c);
    return true;
  }
  /// Stores as many calls as there is space for. Returns their number.
  template <class Items>
  result<std::uint32_t> put_calls(const Items& items) {
    region space(layout_.in, layout_.in_bytes);
    std::uint32_t count = 0;
    while (count < items.size() && count < wire::max_calls) {
      flow::look_at(*items[count], view_);
      if (!put_call(count, view_, space)) {
        break;
      }
      ++count;
    }
    if (count == 0) {
      return error(errc::out_of_range,
                   fmt::format("cannot hand an item to the child process: expected at "
                               "most {} bytes of tensors, found more",
                               layout_.in_bytes))
          .hint("give the edge before the stage a window of more bytes");
    }
    return count;
  }

  /// Fills the space for made items, so that elements which nobody writes are seen. The
  /// space is large and most calls use little of it, so only the part is filled that the
  /// call before has used; all of it if that is not known.
  /// `used_` counts while results are taken, and becomes `to_fill_` only after a request
  /// that succeeded completely, because a failed one may have written anywhere.
  void fill_space() {
    if (start_.fill_slots >= 0) {
      std::memset(memory_.at(layout_.out), start_.fill_slots,
                  std::min(to_fill_, layout_.out_bytes));
    }
    to_fill_ = whole_space;
    used_ = 0;
  }
  /// Tells the child where the tensors of made item `nth` should lie: in the memory of
  /// the item, from which the run need not copy them. A filled space is looked at by
  /// users who search for elements that nobody writes, and filling the item again would
  /// clear it.
  void offer(std::size_t nth, const flow::blank& to) {
    for (std::size_t o = 0; o < outlets_; ++o) {
      wire::tensor_record there{};
      // Dead-letter outlets come last and are written by the run, not by the child.
      if (o < owned_ && start_.fill_slots < 0) {
        const runtime::storage memory = flow::memory_at(to, o);
        const auto bytes = static_cast<std::uint64_t>(memory.size);
        if (bytes != 0 && slots_->holds(memory.base, bytes)) {
          there.offset = offset_of(memory.base);
          there.bytes = bytes;
        }
      }
      memory_.write(layout_.outputs, nth * outlets_ + o, there);
    }
  }
  /// Checks where a made tensor lies: in the memory of its item, or in that for all made
  /// items.
  result<shared_tensor> check_made(const wire::tensor_record& record,
                                   const flow::blank& to, std::size_t outlet) {
    const runtime::storage own = flow::memory_at(to, outlet);
    const bool offered = own.size != 0 &&
                         slots_->holds(own.base, static_cast<std::uint64_t>(own.size)) &&
                         record.offset == offset_of(own.base);
    return offered ? check_tensor(memory_, record, record.offset,
                                  static_cast<std::uint64_t>(own.size))
                   : check_tensor(memory_, record, layout_.out, layout_.out_bytes);
  }
  /// Copies a made item from the shared memory, unless its tensors lie in their places.
  result<void> take_made(std::size_t nth, const wire::made_record& made,
                         flow::blank& to) {
    if (made.about_bytes != wire::same_attributes) {
      if (made.about_bytes > wire::attribute_bytes) {
        return wrong("attributes in their place", std::to_string(made.about_bytes));
      }
      const std::uint64_t at = layout_.made_attributes + nth * wire::attribute_bytes;
      WEIR_TRY(const auto about,
               readable(get_attributes(memory_.at(at), made.about_bytes)));
      flow::set_attributes(to, about);
    }
    pull p(to);
    for (std::size_t o = 0; o < owned_; ++o) {
      const auto record =
          memory_.read<wire::tensor_record>(layout_.outputs, nth * outlets_ + o);
      if (record.type == 0) {
        continue;
      }
      auto t = check_made(record, to, o);
      if (!t) {
        return child_->broken(std::move(t.error()));
      }
      WEIR_TRY(const runtime::tensor place,
               p.fill_bytes(static_cast<int>(o), t->type, t->shape));
      // A tensor that lies in its place already needs no copy.
      if (t->bytes != 0 && place.data() != t->data) {
        std::memcpy(place.data(), t->data, t->bytes);
        used_ = std::max(used_, record.offset + t->bytes - layout_.out);
      }
    }
    return {};
  }

  /// Checks the answer to a request with items.
  /// A count of all items together with a flag, or of none without one, contradicts
  /// itself. `reasons` are the flags that explain to such a request why items are
  /// missing: with another one, the same items would be asked for without end.
  result<void> check_answer(const wire::head& head, std::size_t asked,
                            std::uint32_t reasons) {
    const bool more = head.flags != 0;
    if ((head.flags & ~reasons) != 0 || head.count > asked ||
        (head.count == asked && more) || (head.count == 0 && !more)) {
      return wrong(fmt::format("1 to {} items with flags among {}", asked, reasons),
                   fmt::format("{} with flags {}", head.count, head.flags));
    }
    return {};
  }

  /// Sends one request with the first items and takes the answer. Any error counts as the
  /// failure of the first item that is not complete.
  flow::processed_items work_some(std::span<flow::exchange* const> items) {
    flow::processed_items done;
    auto worked = [&]() -> result<void> {
      WEIR_TRY(const std::uint32_t count, put_calls(items));
      fill_space();
      for (std::uint32_t i = 0; i < count && !start_.stage.info.own_numbering; ++i) {
        offer(i, flow::made_item(*items[i], 0));
      }
      forget_made(count);
      auto asked = child_->ask(wire::kind::work, count);
      if (!asked) {
        // The child has died. Items that it has completed in the shared memory count.
        return take_complete(items.first(count), done, std::move(asked.error()));
      }
      const wire_message& answer = *asked;
      WEIR_CHECK(check_answer(
          answer.head, count,
          wire::failed | (start_.stage.info.own_numbering ? wire::partial : 0)));
      const bool partial = (answer.head.flags & wire::partial) != 0;
      if (start_.stage.info.own_numbering) {
        WEIR_CHECK(take_several(items, answer.head.count + (partial ? 1 : 0)));
        done.processed = answer.head.count;
        if (partial) {
          flow::set_made(*items[done.processed], made_, true);
        }
        done.partial = partial;
      } else {
        for (; done.processed < answer.head.count; ++done.processed) {
          WEIR_CHECK(take_one(*items[done.processed], done.processed));
        }
      }
      if ((answer.head.flags & wire::failed) != 0) {
        done.failed = error_of(as_text(answer.payload));
      } else if (!partial) {
        to_fill_ = used_;
      }
      return {};
    }();
    if (!worked) {
      done.failed = std::move(worked.error());
      done.partial = false;
    }
    return done;
  }
  /// Takes the items that a child has completed before it died, and returns the error of
  /// the next one. Items that the child works on together are completed together.
  /// A record whose `call` is its own number was written completely: the child writes the
  /// records in order, each after the tensors of its item.
  result<void> take_complete(std::span<flow::exchange* const> items,
                             flow::processed_items& done, error lost) {
    if (!start_.stage.info.own_numbering) {
      // The last item is never taken: if all were complete, the answer was lost, and the
      // error must still belong to an item.
      while (done.processed + 1 < items.size() &&
             memory_.read<wire::made_record>(layout_.made, done.processed).call ==
                 done.processed) {
        WEIR_CHECK(take_one(*items[done.processed], done.processed));
        ++done.processed;
      }
    }
    // A stage in Python works on one item after another, so the next item is the guilty
    // one. A stage in C++ may have had all of them in its tasks.
    if (!start_.stage.origin.home.command.empty() || done.processed + 1 == items.size()) {
      return lost;
    }
    flow::call_view last;
    flow::look_at(*items.back(), last);
    const errc code = lost.code();
    return error(code, fmt::format("the child process had this item and those up to item "
                                   "{}, and may have worked on any of them",
                                   last.seq))
        .because(std::move(lost));
  }
  /// Clears the records that tell which items a child has completed.
  void forget_made(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count && i < layout_.made_records; ++i) {
      wire::made_record none{};
      none.call = wire::no_call;
      memory_.write(layout_.made, i, none);
    }
  }
  /// Takes the item of a stage that keeps numbers.
  result<void> take_one(flow::exchange& of_call, std::size_t nth) {
    const auto made = memory_.read<wire::made_record>(layout_.made, nth);
    if (made.call != nth) {
      return wrong(fmt::format("the item of call {}", nth), std::to_string(made.call));
    }
    if ((made.flags & wire::skipped) != 0) {
      pull(flow::made_item(of_call, 0)).skip();
      return {};
    }
    return take_made(nth, made, flow::made_item(of_call, 0));
  }
  /// Takes the items of a stage whose items have numbers of their own.
  /// Records stand in the order of calls. `calls` of them may have items, each any number
  /// up to `gives`; the first record with another call ends the items of a call.
  result<void> take_several(std::span<flow::exchange* const> items, std::size_t calls) {
    const std::size_t gives = start_.stage.info.gives;
    std::size_t nth = 0;
    for (std::size_t call = 0; call < calls; ++call) {
      made_ = 0;
      for (; nth < layout_.made_records; ++nth, ++made_) {
        const auto made = memory_.read<wire::made_record>(layout_.made, nth);
        if (made.call != call) {
          break;
        }
        if (made_ == gives) {
          return wrong(fmt::format("at most {} items of a call", gives), "more");
        }
        WEIR_CHECK(take_made(nth, made, flow::made_item(*items[call], made_)));
      }
      flow::set_made(*items[call], made_, false);
    }
    if (nth < layout_.made_records) {
      const auto made = memory_.read<wire::made_record>(layout_.made, nth);
      if (made.call != wire::no_call) {
        return wrong("the end of the items", fmt::format("one of call {}", made.call));
      }
    }
    return {};
  }

  /// Fills items of a source. Each filled item comes with the cursor behind it, which
  /// becomes the position of the source. A request for an item with a mark has one item,
  /// so that the state asked for afterwards is the state behind exactly this item.
  result<void> fill_some(std::span<flow::blank* const> items, flow::filled_items& done) {
    const bool marks = flow::wants_mark(*items.front());
    const auto count = static_cast<std::uint32_t>(
        marks ? 1 : std::min<std::size_t>(items.size(), wire::max_calls));
    for (std::uint32_t i = 0; i < count; ++i) {
      wire::call_record c{};
      c.seq = pull(*items[i]).seq();
      c.flags = wire::wants_cursor;
      memory_.write(layout_.calls, i, c);
      offer(i, *items[i]);
    }
    fill_space();
    WEIR_TRY(const auto answer, child_->ask(wire::kind::fill, count));
    const wire::head& head = answer.head;
    WEIR_CHECK(check_answer(head, count, wire::failed | wire::ended | wire::nothing));
    for (std::size_t i = 0; i < head.count; ++i) {
      const auto made = memory_.read<wire::made_record>(layout_.made, i);
      if (made.call != i || made.cursor_bytes > flow::max_record) {
        return wrong(fmt::format("item {} with its cursor", i),
                     fmt::format("{} with {} bytes", made.call, made.cursor_bytes));
      }
      WEIR_CHECK(take_made(i, made, *items[i]));
      position_ = small_record_of(bytes_view(made.cursor).first(made.cursor_bytes));
      if (marks) {
        WEIR_TRY(auto state, ask_state());
        for (flow::image_section& one : state) {
          one.name = "STATE/" + start_.stage.name + "/" + one.name;
        }
        flow::set_mark(*items[i], position_, std::move(state));
      }
      ++done.filled;
    }
    // `nothing_yet` lets the run ask again later; `ended` brings the last cursor.
    done.nothing_yet = (head.flags & wire::nothing) != 0;
    if ((head.flags & wire::ended) != 0) {
      WEIR_TRY(position_, record_in(answer.payload));
      done.ended = true;
      done.cursor = position_;
    }
    if ((head.flags & wire::failed) != 0) {
      return error_of(as_text(answer.payload));
    }
    to_fill_ = used_;
    return {};
  }

  result<void> write_some(std::span<const flow::ready* const> items,
                          flow::processed_items& done) {
    WEIR_TRY(const std::uint32_t count, put_calls(items));
    WEIR_TRY(const auto answer, child_->ask(wire::kind::write, count));
    WEIR_CHECK(check_answer(answer.head, count, wire::failed));
    done.processed += answer.head.count;
    if ((answer.head.flags & wire::failed) != 0) {
      return error_of(as_text(answer.payload));
    }
    return {};
  }

  start_message start_;
  flow::shared_layout layout_;
  std::shared_ptr<shared_memory> whole_;
  shared_memory& memory_;
  std::shared_ptr<flow::slot_memory> slots_;  ///< a part of it
  std::unique_ptr<child_process> child_;
  std::size_t inlets_ = 0;
  std::size_t outlets_ = 0;
  std::size_t owned_ = 0;  ///< outlets that are not for failed items
  std::size_t made_ = 0;   ///< items of the last call that was taken
  static constexpr std::size_t whole_space = ~std::size_t{0};
  std::size_t to_fill_ = whole_space;  ///< bytes that `fill_space` fills the next time
  std::size_t used_ = 0;  ///< bytes of the space in which the last call made items
  flow::small_record position_;
  flow::call_view view_;
};

}  // namespace

result<std::unique_ptr<flow::stage_object>> make_process_stage(
    const flow::plan& p, std::uint32_t stage, const process_options& options) {
  const flow::graph_stage& s = p.source.stages[stage];
  start_message start;
  start.stage = s;
  start.planned = p.stages[stage];
  start.budget = flow::window_behind(p.source, stage);
  start.plugins = options.plugins;
  start.seed = options.seed;
  start.fill_slots = options.fill_slots;
  start.folder = options.folder;
  start.layout = flow::layout_of(p, stage);
  child_options child;
  child.stage = s.name;
  child.command = s.origin.home.command;
  if (child.command.empty()) {
    WEIR_TRY(child.command, stage_host_command());
  }
  child.deadline_ns = options.deadline_ns;
  child.died = options.died;
  WEIR_TRY(auto memory, shared_memory::create(s.name, start.layout.bytes));
  child.memory = memory.fd();
  WEIR_TRY(auto started, child_process::start(std::move(child)));
  return std::make_unique<process_stage>(std::move(start), std::move(memory),
                                         std::move(started));
}

}  // namespace weir::actors
