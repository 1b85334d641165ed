// SPDX-License-Identifier: Apache-2.0
/// @file
/// Answers the requests of a run, one after another, in a child process.
///
/// The run sends one request at a time and waits for its answer, so the child needs one
/// thread for messages and no locks. Tensors and attributes of items stand in the shared
/// memory at the places of `flow::shared_layout`; a message says how many there are.
#include "process/stage_server.hpp"

#include <poll.h>
#include <sys/prctl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "process/channel.hpp"
#include "process/memory.hpp"
#include "process/messages.hpp"
#include "volume/constants.hpp"
#include "weir/base/system/yielding_wait.hpp"
#include "weir/pipeline/append_file.hpp"
#include "weir/pipeline/host/nested_stage.hpp"
#include "weir/pipeline/host/stage_calls.hpp"

namespace weir::actors {
namespace {

/// Largest payload of a request. @units{bytes}
constexpr std::uint64_t max_request = std::uint64_t{1} << 40;

/// The child has no deadline: the run may be idle for days. If the run ends, its socket
/// closes, and `poll` returns.
/// @param short_wait  Waits for the next request, which usually comes at once, before the
/// process sleeps.
result<bool> wait_for_ever(int fd, bool to_write, yielding_wait& short_wait) {
  // Both directions wait for the same socket.
  pollfd one{fd, static_cast<short>(to_write ? POLLOUT : POLLIN), 0};
  static_cast<void>(short_wait([&one] { return ::poll(&one, 1, 0) > 0; }));
  while (::poll(&one, 1, -1) < 0) {
    if (errno != EINTR) {
      return system_error("wait for", "the run", errno);
    }
  }
  return true;
}

/// An answer that is being made.
/// Its parts become `head.count`, `head.flags` and the payload of the answer.
struct stage_answer {
  std::uint32_t count = 0;
  std::uint32_t flags = 0;
  byte_vector payload;
};

/// Returns an answer with an error. `count` items before the failed one are complete.
stage_answer failed_reply(std::uint32_t count, const error& e) {
  stage_answer r{count, wire::failed, {}};
  append(r.payload, as_view(wire_text(e)));
  return r;
}

/// One stage, from the start message to the end of the process.
class stage_server {
 public:
  stage_server(flow::catalog& known, const plugin_loader& load)
      : known_(known), load_(load) {}

  /// Returns the exit status. A run that is gone is a normal end; a damaged request is
  /// not.
  // One request, one answer, until the run says `end` or closes the socket.
  int run() {
    yielding_wait short_wait;
    const wait_for_socket wait = [&short_wait](int fd, bool to_write) {
      return wait_for_ever(fd, to_write, short_wait);
    };
    while (true) {
      auto request = receive_message(wire::socket_fd, max_request, wait);
      if (!request) {
        return request.error().code() == errc::abandoned ? 0 : 1;
      }
      const auto kind = static_cast<wire::kind>(request->head.kind);
      if (kind == wire::kind::end) {
        return 0;
      }
      // What the stage cuts off its outputs during the request is collected for `report`.
      const cut_scope scope;
      // An exception of the stage becomes an error, which the run gets as the answer.
      auto made = flow::guarded([&] { return serve(kind, *request); });
      cuts_.insert(cuts_.end(), scope.cuts().begin(), scope.cuts().end());
      // An error of the stage is an answer, not the end of the process.
      const stage_answer r = made ? std::move(*made) : failed_reply(0, made.error());
      wire::head head{};
      head.magic = wire::magic;
      head.kind = request->head.kind + wire::answer;
      // The run compares the number with that of its request.
      head.sequence = request->head.sequence;
      head.count = r.count;
      head.flags = r.flags;
      head.bytes = r.payload.size();
      if (!send_message(wire::socket_fd, head, r.payload, wait)) {
        return 0;
      }
    }
  }

