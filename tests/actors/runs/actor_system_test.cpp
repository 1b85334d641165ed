// SPDX-License-Identifier: Apache-2.0
/// @file
/// The public functions by which programs spawn actors, send them requests and wait.
#include "weir/actors/system.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>

#include "actors/tensogram_support.hpp"
#include "actors/tessera/devices.hpp"
#include "shim/shim.hpp"
#include "storage/hn4/support.hpp"
#include "support/temp_folder.hpp"
#include "system/relay.hpp"
#include "weir/actors/handles.hpp"

namespace weir::actors {
namespace {

using namespace std::chrono_literals;
using test::launch_of;
using test::number_of;
using test::numbered_order;
using test::temp_folder;

/// Expects that an answer is an error with one of two codes.
template <class T>
void expect_code(reply<T> answer, errc code, errc other) {
  ASSERT_EQ(answer.wait_for(60s), std::future_status::ready);
  const auto got = answer.get();
  ASSERT_FALSE(got);
  EXPECT_TRUE(got.error().code() == code || got.error().code() == other)
      << got.error().message();
}
template <class T>
void expect_code(reply<T> answer, errc code) {
  expect_code(std::move(answer), code, code);
}

/// Makes a volume with two tags.
void make_volume(const std::string& path) {
  or_throw(storage::hn4_format(path, storage::test::fixed_format()));
  auto volume = or_throw(storage::hn4_volume::open(path, storage::device_mode::writable));
  or_throw(volume.put("a", storage::test::noise(3'000'000, 1)));
  or_throw(volume.put("b", storage::test::noise(5, 2)));
}
message_target target_at(const std::string& path) {
  message_target out;
  out.path = path;
  return out;
}
message_source source_at(const std::string& path) {
  message_source out;
  out.path = path;
  return out;
}

TEST(actor_system, reads_volumes_whole_in_every_way) {
  const temp_folder folder;
  make_volume(folder / "v.hn4");
  auto system = or_throw(actor_system::start());
  const auto reader =
      or_throw(system.spawn_volume_reader({.workers = 3, .piece = 200'000}));
  const auto opened = or_throw(reader.open({folder / "v.hn4", {}, {}, 0}).get());
  ASSERT_EQ(opened.size(), 2U);
  EXPECT_EQ(opened[0].tag, "a");
  const byte_vector expected = storage::test::noise(3'000'000, 1);
  byte_vector pulled;
  auto next = reader.pull(opened[0].stream);
  for (;;) {
    auto after = reader.pull(opened[0].stream);
    const volume_piece piece = or_throw(next.get());
    if (piece.count == 0) {
      break;
    }
    EXPECT_EQ(piece.offset, pulled.size());
    append(pulled, *piece.bytes);
    next = std::move(after);
  }
  EXPECT_EQ(pulled, expected);
  const auto read = or_throw(reader.read(opened[0].stream, 1'234'567, 1000).get());
  EXPECT_TRUE(
      std::equal(read.bytes->begin(), read.bytes->end(), expected.begin() + 1'234'567));
  auto memory = std::make_shared<byte_vector>(2'000'000);
  std::atomic<std::uint64_t> done{0};
  EXPECT_EQ(or_throw(reader
                         .fill({opened[0].stream,
                                1'000'000,
                                {mutable_bytes(*memory), memory,
                                 [&](std::uint64_t now, std::uint64_t) { done = now; }}})
                         .get()),
            2'000'000U);
  EXPECT_TRUE(std::equal(memory->begin(), memory->end(), expected.begin() + 1'000'000));
  EXPECT_EQ(done, 2'000'000U);
  EXPECT_NE(or_throw(reader.status().get()).find("2 streams"), std::string::npos);
  expect_code(reader.open({folder / "v.hn4", {"c"}, {}, 0}), errc::not_found);
  expect_code(reader.read(opened[1].stream, 6, 1), errc::out_of_range);
  reader.close_stream(opened[1].stream);
  expect_code(reader.pull(opened[1].stream), errc::not_found);
  EXPECT_FALSE(system.spawn_volume_reader({.workers = 0}));
  EXPECT_TRUE(system.stop());
}

TEST(actor_system, appends_messages_and_reads_them_back) {
  const temp_folder folder;
  auto system = or_throw(actor_system::start());
  const auto appender =
      or_throw(system.spawn_message_appender(target_at(folder / "m.tgm")));
  EXPECT_EQ(appender.info().messages, 0U);
  std::vector<reply<appended_message>> under_way;
  for (std::uint64_t i = 0; i < 20; ++i) {
    under_way.push_back(appender.append(numbered_order(i)));
  }
  std::uint64_t end = 0;
  for (auto& one : under_way) {
    const appended_message place = or_throw(one.get());
    EXPECT_EQ(place.offset, end);
    end = place.offset + place.length;
    EXPECT_GE(place.durable, end);
  }
  EXPECT_EQ(or_throw(appender.flush().get()), end);
  const auto reader = or_throw(system.spawn_message_reader(source_at(folder / "m.tgm")));
  EXPECT_EQ(reader.info().origin, message_origin::file);
  for (std::uint64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(number_of(*or_throw(reader.pull().get())->message), i);
  }
  EXPECT_EQ(or_throw(reader.pull().get())->message, nullptr);
  EXPECT_NE(or_throw(reader.status().get()).find("20 delivered"), std::string::npos);
  EXPECT_TRUE(system.stop());
}

TEST(actor_system, says_at_once_why_an_actor_cannot_be_opened) {
  const temp_folder folder;
  auto system = or_throw(actor_system::start());
  const auto first = or_throw(system.spawn_message_appender(target_at(folder / "m.tgm")));
  const auto second = system.spawn_message_appender(target_at(folder / "m.tgm"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), errc::locked) << second.error().message();
  const auto missing = system.spawn_message_reader(source_at(folder / "none.tgm"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), errc::not_found);
  EXPECT_NE(missing.error().message().find("none.tgm"), std::string::npos);
  const auto no_mesh = system.spawn_stream({.name = "decode"});
  ASSERT_FALSE(no_mesh);
  EXPECT_EQ(no_mesh.error().code(), errc::invalid_argument);
  EXPECT_NE(no_mesh.error().message().find("decode"), std::string::npos);
  EXPECT_FALSE(system.spawn_collective({.name = "sums"}));
  EXPECT_TRUE(system.stop()) << "refused actors are no failures";
}

TEST(actor_system, stopping_makes_durable_what_nobody_has_waited_for) {
  const temp_folder folder;
  std::vector<reply<appended_message>> under_way;
  {
    auto system = or_throw(actor_system::start());
    auto target = target_at(folder / "m.tgm");
    target.window = 1000;
    const auto appender = or_throw(system.spawn_message_appender(target));
    for (std::uint64_t i = 0; i < 300; ++i) {
      under_way.push_back(appender.append(numbered_order(i, 1000)));
    }
    EXPECT_TRUE(system.stop());
    EXPECT_TRUE(system.stop()) << "further calls do nothing";
    expect_code(appender.append(numbered_order(301)), errc::stopping);
    EXPECT_TRUE(appender.close());
    const auto late = system.spawn_message_appender(target);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code(), errc::stopping);
  }
  for (auto& one : under_way) {
    EXPECT_TRUE(one.get());
  }
  const byte_vector all = or_throw(read_file(posix_file_system(), folder / "m.tgm"));
  EXPECT_EQ(formats::scan(bytes_view(all)).size(), 300U);
}

TEST(actor_system, a_closed_appender_has_released_its_file) {
  const temp_folder folder;
  auto system = or_throw(actor_system::start());
  for (std::uint64_t i = 0; i < 50; ++i) {
    const auto appender =
        or_throw(system.spawn_message_appender(target_at(folder / "m.tgm")));
    EXPECT_EQ(appender.info().messages, i);
    const auto copy = appender;
    auto unawaited = appender.append(numbered_order(i));
    ASSERT_TRUE(appender.close());
    EXPECT_TRUE(unawaited.get());
    EXPECT_TRUE(copy.close()) << "further calls do nothing";
    expect_code(copy.flush(), errc::stopping);
  }
  EXPECT_TRUE(system.stop());
}

TEST(actor_system, requests_that_wait_for_ever_end_with_it) {
  const temp_folder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto system = or_throw(actor_system::start());
  const auto reader = or_throw(system.spawn_message_reader(source_at(path)));
  auto first = reader.pull();
  EXPECT_EQ(first.wait_for(50ms), std::future_status::timeout);
  EXPECT_TRUE(system.stop());
  expect_code(std::move(first), errc::stopping, errc::abandoned);
  expect_code(reader.pull(), errc::stopping);
}

TEST(actor_system, its_end_does_not_need_a_stop_and_handles_may_outlive_it) {
  const temp_folder folder;
  make_volume(folder / "v.hn4");
  std::optional<volume_reader_handle> reader;
  for (int i = 0; i < 50; ++i) {
    auto system = or_throw(actor_system::start());
    reader = or_throw(system.spawn_volume_reader());
    static_cast<void>(reader->open({folder / "v.hn4", {}, {}, 0}));
    system = or_throw(actor_system::start());
    expect_code(reader->status(), errc::stopping);
    reader = or_throw(system.spawn_volume_reader());
  }
  expect_code(reader->open({folder / "v.hn4", {}, {}, 0}), errc::stopping);
  EXPECT_FALSE(reader->source_of(1)(0, {}));
}

TEST(actor_system, serves_many_threads_at_a_time) {
  const temp_folder folder;
  make_volume(folder / "v.hn4");
  auto system = or_throw(actor_system::start());
  const auto reader = or_throw(system.spawn_volume_reader());
  auto target = target_at(folder / "m.tgm");
  target.window = 1000;
  const auto appender = or_throw(system.spawn_message_appender(target));
  const byte_vector expected = storage::test::noise(5, 2);
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&] {
        for (std::uint64_t i = 0; i < 20; ++i) {
          const auto opened =
              or_throw(reader.open({folder / "v.hn4", {"b"}, {}, 0}).get());
          const auto piece = or_throw(reader.pull(opened[0].stream).get());
          right += *piece.bytes == expected && appender.append(numbered_order(i)).get();
          reader.close_stream(opened[0].stream);
        }
      });
    }
  }
  EXPECT_EQ(right, 120);
  EXPECT_TRUE(system.stop());
}

