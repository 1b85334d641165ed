// SPDX-License-Identifier: Apache-2.0
/// @file
/// Models in volumes: both families of files give the same bits, exports come back with
/// equal digests, and damage is found.
#include "made_models.hpp"
#include "model/record.hpp"
#include "weir/actors/model_weights.hpp"

namespace weir::actors::made {
namespace {

/// The values of a made model by name of the weight.
std::map<std::string, std::vector<float>> values_by_name(const made_model& m) {
  std::map<std::string, std::vector<float>> out;
  for (const made_weight& w : m.weights) {
    out[w.hf] = w.values;
  }
  return out;
}

bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * 4) == 0;
}

class ModelStore : public testing::TestWithParam<architecture> {
 protected:
  void SetUp() override {
    write_bytes(scratch_ / "m.gguf",
                gguf_file(model_.gguf_keys(), model_.gguf_tensors()));
    write_hf_folder(model_, scratch_ / "hf");
    make_volume(scratch_ / "v");
  }
  model_record import(const std::string& source, const std::string& tag,
                      bool replace = false) {
    auto volume = writable(scratch_ / "v");
    return or_throw(import_model(volume, scratch_ / source, tag, {.replace = replace}));
  }
  model_in_volume open(const std::string& tag) {
    return or_throw(model_in_volume::open(mapped(scratch_ / "v"), tag));
  }

  weir::test::temp_folder scratch_;
  made_model model_{GetParam()};
};

TEST_P(ModelStore, BothFamiliesOfFilesGiveTheSameBits) {
  const model_record gguf = import("m.gguf", "g");
  const model_record hf = import("hf", "h");
  EXPECT_EQ(gguf.facts, model_.facts);
  EXPECT_EQ(hf.facts, model_.facts);
  EXPECT_EQ(gguf.digest, hf.digest);
  EXPECT_EQ(gguf.chat_template, "{{ messages }}");
  EXPECT_EQ(hf.chat_template, "{{ messages }}");
  EXPECT_EQ(gguf.files, models::weight_files::gguf);
  EXPECT_EQ(hf.files, models::weight_files::safetensors);
  const auto expected = values_by_name(model_);
  for (const char* tag : {"g", "h"}) {
    const model_in_volume model = open(tag);
    ASSERT_EQ(model.weights().size(), expected.size());
    for (std::size_t i = 0; i < model.weights().size(); ++i) {
      const std::string& name = model.weights()[i].info.hf_name;
      EXPECT_TRUE(same_bits(values_of(model, i), expected.at(name))) << tag << name;
    }
    EXPECT_TRUE(model.verify());
  }
}

TEST_P(ModelStore, ExportedFilesComeBackWithEqualDigestsPanelsAndFacts) {
  const std::uint64_t digest = import("hf", "h").digest;
  import("m.gguf", "g");
  const byte_vector panels = panels_of(mapped(scratch_ / "v"), "h");
  EXPECT_GT(panels.size(), 4 * model_.weights.front().values.size());
  EXPECT_EQ(panels_of(mapped(scratch_ / "v"), "g"), panels);
  int made = 0;
  for (const char* tag : {"g", "h"}) {
    const model_in_volume model = open(tag);
    for (const auto to :
         {models::weight_files::gguf, models::weight_files::safetensors}) {
      const std::string out = "out" + std::to_string(made++) +
                              (to == models::weight_files::gguf ? ".gguf" : "");
      const auto done = export_model(model, scratch_ / out, {.to = to});
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(done->digest, digest);
      const model_record back = import(out, "back", true);
      EXPECT_EQ(back.digest, digest) << tag << out;
      EXPECT_EQ(panels_of(mapped(scratch_ / "v"), "back"), panels) << tag << out;
      EXPECT_EQ(back.facts, model_.facts) << tag << out;
      EXPECT_EQ(back.chat_template, "{{ messages }}");
      const auto refused = export_model(model, scratch_ / out, {.to = to});
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), errc::already_exists);
    }
  }
}

