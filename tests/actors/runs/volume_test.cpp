// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the volume reader and the tensor loader with threads: many clients of one image,
/// and tensors that are loaded through actors.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "storage/hn4/support.hpp"
#include "support/temp_folder.hpp"
#include "volume/volume_reader.hpp"
#include "volume/volume_worker.hpp"
#include "weir/actors/system.hpp"

namespace weir::actors {
namespace {

constexpr std::size_t tags = 6;

/// Returns the content of a tag.
byte_vector bytes_of(std::size_t tag) {
  return storage::test::noise(300'000 + 123'457 * tag, tag + 1);
}

/// An image of a volume, and an actor system with a volume reader that has three workers.
struct reading_system {
  reading_system() {
    or_throw(storage::hn4_format(image, storage::test::fixed_format()));
    auto volume =
        or_throw(storage::hn4_volume::open(image, storage::device_mode::writable));
    for (std::size_t i = 0; i < tags; ++i) {
      or_throw(volume.put("t" + std::to_string(i), bytes_of(i),
                          storage::test::fixed_put(static_cast<std::uint32_t>(1 + i))));
    }
    volume_reader_config reader_config;
    reader_config.plan.piece = 100'000;
    reader_config.plan.credits = 8;
    for (int i = 0; i < 3; ++i) {
      workers.push_back(
          spawn_own_thread(*system, {}, volume_worker_io, volume_worker_config{}));
    }
    reader_config.workers = workers;
    reader = spawn_shared(*system, volume_reader, std::move(reader_config));
  }
  ~reading_system() {
    caf::anon_send_exit(reader, caf::exit_reason::user_shutdown);
    for (const auto& w : workers) {
      caf::anon_send_exit(w, caf::exit_reason::user_shutdown);
    }
  }
  reading_system(const reading_system&) = delete;
  reading_system& operator=(const reading_system&) = delete;

  weir::test::temp_folder scratch;
  std::string image = scratch / "v.hn4";
  std::unique_ptr<system_config> config = or_throw(system_config::make({}));
  std::unique_ptr<caf::actor_system> system =
      std::make_unique<caf::actor_system>(*config);
  std::vector<volume_worker_actor> workers;
  volume_reader_actor reader;
};

/// Pulls a whole stream, with several unanswered pulls at a time.
byte_vector pull_all(caf::scoped_actor& self, const volume_reader_actor& reader,
                     const opened_stream& s) {
  byte_vector all(static_cast<std::size_t>(s.bytes));
  constexpr std::chrono::seconds timeout(60);
  for (std::uint64_t got = 0; got < s.bytes;) {
    auto first = self->request(reader, timeout, pull_atom_v, s.stream);
    auto second = self->request(reader, timeout, pull_atom_v, s.stream);
    const auto take = [&](const local<volume_piece>& p) {
      if (p->count > 0) {
        std::copy(p->bytes->begin(), p->bytes->end(),
                  all.begin() + static_cast<std::ptrdiff_t>(p->offset));
      }
      got += p->count;
    };
    const auto refuse = [&](const caf::error& e) {
      or_throw(result<void>(from_caf(e, "pull")));
    };
    first.receive(take, refuse);
    second.receive(take, refuse);
  }
  return all;
}

TEST(volume_threads, many_clients_read_many_tags) {
  reading_system s;
  std::atomic<std::size_t> whole{0};
  std::vector<std::jthread> clients;
  for (std::size_t c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      caf::scoped_actor self(*s.system);
      volume_spec spec{s.image, {"t" + std::to_string(c % tags), "t3"}, {}, 0};
      const auto opened = or_throw(
          ask<local<opened_streams>>(self, s.reader, std::chrono::seconds(60), "opening",
                                     open_atom_v, by_reference(std::move(spec))));
      for (const opened_stream& stream : *opened) {
        const auto tag = static_cast<std::size_t>(stream.tag[1] - '0');
        whole += pull_all(self, s.reader, stream) == bytes_of(tag) ? 1 : 0;
      }
    });
  }
  clients.clear();
  EXPECT_EQ(whole.load(), 12U);
}

TEST(volume_threads, tensors_are_loaded_through_the_reader) {
  const reading_system image;
  auto s = or_throw(actor_system::start());
  const auto reader = or_throw(s.spawn_volume_reader({.workers = 3, .piece = 100'000}));
  const auto opened = or_throw(reader.open({image.image, {"t5"}, {}, 0}).get());
  runtime::engine_options options;
  options.workers = 2;
  const auto engine = or_throw(runtime::engine::create(options));
  const byte_vector expected = bytes_of(5);
  loader_options how;
  how.piece = 150'000;
  how.source = reader.source_of(opened.front().stream);
  tensor_loader loader(
      *engine, or_throw(or_throw(storage::hn4_volume::open(image.image)).stream("t5")),
      how);
  const auto memory =
      or_throw(engine->allocate(static_cast<std::int64_t>(expected.size()), "weights"));
  const std::int64_t shape[] = {static_cast<std::int64_t>(expected.size())};
  const auto tensor = or_throw(runtime::tensor::over(memory, dtype::uint8, shape));
  EXPECT_GE(or_throw(loader.load(0, tensor)).size(), 6U);
  or_throw(engine->wait(tensor));
  EXPECT_EQ(std::memcmp(tensor.data(), expected.data(), expected.size()), 0);
  // An error of the reader becomes the failure of the task.
  or_throw(engine->wait_all());
  reader.close_stream(opened.front().stream);
  or_throw(loader.load(0, tensor));
  const auto outcome = engine->wait_all();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().root().code(), errc::not_found) << outcome.error().message();
  or_throw(s.stop());
}

}  // namespace
}  // namespace weir::actors
