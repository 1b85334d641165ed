// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the container of modules: golden bytes, what its builder and its reader refuse,
/// and extensions by later versions.
#include "weir/tessera/module/fatbin.hpp"

#include <gtest/gtest.h>

#include "module/json_check.hpp"
#include "module_support.hpp"
#include "weir/tessera/module/loader.hpp"

namespace weir::tessera {
namespace {

namespace lay = fatbin_layout;
using test::code_after;
using test::find_entry;
using test::find_section;
using test::golden_fatbin;

/// Returns the record of a kernel with three parameters.
kernel_record scale_kernel() {
  kernel_record k;
  k.name = "scale";
  k.parameters = {pointer_parameter("x", 5, parameter_direction::inout),
                  scalar_parameter("n", 9), scalar_parameter("a", 5)};
  k.default_block = {64, 1, 1};
  k.max_threads = 256;
  k.flags = TESS_KERNEL_DETERMINISTIC;
  return k;
}

/// Returns a builder of the module "small" in golden.hex.
fatbin_builder small_builder() {
  fatbin_builder b;
  b.set_source_hash(sha256(as_view("scale")));
  EXPECT_TRUE(b.add_kernel(scale_kernel()));
  b.add_code(section_kind::cpu_registered, "");
  return b;
}

TEST(Fatbin, OfOneKernelHasTheGoldenBytes) {
  EXPECT_EQ(or_throw(small_builder().build()), golden_fatbin("small"));
}

TEST(Fatbin, WithEverySectionAndASignatureHasTheGoldenBytes) {
  fatbin_builder b;
  digest256 source;
  for (std::size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<std::byte>(i);
  }
  b.set_source_hash(source);
  kernel_record alpha;
  alpha.name = "alpha";
  alpha.symbol = "alpha_v1";
  alpha.parameters = {opaque_parameter("options", 20), scalar_parameter("z", 13)};
  alpha.shared_bytes = 512;
  alpha.flags = TESS_KERNEL_DETERMINISTIC | TESS_KERNEL_PER_THREAD;
  alpha.targets = 3;
  kernel_record beta;
  beta.name = "beta";
  beta.default_block = {8, 4, 2};
  beta.max_threads = 64;
  beta.flags = TESS_KERNEL_DETERMINISTIC;
  beta.targets = 4;
  ASSERT_TRUE(b.add_kernel(alpha));
  ASSERT_TRUE(b.add_kernel(beta));
  b.add_code(section_kind::cpu_so, "x86-64-v1",
             as_view("\x7f"
                     "ELF no code"));
  b.add_code(section_kind::ptx, "compute_80", as_view("// ptx\n"));
  b.add_code(section_kind::cpu_registered, "");
  b.add_plan({1, 5, "dp", 1, 4096, 1 << 30, 65536, 4});
  b.set_policy({true, false, true, true, true, 77});
  b.set_explain(R"({"tiles":[16,64]})");
  b.add_optional(4711, as_view("later"));
  const key_pair keys = test::test_keys();
  EXPECT_EQ(or_throw(b.build(&keys.secret)), golden_fatbin("full"));
}

TEST(Fatbin, OfGoldenBytesSaysWhatTheScriptWrote) {
  const byte_vector image = golden_fatbin("full");
  const fatbin f = or_throw(parse_fatbin(image));
  EXPECT_EQ(f.abi, (abi_version{1, 0}));
  EXPECT_EQ(f.bytes, image.size());
  EXPECT_EQ(std::to_integer<int>(f.source_hash[31]), 31);
  ASSERT_EQ(f.kernels.size(), 2U);
  EXPECT_EQ(f.kernels[0].name, "alpha");
  EXPECT_EQ(f.kernels[0].symbol, "alpha_v1");
  EXPECT_EQ(f.kernels[0].shared_bytes, 512U);
  EXPECT_EQ(f.kernels[0].targets, 3U);
  ASSERT_EQ(f.kernels[0].parameters.size(), 2U);
  EXPECT_EQ(f.kernels[0].parameters[1].offset, 24U);
  EXPECT_EQ(f.kernels[1].default_block, (std::array<std::uint32_t, 3>{8, 4, 2}));
  EXPECT_EQ(f.find("beta"), &f.kernels[1]);
  EXPECT_EQ(f.find("alpha_v1"), nullptr);
  ASSERT_TRUE(f.policy);
  EXPECT_EQ(*f.policy, (policy_record{true, false, true, true, true, 77}));
  ASSERT_EQ(f.plans.size(), 1U);
  EXPECT_EQ(f.plans[0], (plan_record{1, 5, "dp", 1, 4096, 1 << 30, 65536, 4}));
  EXPECT_EQ(f.explain, R"({"tiles":[16,64]})");
  ASSERT_TRUE(f.signature);
  EXPECT_EQ(f.signature->key, test::test_keys().open);
  ASSERT_EQ(f.code.size(), 3U);
  EXPECT_EQ(f.code[1].kind, section_kind::ptx);
  EXPECT_EQ(f.code[1].arch, "compute_80");
  EXPECT_EQ(as_text(f.code[1].bytes), "// ptx\n");
  ASSERT_EQ(f.others.size(), 1U);
  EXPECT_EQ(as_text(f.others[0].bytes), "later");
}

TEST(Fatbin, ThatIsBuiltFromWhatWasReadHasTheSameBytes) {
  const key_pair keys = test::test_keys();
  for (const char* name : {"small", "full"}) {
    const byte_vector image = golden_fatbin(name);
    const fatbin f = or_throw(parse_fatbin(image));
    EXPECT_EQ(or_throw(fatbin_builder(f).build(f.signature ? &keys.secret : nullptr)),
              image);
  }
  const byte_vector demo = test::demo_fatbin();
  EXPECT_EQ(or_throw(fatbin_builder(or_throw(parse_fatbin(demo))).build()), demo);
}

TEST(Fatbin, OfTheCompanionKitsFourBytesIsRefused) {
  const std::array<std::byte, 4> kit{std::byte(0xCA), std::byte(0xFE), std::byte(0xBA),
                                     std::byte(0xBE)};
  EXPECT_EQ(parse_fatbin(kit).error().code(), errc::corrupt);
  EXPECT_EQ(parse_fatbin({}).error().code(), errc::corrupt);
}

TEST(Fatbin, OfAnotherMajorOrANewerMinorIsRefused) {
  const auto reading = [](abi_version made, abi_version runtime) {
    fatbin_builder b = small_builder();
    b.set_abi(made);
    const auto read = parse_fatbin(or_throw(b.build()), runtime);
    return read ? errc{} : read.error().code();
  };
  constexpr errc refused = errc::unsupported_version;
  EXPECT_EQ(reading({1, 0}, {1, 0}), errc{});
  EXPECT_EQ(reading({1, 1}, {1, 0}), refused);
  EXPECT_EQ(reading({0, 9}, {1, 0}), refused);
  EXPECT_EQ(reading({2, 0}, {1, 0}), refused);
  EXPECT_EQ(reading({1, 1}, {1, 3}), errc{});
  EXPECT_EQ(reading({1, 3}, {1, 3}), errc{});
  EXPECT_EQ(reading({1, 4}, {1, 3}), refused);
  EXPECT_EQ(reading({1, 65535}, {2, 0}), refused);
}

TEST(Fatbin, OfAnotherVersionIsRefusedForThatWhateverIsBehind) {
  byte_vector image = golden_fatbin("small");
  store_le(image.data() + lay::header::abi_major, std::uint16_t{7});
  for (std::size_t bytes = lay::header::fixed; bytes <= image.size(); ++bytes) {
    EXPECT_EQ(parse_fatbin(bytes_view(image).first(bytes)).error().code(),
              errc::unsupported_version);
  }
  std::fill(image.begin() + lay::header::fixed, image.end(), std::byte(0xEE));
  EXPECT_EQ(parse_fatbin(image).error().code(), errc::unsupported_version);
}

TEST(Fatbin, NamesKernelsWithIdentifiersAlone) {
  for (const char* name : {"a", "_", "Z9", "flash_attention_fused", "_0"}) {
    fatbin_builder b;
    kernel_record k = scale_kernel();
    k.name = name;
    ASSERT_TRUE(b.add_kernel(k));
    EXPECT_TRUE(b.build()) << name;
  }
  const std::string longest(255, 'x');
  for (const std::string& name :
       {std::string(), std::string("9a"), std::string("a-b"), std::string("a b"),
        std::string("a."), std::string("\xC3\xA4"), std::string("$a"), longest + "x",
        std::string("a\0b", 3)}) {
    fatbin_builder b;
    kernel_record k = scale_kernel();
    k.name = name;
    k.symbol = "entry";
    ASSERT_TRUE(b.add_kernel(k));
    EXPECT_FALSE(b.build()) << name;
  }
}

TEST(Fatbin, NamesEachKernelAndParameterOnce) {
  fatbin_builder twice = small_builder();
  ASSERT_TRUE(twice.add_kernel(scale_kernel()));
  EXPECT_EQ(twice.build().error().code(), errc::invalid_argument);
  fatbin_builder same;
  kernel_record k = scale_kernel();
  k.parameters[1].name = "x";
  ASSERT_TRUE(same.add_kernel(k));
  EXPECT_FALSE(same.build());
}

TEST(Fatbin, RefusesInvalidArgumentsOfABuilder) {
  const auto refused = [](const std::function<void(fatbin_builder&)>& change) {
    fatbin_builder b = small_builder();
    change(b);
    const auto built = b.build();
    return !built && built.error().code() == errc::invalid_argument;
  };
  EXPECT_FALSE(refused([](fatbin_builder&) {}));
  EXPECT_TRUE(refused([](fatbin_builder& b) { b.set_explain("{"); }));
  EXPECT_TRUE(refused([](fatbin_builder& b) { b.add_code(section_kind::ptx, "sm"); }));
  EXPECT_TRUE(refused(
      [](fatbin_builder& b) { b.add_code(section_kind::ptx, "", as_view("x")); }));
  EXPECT_TRUE(refused([](fatbin_builder& b) {
    b.add_code(section_kind::cpu_registered, "", as_view("x"));
  }));
  EXPECT_TRUE(
      refused([](fatbin_builder& b) { b.add_code(section_kind::cpu_registered, ""); }));
  EXPECT_TRUE(refused([](fatbin_builder& b) { b.add_plan({1, 99, "", 0, 0, 1, 0, 0}); }));
  EXPECT_TRUE(refused([](fatbin_builder& b) { b.add_plan({1, 0, "", 0, 2, 1, 0, 0}); }));
  EXPECT_TRUE(refused([](fatbin_builder& b) {
    kernel_record k = scale_kernel();
    k.name = "other";
    // The product is 2^32, which is zero in 32 bits.
    k.default_block = {1024, 1024, 4096};
    ASSERT_TRUE(b.add_kernel(k));
  }));
  EXPECT_TRUE(refused([](fatbin_builder& b) {
    kernel_record k = scale_kernel();
    k.name = "other";
    k.max_threads = 0;
    k.default_block = {};
    ASSERT_TRUE(b.add_kernel(k));
  }));
  EXPECT_TRUE(refused([](fatbin_builder& b) {
    kernel_record k = scale_kernel();
    k.name = "other";
    k.targets = 2;
    ASSERT_TRUE(b.add_kernel(k));
  }));
  EXPECT_TRUE(refused([](fatbin_builder& b) {
    kernel_record k = scale_kernel();
    k.name = "other";
    k.flags = 64;
    ASSERT_TRUE(b.add_kernel(k));
  }));
}

TEST(Fatbin, HoldsAtMost64CodeSections) {
  const auto built = [](std::size_t sections) {
    fatbin_builder b;
    EXPECT_TRUE(b.add_kernel(scale_kernel()));
    for (std::size_t i = 0; i < sections; ++i) {
      b.add_code(section_kind::cubin, "sm_" + std::to_string(i), as_view("x"));
    }
    return b.build();
  };
  const byte_vector image = or_throw(built(64));
  EXPECT_EQ(or_throw(parse_fatbin(image)).kernels[0].targets, ~std::uint64_t{0});
  EXPECT_FALSE(built(65));
}

// Each row changes one field behind correct hashes to a value that must be refused.
TEST(Fatbin, WithAWrongFieldBehindRightHashesIsRefused) {
  const byte_vector image = golden_fatbin("small");
  const std::size_t kernels = find_section(image, section_kind::kernels);
  const std::size_t parameters = find_section(image, section_kind::parameters);
  const std::size_t first = kernels + lay::table_head;
  const std::size_t p = parameters + lay::table_head;
  const auto u32 = [&](std::size_t offset, std::uint32_t value) {
    return code_after(image, offset, value);
  };
  ASSERT_EQ(u32(first + lay::kernel::max_threads, 64), errc{});
  EXPECT_EQ(u32(first + lay::kernel::arguments, 24), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::name, 1 << 20), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::name, 0), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::symbol, 0), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::first, 1), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::count, 2), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::count, 0xFFFFFFFF), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::block, 257), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::max_threads, 63), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::flags, 64), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::reserved, 1), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::targets, 2), errc::corrupt);
  EXPECT_EQ(u32(first + lay::kernel::more, 1), errc::corrupt);
  EXPECT_EQ(u32(kernels, 56), errc::corrupt);
  EXPECT_EQ(u32(kernels, 65), errc::corrupt);
  EXPECT_EQ(u32(kernels + 4, 2), errc::corrupt);
  EXPECT_EQ(u32(kernels + 4, 0), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::kind, 3), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::dtype, 14), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::size, 4), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::offset, 8), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::space, 3), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::direction, 3), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::name, 0), errc::corrupt);
  EXPECT_EQ(u32(p + lay::parameter::reserved, 1), errc::corrupt);
}

