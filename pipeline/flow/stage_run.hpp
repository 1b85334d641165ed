// SPDX-License-Identifier: Apache-2.0
/// @file
/// A stage of a run on the host's thread: takes items from its edges, calls the stage,
/// hands items on, and lets go of what it held once the tasks of the call have ended.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "epoch/item_record.hpp"
#include "flow/edge.hpp"
#include "flow/exchanges.hpp"
#include "flow/item_memory.hpp"
#include "flow/item_times.hpp"
#include "flow/skipped_items.hpp"
#include "weir/pipeline/graph.hpp"
#include "weir/pipeline/host/image.hpp"
#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

class stage_run;
struct source_turn;

/// What a stage has done with a call so far. Most stages emit once and do nothing else;
/// whether that is so takes one comparison.
struct call_outcome {
  bool about_set = false;   ///< `call::about` differs from the attributes of the input
  bool wants_emit = false;  ///< emitted, but held back until its tasks ended
  bool skipped = false;     ///< the stage has called `skip`
  bool gap = false;  ///< a number without an item, which the stage was not called for
  std::uint32_t emissions = 0;  ///< number of calls of `emit`

  /// Compares all members at once, which the compiler does not do by itself.
  bool operator==(const call_outcome& other) const noexcept {
    return std::bit_cast<std::uint64_t>(*this) == std::bit_cast<std::uint64_t>(other);
  }
};

/// One call of a stage, from the first item that it takes until its tasks have ended.
struct call {
  /// An item that the call took, with the edge that gets its credit back.
  struct input {
    item* body = nullptr;      ///< null for a gap
    edge* from = nullptr;      ///< edge of the item
    std::uint32_t outlet = 0;  ///< outlet of the producer whose tensor the edge carries
    std::int64_t bytes = 0;    ///< bytes of the credit
  };
  std::uint64_t seq = 0;  ///< number of the first item
  /// By item of the call, then by inlet. Those of plain stages always have one entry.
  std::vector<input> inputs;
  std::array<slot*, max_ports> made{};     ///< named by the call and not emitted yet
  std::array<slot*, max_ports> scratch{};  ///< scratch memories of the call
  std::vector<item*> emitted;  ///< items that the call handed on and still holds
  attributes about;            ///< attributes of the item to be emitted
  call_outcome outcome;        ///< what the stage has done so far
  task_id first = 0;           ///< first task of the call; 0 if it has none
  task_id last = 0;            ///< last task of the call
  task_id next = 0;            ///< oldest task of the call that has not been seen to end
  std::int64_t taken_ns = 0;  ///< time at which the call began, if a recorder asks for it
  std::uint64_t round = 0;    ///< number of the step of a step loop
  bool dead_letter = false;   ///< failed: its inputs leave through other outlets
  bool over = false;          ///< the step loop has made its last step
  bool returned = false;      ///< a blocking stage has processed the item
  /// Error of the stage itself. The item fails once the tasks of the call have ended.
  std::unique_ptr<error> refusal;
};

/// The next action of a stage.
enum class next_action : std::uint8_t {
  wait_input,   ///< an inlet has no entry
  wait_output,  ///< an edge has no credit, or memory is not free
  wait_tasks,   ///< calls must end first
  take,         ///< an item or a gap of one number at all inlets
  barrier,      ///< a barrier at all inlets
  end,          ///< all inlets have ended
  ended         ///< the stage has ended before
};

