// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages with which `weir check` refuses files of pipelines.
#include <gtest/gtest.h>

#include <regex>

#include "demo_stages.hpp"

namespace weir::test {
namespace {

/// A source, in lines 1 to 3.
const std::string source = "[[stage]]\nname = \"read\"\nuse = \"test.numbers\"\n";

TEST(CheckRefuses, ATypeClashWithBothEnds) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"light\"\n"
                                "use = \"demo.brighter\"\n"
                                "from = \"read.x\"\n"),
            "cannot connect \"read.x\" to \"light.image\": expected f32[h,w], "
            "found u64[3]; \"read\" is defined at two.toml:1:1, \"light\" is "
            "defined at two.toml:4:1\n"
            "  at two.toml:7:8");
}

TEST(CheckRefuses, AnUnknownStageWithTheNearest) {
  // The number depends on the stages that the program has.
  const std::regex number("of [0-9]+ known");
  const std::string refusal =
      refusal_of("[[stage]]\nname = \"read\"\nuse = \"test.numbrs\"\n");
  EXPECT_EQ(std::regex_replace(refusal, number, "of N known"),
            "cannot make the stage \"test.numbrs\": expected one of N known "
            "stages, found none of that name; did you mean \"test.numbers\"?\n"
            "  at two.toml:3:7 (stage \"read\")");
}

TEST(CheckRefuses, AnUnknownSettingWithTheNearest) {
  EXPECT_EQ(refusal_of(source + "seeed = 4\n"),
            "cannot set key \"seeed\": expected a known key, found none of "
            "that name; did you mean \"seed\"?\n"
            "  at two.toml:4:9 (stage \"read\")");
}

TEST(CheckRefuses, AMisspeltKeyOfEveryStageWithTheNearest) {
  const std::string twice = source + "[[stage]]\nname = \"a\"\nuse = \"test.scaled\"\n";
  EXPECT_EQ(refusal_of(twice + "form = \"read\"\n"),
            "cannot set key \"form\": expected a known key, found none of "
            "that name; did you mean \"from\"?\n"
            "  at two.toml:7:8 (stage \"a\")");
  EXPECT_EQ(refusal_of(twice + "max_failure = 3\n"),
            "cannot set key \"max_failure\": expected a known key, found none of "
            "that name; did you mean \"max_failures\"?\n"
            "  at two.toml:7:15 (stage \"a\")");
  EXPECT_EQ(refusal_of(twice, {"a.windows=8 items"}),
            "cannot set key \"windows\": expected a known key, found none of "
            "that name; did you mean \"window\"?\n"
            "  at --set a.windows (stage \"a\")");
}

TEST(CheckRefuses, APipelineWithoutASource) {
  EXPECT_EQ(refusal_of("# lone\n[[stage]]\nname = \"a\"\nuse = \"test.scaled\"\n"),
            "cannot use the pipeline \"two\": expected at least one source among its 1 "
            "stage, found none; begin with a stage that makes items\n"
            "  at two.toml:2:1");
}

TEST(CheckRefuses, AStageThatIsLikeNoOther) {
  const std::string text =
      refusal_of("[[stage]]\nname = \"read\"\nuse = \"zzzzzzzzzzzz\"\n");
  EXPECT_NE(text.find("`weir stages` lists them"), std::string::npos) << text;
}

TEST(CheckRefuses, AnUnknownKeyOutsideOfStagesWithTheNearest) {
  EXPECT_EQ(refusal_of("[run]\nworker = 2\n" + source),
            "cannot set key \"run.worker\": expected a known key, found none "
            "of that name; did you mean \"run.workers\"?\n"
            "  at two.toml:2:10");
  EXPECT_EQ(refusal_of("[checkpoints]\nevery = \"3 s\"\n" + source),
            "cannot set key \"checkpoints.every\": expected a known key, found "
            "none of that name; did you mean \"checkpoint.every\"?\n"
            "  at two.toml:2:9");
}