TEST(Fatbin, WithAWrongTableOfSectionsIsRefused) {
  const byte_vector image = golden_fatbin("small");
  const std::size_t entry = find_entry(image, section_kind::kernels);
  const std::size_t registered = find_entry(image, section_kind::cpu_registered);
  const auto at_kernels = test::u64_of(image, entry + lay::entry::offset);
  const auto u64 = [&](std::size_t offset, std::uint64_t value) {
    return code_after(image, offset, value);
  };
  EXPECT_EQ(u64(entry + lay::entry::offset, ~std::uint64_t{0}), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::offset, ~std::uint64_t{7}), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::offset, image.size()), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::offset, 0), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::offset, lay::header_bytes), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::offset, at_kernels + 4), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::offset, at_kernels - 8), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::bytes, ~std::uint64_t{0}), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::plain_bytes, 1), errc::corrupt);
  EXPECT_EQ(u64(entry + lay::entry::reserved, 1), errc::corrupt);
  EXPECT_EQ(code_after(image, entry + lay::entry::align, 4U), errc::corrupt);
  EXPECT_EQ(code_after(image, entry + lay::entry::align, 24U), errc::corrupt);
  EXPECT_EQ(code_after(image, entry + lay::entry::align, 1U << 31), errc::corrupt);
  EXPECT_EQ(code_after(image, entry + lay::entry::flags, 1U), errc::unsupported);
  EXPECT_EQ(code_after(image, entry + lay::entry::flags, 4U), errc::unsupported);
  EXPECT_EQ(code_after(image, entry + lay::entry::kind, 4711U), errc::unsupported);
  EXPECT_EQ(code_after(image, entry + lay::entry::kind, 3U), errc::corrupt);
  EXPECT_EQ(code_after(image, registered + lay::entry::kind, 32U), errc::corrupt);
  EXPECT_EQ(code_after(image, registered + lay::entry::kind, 7U), errc::corrupt);
  EXPECT_EQ(code_after(image, registered + lay::entry::arch, 1U << 30), errc::corrupt);
  EXPECT_EQ(code_after(image, lay::header::sections, 5U), errc::corrupt);
  EXPECT_EQ(code_after(image, lay::header::sections, ~0U), errc::corrupt);
  EXPECT_EQ(code_after(image, lay::header::sections, 0U), errc::corrupt);
  EXPECT_EQ(u64(lay::header::table, 0), errc::corrupt);
  EXPECT_EQ(u64(lay::header::table, ~std::uint64_t{7}), errc::corrupt);
  EXPECT_EQ(u64(lay::header::file_bytes, image.size() + 8), errc::corrupt);
  EXPECT_EQ(u64(lay::header::reserved, 1), errc::corrupt);
  EXPECT_EQ(code_after(image, lay::header::bytes, 136U), errc::corrupt);
  EXPECT_EQ(code_after(image, lay::header::version, std::uint16_t{2}), errc::unsupported);
  EXPECT_EQ(code_after(image, lay::header::flags, std::uint16_t{1}), errc::unsupported);
}