/// Facts of the run that all its stages share.
struct run_facts {
  weir::engine* host = nullptr;  ///< engine of the run
  /// Calls in place of tasks of the engine, if there is one.
  std::unique_ptr<runtime::direct_calls> calls;
  std::uint64_t seed = 1;      ///< seed of the run
  int fill_slots = -1;         ///< see `execution_options`
  bool calls_sinks = false;    ///< see `execution_options`
  std::uint64_t failures = 0;  ///< failed and poisoned tasks that have been seen
  std::uint64_t epoch = 0;     ///< epoch in flight; 0 if there is none
  image* growing = nullptr;    ///< image of the epoch in flight
  skipped_items skipped;       ///< items that are read and not processed
  /// Sections of the image before, whose memory the image of the epoch in flight uses.
  std::vector<image_section> spare;
  std::int64_t turn_ns = 0;  ///< begin of the turn; new items have left their source then
  /// Number of the item that failed last.
  std::uint64_t failed_item = 0;
  /// Number of the stage in which that item failed; empty if no item has ended the run.
  std::optional<std::uint32_t> failed_stage;
  /// Gets the errors of items that become gaps; null if nobody asks for them.
  std::vector<std::pair<std::uint64_t, error>>* failures_of = nullptr;
  bool alone = false;        ///< the stage has no stages around it, see `nested_stage`
  std::uint16_t tagged = 0;  ///< tag of the tasks that are submitted now
  /// Records items for a trace; null if there is none.
  item_recorder* recorder = nullptr;
  std::vector<task_id> copies;  ///< tasks that fill the image
  /// Items that a task copies. They stay, because stages outside the engine write into
  /// free slots without asking whether a task reads them.
  std::vector<std::pair<task_id, item*>> copied_items;
  /// Lets go of the items whose copies have ended.
  void let_go_of_copied_items() {
    std::erase_if(copied_items, [&](const auto& one) {
      const bool ended = host->base().ended(one.first);
      if (ended) {
        let_go(*one.second);
      }
      return ended;
    });
  }
};

/// A stage of a run: its calls, ports and pools, and its part of an epoch.
///
/// The functions of this class are in stage_run.cpp (taking and handing on),
/// plain_work.cpp (the short path), settling.cpp (ends of calls), ports.cpp (sources and
/// sinks), exchanges.cpp (blocking stages), and epoch/image.cpp (images).
/// @threads{thread-compatible; belongs to the submitter of the engine}
class stage_run {
 public:
  /// @param name      Name of the stage in the pipeline.
  /// @param info      Description; must outlive the object.
  /// @param object    The stage; must outlive the object.
  stage_run(std::string name, const stage_info& info, stage_object& object,
            run_facts& facts);

  /// Connects an edge to an inlet. @param number Number among the inlets. @param outlet
  /// Number among the producer's outlets.
  void connect_inlet(std::size_t number, edge& from, std::uint32_t outlet, bool feedback,
                     const stage_run& producer);
  /// Connects an edge to an outlet. @param delay Delay of a feedback edge, otherwise 0.
  void connect_outlet(std::size_t outlet, edge& to, std::uint32_t delay,
                      const stage_run& consumer);
  /// Makes the pools. @error{out_of_memory, they cannot be allocated}
  [[nodiscard]] result<void> allocate(const graph_stage& source,
                                      const planned_stage& planned,
                                      std::uint32_t open_calls, std::int64_t budget);

  /// Lets go of calls whose tasks have ended, from the oldest. Returns whether there were
  /// any. @error{kernel_failed, a task of an item failed; names stage and item}
  [[nodiscard]] result<bool> settle();
  /// Takes at most `limit` items. Returns whether it took any, or passed a marker on.
  /// @error{kernel_failed, the stage has thrown. An error of the stage keeps its code;
  /// the message names stage and item}
  [[nodiscard]] result<bool> work(std::uint32_t limit);

  /// Puts the first items of a feedback edge on it: zeros, or gaps if the shape of the
  /// outlet is not fixed. @error{out_of_memory, see `allocate`}
  [[nodiscard]] result<void> fill_feedback();

