// SPDX-License-Identifier: Apache-2.0
/// @file
/// Damaged and foreign files of models: each is refused with an error that names the file
/// or the thing in it, without memory beyond the size of the file, and nothing is stored.
#include <functional>

#include "made_models.hpp"
#include "support/allocation_meter.hpp"

namespace weir::actors::made {
namespace {

/// Memory that a refusal may take at one time even if the file is smaller: the table of
/// its tensors, messages, and the directory of the volume.
constexpr std::int64_t small_memory = std::int64_t{64} << 10;
/// Largest single allocation even if the file is smaller; 4,104 bytes were found.
constexpr std::int64_t small_allocation = std::int64_t{8} << 10;

using tensor_list = std::vector<made_tensor>;

/// A file that is refused.
struct damaged_file {
  std::string name;
  byte_vector bytes;
  std::vector<errc> codes;    ///< one of them
  std::string mentions = {};  ///< part of the message
};

template <std::unsigned_integral T>
byte_vector with_number(byte_vector file, std::size_t offset, T value) {
  store_le(file.data() + offset, value);
  return file;
}

/// Returns the offset of a text in a file.
std::size_t offset_of(const byte_vector& file, std::string_view text) {
  const std::size_t found = as_text(file).find(text);
  EXPECT_NE(found, std::string_view::npos) << text;
  return found;
}

constexpr auto corrupt = errc::corrupt;
constexpr auto unsupported = errc::unsupported;

/// Adds files whose numbers contradict the file.
void add_gguf_numbers(const byte_vector& good, std::vector<damaged_file>& out) {
  const auto add = [&](const char* name, std::size_t offset, auto value,
                       std::vector<errc> codes = {corrupt}) {
    out.push_back({name, with_number(good, offset, value), std::move(codes)});
  };
  add("magic", 0, std::uint32_t{0x46554746}, {unsupported});
  add("version 1", 4, std::uint32_t{1}, {errc::unsupported_version});
  add("version 9", 4, std::uint32_t{9}, {errc::unsupported_version});
  add("big endian version", 4, std::uint32_t{0x03000000}, {errc::unsupported_version});
  add("no tensors", 8, std::uint64_t{0}, {corrupt, unsupported});
  add("one tensor more", 8, std::uint64_t{21}, {corrupt});
  add("a million tensors", 8, std::uint64_t{1'000'000});
  add("2^63 tensors", 8, std::uint64_t{1} << 63);
  add("one entry less", 16, std::uint64_t{18}, {corrupt, unsupported});
  add("one entry more", 16, std::uint64_t{22}, {corrupt, unsupported});
  add("2^24 entries", 16, std::uint64_t{1} << 24);
  add("2^63 entries", 16, std::uint64_t{1} << 63);
  add("length of a key", 24, std::uint64_t{1} << 40);
  add("length of a key 2^64 - 1", 24, UINT64_MAX);
  const std::size_t tokens = offset_of(good, "tokenizer.ggml.tokens") + 21;
  add("tokens of another type", tokens, std::uint32_t{77});
  add("tokens as numbers", tokens + 4, std::uint32_t{4}, {corrupt, unsupported});
  add("2^32 tokens", tokens + 8, std::uint64_t{1} << 32, {corrupt, errc::out_of_range});
  add("2^60 tokens", tokens + 8, std::uint64_t{1} << 60, {corrupt, errc::out_of_range});
  add("length of a token", tokens + 16, std::uint64_t{1} << 50);
  const std::size_t norm = offset_of(good, "output_norm.weight") + 18;
  add("9 dimensions", norm, std::uint32_t{9});
  add("2^31 dimensions", norm, std::uint32_t{1} << 31);
  add("an extent of 2^62", norm + 4, std::uint64_t{1} << 62);
  add("an extent of 0", norm + 4, std::uint64_t{0}, {corrupt, unsupported});
  add("an extent of 65", norm + 4, std::uint64_t{65});
  add("type 99", norm + 12, std::uint32_t{99});
  add("type Q4_0", norm + 12, std::uint32_t{2}, {corrupt, unsupported});
  add("type I64", norm + 12, std::uint32_t{27}, {corrupt, unsupported});
  add("offset behind the file", norm + 16, std::uint64_t{1} << 40);
  add("offset of 2^64 - 8", norm + 16, UINT64_MAX - 7);
  add("data of another tensor", norm + 16, std::uint64_t{0});
  add("data inside another tensor", norm + 16, std::uint64_t{64});
}

/// Makes files that are whole and describe something else than the layers compute.
class model_changes {
 public:
  model_changes(const made_model& m, std::vector<damaged_file>& out) : m_(m), out_(out) {}

