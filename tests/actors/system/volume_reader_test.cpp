// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the volume reader with workers and clients on the deterministic scheduler: many
/// orders of messages, devices that fail, and workers that are late, silent or have
/// ended.
#include "volume/volume_reader.hpp"
#include "support/case_count.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "stepped_system.hpp"
#include "storage/hn4/faulty_device.hpp"
#include "volume/volume_worker.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;
using storage::test::noise;

constexpr std::size_t tag_count = 4;
constexpr std::uint64_t piece_bytes = 40'000;

/// Returns the name of a tag.
std::string tag_name(std::size_t i) {
  return "tag" + std::to_string(i);
}
/// Returns the content of a tag.
byte_vector tag_bytes(std::size_t i) {
  return noise(100'001 + 70'000 * i, i + 1);
}

/// Returns the image of a volume with a few tags, which is made once.
storage::memory_device& image() {
  static const std::unique_ptr<storage::memory_device> device = [] {
    auto d = storage::test::formatted();
    auto volume = or_throw(storage::test::open_on(*d, storage::device_mode::writable));
    for (std::size_t i = 0; i < tag_count; ++i) {
      or_throw(volume.put(tag_name(i), tag_bytes(i),
                          storage::test::fixed_put(static_cast<std::uint32_t>(i + 1))));
    }
    return d;
  }();
  return *device;
}

/// A device that fails every read of a byte in a range.
class range_fault final : public storage::test::borrowed_device {
 public:
  range_fault(storage::block_device& to, storage::extent bad)
      : borrowed_device(to), bad_(bad) {}
  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    if (offset < bad_.end() && offset + to.size() > bad_.offset) {
      return error(errc::io, "injected failure of a transfer").located("image");
    }
    return borrowed_device::read(offset, to);
  }

 private:
  storage::extent bad_;
};

/// A worker that answers each read after some time, or never.
using slow_worker_actor = volume_worker_actor::extend<caf::reacts_to<work_atom>>;
struct slow_worker_config {
  std::chrono::seconds delay{0};  ///< time before each answer; 0: it never answers
};
/// The reads that wait for their answer.
struct slow_worker_shell {
  struct asked {
    local<read_order> order;
    caf::typed_response_promise<std::uint64_t> reply;
  };
  std::deque<asked> waiting;
};
/// Opens tags at once and answers reads late or never.
slow_worker_actor::behavior_type slow_worker(
    slow_worker_actor::stateful_pointer<slow_worker_shell> self,
    slow_worker_config config) {
  return {[self, config](read_atom,
                         const local<read_order>& order) -> caf::result<std::uint64_t> {
            auto promise = self->make_response_promise<std::uint64_t>();
            self->state.waiting.push_back({order, promise});
            if (config.delay.count() > 0) {
              self->delayed_send(self, config.delay, work_atom_v);
            }
            return promise;
          },
          [](open_atom, const local<volume_spec>& spec) -> local<tag_streams> {
            const auto volume = or_throw(storage::test::open_on(image()));
            tag_streams streams;
            for (const std::string& tag : spec->tags) {
              streams.push_back(or_throw(volume.stream(tag)));
            }
            return by_reference(std::move(streams));
          },
          [self](work_atom) {
            auto now = std::move(self->state.waiting.front());
            self->state.waiting.pop_front();
            now.reply.deliver(std::uint64_t{
                or_throw(now.order->stream.read(now.order->offset, now.order->memory))});
          }};
}

/// The pieces and errors that a client got for one tag.
struct tag_log {
  std::map<std::uint64_t, byte_vector> pieces;
  std::optional<error> failure;
  bool ended = false;

  /// Returns all pieces, which must have no gaps between them.
  [[nodiscard]] byte_vector all() const {
    byte_vector out;
    for (const auto& [offset, bytes] : pieces) {
      EXPECT_EQ(offset, out.size());
      append(out, bytes);
    }
    return out;
  }
};
using client_log = std::map<std::string, tag_log>;

using client_actor = caf::typed_actor<caf::reacts_to<work_atom>>;
/// A client that opens tags and pulls them until they end; the test reads its log.
struct client_config {
  volume_reader_actor reader;
  volume_spec spec;
  std::size_t depth = 2;  ///< pulls in flight for each tag
  std::shared_ptr<client_log> log = std::make_shared<client_log>();
};
struct client_shell {
  static constexpr const char* name = "weir.client";
};
using client_pointer = client_actor::stateful_pointer<client_shell>;

/// Pulls a piece and, after its answer, the next one.
void pull_one(client_pointer self, const client_config& c, const opened_stream& s) {
  self->request(c.reader, std::chrono::seconds(3600), pull_atom_v, s.stream)
      .then(
          [self, c, s](const local<volume_piece>& piece) {
            auto& log = (*c.log)[s.tag];
            if (piece->count == 0) {
              log.ended = true;
              return;
            }
            log.pieces.emplace(piece->offset, *piece->bytes);
            pull_one(self, c, s);
          },
          [c, s](const caf::error& e) {
            auto& log = (*c.log)[s.tag];
            if (!log.failure) {
              log.failure = from_caf(e, "pulling");
            }
          });
}