  // Sources.
  /// Makes the source one of several that are joined: its items are held until `release`.
  void join_others() noexcept { joined_ = true; }
  /// Returns whether the source is joined with others.
  [[nodiscard]] bool joined() const noexcept { return joined_; }
  /// Returns an empty item for the source to fill, or a null pointer without credit.
  [[nodiscard]] blank* grant(std::uint64_t before);
  /// Returns whether `count` items could be granted, or all up to number `before`. For
  /// items of varying size one suffices.
  [[nodiscard]] bool can_grant(std::uint32_t count, std::uint64_t before) const noexcept;
  /// Takes the oldest granted item back, filled, and hands it on unless it is held.
  [[nodiscard]] result<void> deliver(blank& filled);
  /// Hands on the held items before number `before`, and the end behind the last item.
  [[nodiscard]] result<void> release(std::uint64_t before);
  /// Takes the oldest granted item back, because the data have ended.
  void end_source(blank& unused, const small_record& cursor);
  /// Returns the number of the next item that the source will hand on.
  [[nodiscard]] std::uint64_t delivered() const noexcept { return next_seq_; }
  /// Returns the number of the first item that has not come back from the source.
  [[nodiscard]] std::uint64_t filled() const noexcept { return next_seq_ + held_; }
  /// Returns whether the source has no further item, though it may have held ones.
  [[nodiscard]] bool end_read() const noexcept { return end_read_; }
  /// Passes a barrier on behind the delivered items and stores the cursor in the image.
  [[nodiscard]] result<void> mark(const small_record& cursor);
  /// Notes the position of a joined source before its first item. Also returns the
  /// errors of `mark_of`.
  [[nodiscard]] result<void> mark_begin();
  /// As `mark`, with the position that came with the last item that was handed on.
  [[nodiscard]] result<void> mark_here();
  /// Returns the number of the first item behind the newest barrier.
  [[nodiscard]] std::uint64_t marked() const noexcept { return marked_; }
  /// Lets a plain source fill items as long as it does what most do, and hands each on at
  /// once. Stops with an item that needs more, which then counts as granted.
  void fill_plainly(std::uint32_t limit, std::uint64_t before, source_turn& done);
  /// Returns whether granted items are with the source.
  [[nodiscard]] bool has_grants() const noexcept { return granted_ != held_; }
  /// Gives granted items back unfilled, when a source stops.
  void take_back_grants() noexcept;

  // Sinks.
  /// Hands out the oldest item that has not been handed out and whose tasks have ended,
  /// or a null pointer. @error{upstream_failed, a task that writes the item failed}
  [[nodiscard]] result<const ready*> next_ready();
  /// Lets go of the oldest item that was handed out.
  void done();
  /// Returns whether all items before the barrier or the end have been taken, so that the
  /// sink has to settle.
  [[nodiscard]] bool wants_settle() const noexcept { return wants_settle_; }
  /// Stores the offset of the sink in the image.
  [[nodiscard]] result<void> settled(const small_record& offset);

  // Blocking stages.
  /// Hands out the oldest item that has not been handed out, whose tasks have ended, and
  /// for which there are memory and credits behind the stage; or a null pointer.
  /// @error{upstream_failed, a task that writes the item failed}
  [[nodiscard]] result<exchange*> next_exchange();
  /// Takes the oldest item that was handed out and not returned. @param failed Error of
  /// the stage, or null. @error{invalid_argument, the stage has made no item; or returns
  /// the error of the stage, unless failed items are skipped}
  [[nodiscard]] result<void> give_back(exchange& item, const error* failed);

  /// Adds the state of an ended stage to an image that was begun later.
  [[nodiscard]] result<void> contribute_final();
  /// Returns whether the stage has added its part to the image of the epoch in flight.
  [[nodiscard]] bool contributed() const noexcept { return epoch_ == facts_.epoch; }
  /// Lets the slots come from memory that a child process reaches; may be null. @pre
  /// `allocate` was not called.
  void share(std::shared_ptr<slot_memory> memory) { shared_ = std::move(memory); }
  /// Takes the constants that the stage has loaded in `open`.
  void set_constants(std::vector<constant_info> loaded) {
    constants_ = std::move(loaded);
  }
  /// Restores the state after `open`. @error{corrupt, a section is missing or wrong}
  /// @error{history_mismatch, a constant has other contents}
  [[nodiscard]] result<void> restore(const image& from);
  /// Restores the state of the stage itself. @error{corrupt, see `restore`}
  [[nodiscard]] result<void> restore_state(const image& from);
  /// Adds the state of the stage itself to the growing image.
  [[nodiscard]] result<void> contribute_state();

