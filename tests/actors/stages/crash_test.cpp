// SPDX-License-Identifier: Apache-2.0
/// @file
/// Two sinks tgm.write on a disk that crashes at every instant: whatever a crash leaves,
/// the resumed run makes the files of a run without a crash.
#include <array>

#include "stages/factories.hpp"
#include "stages/file_runs.hpp"
#include "support/faulty_files.hpp"

namespace weir::test {
namespace {

constexpr const char* first_path = "folder/first.tgm";
constexpr const char* second_path = "folder/second.tgm";

/// Makes a sink that writes messages to a file of a file system.
result<flow::described_stage> sink_on(file_system& fs, const std::string& file) {
  flow::described_stage made;
  WEIR_CHECK(actors::make_tgm_write(made, {{"path", file}}, fs));
  return made;
}

/// Writes six items, and twice each of them, to two files of a file system.
file_builder writing_to(file_system& fs) {
  return [&fs](pipeline& p) {
    auto source = add_stage(p, "source", "generator", {{"count", 6}, {"element", "u16"}});
    source >> p.add_made("first", sink_on(fs, first_path));
    source >> add_stage(p, "twice", "elementwise",
                        {{"type", "u16[n]"}, {"op", "multiply"}, {"operand", 2}}) >>
        p.add_made("second", sink_on(fs, second_path));
  };
}

/// Returns the content of both files.
std::array<byte_vector, 2> both(const disk& d) {
  const auto content = [&](const char* path) {
    const auto found = d.find(path);
    return found == d.end() ? byte_vector() : found->second;
  };
  return {content(first_path), content(second_path)};
}

/// Continues a run on the disk that a crash has left and returns the files.
std::array<byte_vector, 2> after_crash(const disk& left,
                                       const std::vector<flow::image>& images) {
  faulty_files files(left);
  const auto done = images.empty() ? run_files(writing_to(files))
                                   : resume_files(writing_to(files), images.back());
  EXPECT_TRUE(done) << done.error().message();
  return both(files.visible());
}

TEST(TgmWrite, TwoOfARunSurviveACrashAtEveryInstant) {
  faulty_files plain;
  ASSERT_TRUE(run_files(writing_to(plain)));
  const auto expected = both(plain.visible());
  ASSERT_NE(expected[0], expected[1]);
  for (const disk_model model : {disk_model::posix, disk_model::ext4}) {
    faulty_files files;
    memory_store store;
    std::size_t crashes = 0;
    std::size_t wrong = 0;
    files.after_change = [&] {
      for (const disk& left :
           files.crash_states(model, [](const std::string&) { return true; })) {
        ++crashes;
        wrong += after_crash(left, store.images) == expected ? 0 : 1;
      }
    };
    flow::here_options options;
    options.every_items = 2;
    options.store = &store;
    const auto done = run_files(writing_to(files), options);
    ASSERT_TRUE(done) << done.error().message();
    EXPECT_EQ(wrong, 0U) << "of " << crashes;
    EXPECT_GE(crashes, 40U);
  }
}

TEST(TgmWrite, EndsWithOneErrorIfAnOperationFails) {
  faulty_files plain;
  ASSERT_TRUE(run_files(writing_to(plain)));
  const auto expected = both(plain.visible());
  for (std::size_t failing = 0; failing < plain.operations(); ++failing) {
    faulty_files files;
    files.fail = [&](std::size_t number, op_kind) {
      return number == failing ? std::optional(error(errc::no_space, "the disk is full"))
                               : std::nullopt;
    };
    memory_store store;
    flow::here_options options;
    options.every_items = 2;
    options.store = &store;
    const auto done = run_files(writing_to(files), options);
    expect_error(done, errc::no_space, "the disk is full");
    EXPECT_EQ(after_crash(files.visible(), store.images), expected)
        << "operation " << failing;
  }
}

}  // namespace
}  // namespace weir::test
