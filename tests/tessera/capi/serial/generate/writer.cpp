// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chooses random places and adds the waits that operations need.
#include "serial/generate/writer.hpp"

#include <utility>

namespace weir::test::serial {

writer::writer(std::uint64_t seed, const features& with)
    : d_(seed), with_(with), p_(random_scene(d_, with)), rules_(p_) {
  p_.events = shared_events;
}

std::vector<int> writer::open_streams() const {
  std::vector<int> out;
  for (int s = 0; s < count_of(p_.streams); ++s) {
    if (rules_.open(s) && rules_.captured_in(s) == none) {
      out.push_back(s);
    }
  }
  return out;
}

int writer::any_of(const std::vector<int>& list) {
  return list.empty() ? none : at(list, pick(d_, count_of(list)));
}

int writer::any_length() {
  return d_.one_in(4) ? 24 : 2 * (1 + pick(d_, 12));
}

place writer::any_range(int buffer, int rank, int words) {
  const int room = at(p_.buffers, buffer).words - words;
  return {buffer, rank, room == 0 ? 0 : 2 * pick(d_, room / 2 + 1), words};
}

place writer::any_on_host(int words) {
  std::vector<int> all;
  for (int b = 0; b < count_of(p_.buffers); ++b) {
    if (!at(p_.buffers, b).on_device()) {
      all.push_back(b);
    }
  }
  return any_range(any_of(all), none, words);
}

std::optional<place> writer::any_on_device(int stream, int words, bool peers) {
  std::vector<int> all;
  for (int b = 0; b < count_of(p_.buffers); ++b) {
    const bool reached = p_.fits(b, stream) || (peers && p_.instances(b) > 1);
    if (at(p_.buffers, b).on_device() && usable(b, stream) && reached) {
      all.push_back(b);
    }
  }
  if (all.empty()) {
    return std::nullopt;
  }
  const int b = any_of(all);
  const bool by_rank =
      peers && p_.instances(b) > 1 && (!p_.fits(b, stream) || d_.one_in(3));
  return any_range(b, by_rank ? 1 + pick(d_, p_.instances(b) - 1) : none, words);
}

bool writer::usable(int buffer, int stream) const {
  const int captured = rules_.captured_in(stream);
  return rules_.usable(buffer, captured != none ? captured : rules_.flagged_in(stream));
}

operation writer::on(verb what, int stream) const {
  operation o;
  o.what = what;
  o.stream = stream;
  if (stream != none) {
    const int captured = rules_.captured_in(stream);
    o.recorded_in = captured != none ? captured : rules_.flagged_in(stream);
    o.runs = captured == none;
  }
  return o;
}

void writer::push(operation o) {
  o.id = ++ids_;
  rules_.take(o);
  p_.operations.push_back(std::move(o));
}

void writer::emit(operation o) {
  if (!rules_.allows(o)) {
    return;
  }
  for (;;) {
    const std::vector<unordered> races = rules_.races_of(o);
    if (races.empty()) {
      push(std::move(o));
      return;
    }
    if (!separate(races.front(), o)) {
      return;
    }
  }
}

void writer::delay_a_chain(int stream) {
  const int ranks = p_.mesh_of(stream).ranks();
  if (at(p_.streams, stream).rank != none || ranks == 1 || !d_.one_in(3)) {
    return;
  }
  operation o = on(verb::launch, stream);
  o.how = arithmetic::add;
  o.spin = static_cast<int>(d_.in(50'000, 300'000));
  o.slow_rank = pick(d_, ranks);
  push(std::move(o));
}

int writer::event_behind(const unordered& race) {
  const bool may_record =
      rules_.open(race.behind) && rules_.captured_in(race.behind) == none;
  const std::vector<int> known = rules_.events_that_cover(race);
  if (!known.empty() && (!may_record || d_.one_in(2))) {
    return any_of(known);
  }
  if (!may_record) {
    return none;
  }
  delay_a_chain(race.behind);
  const int event = d_.one_in(3) ? new_event() : pick(d_, shared_events);
  record(event, race.behind);
  return event;
}

bool writer::separate(const unordered& race, const operation& o) {
  if (!o.runs) {
    join(race.behind, race.waiting, rules_.captured_in(race.waiting));
    return true;
  }
  const bool may_synchronize = rules_.open(race.behind) &&
                               rules_.captured_in(race.behind) == none &&
                               rules_.flagged_in(race.behind) == none;
  if (may_synchronize && d_.one_in(8)) {
    push(on(verb::synchronize, race.behind));
    return true;
  }
  const int event = event_behind(race);
  if (event == none) {
    return false;
  }
  // A recorded stream cannot wait for an event from outside, so the thread waits for it.
  const bool by_thread = race.waiting == none || rules_.flagged_in(race.waiting) != none;
  const bool awaits = by_thread || d_.one_in(10);
  operation wait =
      on(awaits ? verb::await_event : verb::wait, awaits ? none : race.waiting);
  wait.event = event;
  push(std::move(wait));
  return true;
}

void writer::record(int event, int stream) {
  operation o = on(verb::record, stream);
  o.event = event;
  push(std::move(o));
}

void writer::join(int from, int to, int graph) {
  const int event = new_event();
  record(event, from);
  operation wait = on(verb::wait, to);
  wait.event = event;
  wait.recorded_in = graph;
  wait.runs = false;
  push(std::move(wait));
}

}  // namespace weir::test::serial
