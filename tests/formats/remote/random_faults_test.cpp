// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests with random faults that a remote file either gives the right bytes or an error,
/// whatever the server does.
#include <gtest/gtest.h>

#include "formats/remote/support.hpp"
#include "formats/support.hpp"
#include "support/case_count.hpp"

namespace weir::test {
namespace {

using formats::remote_file;
using formats::remote_options;

/// Returns the number of cases; `make soak` sets more.
std::uint64_t cases() {
  return case_count("WEIR_TEST_FAULTS", 60);
}

/// Two equal files of three messages with five objects each, on a server.
class RemoteRandomFaults : public testing::Test {
 protected:
  RemoteRandomFaults() {
    for (std::uint64_t m = 0; m < 3; ++m) {
      std::vector<sample_object> all;
      for (std::uint64_t i = 0; i < 5; ++i) {
        all.push_back(sample(10 * m + i, dtype::fp32, {9'000 + 17 * static_cast<int>(i)},
                             formats::byte_order::little, i % 2 == 0 ? "none" : "zstd"));
      }
      append(content, or_throw(formats::encode_message(to_write(all))));
      objects.push_back(std::move(all));
    }
    server.put("a.tgm", content);
    server.put("b.tgm", content);
  }

  /// Returns one of 26 faults; the empty ones let a request succeed.
  std::string fault(std::uint64_t number) const {
    const std::vector<std::string> known{"",
                                         "",
                                         "",
                                         "status:500",
                                         "status:503",
                                         "cut:100",
                                         "cut:5000",
                                         "cut:20000",
                                         "silent",
                                         "short",
                                         "long",
                                         "shifted:-3",
                                         "total:1",
                                         "gzip",
                                         "no-content-range",
                                         "no-etag",
                                         "at-most:70000",
                                         "whole",
                                         "whole-length:700000",
                                         "weak-etag",
                                         "other-etag",
                                         "status:404",
                                         "status:403",
                                         "redirect:302:" + server.url("b.tgm"),
                                         "total:99999999999",
                                         "cut:0"};
    return known[number % known.size()];
  }

  /// Reads everything that a caller can read. What arrives must be right; everything must
  /// arrive if `all_must_come`.
  void expect_right_or_error(const remote_file& file, bool all_must_come) {
    ASSERT_LE(file.message_count(), objects.size());
    for (std::size_t m = 0; m < file.message_count(); ++m) {
      const auto bytes = file.read_message(m);
      const auto span = file.spans()[m];
      ASSERT_TRUE(bytes || !all_must_come) << bytes.error().message();
      if (bytes) {
        ASSERT_TRUE(
            std::equal(bytes->begin(), bytes->end(),
                       content.begin() + static_cast<std::ptrdiff_t>(span.offset)));
      }
      for (std::size_t i = 0; i < objects[m].size(); ++i) {
        const auto reader = file.object(m, i);
        const auto elements =
            reader ? reader->decode(0) : result<byte_vector>(reader.error());
        ASSERT_TRUE(elements || !all_must_come) << elements.error().message();
        if (elements) {
          ASSERT_EQ(*elements, objects[m][i].data);
        }
      }
    }
  }

  test_server server;
  byte_vector content;
  std::vector<std::vector<sample_object>> objects;
};

TEST_F(RemoteRandomFaults, NeverGiveWrongBytesNorSpoilWhatIsReadLater) {
  std::size_t opened = 0;
  for (std::uint64_t seed = 0; seed < cases(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const philox random(seed, 77);
    std::vector<std::string> list;
    for (std::uint64_t k = 0; k < random.bits(0) % 12; ++k) {
      list.push_back(fault(random.bits(k + 1)));
    }
    const bool while_opening = random.bits(103) % 2 == 0;
    server.faults("a.tgm", while_opening ? list : std::vector<std::string>());
    remote_options options = quick_options();
    options.repeats = static_cast<unsigned>(random.bits(100) % 4);
    options.cache_bytes = random.bits(101) % 2 == 0 ? 32 << 20 : 48 << 10;
    const auto file =
        remote_file::open(server.url("a.tgm"), options,
                          random.bits(102) % 2 == 0 ? formats::scan_order::forward
                                                    : formats::scan_order::both_ends);
    if (!file) {
      continue;
    }
    ++opened;
    if (!while_opening) {
      server.faults("a.tgm", list);
    }
    expect_right_or_error(**file, false);
    server.faults("a.tgm", {});
    // A file that was opened with a wrong size or version is refused from then on.
    const bool same = (*file)->source()->size() == content.size() &&
                      (*file)->message_count() == objects.size();
    const bool named = std::find(list.begin(), list.end(), "other-etag") != list.end() ||
                       std::find(list.begin(), list.end(),
                                 "redirect:302:" + server.url("b.tgm")) != list.end();
    expect_right_or_error(**file, same && !named);
    if (HasFatalFailure()) {
      return;
    }
  }
  EXPECT_GE(opened * 3, cases());
}

}  // namespace
}  // namespace weir::test
