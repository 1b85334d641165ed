// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests random walks of stores, appends, removals and compactions, about half of which
/// end in a crash that keeps any subset of the sectors written since the last sync. A
/// model says what the volume must hold after every step.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "storage/hn4/damage/foreign.hpp"
#include "storage/hn4/support.hpp"
#include "weir/storage/hn4_check.hpp"

namespace weir::storage::test {
namespace {

/// A device with the sectors that a crash keeps and those that it may keep.
struct medium {
  struct piece {
    std::uint64_t offset = 0;
    byte_vector bytes;
  };

  std::unique_ptr<memory_device> durable;
  std::vector<piece> pending;   // sectors since the last sync, in order
  std::uint64_t calls = 0;      // writes and syncs of the present step
  std::uint64_t last_call = 0;  // the device fails from this call on; 0: never
  [[nodiscard]] bool gone() const { return last_call != 0 && calls >= last_call; }
};

/// Records sectors since the last sync, and fails every call once the device is gone.
class crashing_device final : public borrowed_device {
 public:
  crashing_device(medium& m, memory_device& now) : borrowed_device(now), m_(m) {}

  result<void> write(std::uint64_t offset, bytes_view from) override {
    if (m_.gone()) {
      return error(errc::io, "the device is gone");
    }
    ++m_.calls;
    for (std::uint64_t start = offset; start < offset + from.size();) {
      const std::uint64_t end =
          std::min(offset + from.size(), align_down(start, sector_bytes) + sector_bytes);
      const bytes_view part = from.subspan(static_cast<std::size_t>(start - offset),
                                           static_cast<std::size_t>(end - start));
      m_.pending.push_back({start, byte_vector(part.begin(), part.end())});
      start = end;
    }
    return m_.gone() ? error(errc::io, "the device is gone")
                     : borrowed_device::write(offset, from);
  }
  result<void> sync() override {
    if (m_.gone() || (++m_.calls, m_.gone())) {
      return error(errc::io, "the device is gone");
    }
    for (const medium::piece& p : m_.pending) {
      WEIR_CHECK(m_.durable->write(p.offset, p.bytes));
    }
    m_.pending.clear();
    return {};
  }

 private:
  medium& m_;
};

using content = std::map<std::string, byte_vector>;

/// One random walk. Every message of `complain` names the seed and the step.
class walk {
 public:
  explicit walk(std::uint64_t seed);
  void step();
  std::uint64_t crashes = 0, refusals = 0;

 private:
  enum class outcome { done, refused, crashed };
  struct attempt {
    std::string description;
    content after;
    outcome ended = outcome::done;
  };

  std::uint64_t below(std::uint64_t n) { return random_.below(3 * draws_++, n); }
  attempt plan(hn4_volume& volume);
  result<void> put(hn4_volume& volume, const std::string& tag, attempt& a);
  attempt run();
  void crash();
  content look(const std::string& description);
  void check(const std::string& description);
  void complain(const std::string& description, const std::string& text) const {
    ADD_FAILURE() << "seed " << seed_ << ", step " << step_ << ", " << description << ": "
                  << text;
  }

