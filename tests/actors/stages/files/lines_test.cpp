// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arrays of NumPy and lines of JSON: strict readers, exact numbers.
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "stages/file_runs.hpp"
#include "stages/files/json_line.hpp"

namespace weir::test {
namespace {

/// Returns a file of NumPy of version 1.0 with a header that is given as text.
byte_vector npy_file(const std::string& header, std::size_t data, char major = 1) {
  std::string out("\x93NUMPY");
  out += {major, '\0', static_cast<char>(header.size() & 0xff),
          static_cast<char>(header.size() >> 8)};
  if (major > 1) {
    out += {'\0', '\0'};
  }
  out += header + std::string(data, 'd');
  const bytes_view bytes = as_view(out);
  return {bytes.begin(), bytes.end()};
}
std::string npy_header(const std::string& descr, const std::string& shape,
                       const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape +
         ", }                    \n";
}
result<std::vector<tape>> read_npy(const byte_vector& file,
                                   given_settings settings = {}) {
  const temp_folder folder;
  write_content(folder / "a.npy", file);
  settings.emplace("path", folder / "a.npy");
  return run_tapes(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(p, "source", "npy.read", settings) >> add_recorder(p, "sink", all[0]);
      },
      1);
}

TEST(NpyRead, ReadsAllVersionsAndTypesThatNumPyWrites) {
  for (const char major : {char{1}, char{2}, char{3}}) {
    const auto found = read_npy(npy_file(npy_header("<f4", "(2, 3)"), 24, major));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ((*found)[0][0].shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ((*found)[0][0].type, dtype::fp32);
  }
  const std::vector<std::pair<std::string, dtype>> types{
      {"|b1", dtype::boolean}, {"|u1", dtype::uint8},      {"<u1", dtype::uint8},
      {"<i2", dtype::int16},   {"<u8", dtype::uint64},     {"<f2", dtype::fp16},
      {"<f8", dtype::fp64},    {"<c16", dtype::complex128}};
  for (const auto& [text, type] : types) {
    const auto found =
        read_npy(npy_file(npy_header(text, "(5,)"), 5 * info_of(type).size));
    ASSERT_TRUE(found) << text << found.error().message();
    EXPECT_EQ((*found)[0][0].type, type) << text;
  }
  const auto scalar = read_npy(npy_file(npy_header("<f8", "()"), 8));
  ASSERT_TRUE(scalar) << scalar.error().message();
  EXPECT_TRUE((*scalar)[0][0].shape.empty());
  const auto rows =
      read_npy(npy_file(npy_header("<f8", "(3, 2)"), 48), {{"items", "rows"}});
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0].size(), 3U);
  EXPECT_EQ((*rows)[0][2].about.at("row"), attribute(std::uint64_t{2}));
}