/// Opens the tags and keeps `depth` pulls open for each.
client_actor::behavior_type client(client_pointer self, client_config c) {
  return {[self, c](work_atom) {
    self->request(c.reader, std::chrono::seconds(3600), open_atom_v, by_reference(c.spec))
        .then(
            [self, c](const local<opened_streams>& streams) {
              for (const opened_stream& s : *streams) {
                for (std::size_t i = 0; i < c.depth; ++i) {
                  pull_one(self, c, s);
                }
              }
            },
            [c](const caf::error& e) { (*c.log)[""].failure = from_caf(e, "opening"); });
  }};
}

/// A stepped system with a volume reader, workers and clients.
class volume_system : public test::stepped_system {
 public:
  explicit volume_system(std::uint32_t seed) : stepped_system(seed) {
    reader_config_.plan.piece = piece_bytes;
    reader_config_.plan.window = 2;
    reader_config_.plan.credits = 4;
  }
  ~volume_system() {
    reader_config_.workers.clear();
    reader = nullptr;
    stop();
  }

  /// Adds a worker, which opens the image unless the test gives another device.
  void add_worker(device_opener opener = {}) {
    if (!opener) {
      opener = [](const std::string&) -> result<std::unique_ptr<storage::block_device>> {
        return std::make_unique<storage::test::borrowed_device>(image());
      };
    }
    reader_config_.workers.push_back(
        spawn(volume_worker_io, volume_worker_config{std::move(opener)}));
  }
  void add_slow_worker(std::chrono::seconds delay) {
    reader_config_.workers.push_back(spawn(slow_worker, slow_worker_config{delay}));
  }
  void start() { reader = spawn(volume_reader, reader_config_); }
  /// Starts a client and returns its log.
  std::shared_ptr<client_log> add_client(std::vector<std::string> tags,
                                         std::size_t depth = 2) {
    client_config c;
    c.reader = reader;
    c.spec = {"image", std::move(tags), {}, 0};
    c.depth = depth;
    auto log = c.log;
    caf::anon_send(spawn(client, std::move(c)), work_atom_v);
    return log;
  }
  void pass(std::chrono::seconds time) {
    advance(time);
    step_all();
  }
  std::string status() { return ask<std::string>(reader, status_atom_v).value_or(""); }
  std::vector<volume_worker_actor>& workers() { return reader_config_.workers; }

  volume_reader_actor reader;

 private:
  volume_reader_config reader_config_;
};

/// Returns the names of all tags.
std::vector<std::string> all_tags() {
  std::vector<std::string> tags;
  for (std::size_t i = 0; i < tag_count; ++i) {
    tags.push_back(tag_name(i));
  }
  return tags;
}

/// Expects that a client got a whole tag without an error.
void expect_whole(const client_log& log, std::size_t tag) {
  const auto found = log.find(tag_name(tag));
  ASSERT_NE(found, log.end());
  EXPECT_FALSE(found->second.failure) << found->second.failure->message();
  EXPECT_TRUE(found->second.ended);
  EXPECT_EQ(found->second.all(), tag_bytes(tag)) << "tag " << tag;
}

TEST(volume_reader, many_clients_get_many_tags_whole_in_every_order) {
  const std::uint64_t seeds = test::case_count("WEIR_TEST_INTERLEAVINGS", 60);
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    volume_system s(seed);
    for (std::uint32_t i = 0; i <= seed % 3; ++i) {
      s.add_worker();
    }
    s.start();
    std::vector<std::shared_ptr<client_log>> logs;
    for (std::size_t i = 0; i < 4; ++i) {
      logs.push_back(
          s.add_client(i == 0 ? std::vector<std::string>{} : all_tags(), 1 + i));
    }
    s.step_all();
    for (const auto& log : logs) {
      for (std::size_t tag = 0; tag < tag_count; ++tag) {
        expect_whole(*log, tag);
      }
    }
    EXPECT_NE(s.status().find("16 streams, 0 requests unanswered, 4 of 4 credits free"),
              std::string::npos)
        << s.status();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

/// Returns the place of the middle block of a tag in the image.
storage::extent middle_block(std::size_t tag) {
  const byte_vector bytes = tag_bytes(tag);
  const bytes_view part = bytes_view(bytes).subspan(bytes.size() / 2, 4000);
  for (std::uint64_t offset = 0; offset < image().size();
       offset += storage::memory_device::page_bytes) {
    const bytes_view page = image().view(offset, storage::memory_device::page_bytes);
    const auto found =
        std::search(page.begin(), page.end(), part.begin(), part.begin() + 64);
    if (found != page.end()) {
      return {offset + static_cast<std::uint64_t>(found - page.begin()), 1};
    }
  }
  throw std::runtime_error("the block was not found");
}

TEST(volume_reader, a_device_error_reaches_its_client_and_no_other) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    volume_system s(seed);
    for (int i = 0; i < 2; ++i) {
      s.add_worker(
          [](const std::string&) -> result<std::unique_ptr<storage::block_device>> {
            return std::make_unique<range_fault>(image(), middle_block(2));
          });
    }
    s.start();
    const auto log = s.add_client(all_tags());
    const auto other = s.add_client({tag_name(0), tag_name(3)});
    s.step_all();
    expect_whole(*log, 0);
    expect_whole(*log, 1);
    expect_whole(*log, 3);
    expect_whole(*other, 0);
    expect_whole(*other, 3);
    const tag_log& failed = log->at(tag_name(2));
    ASSERT_TRUE(failed.failure) << "seed " << seed;
    EXPECT_EQ(failed.failure->code(), errc::io);
    EXPECT_NE(failed.failure->text().find("tag2"), std::string::npos);
    EXPECT_NE(failed.failure->text().find("injected failure"), std::string::npos);
    EXPECT_FALSE(failed.ended);
  }
}