TEST(Fatbin, WithoutTheEndOfItsStringsIsRefused) {
  byte_vector image = golden_fatbin("small");
  const std::size_t entry = find_entry(image, section_kind::strings);
  const std::size_t offset = find_section(image, section_kind::strings);
  const auto bytes = test::u64_of(image, entry + lay::entry::bytes);
  EXPECT_EQ(code_after(image, offset + bytes - 1, std::uint8_t{'x'}), errc::corrupt);
  EXPECT_EQ(code_after(image, offset, std::uint8_t{'x'}), errc::corrupt);
}

TEST(Fatbin, SkipsAnOptionalSectionThatItDoesNotKnow) {
  fatbin_builder b = small_builder();
  b.add_optional(9000, as_view("of a later version"));
  const byte_vector image = or_throw(b.build());
  EXPECT_EQ(or_throw(parse_fatbin(image)).others.size(), 1U);
  EXPECT_EQ(
      code_after(image,
                 find_entry(image, static_cast<section_kind>(9000)) + lay::entry::flags,
                 0U),
      errc::unsupported);
}

TEST(Fatbin, ReadsRecordsThatHaveGrown) {
  const byte_vector image = golden_fatbin("small");
  const std::size_t kernels = find_section(image, section_kind::kernels);
  // The record has 72 bytes. This version must skip the last eight.
  byte_vector longer = image;
  const auto place = longer.begin() + static_cast<std::ptrdiff_t>(
                                          kernels + lay::table_head + lay::kernel_bytes);
  longer.insert(place, 8, std::byte(0xAB));
  store_le(longer.data() + kernels, std::uint32_t{72});
  store_le(longer.data() + lay::header::file_bytes, std::uint64_t{longer.size()});
  for (std::size_t i = 0; i < 4; ++i) {
    std::byte* entry = longer.data() + test::entry_of(i);
    const std::uint64_t offset = load_le<std::uint64_t>(entry + lay::entry::offset);
    if (offset == kernels) {
      store_le(entry + lay::entry::bytes, std::uint64_t{80});
      store_le(entry + lay::entry::plain_bytes, std::uint64_t{80});
    } else if (offset > kernels) {
      store_le(entry + lay::entry::offset, offset + 8);
    }
  }
  test::reseal(longer);
  const auto read = parse_fatbin(longer);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->kernels[0], or_throw(parse_fatbin(image)).kernels[0]);
}