TEST(CheckRefuses, AnUnknownStageInFromWithTheNearest) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"twice\"\n"
                                "use = \"test.scaled\"\n"
                                "from = \"raed\"\n"),
            "cannot connect \"raed\" to \"twice\": expected the name of a "
            "stage, found \"raed\"; did you mean \"read\" (two.toml:1:1)?\n"
            "  at two.toml:7:8");
}

TEST(CheckRefuses, AnUnknownOutletWithTheNearest) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"part\"\n"
                                "use = \"test.selected\"\n"
                                "[[stage]]\n"
                                "name = \"twice\"\n"
                                "use = \"test.scaled\"\n"
                                "from = \"part.evn\"\n"),
            "cannot connect \"part.evn\" to \"twice\": expected an outlet of "
            "\"part\" (odd, even), found \"evn\"; did you mean \"even\"? "
            "\"part\" is defined at two.toml:4:1\n"
            "  at two.toml:10:8");
}

TEST(CheckRefuses, AnOutletThatHasToBeNamed) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"part\"\n"
                                "use = \"test.selected\"\n"
                                "[[stage]]\n"
                                "name = \"twice\"\n"
                                "use = \"test.scaled\"\n"),
            "cannot connect \"part\" to \"twice\": expected an outlet of "
            "\"part\" (odd, even), found no name; \"twice\" has no key `from`, "
            "so it follows \"part\", the stage above; name it: \"part.odd\"\n"
            "  at two.toml:7:1");
}

TEST(CheckRefuses, AnInletWithoutAnEdge) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"join\"\n"
                                "use = \"test.joined\"\n"
                                "inlets = { a = \"read\" }\n"),
            "cannot leave the inlet \"join.b\" open: expected one edge, found "
            "none\n"
            "  at two.toml:4:1");
}

TEST(CheckRefuses, InletsThatHaveToBeNamed) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"join\"\n"
                                "use = \"test.joined\"\n"),
            "cannot connect \"read\" to \"join\": expected an inlet of "
            "\"join\" (a, b), found no name; \"join\" has no key `from`, so it "
            "follows \"read\", the stage above; name it: inlets = { a = "
            "\"read\" }\n"
            "  at two.toml:4:1");
}

TEST(CheckRefuses, AStageBehindASink) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"write\"\n"
                                "use = \"demo.lines\"\n"
                                "path = \"a\"\n"
                                "[[stage]]\n"
                                "name = \"more\"\n"
                                "use = \"test.scaled\"\n"),
            "cannot connect \"write\" to \"more\": expected an outlet of "
            "\"write\" (demo.lines), found none that is open; \"more\" has no "
            "key `from`, so it follows \"write\", the stage above\n"
            "  at two.toml:8:1");
}

TEST(CheckRefuses, ACycleWithoutDelay) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"head\"\n"
                                "use = \"test.loop_head\"\n"
                                "inlets = { x = \"read\", token = \"tail\" }\n"
                                "[[stage]]\n"
                                "name = \"tail\"\n"
                                "use = \"test.scaled\"\n"),
            "cycle without a delay: \"head\" -> \"tail\" -> \"head\"; give an "
            "edge of the cycle a delay of 1 item or more\n"
            "  at two.toml:4:1");
}

TEST(CheckRefuses, TwoStagesOfOneName) {
  EXPECT_EQ(refusal_of(source + source),
            "cannot add the stage \"read\": expected a unique name, found a "
            "stage with this name; it is defined at two.toml:1:1\n"
            "  at two.toml:4:1");
}

TEST(CheckRefuses, AJoinAcrossNumberings) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"four\"\n"
                                "use = \"test.batched\"\n"
                                "[[stage]]\n"
                                "name = \"join\"\n"
                                "use = \"test.joined\"\n"
                                "inlets = { a = \"read\", b = \"four\" }\n"),
            "cannot join \"join.a\" and \"join.b\": expected items of one "
            "numbering, found the numbers of the sources and of \"four\"; join "
            "the items before they get numbers of their own\n"
            "  at two.toml:10:28");
}

