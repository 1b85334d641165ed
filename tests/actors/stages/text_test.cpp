// SPDX-License-Identifier: Apache-2.0
/// @file
/// The source text.chunks, the descriptions of all stages, and a run with actors.
#include <chrono>
#include <thread>

#include "stages/file_runs.hpp"
#include "support/folders.hpp"

namespace weir::test {
namespace {

tape_builder chunks(const std::vector<std::string>& files, int size) {
  return [=](pipeline& p, std::vector<tape>& all) {
    add_stage(p, "source", "text.chunks", {{"files", texts(files)}, {"chunk", size}}) >>
        add_recorder(p, "sink", all[0]);
  };
}
std::vector<std::string> texts_of(const tape& t) {
  std::vector<std::string> all;
  for (const recorded& one : t) {
    all.emplace_back(as_text(one.data));
  }
  return all;
}
using text_list = std::vector<std::string>;

/// Three files, one of them empty.
struct text_folder {
  text_folder() {
    write_text(folder / "a.txt", "abcdefgh");
    write_text(folder / "b.txt", "ABCD");
    write_text(folder / "empty.txt", "");
  }
  [[nodiscard]] std::vector<std::string> files(const text_list& names) const {
    text_list all;
    for (const std::string& name : names) {
      all.push_back(folder / name);
    }
    return all;
  }
  temp_folder folder;
};

TEST(TextChunks, ReadsFilesInTheGivenOrderAndTwiceIfNamedTwice) {
  const text_folder f;
  const auto files = f.files({"b.txt", "a.txt", "empty.txt", "b.txt", "empty.txt"});
  const auto tapes = expect_resumable(chunks(files, 3), 1, 1);
  EXPECT_EQ(texts_of(tapes[0]), (text_list{"ABC", "D", "abc", "def", "gh", "ABC", "D"}));
  EXPECT_EQ(tapes[0][3].about.at("offset"), attribute(std::uint64_t{3}));
  EXPECT_EQ(tapes[0][3].about.at("file"), attribute(files[1]));
}

TEST(TextChunks, ReadsPathsBesideThePipeline) {
  const text_folder f;
  flow::here_options options;
  options.folder = f.folder.path();
  const auto tapes = run_tapes(chunks({"a.txt"}, 100), 1, options);
  ASSERT_TRUE(tapes) << tapes.error().message();
  EXPECT_EQ(texts_of((*tapes)[0]), text_list{"abcdefgh"});
}

TEST(TextChunks, NoticesThatAFileIsOverwrittenWhileItIsRead) {
  for (const std::string after : {"abcdEFGH", "abcdef", "abcdefghMORE"}) {
    const text_folder f;
    const auto files = f.files({"a.txt"});
    flow::here_options options;
    options.turn_items = 1;
    bool written = false;
    options.stop = [&] {
      if (!written) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        write_text(files[0], after);
        written = true;
      }
      return false;
    };
    const auto tapes = run_tapes(chunks(files, 1), 1, options);
    if (after.size() > 8) {
      ASSERT_TRUE(tapes) << tapes.error().message();
      EXPECT_EQ((*tapes)[0].size(), 8U) << "a file may grow";
    } else {
      ASSERT_FALSE(tapes) << after;
      EXPECT_NE(tapes.error().message().find("a.txt"), std::string::npos);
    }
  }
}

TEST(TextChunks, ContinuesBehindAFileThatHasGrownWhileItWasRead) {
  const text_folder f;
  const auto files = f.files({"a.txt", "b.txt"});
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) { chunks(files, 2)(p, tapes); };
  memory_store store;
  flow::here_options options;
  options.turn_items = 1;
  options.every_items = 1;
  options.store = &store;
  bool grown = false;
  options.stop = [&] {
    if (!grown) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      write_text(files[0], "abcdefghMORE");
      grown = true;
    }
    return false;
  };
  const auto done = run_files(build, options);
  ASSERT_TRUE(done) << done.error().message();
  ASSERT_EQ(texts_of(tapes[0]), (text_list{"ab", "cd", "ef", "gh", "AB", "CD"}));
  int continued = 0;
  for (const flow::image& image : unfinished(store.images)) {
    // The last item was the first one of the second file.
    if (image.next_item == 5) {
      const auto resumed = resume_files(build, image);
      ASSERT_TRUE(resumed) << resumed.error().message();
      EXPECT_EQ(texts_of(tapes[0]), (text_list{"ab", "cd", "ef", "gh", "AB", "CD"}));
      ++continued;
    }
  }
  EXPECT_EQ(continued, 1);
}