TEST(volume_reader, a_silent_worker_is_reported_in_time_and_the_other_goes_on) {
  volume_system s(1);
  s.add_slow_worker(0s);
  s.add_worker();
  s.start();
  const auto log = s.add_client({tag_name(0)});
  const auto other = s.add_client({tag_name(1)});
  s.step_all();
  s.pass(29s);
  s.pass(31s);
  std::size_t failed = 0;
  for (const auto& l : {(*log)[tag_name(0)], (*other)[tag_name(1)]}) {
    if (l.failure) {
      ++failed;
      EXPECT_EQ(l.failure->code(), errc::timeout);
      EXPECT_NE(l.failure->hint().find("worker 0 at byte"), std::string::npos)
          << l.failure->hint();
    } else {
      EXPECT_TRUE(l.ended);
    }
  }
  EXPECT_GE(failed, 1U);
  const auto late = s.add_client({tag_name(2)}, 1);
  s.step_all();
  expect_whole(*late, 2);
}

TEST(volume_reader, refuses_at_once_when_every_worker_hangs) {
  volume_system s(2);
  s.add_slow_worker(0s);
  s.start();
  const auto log = s.add_client({tag_name(0)});
  s.step_all();
  s.pass(31s);
  ASSERT_TRUE(log->at(tag_name(0)).failure);
  const auto late = s.add_client({tag_name(1)});
  s.step_all();
  ASSERT_TRUE(late->at("").failure)
      << "the request is refused without waiting for a deadline";
  EXPECT_EQ(late->at("").failure->code(), errc::timeout);
}

TEST(volume_reader, slow_workers_are_waited_for_within_the_deadline) {
  volume_system s(3);
  s.add_slow_worker(10s);
  s.add_slow_worker(7s);
  s.start();
  const auto log = s.add_client({tag_name(0), tag_name(1)}, 1);
  s.step_all();
  for (int i = 0; i < 60; ++i) {
    s.pass(5s);
  }
  expect_whole(*log, 0);
  expect_whole(*log, 1);
}

TEST(volume_reader, a_worker_that_dies_fails_its_request_and_is_not_asked_again) {
  volume_system s(4);
  s.add_slow_worker(0s);
  s.add_worker();
  s.start();
  const auto log = s.add_client({tag_name(0)}, 1);
  s.step_all();
  caf::anon_send_exit(s.workers().front(), caf::exit_reason::kill);
  s.step_all();
  const auto& seen = log->at(tag_name(0));
  EXPECT_TRUE(seen.ended || seen.failure) << "every request has ended or failed";
  if (seen.failure) {
    EXPECT_EQ(seen.failure->code(), errc::stopping);
  }
  const auto next = s.add_client(all_tags());
  s.step_all();
  for (std::size_t tag = 0; tag < tag_count; ++tag) {
    expect_whole(*next, tag);
  }
  EXPECT_NE(s.status().find("worker 0 has ended"), std::string::npos);
}

TEST(volume_reader, streams_end_with_the_client_that_opened_them) {
  volume_system s(5);
  s.add_worker();
  s.start();
  const auto first = s.all().size();
  s.add_client(all_tags());
  for (int i = 0; i < 25; ++i) {
    s.step();
  }
  caf::anon_send_exit(s.all()[first], caf::exit_reason::kill);
  s.step_all();
  EXPECT_NE(s.status().find("0 streams, 0 requests unanswered, 4 of 4 credits free"),
            std::string::npos)
      << s.status();
}

TEST(volume_reader, an_unknown_tag_names_the_nearest) {
  volume_system s(6);
  s.add_worker();
  s.start();
  const auto log = s.add_client({"tog1"});
  s.step_all();
  ASSERT_TRUE(log->at("").failure);
  EXPECT_EQ(log->at("").failure->code(), errc::not_found);
  EXPECT_NE(log->at("").failure->message().find("tag1"), std::string::npos)
      << log->at("").failure->message();
}

}  // namespace
}  // namespace weir::actors