  /// Adds a file with changed tensors.
  void add(const char* name, const std::function<void(tensor_list&)>& change,
           std::vector<errc> codes, std::string mentions = {}) {
    tensor_list tensors = m_.gguf_tensors();
    change(tensors);
    out_.push_back({name, gguf_file(m_.gguf_keys(), tensors), std::move(codes),
                    std::move(mentions)});
  }
  /// Adds a file with one tensor more.
  void add_tensor(const char* name, const char* tensor) {
    add(
        name,
        [&](tensor_list& t) {
          t.push_back(t.back());
          t.back().name = tensor;
        },
        {unsupported}, tensor);
  }
  /// Adds a file with another shape of a tensor.
  void add_shape(const char* name, const char* tensor, shape_vector shape) {
    add(
        name, [&](tensor_list& t) { named(t, tensor).shape = shape; }, {corrupt}, tensor);
  }
  static made_tensor& named(tensor_list& all, std::string_view name) {
    return *std::find_if(all.begin(), all.end(),
                         [&](const made_tensor& t) { return t.name == name; });
  }

 private:
  const made_model& m_;
  std::vector<damaged_file>& out_;
};

/// Adds files with other tensors than the model has.
void add_gguf_models(const made_model& m, std::vector<damaged_file>& out) {
  model_changes changes(m, out);
  changes.add(
      "no embedding", [](tensor_list& t) { t.erase(t.begin()); }, {corrupt},
      "token_embd.weight");
  changes.add(
      "no norm", [](tensor_list& t) { t.pop_back(); }, {corrupt}, "output_norm.weight");
  changes.add(
      "a tensor twice", [](tensor_list& t) { t.push_back(t.back()); }, {corrupt},
      "output_norm.weight");
  changes.add_tensor("a layer more", "blk.2.attn_q.weight");
  changes.add_tensor("rope factors", "rope_freqs.weight");
  changes.add_tensor("experts", "blk.0.ffn_gate_exps.weight");
  changes.add_shape("a transposed matrix", "blk.1.ffn_up.weight", {64, 96});
  changes.add_shape("a flat matrix", "blk.0.attn_q.weight", {4096});
  changes.add_shape("three dimensions", "blk.0.attn_q.weight", {1, 64, 64});
  changes.add_shape("a flat embedding", "token_embd.weight",
                    {std::int64_t{m.facts.vocabulary} * 64});
  for (const auto& [type, name] :
       {std::pair{2U, "Q4_0"}, {12U, "Q4_K"}, {14U, "Q6_K"}, {28U, "F64"}}) {
    changes.add(
        name,
        [number = type](tensor_list& t) {
          made_tensor& q = model_changes::named(t, "blk.0.ffn_down.weight");
          // Rows of 256 elements fit the blocks of all types.
          q.type = number;
          q.shape = {24, 256};
          q.bytes.resize(24 * (number == 28 ? 2048 : 256));
        },
        {unsupported}, name);
  }
  changes.add("a small embedding",
              [](tensor_list& t) {
                made_tensor& e = model_changes::named(t, "token_embd.weight");
                e.shape[0] = 100;
                e.bytes.resize(100 * 64 * 4);
              },
              {corrupt});
}

/// Adds files with other keys than the model has.
void add_gguf_keys_of(const made_model& m, std::vector<damaged_file>& out) {
  const auto add = [&](const char* name, const std::function<void(made_model&)>& change,
                       std::vector<errc> codes) {
    made_model other = m;
    change(other);
    out.push_back(
        {name, gguf_file(other.gguf_keys(), m.gguf_tensors()), std::move(codes)});
  };
  add("0 layers", [](made_model& x) { x.facts.layers = 0; }, {corrupt});
  add("2^32 - 1 layers", [](made_model& x) { x.facts.layers = UINT32_MAX; }, {corrupt});
  add("1000 layers", [](made_model& x) { x.facts.layers = 1000; }, {corrupt});
  add("3 layers", [](made_model& x) { x.facts.layers = 3; }, {corrupt});
  add("1 layer", [](made_model& x) { x.facts.layers = 1; }, {unsupported});
  add("another width", [](made_model& x) { x.facts.width = 128; }, {corrupt});
  add("0 heads", [](made_model& x) { x.facts.heads = 0; }, {corrupt});
  add("3 heads of keys", [](made_model& x) { x.facts.kv_heads = 3; }, {corrupt});
  add("heads of 15", [](made_model& x) { x.facts.head_width = 15; }, {corrupt});
  add("no context", [](made_model& x) { x.facts.context_limit = 0; }, {corrupt});
  add("rope base NaN", [](made_model& x) { x.facts.rope_base = NAN; }, {corrupt});
  add("epsilon -1", [](made_model& x) { x.facts.norm_epsilon = -1; }, {corrupt});
  add("end token behind the vocabulary",
      [](made_model& x) { x.facts.end_token = 100'000; }, {corrupt});
  const auto with_key = [&](const char* name, const std::function<void(gguf_maker&)>& set,
                            std::vector<errc> codes, std::string mentions) {
    gguf_maker keys = m.gguf_keys();
    set(keys);
    out.push_back(
        {name, gguf_file(keys, m.gguf_tensors()), std::move(codes), std::move(mentions)});
  };
  with_key(
      "scaled positions",
      [](gguf_maker& k) { k.text("llama.rope.scaling.type", "yarn"); }, {unsupported},
      "yarn");
  with_key(
      "experts by key", [](gguf_maker& k) { k.whole("llama.expert_count", 8); },
      {unsupported}, "expert_count");
  with_key(
      "a key twice", [](gguf_maker& k) { k.whole("llama.block_count", 2); }, {corrupt},
      "llama.block_count");
  with_key(
      "odd alignment", [](gguf_maker& k) { k.whole("general.alignment", 3); }, {corrupt},
      "");
  const auto other = [&](const char* name, const char* family) {
    gguf_maker keys;
    keys.text("general.architecture", family);
    out.push_back({name, gguf_file(keys, m.gguf_tensors()), {unsupported}, family});
  };
  other("gpt2", "gpt2");
  other("qwen2", "qwen2");
  out.push_back({"no architecture",
                 gguf_file({}, m.gguf_tensors()),
                 {corrupt},
                 "general.architecture"});
}

/// Adds safetensors files whose header is wrong.
void add_headers(const made_model& m, std::vector<damaged_file>& out) {
  const byte_vector good = safetensors_file(m.hf_tensors());
  const std::uint64_t length = load_le<std::uint64_t>(good.data());
  const auto add = [&](const char* name, byte_vector bytes, std::vector<errc> codes) {
    out.push_back({name, std::move(bytes), std::move(codes)});
  };
  for (const std::uint64_t other :
       {std::uint64_t{0}, std::uint64_t{1}, length - 1, length + 1, length + 1000,
        std::uint64_t{100'000'001}, UINT64_MAX}) {
    add("length of the header", with_number(good, 0, other), {corrupt, unsupported});
  }
  const auto edited = [&](const char* name, const std::function<void(json&)>& change,
                          std::vector<errc> codes) {
    json header = json::parse(
        as_text(bytes_view(good).subspan(8, static_cast<std::size_t>(length))));
    change(header);
    const std::string text = header.dump();
    byte_vector file(8);
    store_le(file.data(), std::uint64_t{text.size()});
    append(file, as_view(text));
    append(file, bytes_view(good).subspan(8 + static_cast<std::size_t>(length)));
    add(name, std::move(file), std::move(codes));
  };
  const std::string norm = "model.norm.weight",
                    query = "model.layers.0.self_attn.q_proj.weight";
  edited("no norm", [&](json& h) { h.erase(norm); }, {corrupt});
  edited("no offsets", [&](json& h) { h[norm].erase("data_offsets"); }, {corrupt});
  edited("offsets behind the file",
         [&](json& h) {
           h[norm]["data_offsets"] = {1 << 30, (1 << 30) + 256};
         },
         {corrupt});
  edited("offsets in the wrong order",
         [&](json& h) {
           h[norm]["data_offsets"] = {256, 0};
         },
         {corrupt});
  edited("overlapping data",
         [&](json& h) {
           h[norm]["data_offsets"] = {0, 256};
         },
         {corrupt});
  edited("too few bytes", [&](json& h) { h[norm]["shape"] = {65}; }, {corrupt});
  edited("a negative extent", [&](json& h) { h[norm]["shape"] = {-64}; }, {corrupt});
  edited("an overflowing shape",
         [&](json& h) {
           h[norm]["shape"] = {1LL << 62, 1LL << 62};
         },
         {corrupt});
  edited("a shape of text", [&](json& h) { h[norm]["shape"] = "64"; }, {corrupt});
  edited("a transposed matrix",
         [&](json& h) {
           h[query]["shape"] = {32, 128};
         },
         {corrupt});
  edited("integers", [&](json& h) { h[norm]["dtype"] = "I32"; }, {unsupported});
  edited("fp8",
         [&](json& h) {
           h[norm]["dtype"] = "F8_E4M3";
           h[norm]["shape"] = {256};
         },
         {unsupported});
  edited("a type without a name", [&](json& h) { h[norm]["dtype"] = "F128"; },
         {unsupported});
  edited("a foreign tensor",
         [&](json& h) {
           h["model.layers.0.self_attn.q_proj.bias"] = h[norm];
           h.erase(norm);
         },
         {corrupt, unsupported});
  edited("names of another model",
         [&](json& h) {
           json other;
           for (const auto& [name, value] : h.items()) {
             other["transformer." + name] = value;
           }
           h = other;
         },
         {corrupt});
}

/// Imports a file and checks that it is refused and leaves nothing behind.
void expect_refused(storage::hn4_volume& volume, const std::string& path,
                    const damaged_file& f) {
  write_bytes(path, f.bytes);
  std::int64_t peak = 0;
  std::int64_t largest = 0;
  std::optional<error> refused;
  {
    const weir::test::allocation_meter meter;
    auto record = import_model(volume, path, "m");
    peak = meter.peak();
    largest = meter.largest();
    if (!record) {
      refused = std::move(record).error();
    }
  }
  ASSERT_TRUE(refused) << f.name;
  EXPECT_NE(std::find(f.codes.begin(), f.codes.end(), refused->code()), f.codes.end())
      << f.name << ": " << refused->message();
  EXPECT_NE(refused->message().find(path), std::string::npos)
      << f.name << ": " << refused->message();
  EXPECT_NE(refused->message().find(f.mentions), std::string::npos)
      << f.name << ": " << refused->message();
  const auto size = static_cast<std::int64_t>(f.bytes.size());
  EXPECT_LE(peak, std::max(size, small_memory)) << f.name;
  EXPECT_LE(largest, std::max(size, small_allocation)) << f.name;
  EXPECT_TRUE(or_throw(volume.tags()).empty()) << f.name;
}

TEST(DamagedModels, GgufFilesAreRefusedByName) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  const made_model m(architecture::llama);
  const byte_vector good = gguf_file(m.gguf_keys(), m.gguf_tensors());
  std::vector<damaged_file> files;
  add_gguf_numbers(good, files);
  add_gguf_models(m, files);
  add_gguf_keys_of(m, files);
  EXPECT_GE(files.size(), 60U);
  for (const damaged_file& f : files) {
    expect_refused(volume, scratch / "m.gguf", f);
  }
}

TEST(DamagedModels, SafetensorsFilesAreRefusedByName) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  const made_model m(architecture::llama);
  write_hf_folder(m, scratch.path());
  std::vector<damaged_file> files;
  add_headers(m, files);
  EXPECT_GE(files.size(), 20U);
  for (const damaged_file& f : files) {
    expect_refused(volume, scratch / "model.safetensors", f);
  }
}

TEST(DamagedModels, CutFilesAreRefused) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  const made_model m(architecture::llama);
  write_hf_folder(m, scratch.path());
  for (const auto& [name, good] :
       {std::pair{"m.gguf", gguf_file(m.gguf_keys(), m.gguf_tensors())},
        {"model.safetensors", safetensors_file(m.hf_tensors())}}) {
    const std::string path = scratch / name;
    for (std::size_t k = 1; k <= 40; ++k) {
      const std::size_t cut = k < 20 ? k : good.size() * (k - 19) / 22;
      expect_refused(volume, path,
                     {"cut at " + std::to_string(cut),
                      byte_vector(good.begin(), good.begin() + static_cast<long>(cut)),
                      {corrupt, unsupported, errc::torn}});
    }
  }
}

TEST(DamagedModels, WhatStandsBesideSafetensorsIsNeededAndNamed) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  const made_model m(architecture::bert);
  const auto code = [&](const std::string& source) {
    const auto record = import_model(volume, source, "m");
    return record ? errc::internal : record.error().code();
  };
  EXPECT_EQ(code(scratch / "nowhere"), errc::not_found);
  EXPECT_EQ(code(scratch.path()), errc::not_found);
  write_hf_folder(m, scratch / "hf");
  const std::string folder = scratch / "hf";
  for (const char* name : {"tokenizer.json", "config.json"}) {
    const byte_vector kept =
        or_throw(read_file(posix_file_system(), folder + "/" + name));
    or_throw(posix_file_system().remove(folder + "/" + name));
    const auto record = import_model(volume, folder, "m");
    EXPECT_EQ(record.error().code(), errc::not_found);
    EXPECT_NE(record.error().text().find(name), std::string::npos);
    write_bytes(folder + "/" + name, as_view("{"));
    EXPECT_EQ(code(folder), corrupt) << name;
    write_bytes(folder + "/" + name, kept);
  }
  write_bytes(folder + "/1_Pooling/config.json", as_view("{}"));
  EXPECT_EQ(code(folder), unsupported);
  or_throw(posix_file_system().remove(folder + "/1_Pooling/config.json"));
  write_bytes(folder + "/b.gguf", as_view("GGUF"));
  EXPECT_EQ(code(folder), errc::invalid_argument);
  or_throw(posix_file_system().remove(folder + "/b.gguf"));
  write_bytes(folder + "/model.safetensors.index.json", as_view("{}"));
  EXPECT_EQ(code(folder), unsupported);
  or_throw(posix_file_system().remove(folder + "/model.safetensors.index.json"));
  EXPECT_TRUE(import_model(volume, folder, "m"));
}

}  // namespace
}  // namespace weir::actors::made