TEST_P(ModelStore, TokenizersOfAllFormsGiveTheSameIds) {
  import("hf", "h");
  import("m.gguf", "g");
  const auto reference = tokens_made::read(model_.tokenizer);
  std::vector<formats::tokenizer> others;
  for (const char* tag : {"g", "h"}) {
    const model_in_volume model = open(tag);
    others.push_back(or_throw(model.tokenizer()));
    const std::string name = std::string("out") + tag;
    for (const auto to :
         {models::weight_files::gguf, models::weight_files::safetensors}) {
      const std::string out = name + (to == models::weight_files::gguf ? ".gguf" : "");
      or_throw(export_model(model, scratch_ / out, {.to = to}));
      import(out, "back", true);
      others.push_back(or_throw(open("back").tokenizer()));
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    const std::string text = tokens_made::random_text(random, 12);
    const auto ids = tokens_made::ids_of(reference, text);
    for (std::size_t k = 0; k < others.size(); ++k) {
      ASSERT_EQ(tokens_made::ids_of(others[k], text), ids) << k << ": " << text;
    }
  }
}

TEST_P(ModelStore, ADamagedBlockIsANamedErrorOfVerify) {
  const model_record record = import("hf", "h");
  std::uint64_t place = 0;
  {
    const auto volume = mapped(scratch_ / "v");
    const auto extents = or_throw(volume.stream("h")).extents();
    ASSERT_FALSE(extents.empty());
    place = extents.back().device_offset + 48 + extents.back().bytes % 65488 / 2;
  }
  const auto file =
      or_throw(posix_file_system().open(scratch_ / "v", open_mode::read_write));
  byte_vector byte(1);
  or_throw(read_exactly(*file, place, byte));
  byte[0] ^= std::byte{1};
  or_throw(write_all(*file, place, byte));
  const auto model = model_in_volume::open(mapped(scratch_ / "v"), "h");
  const auto verified = model ? model->verify() : result<void>(model.error());
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().code(), errc::corrupt) << verified.error().message();
  EXPECT_NE(verified.error().message().find("\"h\""), std::string::npos);
  EXPECT_EQ(record.bytes, or_throw(mapped(scratch_ / "v").stream("h")).size());
}

INSTANTIATE_TEST_SUITE_P(Families, ModelStore,
                         testing::Values(architecture::llama, architecture::bert),
                         [](const auto& family) {
                           return std::string(name_of(family.param));
                         });

TEST(ModelVolumes, SeveralModelsAreListedAndOneMustBeNamed) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  EXPECT_EQ(choose_model(mapped(scratch / "v"), "").error().code(), errc::not_found);
  EXPECT_EQ(choose_model(mapped(scratch / "v"), "m").error().text(),
            "cannot find model \"m\": expected a model of that tag in the volume, found "
            "no model at all");
  write_hf_folder(made_model(architecture::bert), scratch / "b");
  write_hf_folder(made_model(architecture::llama), scratch / "l");
  {
    auto volume = writable(scratch / "v");
    or_throw(import_model(volume, scratch / "b", "minilm"));
    EXPECT_EQ(or_throw(choose_model(volume, "")), "minilm");
    or_throw(import_model(volume, scratch / "l" + "/model.safetensors", "smol"));
    const auto again = import_model(volume, scratch / "l", "minilm");
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), errc::already_exists);
    EXPECT_EQ(import_model(volume, scratch / "l", "x/model").error().code(),
              errc::invalid_argument);
  }
  const auto volume = mapped(scratch / "v");
  const auto listing = or_throw(list_models(volume));
  ASSERT_EQ(listing.models.size(), 2U);
  EXPECT_TRUE(listing.damaged.empty());
  EXPECT_EQ(listing.models[0].tag, "minilm");
  EXPECT_EQ(listing.models[1].facts.family, architecture::llama);
  const auto choice = choose_model(volume, "");
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code(), errc::invalid_argument);
  EXPECT_NE(choice.error().text().find("\"minilm\", \"smol\""), std::string::npos);
  EXPECT_EQ(model_in_volume::open(volume, "other").error().code(), errc::not_found);
  EXPECT_EQ(or_throw(choose_model(volume, "smol")), "smol");
  for (const char* tag : {"other", "smol/model", "smol/panels"}) {
    const auto missing = choose_model(volume, tag);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code(), errc::not_found);
    EXPECT_EQ(missing.error().text(),
              "cannot find model \"" + std::string(tag) +
                  "\": expected the tag of a model in the volume (\"minilm\", "
                  "\"smol\"), found none of that name");
  }
}