TEST(TextChunks, RefusesOtherAndShorterFiles) {
  const text_folder f;
  const auto files = f.files({"b.txt", "a.txt"});
  std::vector<tape> tapes(1);
  const file_builder build = [&](pipeline& p) { chunks(files, 2)(p, tapes); };
  const flow::image image = unfinished(images_of(build, 4)).front();  // behind "abcd"
  write_text(files[1], "abcxefgh");
  expect_error(resume_files(build, image), errc::history_mismatch, "digest");
  write_text(files[1], "abc");
  expect_error(resume_files(build, image), errc::position_out_of_bounds,
               "expected at least 4 bytes, found 3");
  write_text(files[1], "abcdefghij");
  write_text(files[0], "ABCDE");
  expect_error(resume_files(build, image), errc::history_mismatch, "names and sizes");
  write_text(files[0], "ABCD");
  ASSERT_TRUE(resume_files(build, image));
  EXPECT_EQ(texts_of(tapes[0]).back(), "ij") << "a file may grow behind the cursor";
}

TEST(TextChunks, RefusesMissingFilesAndSettings) {
  const text_folder f;
  expect_error(run_tapes(chunks(f.files({"a.txt", "c.txt"}), 3), 1), errc::not_found,
               "c.txt");
  expect_refused("text.chunks", {}, errc::invalid_argument, "files");
  expect_refused("text.chunks", {{"files", "a"}, {"chunk", 0}}, errc::invalid_argument,
                 "chunk");
}

TEST(Concat, ReadsFilesAndVolumesOfDifferentKinds) {
  const text_folder f;
  const auto tapes = expect_resumable(
      [&](pipeline& p, std::vector<tape>& all) {
        add_stage(p, "source", "concat",
                  {{"parts", texts({"text.chunks chunk=3 files=" + (f.folder / "a.txt"),
                                    "text.chunks chunk=2 files=\"" +
                                        (f.folder / "b.txt") + "\""})}}) >>
            add_recorder(p, "sink", all[0]);
      },
      1, 1);
  EXPECT_EQ(texts_of(tapes[0]), (text_list{"abc", "def", "gh", "AB", "CD"}));
}

TEST(FileSources, KeepTheirCursorsWhenTheyContinue) {
  const text_folder f;
  const std::string line = "text.chunks chunk=3 files=" + (f.folder / "a.txt");
  ASSERT_TRUE(run_files([&](pipeline& p) {
    add_stage(p, "source", "generator", {{"count", 5}}) >>
        add_stage(p, "sink", "tgm.write", {{"path", f.folder / "a.tgm"}});
  }));
  std::filesystem::create_directory(f.folder / "files");
  std::filesystem::copy(f.folder / "a.tgm", f.folder / "files/a.tgm");
  std::filesystem::copy(f.folder / "a.tgm", f.folder / "files/b.tgm");
  const std::vector<std::pair<std::string, given_settings>> sources = {
      {"generator", {{"count", 5}}},
      {"concat", {{"parts", texts({line, line})}}},
      {"text.chunks",
       {{"files", texts(f.files({"a.txt", "empty.txt", "b.txt"}))}, {"chunk", 3}}},
      {"tgm.read", {{"path", f.folder / "a.tgm"}}},
      {"tgm.read", {{"path", f.folder / "files"}}}};
  for (const auto& [stage, settings] : sources) {
    const auto images = images_of(
        [&, &stage = stage, &settings = settings](pipeline& p) {
          add_stage(p, "source", stage, settings) >> add_stage(p, "sink", "null");
        },
        1);
    expect_cursors_kept(stage, settings, images);
  }
}

/// Settings without which a stage cannot be made.
const std::map<std::string, given_settings> needed_settings = {
    {"select", {{"modulo", 2}}},
    {"batch", {{"type", "f32[n]"}}},
    {"unbatch", {{"type", "f32[n]"}}},
    {"elementwise", {{"op", "relu"}, {"type", "f32[n]"}}},
    {"concat", {{"parts", "generator"}}},
    {"tgm.read", {{"path", "a"}}},
    {"tgm.write", {{"path", "a"}}},
    {"hn4.tensors", {{"path", "a"}}},
    {"hn4.read", {{"path", "a"}, {"tag", "b"}}},
    {"text.chunks", {{"files", "a"}}},
    {"tgm.replace", {{"path", "a"}}},
    {"tgm.embeddings", {{"path", "a"}}},
    {"text.lines", {{"files", "a"}}},
    {"text.tokens", {{"volume", "a"}}},
    {"bert.layers", {{"volume", "a"}}},
    {"llama.answers", {{"volume", "a"}}},
    {"hn4.put", {{"path", "a"}}},
    {"text.pulses", {{"files", "a"}}},
    {"split", {{"attribute", "a"}, {"outlets", texts({"low", "high"})}}},
    {"window", {{"type", "f32[2]"}}},
    {"reduce", {{"type", "f32[2]"}}},
    {"rate", {{"type", "f32[n]"}}},
    {"mix", {{"parts", "generator"}}},
    {"hn4.rows", {{"path", "a"}, {"tensor", "b"}}},
    {"log", {{"path", "a"}, {"live", "b"}}},
    {"png.read", {{"path", "a"}}},
    {"png.write", {{"path", "{item}"}}},
    {"raw.read", {{"path", "a"}, {"type", "u8[?]"}}},
    {"raw.write", {{"path", "{item}"}}},
    {"npy.read", {{"path", "a"}}},
    {"npy.write", {{"path", "a"}}},
    {"json.read", {{"path", "a"}, {"type", "f32[n]"}}},
    {"json.write", {{"path", "a"}}},
    {"prose.predictions", {{"path", "a"}}}};

