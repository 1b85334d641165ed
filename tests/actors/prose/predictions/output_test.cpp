// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the predictions of the Stream phase as messages: their content, equal bytes for
/// any workers, devices, checkpoints and resumes, and damaged files.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "actors/prose/small_run.hpp"
#include "weir/actors/run.hpp"
#include "weir/base/file.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::actors {
namespace {

byte_vector bytes_at(const std::string& path) {
  return or_throw(read_file(posix_file_system(), path));
}

/// One message of the output.
struct stored_chunk {
  std::uint64_t lane = 0;
  std::uint64_t position = 0;
  std::uint64_t pulse = 0;
  std::uint64_t phase_pulse = 0;
  std::uint64_t updates = 0;
  std::optional<double> pending_score;
  std::vector<std::uint32_t> tokens;
  std::vector<std::uint32_t> predictions;
  std::vector<float> scores;
};

template <class T>
std::vector<T> column_of(const formats::message_reader& from, const char* name) {
  const auto bytes = or_throw(from.decode(from.find(name).value()));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<stored_chunk> chunks_at(const std::string& path) {
  const byte_vector file = bytes_at(path);
  std::vector<stored_chunk> all;
  std::uint64_t end = 0;
  for (const formats::message_span& span : formats::scan(bytes_view(file))) {
    EXPECT_EQ(span.offset, end) << "bytes between messages";
    end += span.length;
    const auto message = or_throw(formats::message_reader::open(
        bytes_view(file).subspan(span.offset, span.length)));
    const formats::cbor_map& about = message.metadata().extra;
    const auto number = [&](const char* key) {
      return about.find(key)->uint64().value();
    };
    stored_chunk& one = all.emplace_back();
    one.lane = number("lane");
    one.position = number("position");
    one.pulse = number("pulse");
    one.phase_pulse = number("phase_pulse");
    one.updates = number("updates");
    if (const auto* pending = about.find("pending_score")) {
      one.pending_score = pending->real().value();
    }
    one.tokens = column_of<std::uint32_t>(message, "tokens");
    one.predictions = column_of<std::uint32_t>(message, "predictions");
    one.scores = column_of<float>(message, "scores");
  }
  EXPECT_EQ(end, file.size());
  return all;
}

class predicting_run : public ::testing::Test {
 protected:
  /// Returns a run of two lanes: 4 pulses of Build, then 8 of Stream, the last one short.
  [[nodiscard]] run_config config(const std::string& name) const {
    run_config c = runs_.config(name);
    c.stream.lanes = 2;
    c.phase.build.tokens = 512;
    c.phase.test.tokens = 0;
    c.phase.stream.tokens = 1000;
    c.phase.stream_output = "predictions.tgm";
    c.every_tokens = 128;
    c.keep = 100;
    return c;
  }
  [[nodiscard]] std::string output(const std::string& name) const {
    return runs_.path(name + "/predictions.tgm");
  }

  test::small_runs runs_{6000};
};

TEST_F(predicting_run, writes_a_message_for_each_chunk_of_each_lane) {
  const run_report r = or_throw(run(config("a")));
  const std::string text(as_text(bytes_at(runs_.corpus())));
  const auto chunks = chunks_at(output("a"));
  ASSERT_EQ(chunks.size(), 16U);
  double sum = 0;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const stored_chunk& one = chunks[i];
    SCOPED_TRACE(i);
    EXPECT_EQ(one.lane, i % 2);
    EXPECT_EQ(one.phase_pulse, i / 2);
    EXPECT_EQ(one.pulse, 4 + i / 2);
    EXPECT_EQ(one.position, 256 + 64 * (i / 2));
    EXPECT_EQ(one.updates, 4U);
    EXPECT_FALSE(one.pending_score);
    const std::string_view expected =
        std::string_view(text).substr(2 * one.position + 64 * one.lane);
    for (std::size_t t = 0; t < one.tokens.size(); ++t) {
      EXPECT_EQ(one.tokens[t], static_cast<unsigned char>(expected[t]));
      EXPECT_LT(one.predictions[t], 256U);
      sum += static_cast<double>(one.scores[t]);
    }
    EXPECT_EQ(one.predictions.size(), one.tokens.size());
    EXPECT_EQ(one.scores.size(), one.tokens.size());
    tokens += one.tokens.size();
  }
  EXPECT_EQ(tokens, 1000U);
  const auto metrics =
      nlohmann::json::parse(as_text(bytes_at(runs_.path("a/metrics.json"))));
  EXPECT_NEAR(sum / 1000, metrics["bits_per_byte"]["stream"].get<double>(), 1e-6);
  EXPECT_EQ(metrics["bits_per_byte"]["stream"], r.bits_stream);
  // Test has the loss of Stream, and the output does not change a state.
  run_config c = config("b");
  c.phase.stream_output = "";
  EXPECT_EQ(or_throw(run(c)).state_hash, r.state_hash);
  EXPECT_FALSE(std::filesystem::exists(output("b")));
  c = config("c");
  std::swap(c.phase.test, c.phase.stream);
  EXPECT_EQ(or_throw(run(c)).bits_test, r.bits_stream);
  EXPECT_EQ(bytes_at(output("c")).size(), 0U) << "only the Stream phase has an output";
}

TEST_F(predicting_run, has_a_pending_score_where_a_text_goes_on_later) {
  run_config c = config("a");
  c.source.paths = {runs_.path("growing")};
  c.stream.lanes = 1;
  c.phase.build.tokens = 64;
  const std::string text = test::some_text(300, 3);
  test::write_text(runs_.path("growing"), text.substr(0, 200));
  EXPECT_EQ(or_throw(run(c)).ended, "end of stream");
  auto chunks = chunks_at(output("a"));
  ASSERT_EQ(chunks.size(), 3U);
  ASSERT_EQ(chunks[2].tokens.size(), 8U);
  EXPECT_TRUE(std::isnan(chunks[2].scores.back())) << "nobody knows what follows";
  EXPECT_FALSE(std::isnan(chunks[2].scores[6]));
  test::write_text(runs_.path("growing"), text);
  c.resume_text = text_policy::grown;
  const run_report r = or_throw(resume(c));
  chunks = chunks_at(output("a"));
  ASSERT_EQ(chunks.size(), 5U);
  EXPECT_EQ(chunks[3].position, 200U);
  EXPECT_EQ(chunks[3].phase_pulse, 3U);
  ASSERT_TRUE(chunks[3].pending_score);
  EXPECT_FALSE(chunks[4].pending_score);
  // All but the last of the 236 tokens have a score.
  double sum = *chunks[3].pending_score;
  for (const stored_chunk& one : chunks) {
    for (const float score : one.scores) {
      sum += std::isnan(score) ? 0 : static_cast<double>(score);
    }
  }
  EXPECT_NEAR(sum / 235, r.bits_stream, 1e-6);
}

TEST_F(predicting_run, has_equal_bytes_for_any_workers_devices_and_checkpoints) {
  or_throw(run(config("a")));
  const byte_vector expected = bytes_at(output("a"));
  for (const std::uint64_t every : {0U, 300U, 1000U}) {
    const std::string name = "every" + std::to_string(every);
    run_config c = config(name);
    c.every_tokens = every;
    c.workers = every == 300 ? 1 : 2;
    c.prefetch = every == 0 ? 0 : 16;
    c.stream.ranks = every == 1000 ? 2 : 1;
    c.replicas = every == 1000 ? replica_policy::per_rank : replica_policy::one;
    or_throw(run(c));
    EXPECT_EQ(bytes_at(output(name)), expected) << name;
  }
}

TEST_F(predicting_run, has_equal_bytes_behind_every_resume) {
  run_config c = config("a");
  const run_report whole = or_throw(run(c));
  const byte_vector expected = bytes_at(output("a"));
  for (const std::uint64_t generation : {11U, 8U, 6U, 4U, 2U}) {
    const run_report r = or_throw(resume(c, {}, generation));
    EXPECT_EQ(r.state_hash, whole.state_hash);
    EXPECT_EQ(bytes_at(output("a")), expected) << generation;
    c.workers = 3 - c.workers;
  }
  // A run that stops itself, several times.
  c = config("b");
  run_control control;
  run_callbacks callbacks;
  callbacks.control = &control;
  std::uint64_t until = 600;
  callbacks.progress = [&](const run_progress& p) {
    if (p.tokens >= until) {
      control.request_stop();
    }
  };
  run_report part = or_throw(run(c, callbacks));
  for (int i = 0; i < 20 && part.ended == "interrupted"; ++i) {
    until = part.tokens + 1;
    run_control next;
    callbacks.control = &next;
    callbacks.progress = [&](const run_progress& p) {
      if (p.tokens >= until) {
        next.request_stop();
      }
    };
    part = or_throw(resume(c, callbacks));
  }
  part = or_throw(resume(c));
  EXPECT_EQ(part.state_hash, whole.state_hash);
  EXPECT_EQ(bytes_at(output("b")), expected);
}

/// Returns an error without the folder of the test.
std::string without_folder(const std::string& folder, std::string text) {
  for (auto at = text.find(folder); at != std::string::npos; at = text.find(folder)) {
    text.erase(at, folder.size());
  }
  return text;
}

TEST_F(predicting_run, refuses_a_file_that_lost_durable_messages) {
  const run_config c = config("a");
  or_throw(run(c));
  const std::string path = output("a");
  const byte_vector file = bytes_at(path);
  const auto spans = formats::scan(bytes_view(file));
  // Generation 9 lies behind 9 pulses, of which 5 belong to Stream.
  const std::uint64_t known = spans[9].offset + spans[9].length;
  const std::string folder = runs_.path("a/");
  const auto refused = [&](std::uint64_t bytes, std::uint64_t generation) {
    if (bytes == 0) {
      std::filesystem::remove(path);
    } else {
      std::filesystem::resize_file(path, bytes);
    }
    const auto r = resume(c, {}, generation);
    return r ? std::string("accepted") : without_folder(folder, r.error().message());
  };
  const auto expected = [](std::uint64_t bytes, std::uint64_t found) {
    return fmt::format(
        "cannot append to \"predictions.tgm\": expected at least the {} bytes of the "
        "checkpoint, found {}; restore the file, or begin the run anew",
        bytes, found);
  };
  const std::string stage = "cannot open stage \"predictions\"\n  caused by: ";
  EXPECT_EQ(refused(0, 0),
            "cannot rely on the finished run: expected the whole output of the stage "
            "\"predictions\", found less or another\n  caused by: " +
                expected(file.size(), 0));
  test::write_text(path, std::string(as_text(file)));
  EXPECT_EQ(refused(known - 1, 9), stage + expected(known, known - 1));
  EXPECT_EQ(bytes_at(path).size(), known - 1) << "a refused file stays as it was";
  EXPECT_EQ(refused(0, 9), stage + expected(known, 0));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(predicting_run, may_get_another_output_at_a_resume) {
  run_config c = config("a");
  or_throw(run(c));
  const byte_vector expected = bytes_at(output("a"));
  // The run had no output before, and gets one with the budget of Stream.
  c = config("b");
  c.phase.stream = {};
  c.phase.stream_output = "";
  or_throw(run(c));
  c.phase.stream = config("b").phase.stream;
  c.phase.stream_output = "predictions.tgm";
  EXPECT_EQ(or_throw(resume(c)).history.size(), 2U);
  EXPECT_EQ(bytes_at(output("b")), expected);
  // The file begins empty under another name, and the old one stays.
  c.phase.stream_output = runs_.path("later.tgm");
  or_throw(resume(c, {}, 9));
  EXPECT_EQ(bytes_at(output("b")), expected);
  const byte_vector later = bytes_at(runs_.path("later.tgm"));
  ASSERT_FALSE(later.empty());
  EXPECT_TRUE(std::equal(later.begin(), later.end(),
                         expected.end() - static_cast<std::ptrdiff_t>(later.size())));
  // Files that hold something else are left alone.
  test::write_text(runs_.path("letter"), "a letter");
  c.phase.stream_output = runs_.path("letter");
  const auto refused = resume(c, {}, 9);
  ASSERT_FALSE(refused);
  EXPECT_EQ(bytes_at(runs_.path("letter")).size(), 8U);
  // None from now on.
  c.phase.stream_output = "";
  or_throw(resume(c, {}, 9));
  EXPECT_EQ(bytes_at(output("b")), expected);
}

TEST_F(predicting_run, refuses_names_of_its_own_files) {
  run_config c = config("a");
  c.phase.stream_output = "curve.tgm";
  const auto r = run(c);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().text(),
            "cannot use setting \"phase.stream.output\" of the run: expected a string, "
            "empty, or a path other than curve.tgm, found string \"curve.tgm\"");
}

}  // namespace
}  // namespace weir::actors
