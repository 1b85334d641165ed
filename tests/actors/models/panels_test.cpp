// SPDX-License-Identifier: Apache-2.0
/// @file
/// Panels in volumes: they lie inside blocks, are used in place, and hold the weights of
/// the model.
#include "model/panels.hpp"
#include "made_models.hpp"
#include "weir/actors/model_weights.hpp"

namespace weir::actors::made {
namespace {

/// Returns the bits of all weights, row by row, as the layers read them.
std::map<std::string, std::vector<float>> values_of_panels(const model_weights& from,
                                                           const made_model& m) {
  std::map<std::string, std::vector<float>> out;
  for (const made_weight& w : m.weights) {
    std::vector<float>& values = out[w.hf];
    if (w.shape.size() == 1) {
      const auto vector = or_throw(from.vector(w.hf));
      values.assign(vector.begin(), vector.end());
      continue;
    }
    const auto matrix = or_throw(from.matrix(w.hf));
    or_throw(models::check_matrix(w.hf, matrix));
    values.resize(static_cast<std::size_t>(w.shape[0] * w.shape[1]));
    for (std::int64_t row = 0; row < w.shape[0]; ++row) {
      models::read_output(
          matrix, static_cast<std::uint64_t>(row),
          std::span(values).subspan(static_cast<std::size_t>(row * w.shape[1]),
                                    static_cast<std::size_t>(w.shape[1])));
    }
  }
  return out;
}

TEST(PanelPlans, EveryRunLiesInsideABlockAndIsAligned) {
  const made_model m(architecture::llama);
  const auto tensors = m.gguf_tensors();
  std::vector<models::named_tensor> named;
  for (const made_tensor& t : tensors) {
    named.push_back({t.name, "F32", t.shape, t.bytes.size()});
  }
  const auto weights =
      or_throw(models::bind_weights(m.facts, models::weight_files::gguf, named));
  int plans = 0;
  for (const std::uint64_t payload : {464U, 4048U, 16336U, 65488U, 67108816U}) {
    const auto plan = plan_panels(weights, payload);
    // The largest panel has 96 inputs of 16 outputs: 6,144 bytes.
    ASSERT_EQ(plan.empty(), payload < 6144) << payload;
    plans += plan.empty() ? 0 : 1;
    std::uint64_t end = 0;
    for (const panel_entry& entry : plan) {
      std::uint64_t next = 0;
      for (const panel_place& run : entry.runs) {
        EXPECT_EQ((run.offset % payload + 48) % 64, 0U);
        EXPECT_LE(run.offset % payload + run.bytes, payload);
        EXPECT_GE(run.offset, end);
        EXPECT_EQ(run.first, next);
        const std::uint64_t part = entry.vector ? run.bytes : entry.inputs * 64;
        EXPECT_EQ(run.bytes % part, 0U);
        next += run.bytes / part;
        end = run.offset + run.bytes;
      }
      EXPECT_EQ(next, entry.vector ? 1 : (entry.outputs + 15) / 16) << entry.name;
    }
    EXPECT_EQ(stream_bytes(plan), end);
  }
  EXPECT_EQ(plans, 3);
}

class ModelPanels : public testing::TestWithParam<architecture> {};

TEST_P(ModelPanels, AreUsedInPlaceAndHoldTheWeights) {
  const weir::test::temp_folder scratch;
  const made_model m(GetParam());
  make_volume(scratch / "v");
  storage::hn4_format_options small;  // blocks of 4 KiB, which hold no panel
  or_throw(storage::hn4_format(scratch / "s", small));
  write_bytes(scratch / "m.gguf", gguf_file(m.gguf_keys(), m.gguf_tensors()));
  write_hf_folder(m, scratch / "hf");
  for (const char* source : {"m.gguf", "hf"}) {
    for (const char* path : {"v", "s"}) {
      {
        auto volume = writable(scratch / path);
        or_throw(import_model(volume, scratch / source, "m", {.replace = true}));
      }
      const auto volume = mapped(scratch / path);
      const auto model = or_throw(model_in_volume::open(volume, "m"));
      const auto weights = or_throw(model_weights::load(volume, model));
      const bool panels = *path == 'v';
      EXPECT_EQ(model.record().panels.empty(), !panels);
      EXPECT_EQ(weights->copied_bytes() == 0, panels) << weights->copied_bytes();
      const auto values = values_of_panels(*weights, m);
      for (const made_weight& w : m.weights) {
        EXPECT_EQ(std::memcmp(values.at(w.hf).data(), w.values.data(),
                              w.values.size() * sizeof(float)),
                  0)
            << source << path << w.hf;
      }
      EXPECT_EQ(weights->matrix("none").error().code(), errc::not_found);
      EXPECT_EQ(weights->vector("none").error().code(), errc::not_found);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelPanels,
                         testing::Values(architecture::llama, architecture::bert),
                         [](const auto& family) {
                           return std::string(name_of(family.param));
                         });

TEST(StoredPanels, OfQuantisedWeightsAreThoseOfTheirRows) {
  const weir::test::temp_folder scratch;
  const made_model m(architecture::llama);
  make_volume(scratch / "v");
  write_hf_folder(m, scratch / "hf");
  auto volume = writable(scratch / "v");
  or_throw(import_model(volume, scratch / "hf", "f"));
  or_throw(
      export_model(or_throw(model_in_volume::open(volume, "f")), scratch / "q.gguf",
                   {.to = models::weight_files::gguf, .type = model_export_type::q8_0}));
  or_throw(import_model(volume, scratch / "q.gguf", "q"));
  const auto model = or_throw(model_in_volume::open(volume, "q"));
  const auto weights = or_throw(model_weights::load(volume, model));
  const auto values = values_of_panels(*weights, m);
  for (std::size_t i = 0; i < model.weights().size(); ++i) {
    const auto& name = model.weights()[i].info.hf_name;
    const auto rows = values_of(model, i);
    EXPECT_EQ(std::memcmp(values.at(name).data(), rows.data(), rows.size() * 4), 0)
        << name;
  }
}

TEST(StoredPanels, OfSixteenBitWeightsAreThoseOfTheirRowsInEachRun) {
  const weir::test::temp_folder scratch;
  const made_model m(architecture::llama);
  make_volume(scratch / "v");
  auto volume = writable(scratch / "v");
  for (const std::uint32_t type : {1U, 30U}) {  // fp16 and bf16 of GGUF
    auto tensors = m.gguf_tensors();
    for (made_tensor& t : tensors) {
      if (t.shape.size() != 2) {
        continue;
      }
      t.type = type;
      t.bytes.resize(t.bytes.size() / 2);
      for (std::size_t i = 0; i < t.bytes.size(); ++i) {
        // The exponent of each number is finite.
        t.bytes[i] =
            static_cast<std::byte>((i * 37 + i / 256) & (i % 2 != 0 ? 0xBB : 0xFF));
      }
    }
    write_bytes(scratch / "h.gguf", gguf_file(m.gguf_keys(), tensors));
    or_throw(import_model(volume, scratch / "h.gguf", "h", {.replace = true}));
    const auto model = or_throw(model_in_volume::open(volume, "h"));
    const auto weights = or_throw(model_weights::load(volume, model));
    const auto values = values_of_panels(*weights, m);
    std::size_t runs = 0;
    for (std::size_t i = 0; i < model.weights().size(); ++i) {
      const auto& name = model.weights()[i].info.hf_name;
      const auto rows = values_of(model, i);
      EXPECT_EQ(std::memcmp(values.at(name).data(), rows.data(), rows.size() * 4), 0)
          << name;
      runs = std::max(runs, model.record().panels.at(i).runs.size());
    }
    EXPECT_GE(runs, 2U) << "a matrix has several runs";
  }
}

TEST(StoredPanels, DamageIsANamedErrorBeforeTheFirstToken) {
  const weir::test::temp_folder scratch;
  make_volume(scratch / "v");
  write_hf_folder(made_model(architecture::bert), scratch / "hf");
  std::uint64_t place = 0;
  {
    auto volume = writable(scratch / "v");
    or_throw(import_model(volume, scratch / "hf", "m"));
    place = or_throw(volume.stream("m/panels")).extents()[0].device_offset + 5000;
  }
  const auto file =
      or_throw(posix_file_system().open(scratch / "v", open_mode::read_write));
  byte_vector byte(1);
  or_throw(read_exactly(*file, place, byte));
  byte[0] ^= std::byte{4};
  or_throw(write_all(*file, place, byte));
  const auto volume = mapped(scratch / "v");
  const auto model = or_throw(model_in_volume::open(volume, "m"));
  const auto weights = model_weights::load(volume, model);
  ASSERT_FALSE(weights);
  EXPECT_EQ(weights.error().code(), errc::corrupt);
  EXPECT_NE(weights.error().message().find("m/panels"), std::string::npos)
      << weights.error().message();
}

}  // namespace
}  // namespace weir::actors::made