// The volume is full except for a number of blocks, which grows until the new model fits.
TEST(ModelVolumes, AModelStaysIfItsReplacementDoesNotFit) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  write_hf_folder(made_model(architecture::llama, 1), scratch / "old");
  // The new model is larger, so that its weights do not fit in the place of old panels.
  write_hf_folder(made_model(architecture::llama, 2, 5), scratch / "new");
  auto volume = writable(scratch / "v");
  const model_record old = or_throw(import_model(volume, scratch / "old", "m"));
  constexpr int spares = 64;
  for (int i = 0; i < spares; ++i) {
    or_throw(volume.put("spare" + std::to_string(i), byte_vector(100)));
  }
  int fillers = 0;
  for (std::size_t bytes = std::size_t{32} << 20; bytes > 0;) {
    const auto filled =
        volume.put("filler" + std::to_string(fillers), byte_vector(bytes));
    if (filled) {
      ++fillers;
    } else {
      ASSERT_EQ(filled.error().code(), errc::no_space) << filled.error().message();
      bytes /= 2;
    }
  }
  int refused = 0;
  bool had_panels = false, lost_panels = false;
  for (int i = 0; i < spares; ++i) {
    const auto done = import_model(volume, scratch / "new", "m", {.replace = true});
    const auto model = model_in_volume::open(volume, "m");
    ASSERT_TRUE(model) << i << ": " << model.error().message();
    const auto verified = model->verify();
    ASSERT_TRUE(verified) << i << ": " << verified.error().message();
    if (done) {
      EXPECT_NE(model->record().digest, old.digest);
      break;
    }
    EXPECT_EQ(done.error().code(), errc::no_space) << done.error().message();
    EXPECT_EQ(model->record().digest, old.digest);
    if (!model->record().panels.empty()) {
      EXPECT_TRUE(model_weights::load(volume, *model));
    }
    (model->record().panels.empty() ? lost_panels : had_panels) = true;
    ++refused;
    or_throw(volume.remove("spare" + std::to_string(i)));
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, spares) << "the new model has never fitted";
  EXPECT_TRUE(had_panels);
  EXPECT_TRUE(lost_panels);
}

/// Returns the names of the tags of a volume.
std::vector<std::string> names_of(const storage::hn4_volume& volume) {
  std::vector<std::string> out;
  for (const storage::hn4_tag& t : or_throw(volume.tags())) {
    out.push_back(t.name);
  }
  EXPECT_TRUE(or_throw(volume.damaged_tags()).empty());
  return out;
}

// The volume is full except for a number of blocks, which grows until the model fits.
TEST(ModelVolumes, AModelThatDoesNotFitLeavesNothing) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  write_hf_folder(made_model(architecture::llama), scratch / "m");
  auto volume = writable(scratch / "v");
  constexpr int spares = 64;
  for (int i = 0; i < spares; ++i) {
    or_throw(volume.put("spare" + std::to_string(i), byte_vector(100)));
  }
  for (std::size_t bytes = std::size_t{32} << 20, fillers = 0; bytes > 0;) {
    if (volume.put("filler" + std::to_string(fillers), byte_vector(bytes))) {
      ++fillers;
    } else {
      bytes /= 2;
    }
  }
  int refused = 0;
  for (int i = 0; i < spares; ++i) {
    const auto before = names_of(volume);
    const auto done = import_model(volume, scratch / "m", "m");
    if (done) {
      EXPECT_TRUE(or_throw(model_in_volume::open(volume, "m")).verify());
      break;
    }
    EXPECT_EQ(done.error().code(), errc::no_space) << done.error().message();
    EXPECT_EQ(names_of(volume), before);
    ++refused;
    or_throw(volume.remove("spare" + std::to_string(i)));
  }
  EXPECT_GT(refused, 1);
  EXPECT_LT(refused, spares) << "the model has never fitted";
}

/// Passes calls on to a device that outlives it. Writes behind a number of them fail, as
/// if the process had ended there.
class cut_device final : public storage::block_device {
 public:
  cut_device(storage::block_device& to, std::uint64_t writes) : to_(to), left_(writes) {}
  result<void> read(std::uint64_t offset, mutable_bytes to) override {
    return to_.read(offset, to);
  }
  result<void> write(std::uint64_t offset, bytes_view from) override {
    if (left_ == 0) {
      return error(errc::io, "the process has ended");
    }
    --left_;
    return to_.write(offset, from);
  }
  result<void> sync() override { return to_.sync(); }
  [[nodiscard]] std::uint64_t size() const noexcept override { return to_.size(); }
  result<storage::extent> next_data(std::uint64_t offset, std::uint64_t end) override {
    return to_.next_data(offset, end);
  }
  [[nodiscard]] const std::string& name() const noexcept override { return to_.name(); }

