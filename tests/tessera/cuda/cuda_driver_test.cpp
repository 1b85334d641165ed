// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finding the driver, its version and the code for a device.
#include <algorithm>
#include <set>

#include "tessera/cuda/support.hpp"

namespace weir::tessera::stand_in {
namespace {

TEST(CudaDriver, WithoutALibraryThereIsAnError) {
  cuda_options options;
  options.library = "libweir-no-such-driver.so.1";
  const auto made = make_cuda_backend(options);
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), errc::not_found);
  EXPECT_NE(made.error().message().find("libweir-no-such-driver"), std::string::npos);
}

TEST(CudaDriver, AnOldDriverIsRefusedAtOnce) {
  machine shown;
  shown.version = 11080;
  set_up(shown, nullptr);
  const auto made = make_cuda_backend(stand_in_options());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), errc::unsupported);
  EXPECT_NE(made.error().message().find("found one for 11.8"), std::string::npos)
      << made.error().message();
  EXPECT_EQ(calls_of("cuInit"), 0U);
}

TEST(CudaDriver, AFunctionOfNewerDriversIsOptional) {
  machine shown;
  shown.version = 12000;  // without cuKernelGetParamInfo
  const rig r(shown);
  EXPECT_EQ(calls_of("cuKernelGetParamInfo"), 0U);
  EXPECT_EQ(r.kernel("reverse").name, "reverse");
}

TEST(CudaDriver, WithoutDevicesThereIsAnError) {
  machine shown;
  shown.devices = 0;
  set_up(shown, nullptr);
  const auto made = make_cuda_backend(stand_in_options());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code(), errc::not_found) << made.error().message();
}

TEST(CudaDriver, VersionsOfPtxAreRead) {
  EXPECT_EQ(cuda::version_of_ptx("//\n// Generated\n//\n.version 9.0\n.target sm_75"),
            90);
  EXPECT_EQ(cuda::version_of_ptx(".version\t8.4\n"), 84);
  for (const char* const wrong :
       {"", ".version", ".version x", ".version 8", ".version 8.", ".version 8.44",
        ".version 0.1", ".version 999.1"}) {
    EXPECT_EQ(cuda::version_of_ptx(wrong), 0) << wrong;
  }
}

TEST(CudaDriver, VersionsInCommentsOfPtxAreNotRead) {
  for (const char* const text :
       {"// Generated from .version 9.0 sources\n.version 8.0\n.target sm_75",
        "/* .version 9.0\n .version 9.1 */ .version 8.0",
        ".version /* 9.0 */ 8.0 // .version 9.0", "//\r\n\t.version\r\n8.0\r\n"}) {
    EXPECT_EQ(cuda::version_of_ptx(text), 80) << text;
  }
  for (const char* const none :
       {"// .version 9.0", "/* .version 9.0", "/* .version 9.0 */ .versions 9.0",
        ".version // 9.0", ".file 1 \".version 9.0\"", "x.version 9.0"}) {
    EXPECT_EQ(cuda::version_of_ptx(none), 0) << none;
  }
}

TEST(CudaDriver, PtxThatIsTooNewNamesTheDriverThatReadsIt) {
  const auto found = cuda::check_ptx_version(12040, ".version 9.0", "heat.fatbin");
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().code(), errc::unsupported_version);
  EXPECT_EQ(found.error().text(),
            "driver 550.54 reads PTX up to 8.4, module heat.fatbin has 9.0: expected "
            "driver 580 or newer, or the module built with a toolkit of that driver's "
            "series");
  EXPECT_TRUE(cuda::check_ptx_version(12040, ".version 8.4", "m").has_value());
  EXPECT_TRUE(cuda::check_ptx_version(13000, ".version 9.0", "m").has_value());
  EXPECT_TRUE(cuda::check_ptx_version(99000, ".version 9.9", "m").has_value());
  EXPECT_FALSE(cuda::check_ptx_version(13000, ".version 9.9", "m").has_value());
}

TEST(CudaDriver, ModulesOfNewerToolkitsAreRefusedWhenTheyAreLoaded) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  machine shown;
  shown.version = 12040;
  set_up(shown, executor);
  const auto backend = or_throw(make_cuda_backend(stand_in_options()));
  const byte_vector image = executor->container("9.0");
  const auto loaded = backend->load(or_throw(parse_fatbin(image)), "new.fatbin");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), errc::unsupported_version);
}

/// Returns a module with these code sections.
fatbin module_with(const std::vector<std::pair<section_kind, std::string>>& sections) {
  fatbin made;
  for (const auto& [kind, arch] : sections) {
    code_section s;
    s.kind = kind;
    s.arch = arch;
    made.code.push_back(s);
  }
  return made;
}

TEST(CudaDriver, TheBestCodeForADeviceIsChosen) {
  const fatbin m = module_with({{section_kind::cpu_so, "x86-64-v3"},
                                {section_kind::ptx, "compute_75"},
                                {section_kind::cubin, "sm_80"},
                                {section_kind::cubin, "sm_86"},
                                {section_kind::cubin, "sm_90a"},
                                {section_kind::ptx, "compute_90"},
                                {section_kind::ptx, "compute_100a"}});
  const auto chosen = [&](int capability) {
    return or_throw(choose_cuda_section(m, capability));
  };
  EXPECT_EQ(chosen(75), 1U);
  EXPECT_EQ(chosen(80), 2U);
  EXPECT_EQ(chosen(86), 3U);
  EXPECT_EQ(chosen(89), 3U);
  EXPECT_EQ(chosen(90), 4U);
  EXPECT_EQ(chosen(100), 6U);
  EXPECT_EQ(chosen(120), 5U);
  const auto none = choose_cuda_section(m, 70);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code(), errc::arch_mismatch);
  EXPECT_NE(none.error().message().find("compute_75"), std::string::npos);
}

TEST(CudaDriver, TextsOfTheTranslatorAreInTheError) {
  const auto executor = std::make_shared<listed_executor>(conformance_list());
  set_up(machine{}, executor);
  const auto backend = or_throw(make_cuda_backend(stand_in_options()));
  fatbin m = module_with({{section_kind::ptx, "compute_75"}});
  const std::string text = "no PTX";
  m.code[0].bytes = std::as_bytes(std::span(text));
  const auto loaded = backend->load(m, "damaged.fatbin");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), errc::corrupt);
  EXPECT_NE(loaded.error().message().find("expected listed kernels"), std::string::npos)
      << loaded.error().message();
}

TEST(CudaDriver, EachRuleHasItsOwnNameAndNamesItsCalls) {
  std::set<std::string_view> names;
  for (const rule& r : rules()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_FALSE(r.calls.empty()) << r.name;
    EXPECT_EQ(r.place.empty(), r.sentence.empty()) << r.name;
  }
}

}  // namespace
}  // namespace weir::tessera::stand_in
