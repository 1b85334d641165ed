// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exports to safetensors have the names, the order and the bytes of files of Hugging
/// Face. `tests/interop/safetensors_files.py` compares them with the package itself.
#include "made_models.hpp"

namespace weir::actors::made {
namespace {

/// Returns the tensors of a model in three types in turn: fp32, bf16 and fp16.
std::vector<made_tensor> tensors_of_three_types(const made_model& m) {
  std::vector<made_tensor> out = m.hf_tensors();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i % 3 == 0) {
      continue;
    }
    out[i].type = i % 3 == 1 ? 30 : 1;
    // The upper half of an fp32. One bit of the exponent is 0, so it is finite as both.
    byte_vector half;
    for (std::size_t at = 0; at < out[i].bytes.size(); at += 4) {
      half.push_back(out[i].bytes[at + 2]);
      half.push_back(out[i].bytes[at + 3] & std::byte{0xBB});
    }
    out[i].bytes = std::move(half);
  }
  return out;
}

/// A tensor in the header of a safetensors file.
struct header_entry {
  std::string name;
  std::string type;
  std::size_t begin = 0;  ///< in the file
  std::size_t end = 0;
};

/// Returns the entries of a header in their order; the metadata must come first.
std::vector<header_entry> entries_of(bytes_view file) {
  const auto length = static_cast<std::size_t>(load_le<std::uint64_t>(file.data()));
  const auto header =
      nlohmann::ordered_json::parse(as_text(file.subspan(sizeof(std::uint64_t), length)));
  const std::size_t data = sizeof(std::uint64_t) + length;
  std::vector<header_entry> out;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      EXPECT_TRUE(out.empty());
      continue;
    }
    const auto& offsets = entry["data_offsets"];
    out.push_back({name, entry["dtype"].get<std::string>(),
                   data + offsets[0].get<std::size_t>(),
                   data + offsets[1].get<std::size_t>()});
  }
  EXPECT_EQ(out.empty() ? 0 : out.front().begin, data);
  return out;
}

class ModelExports : public testing::TestWithParam<architecture> {};

// Wide types come first, bf16 before fp16, and tensors of a type are sorted by name.
TEST_P(ModelExports, ToSafetensorsHaveTheOrderOfHuggingFace) {
  const weir::test::temp_folder scratch;
  const made_model m(GetParam());
  const auto tensors = tensors_of_three_types(m);
  make_volume(scratch / "v");
  write_hf_folder(m, scratch / "hf");
  write_bytes(scratch / "hf" + "/model.safetensors", safetensors_file(tensors));
  auto volume = writable(scratch / "v");
  or_throw(import_model(volume, scratch / "hf", "m"));
  or_throw(
      export_model(or_throw(model_in_volume::open(volume, "m")), scratch / "out", {}));
  const byte_vector file =
      or_throw(read_file(posix_file_system(), scratch / "out" + "/model.safetensors"));
  const auto entries = entries_of(file);
  ASSERT_EQ(entries.size(), m.weights.size());
  std::vector<std::pair<int, std::string>> order;
  std::size_t end = entries.front().begin;
  for (const header_entry& e : entries) {
    order.emplace_back(e.type == "F32" ? 0 : e.type == "BF16" ? 1 : 2, e.name);
    EXPECT_EQ(e.begin, end) << e.name;
    end = e.end;
    const auto source = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const auto& t) { return t.name == e.name; });
    ASSERT_NE(source, tensors.end()) << e.name;
    EXPECT_TRUE(std::equal(source->bytes.begin(), source->bytes.end(),
                           file.begin() + static_cast<std::ptrdiff_t>(e.begin),
                           file.begin() + static_cast<std::ptrdiff_t>(e.end)))
        << e.name;
  }
  EXPECT_EQ(end, file.size());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(order.front().first, 0);
  EXPECT_EQ(order.back().first, 2);
}

INSTANTIATE_TEST_SUITE_P(Families, ModelExports,
                         testing::Values(architecture::llama, architecture::bert),
                         [](const auto& family) {
                           return std::string(name_of(family.param));
                         });

}  // namespace
}  // namespace weir::actors::made