 private:
  storage::block_device& to_;
  std::uint64_t left_;
};

/// Opens the volume on a device, of which so many writes arrive.
storage::hn4_volume writable_on(storage::block_device& device,
                                std::uint64_t writes = UINT64_MAX) {
  return or_throw(storage::hn4_volume::open(std::make_unique<cut_device>(device, writes),
                                            storage::device_mode::writable));
}

/// Cuts an import of `source` under the tag "m" behind each of its writes, and expects
/// that the next import of another model finds the old model, the new one or none, and
/// leaves no other tags.
void expect_nothing_left(storage::memory_device& start, const std::string& source,
                         const std::string& other, std::uint64_t old_digest) {
  bool complete = false;
  std::size_t without_model = 0;
  for (std::uint64_t writes = 0; !complete; ++writes) {
    ASSERT_LT(writes, 1000U);
    SCOPED_TRACE(writes);
    const auto device = start.clone();
    {
      auto cut = storage::hn4_volume::open(std::make_unique<cut_device>(*device, writes),
                                           storage::device_mode::writable);
      complete = cut && import_model(*cut, source, "m", {.replace = true});
    }
    {
      const auto copy = device->clone();
      auto volume = writable_on(*copy);
      // What was allowed to be replaced once is replaced without being asked for again.
      if (!model_in_volume::open(volume, "m")) {
        const auto again = import_model(volume, source, "m");
        EXPECT_TRUE(again) << again.error().message();
      }
    }
    auto volume = writable_on(*device);
    or_throw(import_model(volume, other, "o"));
    std::vector<std::string> expected{"o", "o/model", "o/panels"};
    const auto model = model_in_volume::open(volume, "m");
    if (model) {
      const auto verified = model->verify();
      EXPECT_TRUE(verified) << verified.error().message();
      EXPECT_TRUE(old_digest == 0 || !complete || model->record().digest != old_digest);
      EXPECT_TRUE(model_weights::load(volume, *model));
      expected.insert(expected.begin(), {"m", "m/model", "m/panels"});
    } else if (old_digest != 0) {
      // The weights that were to be replaced are whole, or the new ones are.
      expected.insert(expected.begin(), "m");
    }
    EXPECT_EQ(names_of(volume), expected);
    if (!model) {
      ++without_model;
      const auto again = import_model(volume, source, "m", {.replace = old_digest != 0});
      EXPECT_TRUE(again) << again.error().message();
    }
  }
  EXPECT_GT(without_model, 5U);
}

TEST(ModelVolumes, WhatAnInterruptedImportLeavesIsRemovedByTheNext) {
  const weir::test::temp_folder scratch;
  write_hf_folder(made_model(architecture::llama, 1), scratch / "old");
  write_hf_folder(made_model(architecture::llama, 2), scratch / "new");
  write_hf_folder(made_model(architecture::bert), scratch / "other");
  storage::memory_device device(std::uint64_t{128} << 20);
  storage::hn4_format_options options;
  options.profile = storage::hn4_profile::usb;
  options.uuid_seed = 28;
  or_throw(storage::hn4_format(device, options));
  expect_nothing_left(device, scratch / "new", scratch / "other", 0);
  model_record old;
  {
    auto volume = writable_on(device);
    old = or_throw(import_model(volume, scratch / "old", "m"));
  }
  expect_nothing_left(device, scratch / "new", scratch / "other", old.digest);
}

TEST(ModelVolumes, ATagOfSomethingElseIsNeverTakenForTheMarkOfAnImport) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  write_hf_folder(made_model(architecture::bert), scratch / "b");
  auto volume = writable(scratch / "v");
  or_throw(volume.put("m/model.import", as_view("a diary")));
  const auto refused = import_model(volume, scratch / "b", "m");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), errc::already_exists);
  EXPECT_EQ(as_text(or_throw(or_throw(volume.stream("m/model.import")).read_all())),
            "a diary");
}

