// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stages of Python files in a catalog: their descriptions, and what is refused.
#include "weir/actors/python_stages.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "python/description.hpp"
#include "support/folders.hpp"
#include "support/temp_folder.hpp"
#include "weir/actors/child_output.hpp"

namespace weir::test {
namespace {

using flow::catalog;

/// A folder for the file of a test. The package of this source tree is used.
class PythonStages : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("WEIR_PYTHON_PATH", (source_folder() + "/python").c_str(), 1);
    ::unsetenv("WEIR_PYTHON");
    const auto found = actors::run_child({"/usr/bin/python3", "-c", "import numpy"})
                           .value_or(actors::child_output{});
    if (!found.exited || found.status != 0) {
      GTEST_SKIP() << "needs the Debian packages python3 and python3-numpy";
    }
  }
  std::string write(const std::string& text, const std::string& name = "demo.py") const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  /// Returns the error of a file with this text.
  error refused(const std::string& text) const {
    catalog all;
    auto added = add_python_stages(all, write(text));
    return added ? error(errc::internal, "nothing was refused") : added.error();
  }
  temp_folder folder_;
};

constexpr const char* two_stages = R"py(
import numpy as np
import weir

@weir.stage("demo.scale", x="f32[n,4]", y="f32[n,4]", stateless=True)
class Scale:
    """Multiplies each element.

    More about it."""
    factor: float = weir.setting(2, low=0, high=10, doc="the factor")
    mode: str = weir.setting("up", choices=["up", "down"])
    size: int = weir.setting(doc="required", choices=[1, 2])
    weights: str = weir.setting("w.bin", path="input", may_change=True)
    names: list[str] = weir.setting([])

    def on_item(self, x, y):
        np.multiply(x, self.factor, out=y)

@weir.stage("demo.count", y="u64[2]")
class Count:
    """Counts."""
    at: int = weir.state(0)

    def next(self, y):
        return False
)py";

TEST_F(PythonStages, AreDescribedLikeOthers) {
  catalog all;
  const std::string file = write(two_stages);
  ASSERT_TRUE(add_python_stages(all, file));
  EXPECT_EQ(all.names(), (std::vector<std::string>{"demo.count", "demo.scale"}));
  const auto scale = all.describe("demo.scale");
  ASSERT_TRUE(scale);
  EXPECT_EQ(scale->documentation, "Multiplies each element.");
  EXPECT_EQ(scale->face, flow::face::blocking);
  EXPECT_TRUE(scale->stateless);
  ASSERT_EQ(scale->ports.size(), 2U);
  EXPECT_EQ(scale->ports[0].type.text(), "f32[n,4]");
  EXPECT_TRUE(scale->ports[0].inlet);
  EXPECT_FALSE(scale->ports[1].inlet);
  ASSERT_EQ(scale->settings.size(), 5U);
  EXPECT_EQ(scale->settings[0].expected(), "a number from 0 to 10");
  EXPECT_EQ(scale->defaults[0], (setting_value{2.0}));
  EXPECT_TRUE(scale->settings[2].required);
  EXPECT_TRUE(scale->settings[3].may_change);
  EXPECT_EQ(scale->settings[3].path, path_use::input);
  const auto count = all.describe("demo.count");
  ASSERT_TRUE(count);
  EXPECT_EQ(count->face, flow::face::source);
  ASSERT_EQ(count->state.size(), 1U);
  EXPECT_EQ(count->state[0].name, "at");
  const auto home = all.home_of("demo.scale");
  ASSERT_TRUE(home);
  EXPECT_EQ(home->file, file);
  EXPECT_EQ(std::ranges::count(home->command, "/usr/bin/python3"), 1);
}

TEST_F(PythonStages, RefuseSettingsLikeOthers) {
  catalog all;
  ASSERT_TRUE(add_python_stages(all, write(two_stages)));
  const auto text_of = [&](const given_settings& given) {
    auto made = all.make("demo.scale", given);
    return made ? std::string("made") : made.error().message();
  };
  EXPECT_EQ(text_of({{"size", 1}, {"factor", 3}}), "made");
  EXPECT_NE(text_of({{"size", 1}, {"factr", 3}}).find("did you mean \"factor\""),
            std::string::npos);
  EXPECT_NE(text_of({{"size", 1}, {"factor", 11}}).find("a number from 0 to 10"),
            std::string::npos);
  EXPECT_NE(text_of({{"size", 3}}).find("one of 1, 2"), std::string::npos);
  EXPECT_NE(text_of({{"size", 1}, {"mode", "left"}}).find("up"), std::string::npos);
  EXPECT_NE(text_of({}).find("\"size\""), std::string::npos);
  const auto made = all.make("demo.scale", {{"size", 1}, {"factor", 3}});
  ASSERT_TRUE(made);
  ASSERT_EQ(made->info.paths.size(), 1U);
  EXPECT_EQ(made->info.paths[0].path, "w.bin");
  EXPECT_EQ(made->info.frozen.front().first, "factor");
}