  /// Returns whether the stage has seen the end of its input.
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// Returns the number of calls whose tasks have not ended, or which a sink holds.
  [[nodiscard]] std::size_t open_calls() const noexcept { return open(); }
  /// The reason for which a stage does nothing.
  struct wait {
    std::string reason;                ///< in words
    const stage_run* other = nullptr;  ///< stage that has to act, if it is known
  };
  /// Returns what the stage waits for.
  [[nodiscard]] wait waiting_for() const;
  /// Returns whether the stage has work and is not blocked by the stages behind it. A
  /// source always has work.
  [[nodiscard]] bool limits_rate() const noexcept;
  /// Returns the name of the stage.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns the description of the stage.
  [[nodiscard]] const stage_info& info() const noexcept { return info_; }
  /// Returns the stage itself.
  [[nodiscard]] stage_object& object() noexcept { return object_; }
  /// Returns the number of items of an edge that calls hold.
  [[nodiscard]] std::uint32_t held_of(const edge& from) const noexcept;
  /// Returns the bytes of all slots. @units{bytes}
  [[nodiscard]] std::int64_t slot_bytes() const noexcept;

  // A stage alone, without the stages around it.
  /// Returns whether the stage can take a call.
  [[nodiscard]] bool takes_call() const noexcept;
  /// Returns the call that `run_alone` runs, for its inputs.
  [[nodiscard]] call& next_call() noexcept { return current(); }
  /// Runs the call of `next_call`. Also returns the errors of `work`.
  [[nodiscard]] result<void> run_alone(std::uint64_t seq);
  /// Sets the number of the next item of a source.
  void set_next(std::uint64_t seq) noexcept { next_seq_ = seq; }

  stage_counters counters;  ///< counters since the start of the run
  std::uint32_t index = 0;  ///< number of the stage in the pipeline
  /// Returns the tag of its tasks. The engine has tasks without a stage, too.
  [[nodiscard]] std::uint16_t tag() const noexcept;
  sink_latency latency;  ///< of a sink

 private:
  friend class ::weir::step;
  friend class ::weir::pull;
  struct inlet {
    /// Edge that ends at the inlet.
    edge* from = nullptr;
    /// Outlet of the producer whose tensor the edge carries.
    std::uint32_t outlet = 0;
    /// The edge is fed back, from a later stage.
    bool feedback = false;
    /// The end has been taken from the edge.
    bool ended = false;
    /// Stage at the other end.
    const stage_run* producer = nullptr;
  };
  /// The end of a call: it waits for credits, it goes on with a step, or it has ended.
  enum class settling : std::uint8_t { blocked, stepped, ended };
  struct target {
    /// Edge that begins at the outlet.
    edge* to = nullptr;
    /// Numbers by which a feedback edge is later; 0 for other edges.
    std::uint32_t delay = 0;
    /// Stage at the other end.
    const stage_run* consumer = nullptr;
  };