TEST(CheckRefuses, ALoopThatHoldsMoreThanItsDelay) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"head\"\n"
                                "use = \"test.loop_head\"\n"
                                "loop = { token = \"tail\", delay = 2 }\n"
                                "[[stage]]\n"
                                "name = \"tail\"\n"
                                "use = \"demo.held\"\n"),
            "loop \"head\" -> \"tail\" -> \"head\" waits for itself: expected "
            "stages that keep back fewer items than its delay of 2, found 2 "
            "items kept back; give the loop a delay of 3 items or more\n"
            "  at two.toml:7:18");
}

TEST(CheckRefuses, ASettingOutOfRange) {
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"light\"\nuse = \"demo.brighter\"\nby = 11\n"),
            "cannot set key \"by\": expected a number from -10 to 10, found "
            "integer 11\n"
            "  at two.toml:4:6 (stage \"light\")");
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"light\"\nuse = \"demo.brighter\"\n"
                       "by = \"much\"\n"),
            "cannot set key \"by\": expected a number from -10 to 10, found "
            "string \"much\"\n"
            "  at two.toml:4:6 (stage \"light\")");
}

TEST(CheckRefuses, AMissingSetting) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\nname = \"write\"\nuse = \"demo.lines\"\n"),
            "cannot use setting \"path\" of the stage: expected a string, "
            "found none\n"
            "  at two.toml:4:1 (stage \"write\")");
}

TEST(CheckRefuses, TextThatIsNotToml) {
  EXPECT_EQ(refusal_of(source + "[[stage]\nname = 4\n"),
            "cannot read configuration \"two.toml\": expected TOML, found "
            "\"Error while parsing table header: expected ']', saw '\\n'\"\n"
            "  at two.toml:4:9");
  EXPECT_EQ(refusal_of(source + "name = \"again\"\n"),
            "cannot read configuration \"two.toml\": expected TOML, found "
            "\"Error while parsing key-value pair: cannot redefine existing "
            "string 'name'\"\n"
            "  at two.toml:4:8");
}

TEST(CheckRefuses, AFileWithoutStages) {
  EXPECT_EQ(refusal_of("name = \"none\"\n"),
            "cannot use \"two.toml\" as a pipeline: expected at least one "
            "table [[stage]], found none\n"
            "  at two.toml");
  EXPECT_EQ(refusal_of("stage = 7\n"),
            "cannot use key \"stage\": expected tables [[stage]], found "
            "integer 7\n"
            "  at two.toml:1:9");
}

