// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the fuzz targets in every build, on the inputs that fuzzers have kept and on
/// mutations of them.
#include <gtest/gtest.h>

#include "storage/hn4/fuzz/targets.hpp"
#include "support/folders.hpp"

namespace weir::storage::test {
namespace {

/// A target and its name.
struct fuzz_target {
  const char* name;
  void (*feed)(bytes_view);
};
/// Shows a parameter in the names of failures.
void PrintTo(const fuzz_target& t, std::ostream* out) {
  *out << t.name;
}

/// Returns the inputs in a corpus file, which stores each behind its length as u32.
std::vector<byte_vector> kept_inputs(const std::string& target) {
  const std::string path = weir::test::source_folder() +
                           "/tests/storage/hn4/fuzz/corpus/hn4_" + target + ".bin";
  const byte_vector file = or_throw(read_file(posix_file_system(), path));
  std::vector<byte_vector> inputs;
  for (std::size_t offset = 0; offset + 4 <= file.size();) {
    const std::size_t size = load_le<std::uint32_t>(file.data() + offset);
    const bytes_view input = bytes_view(file).subspan(offset + 4, size);
    inputs.emplace_back(input.begin(), input.end());
    offset += 4 + size;
  }
  return inputs;
}

/// Changes or removes some bytes of an input, or joins two inputs.
byte_vector mutated(const std::vector<byte_vector>& inputs, const philox& random,
                    std::uint64_t i) {
  std::uint64_t k = 64 * i;
  const auto below = [&](std::uint64_t n) { return random.below(k++, n); };
  byte_vector out = inputs[static_cast<std::size_t>(below(inputs.size()))];
  if (below(4) == 0) {
    append(out, inputs[static_cast<std::size_t>(below(inputs.size()))]);
  }
  for (std::uint64_t n = below(6); n > 0 && !out.empty(); --n) {
    out[static_cast<std::size_t>(below(out.size()))] = static_cast<std::byte>(below(256));
  }
  if (below(4) == 0) {
    out.resize(static_cast<std::size_t>(below(out.size() + 1)));
  }
  return out;
}

class Hn4FuzzCorpus : public testing::TestWithParam<fuzz_target> {};

TEST_P(Hn4FuzzCorpus, KeptInputsAndTheirMutationsDoNoHarm) {
  constexpr std::uint64_t seed = 23;
  RecordProperty("seed", static_cast<int>(seed));
  const std::vector<byte_vector> inputs = kept_inputs(GetParam().name);
  ASSERT_GE(inputs.size(), 4U);
  for (const byte_vector& input : inputs) {
    GetParam().feed(input);
  }
  const philox random(seed, 1);
  for (std::uint64_t i = 0; i < 50; ++i) {
    GetParam().feed(mutated(inputs, random, i));
  }
  const fuzz::volume_for_fuzzing untouched;
  byte_vector left(1 << 16), right(left.size());
  for (std::uint64_t offset = 0; offset < untouched.device().size();
       offset += left.size()) {
    ASSERT_TRUE(untouched.device().read(offset, left));
    ASSERT_TRUE(fuzz::shared_volume().device().read(offset, right));
    ASSERT_TRUE(left == right) << "a target left the volume changed at " << offset;
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, Hn4FuzzCorpus,
                         testing::Values(fuzz_target{"superblock", &fuzz::superblock},
                                         fuzz_target{"anchors", &fuzz::anchors},
                                         fuzz_target{"blocks", &fuzz::blocks},
                                         fuzz_target{"tcc", &fuzz::tcc},
                                         fuzz_target{"names", &fuzz::names},
                                         fuzz_target{"directory", &fuzz::directory}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace weir::storage::test
