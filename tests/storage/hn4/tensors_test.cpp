// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests tensors in stored files: both formats, views and copies, and headers with
/// contradictions.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "support.hpp"
#include "support/temp_folder.hpp"
#include "weir/storage/hn4_code.hpp"
#include "weir/storage/hn4_tensors.hpp"

namespace weir::storage::test {
namespace {

/// Returns a safetensors file with this header and `data` bytes of noise.
byte_vector safetensors(const std::string& header, std::size_t data) {
  byte_vector file;
  file.reserve(8 + header.size() + data);
  file.resize(8);
  store_le(file.data(), std::uint64_t{header.size()});
  append(file, as_view(header));
  append(file, noise(data, 3));
  return file;
}

const std::string two_tensors =
    R"({"__metadata__":{"format":"pt","x":"\u00e9\ud83d\ude00"},)"
    R"("layers.0.wq":{"dtype":"F32","shape":[4,5],"data_offsets":[0,80]},)"
    R"( "norm" : {"data_offsets":[80,86],"shape":[3],"dtype":"BF16"}})";

/// Builds a GGUF file field by field.
class gguf_maker {
 public:
  gguf_maker(std::uint32_t version, std::uint64_t tensors, std::uint64_t entries) {
    bytes.reserve(4096);
    append(bytes, as_view("GGUF"));
    put(version);
    put(tensors);
    put(entries);
  }
  template <std::unsigned_integral T>
  gguf_maker& put(T value) {
    bytes.resize(bytes.size() + sizeof(T));
    store_le(bytes.data() + bytes.size() - sizeof(T), value);
    return *this;
  }
  gguf_maker& text(std::string_view t) {
    put(std::uint64_t{t.size()});
    append(bytes, as_view(t));
    return *this;
  }
  /// Adds the entry of a tensor.
  gguf_maker& tensor(std::string_view name, std::vector<std::uint64_t> dims,
                     std::uint32_t type, std::uint64_t offset) {
    text(name).put(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t d : dims) {
      put(d);
    }
    put(type).put(offset);
    return *this;
  }
  byte_vector bytes;
};

/// Returns a GGUF file with two tensors, one of them in quantized blocks.
byte_vector gguf() {
  gguf_maker m(3, 2, 3);
  m.text("general.alignment").put(std::uint32_t{4}).put(std::uint32_t{64});
  m.text("general.name").put(std::uint32_t{8}).text("small");
  m.text("tokens").put(std::uint32_t{9}).put(std::uint32_t{8}).put(std::uint64_t{2});
  m.text("a").text("b");
  m.tensor("blk.0.attn_q.weight", {256, 3}, 12, 0);  // Q4_K: 144 bytes a row
  m.tensor("output_norm.weight", {10}, 0, 448);
  m.bytes.resize(align_up<std::size_t>(m.bytes.size(), 64));
  append(m.bytes, noise(448 + 40, 5));
  return m.bytes;
}

TEST(Hn4Tensors, MadeSafetensorsAreReadAgain) {
  const std::vector<std::int64_t> shape = {3, 1, 5};
  std::size_t made = 0;
  for (const dtype_info& row : all_dtypes()) {
    const dtype type = row.id;
    const auto bytes = byte_size(type, 15);
    const byte_vector data = noise(bytes ? static_cast<std::size_t>(*bytes) : 0, 8);
    const auto file = make_safetensors("a \"quoted\" \xC3\xA9", type, shape, data);
    if (!file) {
      EXPECT_EQ(file.error().code(), errc::unsupported) << file.error().message();
      EXPECT_NE(file.error().message().find("quoted"), std::string::npos);
      continue;
    }
    ++made;
    const auto directory = or_throw(tensor_directory::from_bytes(*file));
    ASSERT_EQ(directory.format(), container_format::safetensors);
    ASSERT_EQ(directory.tensors().size(), 1U);
    const stored_tensor& t = directory.tensors()[0];
    EXPECT_EQ(t.name, "a \"quoted\" \xC3\xA9");
    EXPECT_EQ(t.type, type);
    EXPECT_TRUE(std::equal(t.shape.begin(), t.shape.end(), shape.begin(), shape.end()));
    EXPECT_EQ(t.offset % 8, 0U);
    EXPECT_EQ(t.offset + t.bytes, file->size());
    EXPECT_TRUE(std::equal(data.begin(), data.end(),
                           file->begin() + static_cast<std::ptrdiff_t>(t.offset)));
  }
  EXPECT_EQ(made, 16U) << "types of the format";
  EXPECT_TRUE(make_safetensors("scalar", dtype::fp32, {}, noise(4, 1)));
  EXPECT_TRUE(make_safetensors("nothing", dtype::fp32, std::array{std::int64_t{0}}, {}));
  for (const auto& refused :
       {make_safetensors("__metadata__", dtype::uint8, {}, noise(1, 1)),
        make_safetensors("x", dtype::fp32, {}, noise(3, 1))}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), errc::invalid_argument);
  }
}