TEST(Fatbin, ExplainsItselfAsJSON) {
  const byte_vector image = golden_fatbin("full");
  const std::string text = explain(or_throw(parse_fatbin(image)));
  EXPECT_TRUE(is_json(text)) << text;
  for (const char* part :
       {R"("name":"alpha")", R"("argument_bytes":40)", R"("explain":{"tiles":[16,64]})",
        R"("arch":"compute_80")", R"("algorithm":"ring")", R"("state":"valid")",
        R"("selected":null)", R"("seed":77)"}) {
    EXPECT_NE(text.find(part), text.npos) << part << " in " << text;
  }
}

TEST(JSON, IsTakenExactlyWhereItIsValid) {
  for (const char* text : {"{}", "[]", " null ", "true", "-0", "0.5e-3", "1E+9",
                           R"("a\u00e4\n\"\/")", R"({"a":[1,{"b":[]}],"":false})",
                           "\"\xC3\xA4\xF0\x9F\x98\x80\xED\x9F\xBF\"", "[1 , 2]\n"}) {
    EXPECT_TRUE(is_json(text)) << text;
  }
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "[1,]",
                           "{,}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "nul",
                           "truex",
                           "\"",
                           "\"\n\"",
                           R"("\x")",
                           R"("\u12g4")",
                           R"("\u12")",
                           "\"\\",
                           "\"\xFF\"",
                           "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"",
                           "\"\xE0\x80\x80\"",
                           "\"\xF4\x90\x80\x80\"",
                           "\"\xC3\"",
                           "1 2",
                           "[1 2]",
                           "NaN",
                           "1e999",
                           R"("\ud800")",
                           "\xEF\xBB\xBF{}",
                           "'a'"}) {
    EXPECT_FALSE(is_json(text)) << text;
  }
  EXPECT_TRUE(is_json(std::string(64, '[') + std::string(64, ']')));
  EXPECT_FALSE(is_json(std::string(65, '[') + std::string(65, ']')));
  EXPECT_FALSE(is_json(std::string(1000000, '[')));
}

}  // namespace
}  // namespace weir::tessera