 private:
  /// Serves one request. `start` must be the first, because it makes the stage.
  result<stage_answer> serve(wire::kind kind, const wire_message& m) {
    // Later requests of this kind would replace the stage.
    if (kind == wire::kind::start) {
      WEIR_CHECK(start(m.payload));
      return stage_answer{};
    }
    if (!stage_) {
      return error(errc::invalid_argument, "a request came before the start of a stage");
    }
    switch (kind) {
      case wire::kind::open: return open();
      case wire::kind::work: return work(m.head.count);
      case wire::kind::fill: return fill(m.head.count);
      case wire::kind::write: return write(m.head.count);
      case wire::kind::cursor: return record(stage_->object().position());
      case wire::kind::seek: return none(stage_->object().seek(m.payload));
      case wire::kind::settle: {
        WEIR_TRY(const auto offset, stage_->object().settle());
        return record(offset);
      }
      case wire::kind::rewind: return none(stage_->object().rewind(m.payload));
      case wire::kind::verify: return verify(m.payload);
      case wire::kind::copy_state: {
        WEIR_TRY(const auto parts, stage_->copy_state());
        stage_answer r;
        put_sections(r.payload, parts);
        return r;
      }
      case wire::kind::restore_state: {
        WEIR_TRY(auto parts, sections_of(m.payload));
        return none(stage_->restore_state(std::move(parts)));
      }
      case wire::kind::report: return report();
      // A newer run knows kinds that this program does not.
      default:
        return error(errc::unsupported,
                     fmt::format("unknown request {}", static_cast<unsigned>(kind)));
    }
  }
  /// Answers without a payload, if the call has succeeded.
  static result<stage_answer> none(const result<void>& done) {
    WEIR_CHECK(done);
    return stage_answer{};
  }
  /// Answers with a cursor or an offset.
  static result<stage_answer> record(const flow::small_record& one) {
    stage_answer r;
    append(r.payload, one.view());
    return r;
  }

  /// Makes the stage by its name.
  // A plug-in is loaded before the catalog is asked, because the stage may be in it.
  // Files of Python are named in the list too, and have nothing for a stage of C++.
  result<void> start(bytes_view payload) {
    WEIR_TRY(start_, start_of(as_text(payload)));
    layout_ = start_.layout;
    // The descriptor has a fixed number, because the run sets it.
    WEIR_TRY(auto mapped, shared_memory::map(wire::memory_fd, layout_.bytes));
    memory_.emplace(std::move(mapped));
    for (const std::string& file : start_.plugins) {
      if (!file.ends_with(".py")) {
        WEIR_CHECK(load_(known_, file));
      }
    }
    // The stage is made from its settings as the run has made it. The comparison finds a
    // child of another build, whose stage has other ports or another face.
    given_settings given;
    for (const auto& [key, value] : start_.stage.origin.settings) {
      given.emplace(key, given_value(value));
    }
    WEIR_TRY(auto made, known_.make(start_.stage.origin.use, given));
    flow::stage_info& asked = start_.stage.info;
    // Ports for failed items are the last ones and belong to the run.
    outlets_ = asked.outlets();
    inlets_ = asked.inlets();
    const std::size_t ports = asked.ports.size() - asked.dead_letters();
    bool same = made.info.ports.size() == ports && made.info.face == asked.face &&
                made.info.takes == asked.takes && made.info.gives == asked.gives;
    for (std::size_t i = 0; same && i < ports; ++i) {
      same = made.info.ports[i].name == asked.ports[i].name;
    }
    if (!same) {
      return error(
                 errc::config_mismatch,
                 fmt::format("cannot serve the stage \"{}\": expected \"{}\" as the run "
                             "has it, found one with other ports",
                             start_.stage.name, start_.stage.origin.use))
          .hint("the run and weir-stage-host must be of one build");
    }
    // From here on the facts of the stage that was made here count; types and windows are
    // those of the plan.
    asked = std::move(made.info);
    WEIR_TRY(stage_, flow::nested_stage::create(
                         start_.stage, start_.planned, start_.budget, start_.seed,
                         std::move(made.object), start_.fill_slots));
    return {};
  }
  /// What a stage may ask when it is opened.
  [[nodiscard]] opening::facts facts() {
    return {&stage_->host(), start_.folder, start_.resuming,
            start_.seed,     load_constant, start_.kernels};
  }
  /// Opens the stage; the answer has the constants that it has loaded.
  result<stage_answer> open() {
    WEIR_TRY(const auto loaded, stage_->open(facts()));
    stage_answer r;
    append(r.payload, as_view(wire_text(loaded)));
    return r;
  }
  /// The payload is the length of the offset (4 bytes), the offset and the sections.
  result<stage_answer> verify(bytes_view payload) {
    std::uint32_t bytes = 0;
    if (payload.size() < sizeof(bytes)) {
      return error(errc::corrupt, "a request to verify has fewer bytes");
    }
    std::memcpy(&bytes, payload.data(), sizeof(bytes));
    payload = payload.subspan(sizeof(bytes));
    if (payload.size() < bytes) {
      return error(errc::corrupt, "a request to verify has fewer bytes");
    }
    // The state of the stage at the checkpoint.
    WEIR_TRY(auto parts, sections_of(payload.subspan(bytes)));
    flow::image whole;
    // The reader of a state expects the names of an image, with the stage in front.
    for (flow::image_section& one : parts) {
      one.name = "STATE/" + start_.stage.name + "/" + one.name;
      whole.sections.push_back(std::move(one));
    }
    opening run(facts());
    WEIR_TRY(const bool complete,
             stage_->object().verify(run, payload.first(bytes),
                                     flow::state_reader(whole, start_.stage.name)));
    // The count is 1 if the output is complete.
    return stage_answer{complete ? 1U : 0U, 0, {}};
  }
  /// The figures are those of this process.
  result<stage_answer> report() {
    figures all;
    stage_->object().report(all);
    add_cuts(cuts_, all);
    stage_answer r;
    append(r.payload, as_view(wire_text(all)));
    return r;
  }