TEST(Hn4Tensors, NamesThatAreNoUtf8AreRefusedBecauseTwoOfThemCouldBecomeOne) {
  stored_tensor first, second;
  first.name = "a\xFF";
  second.name = "a\xFE";
  for (stored_tensor* t : {&first, &second}) {
    t->type_name = "U8";
    t->shape = {1};
    t->bytes = 1;
  }
  const auto header = safetensors_header(std::array{first, second});
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code(), errc::invalid_argument);
  EXPECT_NE(header.error().message().find("expected names in UTF-8"), std::string::npos);
  EXPECT_FALSE(make_safetensors(first.name, dtype::uint8, {}, noise(1, 1)));
}

TEST(Hn4Tensors, SafetensorsAreFoundByName) {
  const byte_vector file = safetensors(two_tensors, 86);
  const tensor_directory d = or_throw(tensor_directory::from_bytes(file));
  EXPECT_EQ(d.format(), container_format::safetensors);
  ASSERT_EQ(d.tensors().size(), 2U);
  const stored_tensor* wq = d.find("layers.0.wq");
  ASSERT_NE(wq, nullptr);
  EXPECT_EQ(wq->type, dtype::fp32);
  EXPECT_EQ(wq->shape, (shape_vector{4, 5}));
  EXPECT_EQ(wq->offset, 8 + two_tensors.size());
  EXPECT_EQ(d.find("norm")->type, dtype::bf16);
  EXPECT_EQ(d.find("norm")->bytes, 6U);
  EXPECT_EQ(d.find("wq"), nullptr);
}

TEST(Hn4Tensors, GgufBlocksAreBytesUnderTheirTypesName) {
  const byte_vector file = gguf();
  const tensor_directory d = or_throw(tensor_directory::from_bytes(file));
  EXPECT_EQ(d.format(), container_format::gguf);
  const stored_tensor* q = d.find("blk.0.attn_q.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->type, dtype::uint8);
  EXPECT_EQ(q->type_name, "Q4_K");
  EXPECT_EQ(q->shape, (shape_vector{3, 144}));
  EXPECT_EQ(q->bytes, 432U);
  EXPECT_EQ(q->offset % 64, 0U);
  EXPECT_EQ(d.find("output_norm.weight")->offset, q->offset + 448);
  EXPECT_EQ(d.find("output_norm.weight")->shape, (shape_vector{10}));
}

TEST(Hn4Tensors, HeadersThatLieAreErrorsNotTensors) {
  const std::string bad[] = {
      R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,15]}})",
      R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})",
      R"({"a":{"dtype":"F32","shape":[400],"data_offsets":[0,1600]}})",
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
      R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"U8","shape":[18446744073709551615,2],"data_offsets":[0,4]}})",
      R"({"a":{"dtype":"U8","shape":[4]}})",
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}} x)",
      R"({"a)",
      "{" + std::string(3000, '[')};
  for (const std::string& header : bad) {
    const auto d = tensor_directory::from_bytes(safetensors(header, 86));
    ASSERT_FALSE(d) << header.substr(0, 80);
    EXPECT_EQ(code_of(d.error()), hn4_code::data_rot) << d.error().message();
  }
  gguf_maker version(9, 0, 0);
  EXPECT_EQ(tensor_directory::from_bytes(version.bytes).error().code(),
            errc::unsupported_version);
  gguf_maker many(3, UINT64_MAX, 0);
  EXPECT_FALSE(tensor_directory::from_bytes(many.bytes));
  const auto raw = tensor_directory::from_bytes(noise(500, 1));
  ASSERT_TRUE(raw);
  EXPECT_EQ(raw->format(), container_format::raw);
}

TEST(Hn4Tensors, ErrorsOfHeadersSayWhatWasExpectedAtWhichByte) {
  struct fault {
    std::string header;
    std::size_t taken;  // bytes of the header that the parser has taken
    std::string expected;
  };
  const std::string begin = R"({"a":{"dtype":"U8","shape":)";
  const fault faults[] = {
      {begin + "true}}", begin.size() + 4, "expected dtype, shape and data_offsets"},
      {begin + "[1.5]}}", begin.size() + 5, "expected dtype, shape and data_offsets"},
      {begin + "[4]}}", begin.size() + 4, "expected dtype, shape and data_offsets"},
      {R"({"a":7})", 7, "expected dtype, shape and data_offsets of tensor \"a\""},
      {R"({"a":7)", 6, "expected dtype, shape and data_offsets of tensor \"a\""},
      {R"({"__metadata__":{"x":nul}})", 25, "expected a value of the metadata"},
      {"{7}", 3, "expected the name of a tensor"},
      {R"({} x)", 4, "expected nothing behind the object"},
      {std::string("{\"\xFF\":7}"), 3, "expected the name of a tensor"}};
  for (const fault& f : faults) {
    const auto d = tensor_directory::from_bytes(safetensors(f.header, 86));
    ASSERT_FALSE(d) << f.header;
    const std::string text = d.error().text();
    EXPECT_NE(text.find(f.expected), std::string::npos) << f.header << ": " << text;
    EXPECT_NE(text.find(fmt::format("at byte {}:", 8 + f.taken)), std::string::npos)
        << f.header << ": " << text;
  }
}