  std::uint64_t seed_;
  philox random_;
  std::uint64_t draws_ = 0;
  std::uint64_t step_ = 0;
  std::int64_t clock_ = 1'900'000'000'000'000'000;
  medium medium_;
  content model_;
};

/// Tags of the walks: short, exactly inline, and long names. The last two share their
/// first 16 bytes and their filter, which does not depend on the order of the parts, so
/// an entry alone does not tell them apart.
const std::vector<std::string> walked_tags{
    "a",
    "b:c",
    "model:x/y",
    "a name of just 24 bytes.",
    "a name that takes a block of its own",
    "models of one filter: a long one/and its rest",
    "models of one filter:and its rest/ a long one"};

walk::walk(std::uint64_t seed) : seed_(seed), random_(seed, 77) {
  hn4_format_options options = fixed_format();
  options.profile = hn4_profile::pico;
  options.uuid_seed = seed;
  medium_.durable = std::make_unique<memory_device>(std::uint64_t{3} << 20, "walk.img");
  or_throw(hn4_format(*medium_.durable, options));
  if (seed % 2 == 0) {
    return;
  }
  // Every second volume holds shards of another writer, which have no numbers.
  for (const std::size_t i : {1U, 4U}) {
    model_[walked_tags[i]] = noise(9000, seed + i);
    or_throw(or_throw(open_on(*medium_.durable, device_mode::writable))
                 .put(walked_tags[i], model_[walked_tags[i]], fixed_put(3)));
    make_foreign(*medium_.durable, walked_tags[i]);
  }
}

/// Stores, appends or replaces a tag with random content.
result<void> walk::put(hn4_volume& volume, const std::string& tag, attempt& a) {
  hn4_put_options options;
  options.time_ns = clock_;
  options.compress = below(3) == 0;
  options.shards = below(3) == 0 ? 0 : static_cast<std::uint32_t>(1 + below(5));
  const std::uint64_t kind = below(15);
  options.existing = kind < 3   ? hn4_existing::append
                     : kind < 6 ? hn4_existing::refuse
                                : hn4_existing::replace;
  const std::size_t size = 5 + below(below(6) != 0 ? 20'000 : 600'000);
  const byte_vector bytes = below(4) == 0
                                ? byte_vector(size, static_cast<std::byte>(below(256)))
                                : noise(size, draws_);
  a.description = fmt::format("{} \"{}\", {} bytes in {} shards",
                              kind < 3   ? "append to"
                              : kind < 6 ? "put new"
                                         : "replace",
                              tag, size, options.shards);
  if (kind >= 3) {
    a.after[tag].clear();
  }
  append(a.after[tag], bytes);
  const auto done = volume.put(tag, bytes, options);
  if (!done && done.error().code() == errc::already_exists && model_.count(tag) == 0) {
    complain(a.description, "it is not there: " + done.error().message());
  }
  return done;
}

/// Draws an operation, carries it out and judges its outcome.
walk::attempt walk::plan(hn4_volume& volume) {
  attempt a{{}, model_, outcome::done};
  const std::string tag = walked_tags[below(walked_tags.size())];
  const std::uint64_t kind = below(20);
  result<void> done;
  if (kind < 15) {
    done = put(volume, tag, a);
  } else if (kind < 19) {
    a.description = "remove \"" + tag + "\"";
    a.after.erase(tag);
    done = volume.remove(tag);
    if (!done && done.error().code() == errc::not_found && model_.count(tag) != 0) {
      complain(a.description, "it is there: " + done.error().message());
    }
  } else {
    a.description = "compact";
    const auto compacted = volume.compact();
    done = compacted ? result<void>() : compacted.error();
    if (compacted && !compacted->left.empty()) {
      complain(a.description, compacted->left.front().problem.message());
    }
  }
  a.ended = medium_.gone() ? outcome::crashed : done ? outcome::done : outcome::refused;
  if (a.ended == outcome::refused) {
    const errc code = done.error().code();
    if (code != errc::no_space && code != errc::not_found &&
        code != errc::already_exists) {
      complain(a.description, done.error().message());
    }
  }
  return a;
}

/// Opens the volume on a device that may crash and carries out an operation.
walk::attempt walk::run() {
  const auto now = medium_.durable->clone();
  hn4_volume volume = or_throw(hn4_volume::open(
      std::make_unique<crashing_device>(medium_, *now), device_mode::writable));
  return plan(volume);
}

/// Any subset of the sectors written since the last sync may have become durable.
void walk::crash() {
  const std::uint64_t how = below(4);
  for (const medium::piece& p : medium_.pending) {
    if (how == 0 || (how > 1 && below(2) == 0)) {
      or_throw(medium_.durable->write(p.offset, p.bytes));
    }
  }
  ++crashes;
}

/// Checks all tags: each that is listed must be readable without a warning, and no other
/// one may exist.
content walk::look(const std::string& description) {
  content found;
  const hn4_volume volume = or_throw(open_on(*medium_.durable));
  const auto listed = or_throw(volume.tags());
  for (const hn4_tag& tag : listed) {
    const auto stream = volume.stream(tag.name);
    const auto bytes = stream ? stream->read_all() : result<byte_vector>(stream.error());
    if (!bytes) {
      complain(description, "listed, but not whole: " + bytes.error().message());
      continue;
    }
    if (!stream->warnings().empty() || !stream->recoveries().empty()) {
      complain(description, "something is said of \"" + tag.name + "\"");
    }
    found[tag.name] = *bytes;
  }
  for (const hn4_damaged_tag& tag : or_throw(volume.damaged_tags())) {
    complain(description, "damaged: " + tag.problem.message());
  }
  for (const std::string& tag : walked_tags) {
    const auto stream = found.count(tag) == 0
                            ? volume.stream(tag)
                            : result<hn4_stream>(error(errc::not_found, ""));
    if (stream || stream.error().code() != errc::not_found) {
      complain(description, "neither listed nor absent: " + tag);
    }
  }
  return found;
}

/// Expects that a check of the volume finds nothing and counts the tags of the model.
void walk::check(const std::string& description) {
  const auto report = or_throw(hn4_check(medium_.durable->clone()));
  for (const hn4_finding& f : report.findings) {
    complain(description,
             fmt::format("finding {} at byte {}: {}", f.kind, f.offset, f.text));
  }
  if (report.tags != model_.size() || !report.lost.empty()) {
    complain(description, fmt::format("a check counts {} tags, {} are there", report.tags,
                                      model_.size()));
  }
}

/// Carries out one operation and compares the volume with the model.
void walk::step() {
  ++step_;
  medium_.calls = 0;
  medium_.last_call = below(2) == 0 ? 0 : 1 + below(below(3) != 0 ? 16 : 60);
  medium_.pending.clear();
  clock_ += static_cast<std::int64_t>(below(3)) * 400'000'000;
  const attempt a = run();
  const std::string description = fmt::format("{} ({})", a.description,
                                              a.ended == outcome::done      ? "done"
                                              : a.ended == outcome::refused ? "refused"
                                                                            : "crash");
  if (a.ended == outcome::refused) {
    ++refusals;
    if (medium_.calls != 0) {
      complain(description, "it wrote before it was refused");
    }
  }
  if (a.ended == outcome::crashed) {
    crash();
  }
  content now = look(description);
  const bool is_before = now == model_, is_after = now == a.after;
  if (!(a.ended == outcome::crashed   ? is_before || is_after
        : a.ended == outcome::refused ? is_before
                                      : is_after)) {
    complain(description,
             "the volume holds neither what was there before nor what should be "
             "there now");
  }
  model_ = std::move(now);
  if (a.ended == outcome::crashed || step_ % 4 == 0) {
    check(description);
  }
}

TEST(Hn4Walks, LeaveEveryTagAsItWasOrAsItShouldBe) {
  constexpr std::uint64_t steps = 300;
  std::uint64_t crashes = 0, refusals = 0;
  const std::uint64_t walks = number_of_tries("WEIR_TEST_WALKS", 20);
  for (std::uint64_t seed = 1; seed <= walks && !HasFailure(); ++seed) {
    walk w(seed);
    for (std::uint64_t i = 0; i < steps && !HasFailure(); ++i) {
      w.step();
    }
    crashes += w.crashes;
    refusals += w.refusals;
  }
  RecordProperty("crashes", static_cast<int>(crashes));
  if (!HasFailure()) {
    EXPECT_GT(crashes, walks * steps / 6);
    EXPECT_GT(refusals, walks * steps / 60);
  }
}

}  // namespace
}  // namespace weir::storage::test