TEST(CheckRefuses, ReservedKeysOfWrongKindOrOfALaterVersion) {
  const auto with = [](const std::string& line) {
    return refusal_of(source + "[[stage]]\nname = \"twice\"\nuse = \"test.scaled\"\n" +
                      line);
  };
  EXPECT_EQ(with("window = 8\n"),
            "cannot use key \"window\" of a stage: expected items or bytes, "
            "such as \"8 items, 64 MiB\", found integer 8\n"
            "  at two.toml:7:10");
  EXPECT_EQ(with("window = \"8 s\"\n"),
            "cannot use key \"window\" of a stage: expected items or bytes, "
            "such as \"8 items, 64 MiB\", found string \"8 s\"\n"
            "  at two.toml:7:10");
  EXPECT_EQ(with("window = \"0 items\"\n"),
            "cannot use key \"window\" of a stage: expected items or bytes, "
            "such as \"8 items, 64 MiB\", found string \"0 items\"\n"
            "  at two.toml:7:10");
  EXPECT_EQ(with("on_error = \"ignore\"\n"),
            "cannot use key \"on_error\" of a stage: expected \"stop\", "
            "\"skip\" or \"dead_letter\", found string \"ignore\"\n"
            "  at two.toml:7:12");
  EXPECT_EQ(with("max_failures = -1\n"),
            "cannot use key \"max_failures\" of a stage: expected a number of "
            "items from 0 on, found integer -1\n"
            "  at two.toml:7:16");
  EXPECT_EQ(with("loop = { delay = 1 }\n"),
            "cannot use key \"loop\" of a stage: expected a table with an "
            "inlet and a delay, such as { token = \"sample\", delay = 1 }, "
            "found a table\n"
            "  at two.toml:7:8");
  EXPECT_EQ(with("loop = { token = \"read\", delay = 0 }\n"),
            "cannot use key \"delay\" of a stage: expected a delay of 1 item "
            "or more as an integer, found integer 0\n"
            "  at two.toml:7:34");
  EXPECT_EQ(with("from = [\"read\"]\n"),
            "cannot use key \"from\" of a stage: expected a stage and its "
            "outlet, such as \"first.y\", or a stage with one outlet, found "
            "array [\"read\"]\n"
            "  at two.toml:7:8");
  EXPECT_EQ(with("inlets = \"read\"\n"),
            "cannot use key \"inlets\" of a stage: expected a table such as { "
            "a = \"first.y\", b = \"second\" }, found string \"read\"\n"
            "  at two.toml:7:10");
  EXPECT_EQ(with("host = \"own\"\n"), "accepted");
  EXPECT_EQ(with("host = \"fast\"\n"),
            "cannot use key \"host\" of a stage: expected \"engine\", \"own\" or "
            "\"process\", found string \"fast\"\n"
            "  at two.toml:7:8");
  EXPECT_EQ(with("host = \"node:a\"\n"),
            "cannot use key \"host\" of a stage: expected a host of this machine, found "
            "\"node:a\", which is reserved for a later version\n"
            "  at two.toml:7:8");
  EXPECT_EQ(with("initial = 0\n"),
            "cannot use key \"initial\" of a stage: expected a key of this "
            "version, found one that is reserved for a later version\n"
            "  at two.toml:7:11");
  EXPECT_EQ(with("host = \"own\"\n"), "accepted");
  EXPECT_EQ(with("host = \"node:b\"\n"),
            "cannot use key \"host\" of a stage: expected a host of this machine, found "
            "\"node:b\", which is reserved for a later version\n  at two.toml:7:8");
  EXPECT_EQ(with("host = 2\n"),
            "cannot use key \"host\" of a stage: expected \"engine\", \"own\" or "
            "\"process\", found integer 2\n  at two.toml:7:8");
  EXPECT_EQ(refusal_of("[[stage]]\nuse = \"test.scaled\"\n"),
            "cannot add a stage: expected the key \"name\", found none\n"
            "  at two.toml:1:1");
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"a\"\n"),
            "cannot add the stage \"a\": expected the key \"use\", found none\n"
            "  at two.toml:1:1");
  EXPECT_EQ(refusal_of("plugins = [\"a.so\"]\n" + source),
            "cannot load the plug-in \"a.so\": expected a file, found none\n"
            "  at two.toml:1:11");
}

TEST(CheckRefuses, AStageWithStateThatShouldSkipFailures) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"sum\"\n"
                                "use = \"test.running_sum\"\n"
                                "on_error = \"skip\"\n"),
            "cannot use the stage \"sum\" (test.running_sum): expected a stage "
            "without state, since failed items are skipped, found the state "
            "\"sum\"; let a failed item stop the run\n"
            "  at two.toml:4:1");
}

TEST(CheckRefuses, AssignmentsOfTheCommandLine) {
  EXPECT_EQ(refusal_of(source, {"raed.count=4"}),
            "cannot set key \"raed.count\": expected a known key, found none "
            "of that name; did you mean \"read.count\"?\n"
            "  at --set raed.count");
  EXPECT_EQ(refusal_of(source, {"read.count=-4"}),
            "cannot set key \"count\": expected an integer from 0 to 2^63-1, "
            "found integer -4\n"
            "  at --set read.count (stage \"read\")");
  EXPECT_EQ(refusal_of(source, {"run.workers=0"}),
            "cannot set key \"run.workers\": expected an integer from 1 to "
            "256, found integer 0\n"
            "  at --set run.workers");
}

}  // namespace
}  // namespace weir::test