  /// Reads the calls of a message. The tensors are views of the shared memory.
  result<void> read_calls(std::uint32_t count) {
    if (count == 0 || count > wire::max_calls) {
      return error(errc::corrupt, "a request has an impossible number of calls");
    }
    // The vectors keep their memory from request to request.
    calls_.resize(count);
    about_.resize(count);
    tensors_.clear();
    // `calls_` points into `tensors_`, which must therefore not grow after this.
    tensors_.reserve(count * std::size_t{start_.stage.info.takes} * inlets_);
    // One storage over all of the shared memory: every tensor is a view of it.
    if (whole_.size == 0) {
      whole_.base = memory_->at(0);
      whole_.size = static_cast<std::int64_t>(layout_.bytes);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      // A copy of the record; it cannot change any more.
      const auto c = memory_->read<wire::call_record>(layout_.calls, i);
      // `tensors_` has space for this many items.
      if (c.count > start_.stage.info.takes) {
        return error(errc::corrupt,
                     fmt::format("cannot read call {} of a request: expected at most {} "
                                 "items, found {}",
                                 i, start_.stage.info.takes, c.count));
      }
      flow::call_view& to = calls_[i];
      to.seq = c.seq;
      to.lane = c.lane;
      to.source_ns = c.source_ns;
      to.turn_ns = c.turn_ns;
      WEIR_TRY(about_[i],
               get_attributes(memory_->at(layout_.attributes +
                                          std::size_t{i} * wire::attribute_bytes),
                              c.about_bytes));
      to.about = &about_[i];
      to.inputs.clear();
      const std::size_t first = std::size_t{i} * start_.stage.info.takes * inlets_;
      // Inputs of all items of the call follow each other, `inlets_` for each item.
      for (std::size_t t = 0; t < c.count * inlets_; ++t) {
        const auto one = memory_->read<wire::tensor_record>(layout_.inputs, first + t);
        if (one.type == 0) {
          to.inputs.push_back(nullptr);
          continue;
        }
        // A tensor lies in a slot, or in the region that the run has filled for this
        // message.
        const bool in_slot = one.offset >= layout_.slots;
        // Even a record of the run is checked, because it may be damaged.
        WEIR_TRY(const auto checked,
                 check_tensor(*memory_, one, in_slot ? layout_.slots : layout_.in,
                              in_slot ? layout_.slot_bytes : layout_.in_bytes));
        WEIR_TRY(const auto view,
                 runtime::tensor::over(whole_, checked.type, checked.shape,
                                       checked.data - whole_.base));
        tensors_.push_back(view);
        to.inputs.push_back(&tensors_.back());
      }
    }
    return {};
  }