// An encoder of one layer is smaller than a block of 64 KiB. Of a larger one, the tensors
// that lie in two blocks are copied.
TEST(ModelVolumes, WeightsInOneBlockAreViewsAndNotCopied) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  for (const std::uint32_t layers : {1U, 3U}) {
    write_hf_folder(made_model(architecture::bert, 1, layers), scratch / "b");
    {
      auto volume = writable(scratch / "v");
      or_throw(import_model(volume, scratch / "b", "m", {.replace = true}));
    }
    const auto model = or_throw(model_in_volume::open(mapped(scratch / "v"), "m"));
    std::uint64_t copied = 0;
    for (std::size_t i = 0; i < model.weights().size(); ++i) {
      const stored_weight w = or_throw(model.weight(i));
      copied += w.tensor.is_view() ? 0 : w.tensor.bytes().size();
    }
    EXPECT_EQ(model.copied_bytes(), copied);
    EXPECT_EQ(copied == 0, layers == 1) << copied;
    EXPECT_LT(copied, model.record().bytes / 2);
    std::filesystem::remove_all(scratch / "b");
  }
}

TEST(ModelVolumes, ARecordOfOtherWeightsIsRefused) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  write_hf_folder(made_model(architecture::bert), scratch / "b");
  const made_model other(architecture::bert, 2, 3);
  auto volume = writable(scratch / "v");
  or_throw(import_model(volume, scratch / "b", "m"));
  or_throw(volume.put("m", safetensors_file(other.hf_tensors())));
  const auto model = model_in_volume::open(volume, "m");
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code(), errc::corrupt);
  // Weights of the same shapes and other values are found by the digest.
  or_throw(
      volume.put("m", safetensors_file(made_model(architecture::bert, 3).hf_tensors())));
  const auto same = or_throw(model_in_volume::open(volume, "m"));
  EXPECT_EQ(same.verify().error().code(), errc::hash_mismatch);
  or_throw(volume.put("m/model", as_view("{}")));
  EXPECT_EQ(or_throw(list_models(volume)).damaged.size(), 1U);
}

/// Returns blocks of random bytes with scales that are finite.
byte_vector random_blocks(std::uint32_t type, std::size_t blocks, std::uint64_t seed) {
  const philox random(seed, 5);
  const std::size_t bytes = type == 8 ? 34 : 20;
  byte_vector out(blocks * bytes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(random.bits(i));
  }
  for (std::size_t b = 0; b < blocks; ++b) {
    for (std::size_t k = 1; k < (type == 8 ? 2U : 4U); k += 2) {
      out[b * bytes + k] &= std::byte{0xBF};
    }
  }
  return out;
}

TEST(StoredModels, WhoseRecordHasADigestOfMoreThan64BitsAreDamaged) {
  model_record record;
  record.facts = made_model(architecture::llama).facts;
  record.digest = 0xFEDCBA9876543210;
  const std::string text = text_of_record(record);
  EXPECT_EQ(or_throw(record_of_text(text, "m")).digest, record.digest);
  std::string longer = text;
  longer.insert(text.find("fedcba9876543210"), "1");
  const auto read = record_of_text(longer, "m");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), errc::corrupt);
}

TEST(QuantisedModels, EqualTheirDecodedCopiesAndKeepTheirBlocks) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  const made_model m(architecture::llama);
  for (const std::uint32_t type : {8U, 3U}) {
    auto tensors = m.gguf_tensors();
    for (made_tensor& t : tensors) {
      if (t.shape.size() == 2) {
        t.type = type;
        t.bytes = random_blocks(
            type, static_cast<std::size_t>(t.shape[0] * t.shape[1] / 32), type);
      }
    }
    write_bytes(scratch / "q.gguf", gguf_file(m.gguf_keys(), tensors));
    const auto record =
        or_throw(import_model(volume, scratch / "q.gguf", "q", {.replace = true}));
    const auto model = or_throw(model_in_volume::open(volume, "q"));
    for (const auto to :
         {models::weight_files::gguf, models::weight_files::safetensors}) {
      or_throw(export_model(model, scratch / "f32",
                            {.to = to, .type = model_export_type::f32, .replace = true}));
      const auto decoded =
          or_throw(import_model(volume, scratch / "f32", "f", {.replace = true}));
      EXPECT_EQ(decoded.digest, record.digest);
      std::filesystem::remove_all(scratch / "f32");
    }
    or_throw(export_model(model, scratch / "again.gguf",
                          {.to = models::weight_files::gguf, .replace = true}));
    const byte_vector again =
        or_throw(read_file(posix_file_system(), scratch / "again.gguf"));
    const auto directory = or_throw(storage::tensor_directory::from_bytes(again));
    for (const made_tensor& t : tensors) {
      const storage::stored_tensor* found = directory.find(t.name);
      ASSERT_NE(found, nullptr) << t.name;
      EXPECT_TRUE(std::equal(t.bytes.begin(), t.bytes.end(),
                             again.begin() + static_cast<std::ptrdiff_t>(found->offset)))
          << t.name;
    }
  }
}

