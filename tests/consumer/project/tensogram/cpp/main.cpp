// SPDX-License-Identifier: Apache-2.0
/// @file
/// A C++17 program outside of the project that uses everything its wrapper of the C
/// interface offers. Its one argument is a folder for files.
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>

#include "wrapper.hpp"

namespace {

int failures = 0;
/// Reports a condition that does not hold, with the last error of the library.
void check(bool holds, const char* text) {
  if (!holds) {
    const char* error = tgm_last_error();
    std::cerr << "failed: " << text << "; last error: " << (error ? error : "none")
              << "\n";
    ++failures;
  }
}
#define CHECK(condition) check((condition), #condition)

/// Returns whether a call throws this failure.
template <class Failure, class Call>
bool fails_with(const Call& call) {
  try {
    call();
  } catch (const Failure&) {
    return true;
  }
  return false;
}

const char* const json = R"({"base": [{"name": "a", "list": [1, 2.5, true, null]},
    {"name": "b", "level": 500}], "_extra_": {"run": "first"}, "descriptors": [
    {"type": "ntensor", "ndim": 2, "shape": [2, 2], "strides": [2, 1],
     "dtype": "float32", "byte_order": "little", "encoding": "none", "filter": "none",
     "compression": "none"},
    {"type": "ntensor", "ndim": 1, "shape": [3], "strides": [1], "dtype": "float64",
     "byte_order": "little", "encoding": "none", "filter": "none",
     "compression": "lz4"}]})";
const char* const one_descriptor = R"({"type": "ntensor", "ndim": 1, "shape": [4],
     "strides": [1], "dtype": "float32", "byte_order": "little", "encoding": "none",
     "filter": "none", "compression": "none"})";
const std::vector<float> first{1, 2, 3, 4};
const std::vector<double> second{5, 6, 7};

/// Returns the payloads of the two objects that `json` describes.
wrapped::payloads two() {
  return wrapped::payloads().add(first).add(second);
}
/// Returns the JSON of a message with one object.
std::string with_one_descriptor() {
  return std::string(R"({"descriptors": [)") + one_descriptor + "]}";
}

/// Checks every accessor of metadata and values.
void use_values(const wrapped::metadata& meta) {
  CHECK(meta.version() == 3 && meta.objects() == 2);
  CHECK(meta.has("name") && meta.has(1, "level") && !meta.has(0, "level"));
  CHECK(meta.get("name").as_string() == "a");
  CHECK(meta.get(1, "name").as_string() == "b");
  CHECK(meta.get("level").as_i64() == 500 && meta.get("level").as_u64() == 500u);
  CHECK(meta.get("level").as_f64() == 500.0);
  CHECK(!meta.get("level").as_bool() && !meta.get("level").as_bytes());
  CHECK(!meta.get("absent"));
  const auto items = meta.get("list").items();
  CHECK(items.size() == 4 && items[1].as_f64() == 2.5 && items[2].as_bool() == true);
  CHECK(items[3].type() == TGM_VALUE_TYPE_NULL);
  CHECK(meta.extra().entries().size() == 1);
  CHECK(meta.extra()["run"].as_string() == "first");
  CHECK(meta.object(0)["_reserved_"].type() == TGM_VALUE_TYPE_MAP);
  CHECK(meta.reserved().type() == TGM_VALUE_TYPE_MAP);
  CHECK(meta.text("run") == "first" && meta.text(1, "name") == "b");
  CHECK(meta.integer("level", -1) == 500 && meta.integer(0, "level", -1) == -1);
  CHECK(meta.number("level", -1) == 500 && meta.number(1, "level", -1) == 500);
  CHECK(meta.json().find("\"run\":\"first\"") != std::string::npos);
  CHECK(meta.json(1).find("\"level\":500") != std::string::npos);
}

/// Checks all functions on messages in memory.
void use_buffers() {
  const wrapped::bytes bytes = wrapped::encode(json, two());
  const wrapped::message message = wrapped::decode(bytes);
  CHECK(message.version() == 3 && message.size() == 2);
  const wrapped::object object = message.at(1);
  CHECK(object.shape == std::vector<std::uint64_t>{3});
  CHECK(object.strides == std::vector<std::uint64_t>{1});
  CHECK(object.dtype == "float64" && object.type == "ntensor");
  CHECK(object.byte_order == "little" && object.encoding == "none");
  CHECK(object.filter == "none" && object.compression == "lz4");
  CHECK(object.hash_type == "xxh3" && object.hash.size() == 16);
  CHECK(std::memcmp(object.data.data(), second.data(), 24) == 0);
  CHECK(fails_with<std::out_of_range>([&] { (void)message.at(2); }));
  use_values(message.meta());
  use_values(wrapped::decode_metadata(bytes));
  CHECK(wrapped::decode_object(bytes, 1).size() == 1);
  CHECK(wrapped::decode_ranges(bytes, 1, {{2, 1}, {0, 2}}).size() == 2);
  CHECK(wrapped::decode_ranges(bytes, 1, {{2, 1}, {0, 2}}, true)[0].size() == 24);
  CHECK(wrapped::scan(bytes).at(0).length == bytes.size());
  CHECK(wrapped::messages_in(bytes).size() == 1);
  CHECK(wrapped::objects_in(bytes).size() == 2);
  CHECK(wrapped::validate(bytes, "full").text().find("\"issues\":[]") !=
        std::string::npos);
  CHECK(wrapped::digest("hello world").text() == "d447b1ea40e6988b");
  CHECK(wrapped::packing({1, 2, 3}, 8).first == 1);
  CHECK(wrapped::doctor().text().find("self_test") != std::string::npos);
  const auto stored = wrapped::encode_stored(with_one_descriptor().c_str(),
                                             wrapped::payloads().add(first), nullptr);
  using missing_hash = wrapped::failure_with<TGM_ERROR_MISSING_HASH>;
  CHECK(fails_with<missing_hash>([&] { (void)wrapped::decode(stored); }));
  CHECK(wrapped::decode(stored, false).size() == 1);
}

