// SPDX-License-Identifier: Apache-2.0
/// @file
/// A program outside of the project that uses one function of each library. It prints the
/// name of each library that worked and "-" for any other.
#include <array>
#include <cstdio>
#include <memory>
#include <weir/base/error.hpp>
#include <weir/base/hash.hpp>
#include <weir/formats/tensogram.hpp>
#include <weir/runtime/engine.hpp>
#include <weir/storage/context.hpp>

namespace {

/// Returns whether a task that writes 42 into a tensor of one element has done so.
bool run_one_task() {
  auto engine =
      weir::or_throw(weir::runtime::engine::create({.workers = 2, .trace = {}}));
  const auto storage = weir::or_throw(engine->allocate(sizeof(float), "consumer"));
  const std::array<std::int64_t, 1> shape = {1};
  const auto tensor =
      weir::or_throw(weir::runtime::tensor::over(storage, weir::dtype::fp32, shape));
  auto* value = reinterpret_cast<float*>(storage.base);
  const std::array accesses = {weir::runtime::writes(tensor)};
  const auto id = weir::or_throw(
      engine->submit("answer", accesses,
                     [value](const weir::runtime::task_context&) { *value = 42.0F; }));
  weir::or_throw(engine->wait(id));
  return *value == 42.0F;
}

/// Returns whether an object comes back equal from a message.
bool round_trip() {
  const std::array<float, 3> values = {1.0F, 2.0F, 3.0F};
  weir::formats::object_to_write object;
  object.descriptor.shape = {3};
  object.data = std::as_bytes(std::span(values));
  const auto message =
      weir::or_throw(weir::formats::encode_message(std::span(&object, 1)));
  const auto reader = weir::or_throw(weir::formats::message_reader::open(message));
  const auto back = weir::or_throw(reader.decode(0));
  return back.size() == sizeof values &&
         std::equal(back.begin(), back.end(), object.data.begin());
}

/// Returns whether the first chunk can be read from a file of the system, here a licence.
bool first_chunk() {
  auto source = weir::or_throw(weir::storage::open_file_source(
      weir::posix_file_system(), "/usr/share/common-licenses/Apache-2.0"));
  auto stream =
      weir::or_throw(weir::storage::context_stream::open({}, std::move(source)));
  return weir::or_throw(stream->next_chunk(64)).has_value() && stream->position() == 64;
}

}  // namespace

int main() {
  // The digest of empty input is published.
  const bool base = weir::hex64(weir::xxh3_64({})) == "2d06800538d394c2";
  std::printf("%s %s %s %s\n", base ? "base" : "-", run_one_task() ? "runtime" : "-",
              round_trip() ? "formats" : "-", first_chunk() ? "storage" : "-");
}
