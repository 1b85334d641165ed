// SPDX-License-Identifier: Apache-2.0
/// @file
/// Messages with which `weir check` refuses files of pipelines.
#include <gtest/gtest.h>

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
            "");
}

TEST(CheckRefuses, AnUnknownStageWithTheNearest) {
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"read\"\nuse = \"test.numbrs\"\n"), "");
}

TEST(CheckRefuses, AnUnknownSettingWithTheNearest) {
  EXPECT_EQ(refusal_of(source + "seeed = 4\n"), "");
}

TEST(CheckRefuses, AnUnknownKeyOutsideOfStagesWithTheNearest) {
  EXPECT_EQ(refusal_of("[run]\nworker = 2\n" + source), "");
  EXPECT_EQ(refusal_of("[checkpoints]\nevery = \"3 s\"\n" + source), "");
}

TEST(CheckRefuses, AnUnknownStageInFromWithTheNearest) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"twice\"\n"
                                "use = \"test.scaled\"\n"
                                "from = \"raed\"\n"),
            "");
}

TEST(CheckRefuses, AnUnknownOutletWithTheNearest) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"part\"\n"
                                "use = \"test.selected\"\n"
                                "[[stage]]\n"
                                "name = \"twice\"\n"
                                "use = \"test.scaled\"\n"
                                "from = \"part.evn\"\n"),
            "");
}

TEST(CheckRefuses, AnOutletThatHasToBeNamed) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"part\"\n"
                                "use = \"test.selected\"\n"
                                "[[stage]]\n"
                                "name = \"twice\"\n"
                                "use = \"test.scaled\"\n"),
            "");
}

TEST(CheckRefuses, AnInletWithoutAnEdge) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"join\"\n"
                                "use = \"test.joined\"\n"
                                "inlets = { a = \"read\" }\n"),
            "");
}

TEST(CheckRefuses, InletsThatHaveToBeNamed) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"join\"\n"
                                "use = \"test.joined\"\n"),
            "");
}

TEST(CheckRefuses, AStageBehindASink) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"write\"\n"
                                "use = \"demo.lines\"\n"
                                "path = \"a\"\n"
                                "[[stage]]\n"
                                "name = \"more\"\n"
                                "use = \"test.scaled\"\n"),
            "");
}

TEST(CheckRefuses, ACycleWithoutDelay) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"head\"\n"
                                "use = \"test.loop_head\"\n"
                                "inlets = { x = \"read\", token = \"tail\" }\n"
                                "[[stage]]\n"
                                "name = \"tail\"\n"
                                "use = \"test.scaled\"\n"),
            "");
}

TEST(CheckRefuses, TwoStagesOfOneName) {
  EXPECT_EQ(refusal_of(source + source), "");
}

TEST(CheckRefuses, AJoinAcrossNumberings) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"four\"\n"
                                "use = \"test.batched\"\n"
                                "[[stage]]\n"
                                "name = \"join\"\n"
                                "use = \"test.joined\"\n"
                                "inlets = { a = \"read\", b = \"four\" }\n"),
            "");
}

TEST(CheckRefuses, ALoopThatHoldsMoreThanItsDelay) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"head\"\n"
                                "use = \"test.loop_head\"\n"
                                "loop = { token = \"tail\", delay = 2 }\n"
                                "[[stage]]\n"
                                "name = \"tail\"\n"
                                "use = \"demo.held\"\n"),
            "");
}

TEST(CheckRefuses, ASettingOutOfRange) {
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"light\"\nuse = \"demo.brighter\"\nby = 11\n"),
            "");
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"light\"\nuse = \"demo.brighter\"\n"
                       "by = \"much\"\n"),
            "");
}

TEST(CheckRefuses, AMissingSetting) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\nname = \"write\"\nuse = \"demo.lines\"\n"),
            "");
}

TEST(CheckRefuses, TextThatIsNotToml) {
  EXPECT_EQ(refusal_of(source + "[[stage]\nname = 4\n"), "");
  EXPECT_EQ(refusal_of(source + "name = \"again\"\n"), "");
}

TEST(CheckRefuses, AFileWithoutStages) {
  EXPECT_EQ(refusal_of("name = \"none\"\n"), "");
  EXPECT_EQ(refusal_of("stage = 7\n"), "");
}

TEST(CheckRefuses, ReservedKeysOfWrongKindOrOfALaterVersion) {
  const auto with = [](const std::string& line) {
    return refusal_of(source + "[[stage]]\nname = \"twice\"\nuse = \"test.scaled\"\n" + line);
  };
  EXPECT_EQ(with("window = 8\n"), "");
  EXPECT_EQ(with("window = \"8 s\"\n"), "");
  EXPECT_EQ(with("window = \"0 items\"\n"), "");
  EXPECT_EQ(with("on_error = \"ignore\"\n"), "");
  EXPECT_EQ(with("loop = { delay = 1 }\n"), "");
  EXPECT_EQ(with("loop = { token = \"read\", delay = 0 }\n"), "");
  EXPECT_EQ(with("from = [\"read\"]\n"), "");
  EXPECT_EQ(with("inlets = \"read\"\n"), "");
  EXPECT_EQ(with("host = \"own\"\n"), "");
  EXPECT_EQ(refusal_of("[[stage]]\nuse = \"test.scaled\"\n"), "");
  EXPECT_EQ(refusal_of("[[stage]]\nname = \"a\"\n"), "");
  EXPECT_EQ(refusal_of("plugins = [\"a.so\"]\n" + source), "");
}

TEST(CheckRefuses, AStageWithStateThatShouldSkipFailures) {
  EXPECT_EQ(refusal_of(source + "[[stage]]\n"
                                "name = \"sum\"\n"
                                "use = \"test.running_sum\"\n"
                                "on_error = \"skip\"\n"),
            "");
}

TEST(CheckRefuses, AssignmentsOfTheCommandLine) {
  EXPECT_EQ(refusal_of(source, {"raed.count=4"}), "");
  EXPECT_EQ(refusal_of(source, {"read.count=-4"}), "");
  EXPECT_EQ(refusal_of(source, {"run.workers=0"}), "");
}

}  // namespace
}  // namespace weir::test