  /// Stores a tensor of the next made item: in the memory that the run offers for it, or
  /// else in the space for all made items. Returns nothing without space for it.
  std::optional<wire::tensor_record> place(std::size_t outlet, const runtime::tensor& t,
                                           region& space) {
    // An offer has no type; the record of a made tensor overwrites it. The record is read
    // before that, and an offer is used once.
    if (!start_.stage.info.own_numbering) {
      const auto offered = memory_->read<wire::tensor_record>(
          layout_.outputs, records_ * outlets_ + outlet);
      region there(offered.offset, offered.type == 0 ? offered.bytes : 0);
      if (offered.bytes != 0) {
        if (auto placed = put_tensor(*memory_, there, t)) {
          return placed;
        }
      }
    }
    return put_tensor(*memory_, space, t);
  }
  /// Stores a made item. Returns false without space for it.
  bool put_made(const flow::made_view& made, region& space) {
    // With its own numbering, a stage may make more items than there are records.
    if (records_ == layout_.made_records) {
      return false;
    }
    // Zeros first, so that all bytes are known.
    wire::made_record r{};
    r.call = static_cast<std::uint32_t>(made.call);
    for (std::size_t o = 0; o < outlets_; ++o) {
      wire::tensor_record t{};
      // A gap at this outlet has a record without a type.
      if (o < made.tensors.size() && made.tensors[o] != nullptr) {
        const auto placed = place(o, *made.tensors[o], space);
        if (!placed) {
          return false;
        }
        t = *placed;
      }
      memory_->write(layout_.outputs, records_ * outlets_ + o, t);
    }
    // Without attributes, the number of bytes stays 0.
    if (made.skipped) {
      r.flags = wire::skipped;
    } else if (!made.about->empty()) {
      r.about_bytes = put_attributes(
          memory_->at(layout_.made_attributes + records_ * wire::attribute_bytes),
          *made.about);
    }
    // The record is written after the tensors and attributes: if the child dies now, the
    // run takes every item that has a record.
    memory_->write(layout_.made, records_, r);
    ++records_;
    return true;
  }
  /// Marks the end of the made items.
  void end_made() {
    if (records_ < layout_.made_records) {
      wire::made_record r{};
      r.call = wire::no_call;
      memory_->write(layout_.made, records_, r);
    }
  }
  /// Stores an item. Returns false if the item does not fit any more and must begin the
  /// next message. An item that has the whole space for itself and does not fit would
  /// never fit, so that is an error.
  result<bool> put_or_refuse(const flow::made_view& made, region& space) {
    if (put_made(made, space)) {
      return true;
    }
    if (records_ == 0) {
      return error(errc::out_of_range,
                   fmt::format("cannot hand on an item: expected at most {} bytes of "
                               "tensors, found more",
                               layout_.out_bytes))
          .hint("give the edge behind the stage a window of more bytes");
    }
    return false;
  }