TEST(NpyRead, EveryDamageIsAnErrorWithAName) {
  struct damage {
    byte_vector file;
    errc code;
    std::string text;
  };
  const std::string good = npy_header("<f4", "(2,)");
  std::vector<damage> all{
      {npy_file(good, 7), errc::torn, "expected 8 bytes"},
      {npy_file(good, 9), errc::corrupt, "expected 8 bytes"},
      {npy_file(good, 8, 4), errc::unsupported, "found 4.0"},
      {npy_file(npy_header("<f4", "(2,)", "True"), 8), errc::unsupported, "Fortran"},
      {npy_file(npy_header("<f4", "(2,)", "Maybe"), 8), errc::corrupt, "True or False"},
      {npy_file(npy_header(">f4", "(2,)"), 8), errc::unsupported, ">f4"},
      {npy_file(npy_header("|O", "(2,)"), 8), errc::unsupported, "|O"},
      {npy_file(npy_header("<f4", "(-2,)"), 8), errc::corrupt, "extent"},
      {npy_file(npy_header("<f4", "(2"), 8), errc::corrupt, "expected"},
      {npy_file(npy_header("<f4", "(4294967296, 4294967296)"), 8), errc::corrupt,
       "below 2^63"},
      {npy_file(npy_header("<f4", "(1,1,1,1,1,1,1,1,1)"), 4), errc::unsupported,
       "8 dimensions"},
      {npy_file("{'descr': '<f4', 'shape': (2,), }\n", 8), errc::corrupt, "fewer keys"},
      {npy_file("{'descr': '<f4', 'descr': '<f4'}\n", 8), errc::corrupt, "each once"},
      {npy_file("{'other': '<f4'}\n", 8), errc::corrupt, "other"},
      {npy_file("{'descr: 3\n", 8), errc::corrupt, "quote"},
      {npy_file(good + "x", 8), errc::corrupt, "blanks"},
      {npy_file(good.substr(1), 8), errc::corrupt, "\"{\""}};
  byte_vector magic = npy_file(good, 8);
  magic[1] = std::byte{'X'};
  all.push_back({magic, errc::corrupt, "magic"});
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{5}, std::size_t{11}, std::size_t{30}}) {
    byte_vector cut = npy_file(good, 8);
    cut.resize(length);
    all.push_back({cut, errc::torn, "a.npy"});
  }
  for (const damage& one : all) {
    expect_error(read_npy(one.file), one.code, one.text);
  }
}

TEST(NpyRead, RefusesMoreThanAMillionRowsWithoutElements) {
  // The size of the file says nothing about the number of such rows.
  for (const char* shape : {"(1000000000000, 0)", "(1000001, 0)"}) {
    const byte_vector file = npy_file(npy_header("<f4", shape), 0);
    expect_error(read_npy(file, {{"items", "rows"}}), errc::out_of_range,
                 "at most 1000000 rows without elements, found 1000");
  }
  const byte_vector three = npy_file(npy_header("<f4", "(3, 0)"), 0);
  const auto rows = read_npy(three, {{"items", "rows"}});
  ASSERT_TRUE(rows) << rows.error().message();
  EXPECT_EQ((*rows)[0].size(), 3U);
  const auto whole = read_npy(three);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ((*whole)[0].size(), 1U);
}

TEST(RawRead, RefusesATypeWhoseItemsExceed64Bits) {
  for (const char* type : {"f64[?,2305843009213693952]", "f64[2305843009213693952]",
                           "u8[4294967296,4294967296]"}) {
    expect_refused("raw.read", {{"path", "a.raw"}, {"type", type}},
                   errc::invalid_argument, "fewer than 2^63 bytes");
  }
}

TEST(ItemFiles, LetNoAttributeChooseAFolder) {
  const temp_folder folder;
  const std::vector<std::pair<std::string, std::string>> names{
      {"../../escaped", "_._.._escaped-0.raw"},
      {"/escaped", "_escaped-1.raw"},
      {"..", "_.-2.raw"},
      {"", "_-3.raw"},
      {"a.b", "a.b-4.raw"}};
  std::string lines;
  for (const auto& [who, file] : names) {
    lines += "{\"x\":[1,2],\"who\":\"" + who + "\"}\n";
  }
  write_text(folder / "in.jsonl", lines);
  for (const char* inner : {"/{who}-{item}.raw", "/{who}/{item}.raw"}) {
    const auto done = run_files([&](pipeline& p) {
      add_stage(p, "source", "json.read",
                {{"path", folder / "in.jsonl"}, {"type", "f64[2]"}}) >>
          add_stage(p, "sink", "raw.write",
                    {{"path", folder / ("out" + std::string(inner))}});
    });
    ASSERT_TRUE(done) << done.error().message();
  }
  for (const auto& [who, file] : names) {
    EXPECT_TRUE(std::filesystem::exists(folder / ("out/" + file))) << who;
  }
  // Each value is a folder of its own in the second case.
  const auto entries = [&](const std::string& path) {
    return std::distance(std::filesystem::directory_iterator(path), {});
  };
  EXPECT_EQ(entries(folder / "out"), 10);
  EXPECT_EQ(entries(folder.path()), 2);
}

