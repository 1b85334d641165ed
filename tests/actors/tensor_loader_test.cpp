// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests loading tensors by tasks: order, failures, cancelling, and pieces of any size.
#include "weir/actors/tensor_loader.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>

#include "storage/hn4/faulty_device.hpp"
#include "support/temp_folder.hpp"
#include "volume/constants.hpp"

namespace weir::actors {
namespace {

using runtime::task_context;
using storage::test::noise;

/// Returns a safetensors file with three tensors, whose bytes are a function of their
/// offsets.
byte_vector small_file() {
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[100,50],"data_offsets":[0,20000]},)"
      R"("b":{"dtype":"U8","shape":[30001],"data_offsets":[20000,50001]},)"
      R"("c":{"dtype":"F64","shape":[8],"data_offsets":[50001,50065]}})";
  byte_vector file(8 + header.size());
  store_le(file.data(), std::uint64_t{header.size()});
  std::memcpy(file.data() + 8, header.data(), header.size());
  append(file, noise(50'065, 3));
  return file;
}

/// A volume with the file under the tag "model", and an engine.
struct fixture {
  explicit fixture(unsigned workers = 2, std::uint32_t shards = 3) {
    auto volume =
        or_throw(storage::test::open_on(*device, storage::device_mode::writable));
    or_throw(volume.put("model", small_file(), storage::test::fixed_put(shards)));
    runtime::engine_options options;
    options.workers = workers;
    engine = or_throw(runtime::engine::create(options));
  }
  storage::hn4_stream stream() const {
    return or_throw(or_throw(storage::test::open_on(*device)).stream("model"));
  }
  std::unique_ptr<storage::memory_device> device = storage::test::formatted();
  std::unique_ptr<runtime::engine> engine;
};

/// Returns the bytes of a tensor in the file.
bytes_view part_of(const byte_vector& file, const storage::stored_tensor& t) {
  return bytes_view(file).subspan(static_cast<std::size_t>(t.offset),
                                  static_cast<std::size_t>(t.bytes));
}

TEST(tensor_loader, fills_every_tensor_of_a_file_in_pieces_of_any_size) {
  for (const std::uint64_t piece : {1U, 5000U, 1U << 20}) {
    fixture f;
    loader_options options;
    options.piece = piece;
    tensor_loader loader(*f.engine, f.stream(), options);
    const auto loaded = or_throw(loader.load_all("weights"));
    or_throw(f.engine->wait_all());
    const byte_vector file = small_file();
    const auto directory = or_throw(storage::tensor_directory::from_bytes(file));
    ASSERT_EQ(loaded.size(), 3U);
    std::uint64_t bytes = 0;
    for (const loaded_tensor& t : loaded) {
      const auto* stored = directory.find(t.name);
      ASSERT_NE(stored, nullptr);
      const bytes_view expected = part_of(file, *stored);
      EXPECT_EQ(t.tensor.type(), stored->type);
      EXPECT_EQ(std::memcmp(t.tensor.data(), expected.data(), expected.size()), 0)
          << t.name << ", pieces of " << piece;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.tensor.data()) % 64, 0U);
      bytes += expected.size();
    }
    EXPECT_EQ(loader.bytes_done(), bytes);
    // The tag has three shards. With the largest pieces, tasks end where shards do.
    EXPECT_EQ(loaded[0].tasks.size(), piece > 20'000 ? 2U : 6U);
  }
}

// The tasks that compare are submitted right after the loads and without any wait. Only
// the accesses of the tasks make them run behind the loads.
TEST(tensor_loader, readers_of_a_tensor_wait_for_its_bytes) {
  fixture f(3);
  loader_options options;
  options.piece = 4048;
  tensor_loader loader(*f.engine, f.stream(), options);
  const auto loaded = or_throw(loader.load_all("weights"));
  const byte_vector file = small_file();
  const auto directory = or_throw(storage::tensor_directory::from_bytes(file));
  std::array<std::atomic<int>, 3> same{};
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const bytes_view expected = part_of(file, *directory.find(loaded[i].name));
    const runtime::access read[] = {runtime::reads(loaded[i].tensor)};
    or_throw(f.engine->submit(
        "compare", read,
        [have = loaded[i].tensor.data(), want = expected.data(), n = expected.size(),
         to = &same[i]](const task_context&) { *to = std::memcmp(have, want, n) == 0; }));
  }
  or_throw(f.engine->wait_all());
  for (const auto& each : same) {
    EXPECT_EQ(each.load(), 1);
  }
}

TEST(tensor_loader, a_load_waits_for_readers_of_what_was_there_before) {
  fixture f(2);
  tensor_loader loader(*f.engine, f.stream());
  const auto directory = or_throw(storage::tensor_directory::from_stream(f.stream()));
  const auto* c = directory.find("c");
  const auto memory = or_throw(f.engine->allocate(64, "old"));
  const auto tensor = or_throw(runtime::tensor::over(memory, dtype::fp64, c->shape));
  std::atomic<int> old_value{-1};
  const runtime::access read[] = {runtime::reads(tensor)};
  or_throw(f.engine->submit("look", read,
                            [from = tensor.data(), to = &old_value](const task_context&) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(20));
                              *to = std::to_integer<int>(*from);
                            }));
  or_throw(loader.load(*c, tensor));
  or_throw(f.engine->wait_all());
  EXPECT_EQ(old_value.load(), 0) << "a reader that was submitted before the load reads "
                                    "the old bytes, which are zero";
  const byte_vector file = small_file();
  EXPECT_EQ(std::memcmp(tensor.data(), part_of(file, *c).data(), 64), 0);
}