/// Checks that NaN is refused without masks and restored, or left as 0, with them.
void use_masks(const std::string& folder) {
  const std::vector<float> values{1, std::numeric_limits<float>::quiet_NaN(), 3, 4};
  const auto payloads = wrapped::payloads().add(values);
  const std::string one = with_one_descriptor();
  using refused = wrapped::failure_with<TGM_ERROR_ENCODING>;
  CHECK(fails_with<refused>([&] { (void)wrapped::encode(one.c_str(), payloads); }));
  const wrapped::mask_options masks{true, true, "rle", nullptr, nullptr, -1};
  const auto bytes = wrapped::encode(one.c_str(), payloads, masks);
  float second_value = 0;
  std::memcpy(&second_value, wrapped::decode(bytes).at(0).data.data() + 4, 4);
  CHECK(std::isnan(second_value));
  const TgmDecodeMaskOptions keep{false};
  std::memcpy(&second_value, wrapped::decode(bytes, keep).at(0).data.data() + 4, 4);
  CHECK(second_value == 0);
  auto file = wrapped::file::create(folder + "/masks.tgm");
  file.append(one.c_str(), payloads, masks);
  CHECK(file.size() == 1);
  wrapped::encoder stream(folder + "/masked_stream.tgm", "{}", masks);
  stream.write(one_descriptor, values);
  stream.finish();
  CHECK(wrapped::file::open(folder + "/masked_stream.tgm").size() == 1);
}

/// Checks files, their iteration, and the stream writer.
void use_files(const std::string& folder) {
  const std::string path = folder + "/cpp.tgm";
  auto file = wrapped::file::create(path);
  file.append(json, two());
  file.append(wrapped::encode(json, two()));
  CHECK(file.path() == path && file.size() == 2);
  CHECK(wrapped::messages_in(file).size() == 2);
  CHECK(wrapped::file::open(path).decode(1).size() == 2);
  CHECK(wrapped::decode(file.read(0)).size() == 2);
  CHECK(wrapped::validate(path).text().find("\"file_issues\":[]") != std::string::npos);
  using absent = wrapped::failure_with<TGM_ERROR_IO>;
  CHECK(fails_with<absent>([&] { (void)wrapped::file::open(path + "x"); }));
  wrapped::encoder stream(folder + "/stream.tgm", "{}");
  stream.describe_next(R"({"name": "late"})");
  stream.write(one_descriptor, first);
  stream.write_stored(one_descriptor, first);
  CHECK(stream.size() == 2);
  stream.finish();
  using finished = wrapped::failure_with<TGM_ERROR_INVALID_ARG>;
  CHECK(fails_with<finished>([&] { stream.finish(); }));
  CHECK(wrapped::file::open(folder + "/stream.tgm").decode(0).meta().text("name") ==
        "late");
}

/// Checks asynchronous files with futures, cancellation and time limits.
void use_async_files(const std::string& folder) {
  const std::string path = folder + "/cpp.tgm";
  const auto file = wrapped::async_file::open(path, {nullptr, 60'000}).get();
  CHECK(file.path() == path);
  auto size = file.size().future();
  auto message = file.decode(1).future();
  auto absent = file.read(2).future();
  CHECK(size.get() == 2);
  CHECK(message.get().size() == 2);
  using no_object = wrapped::failure_with<TGM_ERROR_OBJECT>;
  CHECK(fails_with<no_object>([&] { (void)absent.get(); }));
  CHECK(file.read(0).get().size() > 0);
  CHECK(file.decode_object(0, 1).get().size() == 1);
  CHECK(file.decode_metadata(0).get().text("run") == "first");
  CHECK(file.decode_ranges(0, 1, {2, 0}, {1, 2}).get().at(1).size() == 16);
  auto early = file.size();
  early.cancel();
  CHECK(early.ready());
  wrapped::token token;
  token.cancel();
  CHECK(token.cancelled());
  using cancelled = wrapped::failure_with<TGM_ERROR_CANCELLED>;
  CHECK(fails_with<cancelled>([&] { (void)file.size({&token, 0}).get(); }));
  CHECK(wrapped::async_file::open_at("file://" + path).get().size().get() == 2);
  using remote = wrapped::failure_with<TGM_ERROR_REMOTE>;
  CHECK(fails_with<remote>(
      [&] { (void)wrapped::async_file::open_at("gopher://host/a.tgm").get(); }));
}

/// Checks the asynchronous stream writer.
void use_async_streams(const std::string& folder) {
  const std::string path = folder + "/async_stream.tgm";
  auto stream = wrapped::async_encoder::create(path, "{}").get();
  CHECK(stream.path() == path);
  auto described = stream.describe_next(R"({"name": "late"})");
  auto written = stream.write(one_descriptor, first);
  auto stored = stream.write_stored(one_descriptor, first).future();
  described.get();
  written.get();
  stored.get();
  CHECK(stream.size() == 2 && stream.size_now() == 2u);
  stream.finish(true).get();
  CHECK(!stream.size_now());
  CHECK(wrapped::file::open(path).decode(0).size() == 2);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2);
  const std::string folder = argv[1];
  {
    const wrapped::runtime runtime;
    use_buffers();
    use_masks(folder);
    use_files(folder);
    use_async_files(folder);
    use_async_streams(folder);
  }
  std::cout << failures << " failures in C++\n";
  return failures == 0 ? 0 : 1;
}