tessera::runtime_settings two_devices() {
  tessera::runtime_settings out;
  out.devices = out.threads = 2;
  return out;
}

/// A mesh of two ranks with memory, and a system.
struct actor_system_ranks : testing::Test {
  test::device_mesh devices{or_throw(tessera::context::make(two_devices())),
                            {1, 1, 2, 1}};
  static constexpr int count = 3;
  float* x = devices.memory(count);
  actor_system system = or_throw(actor_system::start());

  [[nodiscard]] queue_spec queue(const std::string& name = "decode") const {
    queue_spec out;
    out.name = name;
    out.mesh = devices.mesh;
    return out;
  }
  void TearDown() override {
    static_cast<void>(system.stop());
    or_throw(devices.context->shut_down());
  }
};

TEST_F(actor_system_ranks, launch_on_a_stream_and_meet_in_a_collective) {
  const auto stream = or_throw(system.spawn_stream(queue()));
  collective_spec spec;
  spec.name = "sums";
  spec.mesh = devices.mesh;
  const auto sums = or_throw(system.spawn_collective(spec));
  // x becomes 0 * 1 + 2 * (rank + 1) on each rank.
  EXPECT_EQ(or_throw(stream.launch(launch_of("stage", {x, x, 1, 2}, count)).get()), 1U);
  const event_ptr launched = or_throw(stream.record().get());
  std::vector<reply<std::uint64_t>> shares;
  for (int rank = 0; rank < 2; ++rank) {
    join_order order;
    order.rank = rank;
    order.request.call.count = count;
    order.request.input = order.request.output = x;
    order.wait_points = {launched};
    shares.push_back(sums.join(order));
  }
  for (auto& share : shares) {
    EXPECT_EQ(or_throw(share.get()), 0U);
  }
  EXPECT_EQ(devices.instance(x, 0)[count - 1], 6.0F);
  EXPECT_EQ(devices.instance(x, 1)[0], 6.0F);
  float back = 0;
  copy_order out;
  out.request.to = &back;
  out.request.from = x;
  out.request.bytes = sizeof back;
  out.request.kind = tessera::copy_kind::device_to_host;
  EXPECT_TRUE(stream.copy(out).get());
  EXPECT_TRUE(stream.synchronize().get());
  EXPECT_EQ(back, 6.0F);
  const auto other = or_throw(system.spawn_stream(queue("other")));
  EXPECT_EQ(or_throw(other.wait_for(launched).get()), 0U);
  EXPECT_NE(or_throw(stream.status().get()).find("2 operations enqueued"),
            std::string::npos);
  EXPECT_NE(or_throw(sums.status().get()).find("of 2 ranks"), std::string::npos);
  EXPECT_TRUE(other.close());
  EXPECT_TRUE(system.stop());
}