  [[nodiscard]] bool is_plain() const noexcept;
  [[nodiscard]] result<std::uint32_t> take_plainly(std::uint32_t limit);
  [[nodiscard]] result<std::uint32_t> take_for_sink(std::uint32_t limit);
  [[nodiscard]] result<std::uint32_t> write_plainly(std::uint32_t limit);
  [[nodiscard]] bool is_usual(const blank& filled) const noexcept;
  [[nodiscard]] bool hand_on_plainly(blank& filled);
  void hand_on_slot(slot& filled);
  void push_plainly(item& one, const slot* memory, std::uint64_t number);
  [[nodiscard]] result<std::uint32_t> take_at_once(std::uint32_t limit, step& s);
  [[nodiscard]] bool forward_plainly(call& c, edge& to);
  [[nodiscard]] result<void> emit_plainly(call& c);
  [[nodiscard]] bool has_just_emitted(const call& c) const noexcept;
  [[nodiscard]] result<void> end_plainly(call& c, const slot_pool* pool);
  void finish_rest(call& c);
  /// Returns a call of a plain stage that has submitted no task to its empty state. Only
  /// what such a call can have set is cleared.
  void finish_without_tasks(call& c) {
    call::input& input = c.inputs.front();
    // The credit and the holder of the input go back.
    input.from->give_back(input.bytes);
    let_go(*input.body);
    input.body = nullptr;
    if (!c.emitted.empty()) {
      let_go(*c.emitted.front());  // a plain stage makes one item
      c.emitted.clear();
    }
    if (c.made.front() != nullptr || c.outcome.about_set || c.taken_ns != 0) {
      finish_rest(c);
    }
    c.outcome = {};
  }
  /// Returns a call of a plain stage to its empty state.
  void finish_plainly(call& c) {
    finish_without_tasks(c);
    c.first = c.last = c.next = 0;
  }
  [[nodiscard]] result<bool> settle_plainly();
  [[nodiscard]] bool tasks_ended(call& c) const noexcept;
  [[nodiscard]] next_action look() noexcept;
  [[nodiscard]] next_action look_at_inputs() noexcept;
  [[nodiscard]] bool has_output(std::uint32_t items) const noexcept;
  [[nodiscard]] bool slots_available() const noexcept;
  [[nodiscard]] bool releases_feedback() const noexcept;
  [[nodiscard]] result<void> take();
  [[nodiscard]] bool collect(call& c);
  [[nodiscard]] result<void> run(call& c);
  [[nodiscard]] result<void> gate(call& c);
  void mark_complete(call& c) noexcept;
  void mark_emitted_complete(call& c) noexcept;
  /// Lets the time of tasks that the stage submits count for it.
  void tag_tasks() noexcept;
  [[nodiscard]] result<void> after_on_item(call& c);
  [[nodiscard]] result<settling> settle_front(call& c);
  [[nodiscard]] result<settling> call_step(call& c);
  [[nodiscard]] result<void> call_done(call& c);
  [[nodiscard]] result<void> refuse(call& c, error cause);
  [[nodiscard]] result<void> emitted_once(const call& c, const char* function) const;
  [[nodiscard]] result<bool> settle_returned();
  [[nodiscard]] result<void> take_made(exchange& item, call& c, const error* failed);
  [[nodiscard]] bool publish_made(call& c);
  void return_call(call& c) noexcept;
  void make_exchanges();
  void fill_made(call& c, blank& filled);
  [[nodiscard]] bool any_filled(const blank& filled) const noexcept;
  [[nodiscard]] result<void> answer_failure(call& c, error cause);
  [[nodiscard]] std::optional<error> failure_of(const call& c);
  [[nodiscard]] result<void> emit(call& c);
  void publish(call& c);
  [[nodiscard]] static result<void> check_attributes(const call& c);
  void push_gap(std::uint64_t number);
  void push_marker(entry_kind kind, std::uint64_t epoch);
  void skip_delivered(blank& filled);
  [[nodiscard]] result<void> hand_on(blank& filled);
  [[nodiscard]] result<void> hand_on_checked(blank& filled);
  [[nodiscard]] result<bool> tasks_wrote(const call& c);
  void push_end();
  void drop_made(call& c) noexcept;
  [[nodiscard]] result<void> count_failure(std::uint64_t seq, error cause);
  void send_to_dead_letters(call& c, const error& cause);
  void finish(call& c);
  [[nodiscard]] std::int64_t left_source(const call& c) const noexcept;
  static void let_go_of_emitted(call& c) noexcept;
  [[nodiscard]] result<void> pass_barrier();
  [[nodiscard]] result<void> pass_end();
  [[nodiscard]] result<void> contribute();
  [[nodiscard]] result<void> copy_tensor(std::string section, const runtime::tensor& t,
                                         bool at_rest);
  [[nodiscard]] result<void> copy_item(std::string section, item& one,
                                       std::size_t outlet);
  [[nodiscard]] result<void> copy_items();
  [[nodiscard]] std::string constant_section(std::size_t nth) const;
  void add_constants();
  [[nodiscard]] result<void> same_constants(const image& from) const;
  [[nodiscard]] result<void> copy_feedback();
  [[nodiscard]] result<void> restore_items(const image& from);
  [[nodiscard]] result<void> restore_feedback(const image& from, std::size_t outlet,
                                              std::size_t nth);
  [[nodiscard]] result<item*> make_initial(std::size_t outlet, const stored_item& one,
                                           const port_type& type,
                                           const image_section* bytes);
  [[nodiscard]] error at_item(std::uint64_t seq, error cause) const;
  [[nodiscard]] result<void> fits(std::size_t outlet, dtype type,
                                  std::span<const std::int64_t> shape) const;
  [[nodiscard]] call& oldest() noexcept { return calls_[first_open_ & (ring_size_ - 1)]; }
  [[nodiscard]] call& current() noexcept { return calls_[next_open_ & (ring_size_ - 1)]; }
  [[nodiscard]] std::size_t open() const noexcept { return next_open_ - first_open_; }
  /// True if the item is emitted only after its tasks have ended.
  [[nodiscard]] bool emits_late() const noexcept {
    return info_.face == face::late || info_.face == face::blocking || skips_failures_;
  }
  /// True if the stage works outside the engine, on a thread of its own.
  [[nodiscard]] bool is_outside() const noexcept {
    return info_.face == face::source || info_.face == face::sink ||
           info_.face == face::blocking;
  }

