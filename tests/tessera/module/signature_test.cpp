// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests digests, signatures and lists of trusted keys.
#include "weir/tessera/module/signature.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "module_support.hpp"
#include "support/temp_folder.hpp"

namespace weir::tessera {
namespace {

digest256 some_digest() {
  return sha256(as_view("some content"));
}

TEST(Digest, IsThatOfTheStandard) {
  EXPECT_EQ(to_hex(sha256({})),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(as_view("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  sha256_stream pieces;
  for (const char* piece : {"a", "", "bc"}) {
    pieces.update(as_view(piece));
  }
  EXPECT_EQ(pieces.digest(), sha256(as_view("abc")));
}

TEST(Digest, DistinguishesSequencesOfTexts) {
  const auto digest_of = [](std::initializer_list<const char*> texts) {
    sha256_stream hash;
    for (const char* text : texts) {
      hash.text(text);
    }
    return hash.digest();
  };
  EXPECT_NE(digest_of({"ab", "c"}), digest_of({"a", "bc"}));
  EXPECT_NE(digest_of({"ab"}), digest_of({"ab", ""}));
}

TEST(Digest, IsReadFromHexadecimalTextOfItsLengthAlone) {
  std::array<std::byte, 2> to{};
  EXPECT_TRUE(from_hex("aBc9", to));
  EXPECT_EQ(to_hex(to), "abc9");
  for (const char* text : {"", "abc", "abcde", "abcg", "ab 9", "abc\xC3"}) {
    EXPECT_FALSE(from_hex(text, to)) << text;
  }
}

TEST(Signature, HoldsForItsKeyDigestAndBytesAlone) {
  const key_pair keys = test::test_keys();
  const key_pair others = test::test_keys(1);
  const digest256 digest = some_digest();
  const signature_bytes good = or_throw(sign_digest(keys.secret, digest));
  EXPECT_TRUE(verify_digest(keys.open, digest, good));
  EXPECT_FALSE(verify_digest(others.open, digest, good));
  EXPECT_FALSE(verify_digest(keys.open, sha256(as_view("other")), good));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    signature_bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(verify_digest(keys.open, digest, bad)) << bit;
  }
  EXPECT_FALSE(verify_digest(public_key{}, digest, good));
  EXPECT_FALSE(verify_digest(public_key{}, digest, signature_bytes{}));
}

TEST(Signature, IsNotMadeWithAKeyWhoseHalvesDiffer) {
  key_pair keys = test::test_keys();
  keys.secret[40] ^= std::byte(1);
  EXPECT_EQ(sign_digest(keys.secret, some_digest()).error().code(),
            errc::invalid_argument);
}

TEST(Signature, OfNewKeysHolds) {
  const key_pair a = or_throw(make_key_pair());
  const key_pair b = or_throw(make_key_pair());
  EXPECT_NE(a.open, b.open);
  EXPECT_EQ(public_half(a.secret), a.open);
  EXPECT_TRUE(verify_digest(a.open, some_digest(),
                            or_throw(sign_digest(a.secret, some_digest()))));
}

TEST(TrustedKeys, AreAListOrAFile) {
  const std::string one = to_hex(test::test_keys(1).open);
  const std::string two = to_hex(test::test_keys(2).open);
  const weir::test::temp_folder folder;
  std::ofstream(folder / "keys") << "# of the release\n" << one << " # ours\n\n" << two;
  std::ofstream(folder / "bad") << "not a key\n";
  std::ofstream(folder / "empty");
  EXPECT_TRUE(or_throw(read_trusted_keys("")).empty());
  EXPECT_EQ(or_throw(read_trusted_keys(one)).size(), 1U);
  for (const std::string& text :
       {one + "," + two, one + " " + two, one + ":" + two, folder / "keys"}) {
    const auto keys = or_throw(read_trusted_keys(text));
    ASSERT_EQ(keys.size(), 2U) << text;
    EXPECT_EQ(keys[1], test::test_keys(2).open);
  }
  EXPECT_TRUE(or_throw(read_trusted_keys(folder / "empty")).empty());
  for (const std::string& text :
       {folder / "bad", folder / "absent", one + ",ab", folder.path()}) {
    EXPECT_EQ(read_trusted_keys(text).error().code(), errc::invalid_argument) << text;
  }
}

TEST(TrustedKeys, ComeFromTheEnvironment) {
  const std::string one = to_hex(test::test_keys(1).open);
  ::setenv("TESS_TRUSTED_KEYS", one.c_str(), 1);
  ::setenv("TESS_REQUIRE_SIGNED", "1", 1);
  const trust_policy strict = or_throw(trust_from_environment());
  EXPECT_TRUE(strict.required);
  EXPECT_TRUE(strict.trusts(test::test_keys(1).open));
  EXPECT_FALSE(strict.trusts(test::test_keys(2).open));
  ::setenv("TESS_REQUIRE_SIGNED", "0", 1);
  EXPECT_FALSE(or_throw(trust_from_environment()).required);
  ::setenv("TESS_TRUSTED_KEYS", "nowhere", 1);
  EXPECT_FALSE(trust_from_environment());
  ::unsetenv("TESS_TRUSTED_KEYS");
  ::unsetenv("TESS_REQUIRE_SIGNED");
  EXPECT_TRUE(or_throw(trust_from_environment()).keys.empty());
}

}  // namespace
}  // namespace weir::tessera