TEST(ItemFiles, KeepValuesApartThatHaveANul) {
  const temp_folder folder;
  write_text(
      folder / "in.jsonl",
      "{\"x\":[1,2],\"who\":\"a\\u0000b\"}\n{\"x\":[3,4],\"who\":\"a\\u0000c\"}\n");
  const auto done = run_files([&](pipeline& p) {
    add_stage(p, "source", "json.read",
              {{"path", folder / "in.jsonl"}, {"type", "f64[2]"}}) >>
        add_stage(p, "sink", "raw.write", {{"path", folder / "out/{who}-{item}.raw"}});
  });
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(content_of(folder / "out/a_b-0.raw").size(), 16U);
  EXPECT_EQ(content_of(folder / "out/a_c-1.raw").size(), 16U);
}

TEST(NpyWrite, HasOneArrayThatIsWholeAtEveryCheckpoint) {
  const temp_folder folder;
  const std::string path = folder / "a.npy";
  const file_builder build = [&](pipeline& p) {
    add_stage(p, "source", "generator", {{"count", 5}, {"element", "i16"}}) >>
        add_stage(p, "sink", "npy.write", {{"path", path}});
  };
  const auto images = unfinished(images_of(build, 2));
  const byte_vector expected = content_of(path);
  const auto read = read_npy(expected, {{"type", "i16[5,1]"}});
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ((*read)[0][0].values<std::int16_t>(),
            (std::vector<std::int16_t>{0, 1, 2, 3, 4}));
  byte_vector shorter = expected;
  shorter.resize(130);
  write_content(path, shorter);
  expect_error(resume_files(build, images[0]), errc::torn, "the checkpoint, found 130");
  byte_vector other = expected;
  other[130] ^= std::byte{1};
  write_content(path, other);
  expect_error(resume_files(build, images[0]), errc::history_mismatch, "found others");
  write_text(path, "no array");
  expect_error(run_files(build), errc::already_exists, "something else");
}

template <class T>
std::string line_of(const std::vector<T>& elements, std::vector<std::int64_t> shape) {
  // The writer needs a tensor of an engine.
  const temp_folder folder;
  const std::string raw = folder / "a.raw";
  write_content(raw, std::as_bytes(std::span(elements)));
  const std::string type =
      fmt::format("{}[{}]", flow::port_text(dtype_of<T>), fmt::join(shape, ","));
  const auto done = run_files([&](pipeline& p) {
    add_stage(p, "source", "raw.read", {{"path", raw}, {"type", type}}) >>
        add_stage(
            p, "sink", "json.write",
            {{"path", folder / "a.jsonl"}, {"form", "array"}, {"non_finite", "null"}});
  });
  EXPECT_TRUE(done) << done.error().message();
  return std::string(as_text(content_of(folder / "a.jsonl")));
}

TEST(Json, NumbersComeBackBitByBit) {
  const std::vector<float> floats{0.1F,          -0.0F,  1.17549435e-38F,
                                  3.4028235e38F, 1e-45F, 16777216.0F};
  const std::string line = line_of(floats, {2, 3});
  const auto type = or_throw(flow::port_type::parse("f32[2,3]"));
  const auto found = actors::parse_json_line(line, type, "x");
  ASSERT_TRUE(found) << line << found.error().message();
  EXPECT_EQ(found->shape, (std::vector<std::int64_t>{2, 3}));
  const bytes_view bytes = std::as_bytes(std::span(floats));
  EXPECT_EQ(found->elements, byte_vector(bytes.begin(), bytes.end())) << line;
  const std::vector<std::uint64_t> large{0, 18446744073709551615ULL};
  EXPECT_EQ(line_of(large, {2}), "[0,18446744073709551615]\n");
  const std::vector<std::int8_t> cube{1, 2, 3, 4, -5, 6, 7, 8};
  EXPECT_EQ(line_of(cube, {2, 2, 2}), "[[[1,2],[3,4]],[[-5,6],[7,8]]]\n");
  const std::vector<double> special{std::nan(""), 1};
  EXPECT_EQ(line_of(special, {2}), "[null,1]\n");
}