TEST_F(PythonStages, NameTheLineOfAMistake) {
  const error syntax = refused("import weir\n\ndef f(:\n");
  EXPECT_EQ(syntax.code(), errc::invalid_argument);
  EXPECT_NE(syntax.location().find("demo.py:3"), std::string::npos);
  EXPECT_NE(syntax.text().find("found a syntax error"), std::string::npos);
  const error name = refused("import os\nnothing_known\n");
  EXPECT_NE(name.location().find("demo.py:2"), std::string::npos);
  ASSERT_NE(name.cause(), nullptr);
  EXPECT_NE(name.cause()->text().find("Traceback"), std::string::npos);
  const error face = refused(
      "import weir\n@weir.stage('a', x='f32[n]')\nclass A:\n  def put(s, y): 0\n");
  EXPECT_NE(face.location().find("demo.py:2"), std::string::npos);
  EXPECT_NE(face.text().find("stage A: put: expected the parameters (self, x)"),
            std::string::npos);
}

TEST_F(PythonStages, AreAtLeastOneAndHaveNewNames) {
  EXPECT_NE(refused("import os\n").text().find("weir.stage, found none"),
            std::string::npos);
  const error twice = refused(std::string(two_stages) + two_stages);
  EXPECT_EQ(twice.code(), errc::already_exists);
  EXPECT_NE(twice.text().find("at the lines 5 and 30"), std::string::npos)
      << twice.text();
  catalog all;
  ASSERT_TRUE(add_python_stages(all, write(two_stages)));
  const auto again = add_python_stages(all, write(two_stages, "other.py"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), errc::already_exists);
  EXPECT_NE(again.error().location().find("other.py"), std::string::npos);
}

TEST_F(PythonStages, NeedAFile) {
  catalog all;
  const auto added = add_python_stages(all, folder_.path() + "/none.py");
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), errc::not_found);
}

TEST_F(PythonStages, NameTheDebianPackageOfAMissingInterpreter) {
  const std::string file = write(two_stages);
  ::setenv("WEIR_PYTHON", "/nonexistent", 1);
  catalog all;
  const auto added = add_python_stages(all, file);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), errc::unsupported);
  EXPECT_NE(added.error().message().find("/nonexistent"), std::string::npos);
  EXPECT_NE(added.error().hint().find("python3-numpy"), std::string::npos);
}

TEST_F(PythonStages, NameTheDebianPackageOfNumPy) {
  const std::string file = write(two_stages);
  const std::string wrapper =
      write("#!/bin/sh\nexec /usr/bin/python3 -S \"$@\"\n", "bare");
  ASSERT_EQ(::chmod(wrapper.c_str(), 0755), 0);
  ::setenv("WEIR_PYTHON", wrapper.c_str(), 1);
  catalog all;
  const auto added = add_python_stages(all, file);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), errc::unsupported);
  EXPECT_NE(added.error().text().find("Debian package python3-numpy"), std::string::npos);
}

TEST_F(PythonStages, NeedThePackageWeir) {
  const std::string file = write(two_stages);
  ::setenv("WEIR_PYTHON_PATH", folder_.path().c_str(), 1);
  catalog all;
  const auto added = add_python_stages(all, file);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), errc::not_found);
  ::unsetenv("WEIR_PYTHON_PATH");  // it lies in the source tree above this program
  EXPECT_TRUE(add_python_stages(all, file));
}

TEST_F(PythonStages, MayPrintButNotEndTheInterpreter) {
  const error ended =
      refused("import os, sys\nprint('words', file=sys.stderr, flush=True)\nos._exit(3)");
  EXPECT_NE(ended.text().find("ended with exit code 3"), std::string::npos);
  ASSERT_NE(ended.cause(), nullptr);
  EXPECT_EQ(ended.cause()->text(), "words");
  const error killed = refused("import os\nos.kill(os.getpid(), 9)");
  EXPECT_NE(killed.text().find("ended by signal 9"), std::string::npos);
  catalog all;
  EXPECT_TRUE(
      add_python_stages(all, write("print('hello')\n" + std::string(two_stages))));
}

TEST(ChildOutput, IsBoundedInTimeAndBytes) {
  using namespace std::chrono_literals;
  const auto late = actors::run_child({"/bin/sleep", "30"}, {.time = 50ms});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), errc::timeout);
  const auto closed =
      actors::run_child({"/bin/sh", "-c", "exec >&- 2>&-; sleep 30"}, {.time = 50ms});
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code(), errc::timeout);
  const auto flood = actors::run_child({"/bin/cat", "/dev/zero"}, {.bytes = 100'000});
  ASSERT_FALSE(flood);
  EXPECT_EQ(flood.error().code(), errc::out_of_range);
  const auto words = actors::run_child(
      {"/bin/sh", "-c", "echo out; head -c 100000 /dev/zero >&2; echo end >&2; exit 4"});
  ASSERT_TRUE(words);
  EXPECT_EQ(words->out, "out\n");
  EXPECT_LE(words->error.size(), 16384U);
  EXPECT_TRUE(words->error.ends_with("end\n"));
  EXPECT_TRUE(words->exited);
  EXPECT_EQ(words->status, 4);
  EXPECT_FALSE(actors::run_child({"/nonexistent/program"}));
}

TEST(PythonDescription, ThatIsDamagedIsRefused) {
  for (const char* text :
       {"", "{", "[]", "{\"stages\": 3}", "{\"stages\": [{}]}", "{\"error\": {}}",
        R"({"stages": [{"name": "a", "doc": "", "face": "item", "stateless": 1}]})"}) {
    const auto read = actors::read_description(text, "demo.py");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code(), errc::corrupt) << text;
  }
}

}  // namespace
}  // namespace weir::test