  /// Works on calls until all are complete, one fails, or the space for results is full.
  result<stage_answer> work(std::uint32_t count) {
    WEIR_CHECK(read_calls(count));
    // Records of the request before are not needed any more.
    records_ = 0;
    region space(layout_.out, layout_.out_bytes);
    const flow::processed_items done = stage_->work(
        calls_, [&](const flow::made_view& made) { return put_or_refuse(made, space); });
    end_made();
    const auto processed = static_cast<std::uint32_t>(done.processed);
    // The payload is then the error.
    if (done.failed) {
      return failed_reply(processed, *done.failed);
    }
    return stage_answer{processed, done.partial ? wire::partial : 0, {}};
  }
  /// Lets a sink write items. It makes none, so no space is needed.
  result<stage_answer> write(std::uint32_t count) {
    WEIR_CHECK(read_calls(count));
    const flow::processed_items done = stage_->write(calls_);
    const auto processed = static_cast<std::uint32_t>(done.processed);
    return done.failed ? failed_reply(processed, *done.failed)
                       : stage_answer{processed, 0, {}};
  }
  /// Fills items of a source. Their numbers follow the number in the first record.
  result<stage_answer> fill(std::uint32_t count) {
    if (count == 0 || count > wire::max_calls) {
      return error(errc::corrupt, "a request has an impossible number of items");
    }
    // The number of the first item.
    const auto first = memory_->read<wire::call_record>(layout_.calls, 0);
    records_ = 0;
    region space(layout_.out, layout_.out_bytes);
    flow::filled_items done;
    // The items of one message end where the space ends, which is known after an item.
    // A source cannot take an item back after it has made it. Another item is therefore
    // made only while as much space is left as the largest item so far has needed.
    while (done.filled < count && space.left() >= largest_) {
      const std::uint64_t before = space.left();
      const auto one =
          stage_->fill(first.seq + done.filled, 1, [&](const flow::made_view& made) {
            flow::made_view numbered = made;
            numbered.call = done.filled;
            return put_or_refuse(numbered, space);
          });
      // The source is at its end, has nothing at the moment, or has failed.
      if (one.filled == 0) {
        done.ended = one.ended;
        done.nothing_yet = one.nothing_yet;
        done.failure = one.failure;
        done.cursor = one.cursor;
        break;
      }
      note_cursor(done.filled);
      ++done.filled;
      // `left` has shrunk by the bytes of this item; items in offered slots take none.
      largest_ = std::max(largest_, before - space.left());
    }
    const auto filled = static_cast<std::uint32_t>(done.filled);
    if (done.failure) {
      return failed_reply(filled, *done.failure);
    }
    stage_answer r{filled, done.nothing_yet ? wire::nothing : 0, {}};
    // The cursor at the end is the payload.
    if (done.ended) {
      r.flags = wire::ended;
      append(r.payload, done.cursor.view());
    }
    return r;
  }
  /// Stores the position behind an item.
  /// The run can then continue behind any item of the message.
  void note_cursor(std::size_t nth) {
    // Records have space for the largest cursor.
    auto r = memory_->read<wire::made_record>(layout_.made, nth);
    const flow::small_record at = stage_->object().position();
    r.cursor_bytes = static_cast<std::uint32_t>(at.size);
    std::memcpy(r.cursor.data(), at.data.data(), at.size);
    memory_->write(layout_.made, nth, r);
  }

  flow::catalog& known_;
  const plugin_loader& load_;
  /// Facts of the stage as the run knows them.
  start_message start_;
  flow::shared_layout layout_;
  std::optional<shared_memory> memory_;
  std::unique_ptr<flow::nested_stage> stage_;
  /// By the facts of the run, without ports for failed items.
  std::size_t inlets_ = 0;
  std::size_t outlets_ = 0;
  std::size_t records_ = 0;    ///< made items of this message
  std::uint64_t largest_ = 0;  ///< bytes of the largest item of a source so far
  // Storage of all views of tensors; its base is where the child has mapped the memory.
  runtime::storage whole_;  ///< all of the shared memory
  std::vector<flow::call_view> calls_;
  std::vector<attributes> about_;
  std::vector<runtime::tensor> tensors_;
  std::vector<output_cut> cuts_;  ///< what the stage has cut off its outputs
};

}  // namespace

/// Returns the exit status of the process.
int serve_stage(flow::catalog& known, const plugin_loader& load) {
  // The kernel kills the child if the run dies without closing its socket, for example
  // while the child computes for a long time.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A file that exceeds the limit of the process is an error of the stage, which names
  // it, and no death of the child.
  std::signal(SIGXFSZ, SIG_IGN);
  // The catalog and the loader live until the end.
  return stage_server(known, load).run();
}

}  // namespace weir::actors