TEST(StandardStages, AreDescribedHereAndInTheDocuments) {
  add_standard_stages();
  add_standard_stages();  // further calls do nothing
  const byte_vector bytes = content_of(source_folder() + "/docs/stages.md");
  const std::string_view document = as_text(bytes);
  const auto names = flow::stages().names();
  EXPECT_EQ(names.size(), 42U);
  for (const std::string& name : names) {
    const auto settings = needed_settings.find(name);
    const auto made = make_stage(
        name, settings == needed_settings.end() ? given_settings() : settings->second);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(made->info.name, name);
    EXPECT_GE(made->info.documentation.size(), 20U) << name;
    const std::size_t begin = document.find("\n## " + name + "\n");
    ASSERT_NE(begin, std::string_view::npos) << name;
    const std::string_view section =
        document.substr(begin, document.find("\n## ", begin + 1) - begin);
    EXPECT_NE(section.find("use = \"" + name + "\""), std::string_view::npos) << name;
    for (const setting_info& one : made->info.settings) {
      EXPECT_GE(one.documentation.size(), 10U) << name << " " << one.name;
      EXPECT_NE(section.find("| `" + one.name + (one.required ? "` * |" : "` |")),
                std::string_view::npos)
          << name << " " << one.name;
    }
    for (const flow::port_info& port : made->info.ports) {
      EXPECT_NE(section.find("`" + port.name + "`"), std::string_view::npos)
          << name << " " << port.name;
    }
  }
}

TEST(ProseAccounts, RefuseAScoreOfAPhaseThatDoesNotExist) {
  const temp_folder folder;
  const file_builder build = [&](pipeline& p) {
    auto source = add_stage(p, "source", "json.read",
                            {{"path", folder / "a.jsonl"}, {"type", "u64[8]"}});
    auto accounts = add_stage(p, "accounts", "prose.accounts");
    source >> accounts;
    accounts["tokens"] >>
        add_stage(p, "tokens", "tgm.write", {{"path", folder / "tokens.tgm"}});
    accounts["bits_per_byte"] >>
        add_stage(p, "bits", "tgm.write", {{"path", folder / "bits.tgm"}});
  };
  write_text(folder / "a.jsonl", "[2,64,64,100,0,0,1000,64]\n");
  const auto good = run_files(build);
  EXPECT_TRUE(good) << good.error().message();
  for (const char* phase : {"3", "18446744073709551615"}) {
    write_text(folder / "a.jsonl",
               std::string("[") + phase + ",64,64,100,0,0,1000,64]\n");
    expect_error(run_files(build), errc::corrupt, "expected a phase from 0 to 2");
  }
}

TEST(StandardStages, RunWithActorsAndContinueAfterAStop) {
  const temp_folder folder;
  const auto build = [&](pipeline& p, const std::string& out) {
    auto source = add_stage(p, "source", "generator",
                            {{"count", 500}, {"shape", texts({})}, {"element", "i32"}});
    auto convert = add_stage(p, "convert", "elementwise",
                             {{"op", "convert"}, {"type", "i32[]"}, {"to", "f64"}});
    auto batch = add_stage(p, "batch", "batch", {{"type", "f64[]"}, {"size", 7}});
    source >> convert >> batch >>
        add_stage(p, "sink", "tgm.write", {{"path", folder / out}});
  };
  pipeline plain("actors");
  build(plain, "plain.tgm");
  ASSERT_TRUE(flow::run_here(plain, {}));
  run_options options;
  options.folder = folder / "run";
  options.every_items = 100;
  pipeline p("actors");
  build(p, "out.tgm");
  const auto report = run(p, options);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->items, 500U);
  EXPECT_EQ(content_of(folder / "out.tgm"), content_of(folder / "plain.tgm"));
}

}  // namespace
}  // namespace weir::test