TEST(Json, ALineThatDoesNotFitIsAnErrorThatSaysWhy) {
  struct bad_line {
    std::string line;
    std::string type;
    std::string text;
  };
  const std::vector<bad_line> all{{"[1, 2", "f32[2]", "expected JSON"},
                                  {"[1, 2] 3", "f32[2]", "expected JSON"},
                                  {"[1, \"a\"]", "f32[2]", "found a text"},
                                  {"[1, true]", "f32[2]", "found a boolean"},
                                  {"[1, null]", "i32[2]", "found null"},
                                  {"[1, 2.5]", "i32[2]", "found 2.5"},
                                  {"[1, 300]", "u8[2]", "found 300"},
                                  {"[1, -1]", "u64[2]", "found -1"},
                                  {"[1, 1e39]", "f32[2]", "found 1e+39"},
                                  {"[[1], [2, 3]]", "f32[2,2]", "arrays of 1 elements"},
                                  {"[1, [2]]", "f32[2]", "found an array"},
                                  {"[[1], 2]", "f32[2,1]", "beside an array"},
                                  {"[1, {}]", "f32[2]", "found an object"},
                                  {"{\"x\": {\"y\": [1]}}", "f32[1]", "found an object"},
                                  {"{\"x\": [1], \"x\": [2]}", "f32[1]", "twice"},
                                  {"{\"y\": [1]}", "f32[1]", "the field \"x\""},
                                  {"[[[[[[[[[1]]]]]]]]]", "f32[1]", "8 dimensions"},
                                  {"[1, 2, 3]", "f32[2,2]", "the shape [3]"}};
  for (const bad_line& one : all) {
    const auto type = or_throw(flow::port_type::parse(one.type));
    expect_error(actors::parse_json_line(one.line, type, "x"),
                 one.line.starts_with("{\"y\"") ? errc::not_found : errc::corrupt,
                 one.text);
  }
}

TEST(JsonWrite, EmptiesLinesOfJsonAndNothingElse) {
  const temp_folder folder;
  const std::string path = folder / "out.jsonl";
  const auto written_over = [&](std::string_view before) {
    const bytes_view bytes = as_view(before);
    write_content(path, {bytes.begin(), bytes.end()});
    const auto done = run_files([&](pipeline& p) {
      add_stage(p, "source", "generator", {{"count", 1}}) >>
          add_stage(p, "sink", "json.write", {{"path", path}, {"form", "array"}});
    });
    const byte_vector after = content_of(path);
    return std::pair(done ? std::optional<errc>() : done.error().code(),
                     std::string(as_text(after)));
  };
  for (const char* lines : {"{\"x\":[1,2]}\n", "[1,2]\n[3]\n", "-7\n", "null\n", "nu",
                            "{\"x\":[1,", "", "{\"x\":[1,2]}\r\n \n{\"x\":[1"}) {
    EXPECT_EQ(written_over(lines),
              (std::pair(std::optional<errc>(), std::string("[0]\n"))))
        << lines;
  }
  for (const char* other :
       {"hello", "# notes\n", "TENSOGRM", "not", "2024-01-01,5", "2024-01-01,5\n",
        "[section]\na = 1\n", "{\n  \"a\": 1\n}\n", "- a list\n",
        // Tables of one column, whose cells are quoted or begin with a number.
        "\"name\"\n\"Smith\"\n", "\"name", "\"a\",\"b\"\n", "true\n",
        "12\nC 0.0 1.0 2.0\n", "[1]\nhello\n[2]", "  "}) {
    EXPECT_EQ(written_over(other),
              (std::pair(std::optional(errc::already_exists), std::string(other))));
  }
}