TEST(tensor_loader, a_damaged_block_fails_its_tensor_and_readers_do_not_run) {
  fixture f(2, 1);
  const auto directory = or_throw(storage::tensor_directory::from_stream(f.stream()));
  // Finds a byte of tensor "b" on the device.
  const byte_vector file = small_file();
  const bytes_view b = part_of(file, *directory.find("b"));
  std::uint64_t byte = 0;
  for (std::uint64_t page = 0; page < f.device->size() && byte == 0;
       page += storage::memory_device::page_bytes) {
    const bytes_view bytes = f.device->view(page, storage::memory_device::page_bytes);
    const auto found =
        std::search(bytes.begin(), bytes.end(), b.begin() + 15'000, b.begin() + 15'032);
    byte = found != bytes.end() ? page + static_cast<std::uint64_t>(found - bytes.begin())
                                : 0;
  }
  ASSERT_NE(byte, 0U);
  storage::test::flipped_byte damage(*f.device, byte, 1);
  tensor_loader loader(*f.engine, f.stream());
  std::atomic<int> ran{0};
  for (const storage::stored_tensor& each : directory.tensors()) {
    const loaded_tensor t = or_throw(loader.load(each, "weights"));
    const runtime::access read[] = {runtime::reads(t.tensor)};
    or_throw(f.engine->submit("use", read, [to = &ran](const task_context&) { ++*to; }));
  }
  const auto outcome = f.engine->wait_all();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), errc::kernel_failed);
  EXPECT_EQ(outcome.error().root().code(), errc::corrupt);
  EXPECT_NE(outcome.error().root().text().find("model"), std::string::npos);
  EXPECT_EQ(ran.load(), 2) << "only the readers of the two sound tensors run";
}

TEST(tensor_loader, cancelled_loads_fail_and_say_so) {
  fixture f(1);
  tensor_loader loader(*f.engine, f.stream());
  const auto loaded = or_throw(loader.load_all("weights"));
  loader.cancel();
  const auto outcome = f.engine->wait_all();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().root().code(), errc::interrupted);
  EXPECT_EQ(loader.bytes_done(), 0U)
      << "with one worker nothing has been loaded before the cancellation";
}

TEST(tensor_loader, a_source_takes_the_place_of_the_stream) {
  fixture f(2);
  const auto stream = f.stream();
  std::atomic<std::uint64_t> asked{0};
  loader_options options;
  options.source = [&](std::uint64_t offset, mutable_bytes to) {
    asked += to.size();
    return stream.read(offset, to);
  };
  tensor_loader loader(*f.engine, stream, options);
  const auto loaded = or_throw(loader.load_all("weights"));
  or_throw(f.engine->wait_all());
  EXPECT_EQ(asked.load(), 50'065U);
}

TEST(tensor_loader, refuses_tensors_that_do_not_fit) {
  fixture f(1);
  tensor_loader loader(*f.engine, f.stream());
  const auto directory = or_throw(storage::tensor_directory::from_stream(f.stream()));
  const auto memory = or_throw(f.engine->allocate(20'000, "w"));
  const std::int64_t turned[] = {50, 100};
  const auto other = or_throw(runtime::tensor::over(memory, dtype::fp32, turned));
  EXPECT_EQ(loader.load(*directory.find("a"), other).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(loader.load(0, or_throw(other.transpose())).error().code(),
            errc::invalid_argument);
  EXPECT_EQ(loader.load(f.stream().size() - 1, other).error().code(), errc::out_of_range);
  storage::stored_tensor beyond = *directory.find("a");
  beyond.offset = UINT64_MAX - 4;
  EXPECT_EQ(loader.load(beyond, "w").error().code(), errc::out_of_range);
}

TEST(constants, are_read_by_tasks_and_name_volume_and_tensor_if_a_block_is_damaged) {
  const weir::test::temp_folder folder;
  const std::string path = folder / "v.hn4";
  const byte_vector content = noise(1 << 20, 4);
  const std::vector<std::int64_t> shape = {1024, 256};
  or_throw(storage::hn4_format(path, storage::test::fixed_format()));
  or_throw(or_throw(storage::hn4_volume::open(path, storage::device_mode::writable))
               .put("model", or_throw(storage::make_safetensors("w", dtype::fp32, shape,
                                                                content))));
  {
    weir::engine host;
    const auto loaded = or_throw(load_constant(host, path, "w"));
    EXPECT_EQ(loaded.type(), dtype::fp32);
    EXPECT_TRUE(std::equal(shape.begin(), shape.end(), loaded.shape().begin(),
                           loaded.shape().end()));
    EXPECT_EQ(std::memcmp(loaded.data(), content.data(), content.size()), 0);
    const auto missing = load_constant(host, path, "v");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), errc::not_found);
  }
  byte_vector image = or_throw(read_file(posix_file_system(), path));
  const auto last =
      std::search(image.begin(), image.end(), content.end() - 64, content.end());
  ASSERT_NE(last, image.end());
  *last ^= std::byte{1};
  const auto f = or_throw(posix_file_system().open(path, open_mode::read_write));
  or_throw(write_all(*f, 0, image));
  weir::engine host;
  const auto damaged = load_constant(host, path, "w");
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code(), errc::corrupt) << damaged.error().message();
  EXPECT_NE(damaged.error().message().find("the constant \"w\" of \"" + path),
            std::string::npos)
      << damaged.error().message();
}

}  // namespace
}  // namespace weir::actors
