// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks the conformance suite in this repository: the verdict on every file, the place
/// of every message, and the elements of every object, as the manifest says.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "formats/support.hpp"
#include "support/folders.hpp"
#include "support/sha256.hpp"
#include "weir/formats/tensogram_validate.hpp"

namespace weir::test {
namespace {

using namespace formats;
using nlohmann::json;

TEST(tensogram_conformance, every_file_is_read_and_judged_as_its_manifest_says) {
  const std::string folder = source_folder() + "/tests/conformance/tensogram";
  std::ifstream in(folder + "/manifest.json");
  const json files = json::parse(in);
  ASSERT_GT(files.size(), 25u);
  for (auto entry = files.begin(); entry != files.end(); ++entry) {
    SCOPED_TRACE(entry.key());
    const json& file = entry.value();
    const byte_vector bytes = load(folder + "/" + entry.key());
    EXPECT_EQ(sha256_text(bytes), file["sha256"]);
    EXPECT_EQ(validate(bytes_view(bytes)).ok(), file["sound"].get<bool>());
    if (!file["sound"].get<bool>()) {
      continue;
    }
    const auto spans = scan(bytes_view(bytes));
    ASSERT_EQ(spans.size(), file["messages"].size());
    for (std::size_t m = 0; m < spans.size(); ++m) {
      const json& message = file["messages"][m];
      EXPECT_EQ(spans[m].offset, message["offset"]);
      const auto reader = or_throw(message_reader::open(
          bytes_view(bytes).subspan(spans[m].offset, spans[m].length)));
      ASSERT_EQ(reader.object_count(), message["objects"].size());
      for (std::size_t i = 0; i < reader.object_count(); ++i) {
        EXPECT_EQ(sha256_text(or_throw(reader.decode(i))),
                  message["objects"][i]["sha256"]);
      }
    }
  }
}

}  // namespace
}  // namespace weir::test