TEST_F(actor_system_ranks, a_failure_that_nobody_has_asked_for_is_that_of_the_stop) {
  const auto stream = or_throw(system.spawn_stream(queue()));
  EXPECT_TRUE(stream.launch(launch_of("broken", {}, 1)).get());
  const auto asked = stream.synchronize().get();
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code(), errc::kernel_failed);
  EXPECT_TRUE(stream.launch(launch_of("broken", {}, 1)).get());
  const auto closed = stream.close();
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code(), errc::kernel_failed);
  const auto second = or_throw(system.spawn_stream(queue()));
  EXPECT_TRUE(second.launch(launch_of("broken", {}, 1)).get());
  const auto stopped = system.stop();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), errc::kernel_failed);
  EXPECT_NE(stopped.error().message().find("decode"), std::string::npos);
}

TEST_F(actor_system_ranks, a_share_whose_peers_do_not_come_ends_with_the_system) {
  collective_spec spec;
  spec.name = "sums";
  spec.mesh = devices.mesh;
  const auto sums = or_throw(system.spawn_collective(spec));
  join_order order;
  order.rank = 1;
  order.request.call.count = count;
  order.request.input = order.request.output = x;
  auto alone = sums.join(order);
  EXPECT_EQ(alone.wait_for(50ms), std::future_status::timeout);
  order.rank = 5;
  expect_code(sums.join(order), errc::invalid_argument);
  EXPECT_TRUE(system.stop());
  expect_code(std::move(alone), errc::stopping, errc::abandoned);
}