  std::string name_;
  const stage_info& info_;
  stage_object& object_;
  run_facts& facts_;
  /// Items that fail become gaps, or leave through other outlets.
  bool skips_failures_ = false;
  bool plain_ = false;  ///< see `is_plain`
  /// The edge behind a plain stage, if it is the only one and has no delay.
  edge* only_to_ = nullptr;
  bool has_feedback_ = false;  ///< an inlet is fed back
  /// Failed items that the run allows.
  std::uint64_t max_failures_ = unlimited_failures;
  std::uint64_t failures_ = 0;  ///< failed items of this run and of those before it
  std::vector<port_type> inlet_types_;   ///< after unification
  std::vector<port_type> outlet_types_;  ///< after unification
  /// Constants that `open` has loaded, in this order.
  std::vector<constant_info> constants_;
  /// By number among the inlets.
  std::vector<inlet> in_;
  std::vector<std::vector<target>> out_;  ///< by outlet
  std::vector<std::unique_ptr<slot_pool>>
      pools_;  ///< by outlet; null if it only forwards
  /// Scratch memories of the description, each with a slot per open call.
  std::vector<std::unique_ptr<slot_pool>> scratch_;
  /// Items that the stage emits.
  std::unique_ptr<item_pool> items_;
  std::shared_ptr<slot_memory> shared_;  ///< see `share`
  /// Memory of items that a run begins with: the first items of feedback edges, and items
  /// that an image holds.
  std::unique_ptr<slot_pool> initial_slots_;
  std::unique_ptr<item_pool> initial_items_;

  /// A ring: open calls, then the one being made. Its size is a power of two.
  std::vector<call> calls_;
  std::size_t ring_size_ = 0;  ///< its size
  /// Number of the oldest open call; only grows.
  std::size_t first_open_ = 0;
  /// Number of the call that collects items; only grows.
  std::size_t next_open_ = 0;
  std::size_t collected_ = 0;  ///< items of the current call so far
  call* active_ = nullptr;     ///< call that the stage is being called for
  /// `on_done` is being called.
  bool in_on_done_ = false;
  std::uint64_t next_seq_ = 0;   ///< number of the next item that the stage takes
  std::uint64_t next_made_ = 0;  ///< number of the next item of an own numbering
  std::uint64_t epoch_ = 0;      ///< newest epoch that the stage has contributed to
  /// The end was handed on.
  bool ended_ = false;
  /// A sink must settle before the barrier or the end passes.
  bool wants_settle_ = false;

  /// A ring, whose size is a power of two.
  std::vector<std::unique_ptr<blank>> blanks_;
  /// Blanks that may be granted at a time.
  std::size_t max_grants_ = 0;
  /// Number of the oldest blank; only grows.
  std::size_t first_blank_ = 0;
  std::size_t granted_ = 0;  ///< items that are with the source or held
  std::size_t held_ = 0;     ///< filled items that are not handed on yet, the oldest ones
  /// The source belongs to a group; see joined_sources.cpp.
  bool joined_ = false;
  /// The source has reported its end.
  bool end_read_ = false;
  /// First item behind the newest barrier.
  std::uint64_t marked_ = 0;
  source_mark here_;  ///< of a joined source, behind the last item that was handed on
  /// Position of a source at its end.
  small_record final_cursor_;
  std::vector<runtime::access> gate_accesses_;  ///< of the item that is being gated
  std::vector<ready> ready_;                    ///< by place in `calls_`
  /// Calls from the oldest that the host of a sink or of a blocking stage has or has had.
  std::size_t handed_out_ = 0;
  std::size_t returned_ = 0;  ///< those of them that a blocking stage has processed
  std::vector<std::unique_ptr<exchange>> exchanges_;  ///< by place in `calls_`
};

}  // namespace weir::flow