TEST(Hn4Tensors, ValuesThatAreNotReadMayBeNestedToALimit) {
  const auto header = [](std::size_t depth) {
    return R"({"__metadata__":)" + std::string(depth, '[') + std::string(depth, ']') +
           R"(,"a":{"x":{"y":[1,null,true,-2,0.5,"z"]},"dtype":"U8","shape":[4],)"
           R"("data_offsets":[0,4]}})";
  };
  EXPECT_TRUE(tensor_directory::from_bytes(safetensors(header(64), 4)));
  EXPECT_FALSE(tensor_directory::from_bytes(safetensors(header(65), 4)));
}

TEST(Hn4Tensors, DamagedAndCutHeadersNeverGiveARangeOutsideTheFile) {
  constexpr std::uint64_t seed = 4;
  RecordProperty("seed", static_cast<int>(seed));
  const philox random(seed, 1);
  const std::vector<byte_vector> files{safetensors(two_tensors, 86), gguf()};
  for (std::uint64_t i = 0; i < 4000; ++i) {
    byte_vector file = files[i % 2];
    for (std::uint64_t k = 0; k < 1 + i % 3; ++k) {
      file[static_cast<std::size_t>(random.below(8 * i + k, file.size()))] =
          static_cast<std::byte>(random.bits(8 * i + k + 4));
    }
    if (i % 5 == 0) {
      file.resize(static_cast<std::size_t>(random.below(8 * i + 7, file.size())));
    }
    const auto d = tensor_directory::from_bytes(file);
    for (const stored_tensor& t : d ? d->tensors() : std::span<const stored_tensor>()) {
      ASSERT_LE(t.offset, file.size()) << "seed " << seed << " case " << i;
      ASSERT_LE(t.bytes, file.size() - t.offset) << "seed " << seed << " case " << i;
    }
  }
}

TEST(Hn4Tensors, AVolumeGivesTypedTensors) {
  const weir::test::temp_folder scratch;
  const std::string path = scratch / "v";
  ASSERT_TRUE(hn4_format(path, fixed_format()));
  const byte_vector first = safetensors(two_tensors, 86), second = gguf();
  std::string wide = "{";
  for (int i = 0; i < 3000; ++i) {
    wide += fmt::format(
        "{}\"w{}\":{{\"dtype\":\"U8\",\"shape\":[40],\"data_offsets\":[{},{}]}}",
        i == 0 ? "" : ",", i, i * 40, i * 40 + 40);
  }
  const byte_vector third = safetensors(wide + "}", 120'000);
  {
    hn4_volume volume = or_throw(hn4_volume::open(path, device_mode::writable));
    ASSERT_TRUE(volume.put("model:a", first, fixed_put()));
    ASSERT_TRUE(volume.put("model:b", second, fixed_put(2)));
    ASSERT_TRUE(volume.put("model:c", third, fixed_put(3)));
  }
  for (const bool mapped : {false, true}) {
    auto device = mapped ? open_mapped_device(path)
                         : open_file_device(path, device_mode::read_only);
    const hn4_volume volume =
        or_throw(hn4_volume::open(or_throw(std::move(device)), device_mode::read_only));
    const hn4_tensor norm = or_throw(volume.tensor("norm"));
    EXPECT_EQ(std::memcmp(norm.bytes().data(), first.data() + norm.info().offset, 6), 0);
    EXPECT_EQ(norm.is_view(), mapped && norm.info().offset % 2 == 0);
    const hn4_tensor q = or_throw(find_tensor(volume, "blk.0.attn_q.weight", "model:b"));
    EXPECT_EQ(q.bytes().size(), 432U);
    EXPECT_EQ(
        std::memcmp(q.bytes().data(), second.data() + q.info().offset, q.bytes().size()),
        0);
    const hn4_tensor late = or_throw(find_tensor(volume, "w2999"));
    EXPECT_EQ(std::memcmp(late.bytes().data(), third.data() + third.size() - 40, 40), 0);
    if (!late.is_view()) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(late.bytes().data()) % 64, 0U);
    }
    const auto missing = find_tensor(volume, "norn");
    EXPECT_EQ(missing.error().code(), errc::not_found);
    EXPECT_NE(missing.error().text().find("norm"), std::string::npos);
  }
}

}  // namespace
}  // namespace weir::storage::test