/// An actor of a program, which ends at its first message. CAF 0.17 dereferences a null
/// pointer when it spawns functions without an argument.
caf::behavior fragile(caf::event_based_actor* self, relay_config) {
  return {[self](int) { self->quit(to_caf(error(errc::internal, "broke on purpose"))); }};
}

TEST(actor_system, shows_typed_handles_to_programs_that_use_caf) {
  const temp_folder folder;
  std::vector<std::string> failures;
  std::mutex mutex;
  actor_system_options options;
  options.failed = [&](const error& e) {
    const std::lock_guard lock(mutex);
    failures.push_back(e.message());
  };
  auto system = or_throw(actor_system::start(options));
  const auto appender =
      or_throw(system.spawn_message_appender(target_at(folder / "m.tgm")));
  {
    caf::actor_system& native = *or_throw(caf_system_of(system));
    caf::scoped_actor self(native);
    const auto typed = or_throw(actor_of(appender));
    const auto place = or_throw(ask<local<appended_message>>(
        self, typed, 60s, "appending", write_atom_v, by_reference(numbered_order(7))));
    EXPECT_EQ(place->offset, 0U);
    const caf::actor own = native.spawn(fragile, relay_config());
    or_throw(adopt(system, {"own", stop_group::source, own}));
    const caf::actor quiet = native.spawn(fragile, relay_config());
    or_throw(adopt(system, {"quiet", stop_group::source, quiet}));
    self->send(own, 1);
    self->wait_for(own);
  }
  const auto stopped = system.stop();
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message().find("own"), std::string::npos);
  EXPECT_NE(stopped.error().message().find("broke on purpose"), std::string::npos);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_FALSE(caf_system_of(system));
  EXPECT_FALSE(actor_of(appender));
  EXPECT_FALSE(adopt(system, {}));
}

}  // namespace
}  // namespace weir::actors