TEST(JsonWrite, LinesOfAnotherStageMayBeTexts) {
  EXPECT_TRUE(actors::begins_as_json_lines("\"a\"\ntrue\n", true));
  EXPECT_TRUE(actors::begins_as_json_lines("\"a", true));
  EXPECT_FALSE(actors::begins_as_json_lines("\"a\",\"b\"\n", true));
  EXPECT_FALSE(actors::begins_as_json_lines("\"a\"\nb\n", true));
  EXPECT_FALSE(actors::begins_as_json_lines("\"a\"\n", false));
  // A crash can leave zeros in a later line.
  EXPECT_TRUE(
      actors::begins_as_json_lines(std::string_view("[1]\n\0\0\n[2]\n", 11), false));
}

// At the first checkpoint the sink has no item yet, so its offset knows no bytes of the
// file, which somebody else has replaced since.
TEST(ResumedFiles, ThatAreOfSomethingElseAreNotCutToAnEmptyOffset) {
  const temp_folder folder;
  const std::string path = folder / "out";
  for (const char* sink : {"json.write", "npy.write"}) {
    std::filesystem::remove(path);
    const file_builder build = [&](pipeline& p) {
      add_stage(p, "source", "generator", {{"count", 8}}) >>
          add_stage(p, "batch", "batch", {{"type", "f32[1]"}, {"size", 4}}) >>
          add_stage(p, "sink", sink, {{"path", path}});
    };
    const auto images = unfinished(images_of(build, 2));
    write_text(path, "a letter to a friend");
    expect_error(resume_files(build, images[0]), errc::already_exists, "something else");
    EXPECT_EQ(as_text(content_of(path)), "a letter to a friend") << sink;
    write_text(path, "");
    const auto done = resume_files(build, images[0]);
    EXPECT_TRUE(done) << done.error().message();
  }
}

TEST(JsonRead, TakesAttributesAndLeavesBlankLinesOut) {
  const temp_folder folder;
  write_text(folder / "a.jsonl",
             "[1, 2]\n\n{\"name\": \"a\", \"n\": -3, \"deep\": {\"x\": [9]}, \"x\": [3, "
             "4], \"ok\": true}\r\n[5, 6]");
  const auto tapes = expect_resumable(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(p, "source", "json.read",
                  {{"path", folder / "a.jsonl"}, {"type", "f64[2]"}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1, 1);
  ASSERT_EQ(tapes[0].size(), 3U);
  EXPECT_EQ(tapes[0][1].about.at("name"), attribute(std::string("a")));
  EXPECT_EQ(tapes[0][1].about.at("n"), attribute(std::int64_t{-3}));
  EXPECT_EQ(tapes[0][1].about.at("ok"), attribute(std::uint64_t{1}));
  EXPECT_EQ(tapes[0][1].about.size(), 3U);
  EXPECT_EQ(tapes[0][2].values<double>(), (std::vector<double>{5, 6}));
}

TEST(JsonRead, NamesTheLineAndRefusesLongOnes) {
  const temp_folder folder;
  write_text(folder / "a.jsonl", "[1, 2]\n[3]\n");
  const auto reading = [&](int longest) {
    return run_tapes(
        [&](pipeline& p, std::vector<tape>& all) {
          add_stage(
              p, "source", "json.read",
              {{"path", folder / "a.jsonl"}, {"type", "f64[2]"}, {"longest", longest}}) >>
              add_recorder(p, "sink", all[0]);
        },
        1);
  };
  expect_error(reading(100), errc::corrupt, "line 2");
  expect_error(reading(100), errc::corrupt, "a.jsonl:7");
  expect_error(reading(6), errc::out_of_range, "at most 6 bytes");
}

}  // namespace
}  // namespace weir::test
