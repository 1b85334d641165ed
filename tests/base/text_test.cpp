// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests helpers for text: nearest names, quoting for JSON and XML, and readable sizes
/// and durations.
#include "weir/base/text.hpp"

#include <gtest/gtest.h>

#include <vector>

using namespace weir;

TEST(Text, NearestNameFindsATypoAndRefusesAStranger) {
  const std::vector<std::string> keys{"run.workers", "stream.path", "stream.chunk"};
  EXPECT_EQ(nearest_name("run.worker", keys), "run.workers");
  EXPECT_EQ(nearest_name("stream.chnk", keys), "stream.chunk");
  EXPECT_EQ(nearest_name("zzzzzzzz", keys), std::nullopt);
}

TEST(Text, JsonQuoteEscapesAndReplacesWhatIsNotUtf8) {
  EXPECT_EQ(json_quote("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
  EXPECT_EQ(json_quote("\xC3\xA4"), "\"\xC3\xA4\"");
  EXPECT_EQ(json_quote("\xFFx"), "\"\\ufffdx\"");
  EXPECT_EQ(json_quote("\xED\xA0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
}

TEST(Text, XmlEscapeLeavesNothingThatEndsTextOrAnAttribute) {
  EXPECT_EQ(xml_escape("<a b=\"c\"> & 'd'"),
            "&lt;a b=&quot;c&quot;&gt; &amp; &#39;d&#39;");
  EXPECT_EQ(xml_escape("\xC3\xA4"), "\xC3\xA4");
}

TEST(Text, SizesAndDurationsAreReadable) {
  EXPECT_EQ(counted(0, "shard") + ", " + counted(1, "shard"), "0 shards, 1 shard");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_seconds(200), "3 min 20 s");
}
