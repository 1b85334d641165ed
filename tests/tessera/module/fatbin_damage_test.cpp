// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests damaged containers: every byte changed, every truncation, and wrong fields
/// behind correct hashes.
#include <gtest/gtest.h>

#include <random>

#include "module/cpu_level.hpp"
#include "module_support.hpp"
#include "support/case_count.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {
namespace {

namespace lay = fatbin_layout;

/// Returns a module that loads and runs and is small enough to change each of its bytes.
byte_vector small_module(const secret_key* key) {
  fatbin_builder b;
  kernel_record k;
  k.name = "store_number";
  k.parameters = {pointer_parameter("to", 9, parameter_direction::out)};
  k.flags = TESS_KERNEL_DETERMINISTIC;
  EXPECT_TRUE(b.add_kernel(k));
  const byte_vector code = test::bytes_of_file(WEIR_PROBE_FOLDER "/probe_small.so");
  b.add_code(section_kind::cpu_so, host_levels().back(), code);
  byte_vector image = or_throw(b.build(key));
  EXPECT_TRUE(load_module(image));
  return image;
}

/// Returns the demo's kernels with the code for one processor level only.
byte_vector one_level(const secret_key* key) {
  const byte_vector all = test::demo_fatbin();
  fatbin f = or_throw(parse_fatbin(all));
  f.code.resize(1);
  for (kernel_record& k : f.kernels) {
    k.targets = 1;
  }
  return or_throw(fatbin_builder(f).build(key));
}

/// Flips one bit of every `step`-th byte and expects that the reader refuses each image.
void flip_every(std::size_t step, byte_vector image) {
  ASSERT_TRUE(parse_fatbin(image));
  for (std::size_t i = 0; i < image.size(); i += step) {
    const auto flip = static_cast<std::byte>(1U << (i % 8));
    image[i] ^= flip;
    ASSERT_FALSE(parse_fatbin(image)) << "byte " << i;
    image[i] ^= flip;
  }
  ASSERT_TRUE(parse_fatbin(image));
}

TEST(FatbinDamage, OfAnySingleByteIsFound) {
  const key_pair keys = test::test_keys();
  flip_every(1, small_module(&keys.secret));
  flip_every(1, small_module(nullptr));
  flip_every(1, test::golden_fatbin("small"));
}

// The step is 1 in `make soak`, which then changes every byte.
TEST(FatbinDamage, OfAnyByteOfTheDemosKernelsIsFound) {
  const key_pair keys = test::test_keys();
  flip_every(weir::test::number_or("WEIR_TEST_BYTE_STEP", 61), one_level(&keys.secret));
}

TEST(FatbinDamage, OfAnyBitOfASignatureIsFoundThoughNoneIsRequired) {
  byte_vector image = test::golden_fatbin("full");
  const std::size_t offset = test::find_section(image, section_kind::signature);
  for (std::size_t bit = 0; bit < std::size_t{8} * lay::signature_section_bytes; ++bit) {
    const auto flip = static_cast<std::byte>(1U << (bit % 8));
    image[offset + bit / 8] ^= flip;
    ASSERT_EQ(parse_fatbin(image).error().code(), errc::corrupt) << "bit " << bit;
    image[offset + bit / 8] ^= flip;
  }
  EXPECT_TRUE(parse_fatbin(image));
}

TEST(FatbinDamage, BehindASignatureIsFoundThoughTheHashesAreRight) {
  byte_vector image = test::golden_fatbin("full");
  const std::size_t code = test::find_section(image, section_kind::cpu_so);
  image[code] ^= std::byte(1);
  test::reseal(image);
  EXPECT_EQ(parse_fatbin(image).error().code(), errc::corrupt);
}

TEST(FatbinDamage, ByTruncationIsFoundAtEveryLength) {
  const key_pair keys = test::test_keys();
  const byte_vector image = small_module(&keys.secret);
  for (std::size_t bytes = 0; bytes < image.size(); ++bytes) {
    // Copies the truncated image, so that AddressSanitizer sees a read behind its end.
    const byte_vector cut(image.begin(),
                          image.begin() + static_cast<std::ptrdiff_t>(bytes));
    ASSERT_EQ(parse_fatbin(cut).error().code(), errc::corrupt) << bytes << " bytes";
  }
  byte_vector longer = image;
  longer.push_back(std::byte(0));
  EXPECT_FALSE(parse_fatbin(longer));
}

TEST(FatbinDamage, OfTheWholeLibraryKeepsItFromLoading) {
  byte_vector image = test::demo_fatbin();
  ASSERT_TRUE(load_module(image));
  std::mt19937 random(7);
  const std::uint64_t rounds = weir::test::case_count("WEIR_TEST_FAULTS", 300);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::size_t i = random() % image.size();
    const auto flip = static_cast<std::byte>(1U << (random() % 8));
    image[i] ^= flip;
    ASSERT_FALSE(load_module(image)) << "byte " << i;
    image[i] ^= flip;
  }
}

// Writes random and extreme values into fields and recomputes the hashes. The reader must
// return an error or a container that can be built again; it must never crash.
TEST(FatbinDamage, BehindRightHashesNeverCrashes) {
  const std::array<std::uint64_t, 12> nasty{0,
                                            1,
                                            7,
                                            8,
                                            0x7F,
                                            0xFF,
                                            0xFFFF,
                                            0x7FFFFFFF,
                                            0xFFFFFFFF,
                                            0x100000000,
                                            0x7FFFFFFFFFFFFFFF,
                                            ~std::uint64_t{0}};
  std::size_t accepted = 0;
  const std::uint64_t seeds = weir::test::case_count("WEIR_TEST_FAULTS", 10000);
  for (const char* name : {"small", "full"}) {
    const byte_vector image = test::golden_fatbin(name);
    // Only the part before the code is changed, because the reader does not look into
    // code.
    const std::size_t end = std::min<std::size_t>(image.size(), 2300);
    for (std::uint32_t seed = 0; seed < seeds; ++seed) {
      std::mt19937 engine(seed);
      const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
      byte_vector damaged = image;
      for (std::uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
        const std::size_t offset = (16 + random() % (end - 24)) / 4 * 4;
        if (random() % 2 == 0) {
          store_le(damaged.data() + offset,
                   static_cast<std::uint32_t>(nasty[random() % 12]));
        } else if (random() % 2 == 0) {
          store_le(damaged.data() + offset, nasty[random() % 12]);
        } else {
          damaged[offset + random() % 4] = static_cast<std::byte>(random());
        }
      }
      test::reseal(damaged);
      const auto read = parse_fatbin(damaged);
      if (read && !read->signature) {
        ++accepted;
        EXPECT_TRUE(fatbin_builder(*read).build()) << name << ", seed " << seed;
      }
    }
  }
  EXPECT_GT(accepted, seeds / 100);
}

}  // namespace
}  // namespace weir::tessera