TEST(QuantisedModels, ExportsOfQ8HaveTheDigestThatTheyAreImportedWith) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  for (const architecture family : {architecture::llama, architecture::bert}) {
    const made_model m(family);
    write_hf_folder(m, scratch / "hf");
    const auto record =
        or_throw(import_model(volume, scratch / "hf", "h", {.replace = true}));
    const auto model = or_throw(model_in_volume::open(volume, "h"));
    const auto done = or_throw(export_model(model, scratch / "q.gguf",
                                            {.to = models::weight_files::gguf,
                                             .type = model_export_type::q8_0,
                                             .replace = true}));
    EXPECT_NE(done.digest, record.digest);
    const auto back =
        or_throw(import_model(volume, scratch / "q.gguf", "q", {.replace = true}));
    EXPECT_EQ(back.digest, done.digest);
    const auto rounded = or_throw(model_in_volume::open(volume, "q"));
    for (std::size_t i = 0; i < rounded.weights().size(); ++i) {
      const auto& w = rounded.weights()[i];
      const bool matrix = !w.info.vector &&
                          w.info.role != models::weight_role::position_embedding &&
                          w.info.role != models::weight_role::type_embedding;
      EXPECT_EQ(w.type, matrix ? models::stored_type::q8_0 : models::stored_type::f32);
      const auto x = values_of(model, i), y = values_of(rounded, i);
      for (std::size_t k = 0; k < x.size(); ++k) {
        // Half a step of 1/127, and what the scale loses in fp16.
        ASSERT_NEAR(x[k], y[k], matrix ? 0.5 / 127 + 1e-3 : 0.0);
      }
    }
    std::filesystem::remove_all(scratch / "hf");
  }
  const auto refused = export_model(or_throw(model_in_volume::open(volume, "h")),
                                    scratch / "x", {.type = model_export_type::q8_0});
  EXPECT_EQ(refused.error().code(), errc::unsupported);
}

TEST(SixteenBitModels, KeepTheirTypeInSafetensorsAndTheirValuesInGguf) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  made_model m(architecture::llama);
  write_hf_folder(m, scratch / "hf");
  for (const char* type : {"BF16", "F16"}) {
    auto tensors = m.hf_tensors();
    for (made_tensor& t : tensors) {
      byte_vector half;
      for (std::size_t i = 0; i < t.bytes.size(); i += 4) {
        half.push_back(t.bytes[i + 1]);
        half.push_back(t.bytes[i + 3] & std::byte{0xBB});
      }
      t.bytes = std::move(half);
    }
    write_bytes(scratch / "hf" + "/model.safetensors", safetensors_file(tensors, type));
    const auto record =
        or_throw(import_model(volume, scratch / "hf", "h", {.replace = true}));
    const auto model = or_throw(model_in_volume::open(volume, "h"));
    or_throw(export_model(model, scratch / "out", {.replace = true}));
    or_throw(export_model(model, scratch / "out.gguf",
                          {.to = models::weight_files::gguf, .replace = true}));
    for (const char* back : {"out", "out.gguf"}) {
      EXPECT_EQ(
          or_throw(import_model(volume, scratch / back, "b", {.replace = true})).digest,
          record.digest)
          << type << back;
      EXPECT_EQ(panels_of(volume, "b"), panels_of(volume, "h")) << type << back;
      const auto again = or_throw(model_in_volume::open(volume, "b"));
      EXPECT_EQ(name_of(again.weights()[0].type), type);
    }
  }
}

}  // namespace
}  // namespace weir::actors::made
