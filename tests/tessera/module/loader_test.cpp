// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the loading of modules: the choice of code, signatures, damaged entries of the
/// cache, and what loading leaves behind.
#include "weir/tessera/module/loader.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "module/cpu_level.hpp"
#include "module_support.hpp"
#include "support/temp_folder.hpp"

namespace weir::tessera {
namespace {

using weir::test::temp_folder;

/// Returns the shared object of a probe kernel.
byte_vector probe(const std::string& name) {
  return test::bytes_of_file(WEIR_PROBE_FOLDER "/" + name + ".so");
}

/// A code section of a test module.
struct probe_section {
  section_kind kind;
  std::string arch;
  std::string probe;  ///< if empty, the section has bytes that are no code
};

/// Returns the record of the kernel that all probes contain.
kernel_record probe_kernel() {
  kernel_record k;
  k.name = "store_number";
  k.parameters = {pointer_parameter("to", 9, parameter_direction::out)};
  k.flags = TESS_KERNEL_DETERMINISTIC;
  return k;
}

/// Builds a module with these sections.
byte_vector fatbin_of(const std::vector<probe_section>& sections,
                      kernel_record kernel = probe_kernel(),
                      const secret_key* key = nullptr) {
  fatbin_builder b;
  EXPECT_TRUE(b.add_kernel(std::move(kernel)));
  std::vector<byte_vector> code(sections.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const probe_section& s = sections[i];
    const bytes_view none = as_view("none");
    code[i] = s.probe.empty() ? byte_vector(none.begin(), none.end()) : probe(s.probe);
    const bool registered = s.kind == section_kind::cpu_registered;
    b.add_code(s.kind, s.arch, registered ? bytes_view() : code[i]);
  }
  return or_throw(b.build(key));
}

/// Returns the lowest level, which any processor of this kind supports.
std::string base_level() {
  return host_levels().back();
}

/// Returns a module with the code of one probe.
byte_vector fatbin_of_probe(const std::string& name) {
  return fatbin_of({{section_kind::cpu_so, base_level(), name}});
}

/// Runs the probe's kernel and returns the number that it stores.
int number_from(const loaded_module& module) {
  int number = 0;
  int* to = &number;
  const loaded_kernel* k = module.find("store_number");
  const tessBlockContext block{};
  EXPECT_EQ(k->block_entry()(&block, &to), 0);
  return number;
}

/// Loads a module and returns the number that its kernel stores, or -1.
int number_in(bytes_view image, const load_options& options = {}) {
  const auto module = load_module(image, options);
  EXPECT_TRUE(module) << module.error().message();
  return module ? number_from(**module) : -1;
}

/// Returns the code of the failure to load a module, or a zero code.
errc code_of(bytes_view image, const load_options& options = {}) {
  const auto module = load_module(image, options);
  return module ? errc{} : module.error().code();
}

/// Returns the number of open file descriptors of the process.
std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(
      std::distance(begin(all), std::filesystem::directory_iterator()));
}

TEST(Loader, RunsCodeThatOutlivesItsImage) {
  byte_vector image = fatbin_of_probe("probe_one");
  const auto module = or_throw(load_module(image));
  std::fill(image.begin(), image.end(), std::byte(0xCC));
  image = {};
  EXPECT_EQ(number_from(*module), 1);
  EXPECT_EQ(module->find("store_numbe"), nullptr);
  EXPECT_EQ(module->find(""), nullptr);
  const loaded_kernel* k = module->find("store_number");
  EXPECT_EQ(k, module->find("store_number"));
  EXPECT_EQ(k->arguments, (argument_extent{8, 8}));
  EXPECT_EQ(k->thread_entry(), nullptr);
  EXPECT_NE(module->explain().find(R"("selected":0)"), std::string::npos);
  EXPECT_EQ(module->signature(), signature_state::absent);
}

TEST(Loader, TakesTheHighestLevelThatTheProcessorHas) {
  if (base_level() != "x86-64-v1") {
    GTEST_SKIP() << "no levels here";
  }
  const byte_vector image = fatbin_of({{section_kind::cpu_so, "x86-64-v1", "probe_one"},
                                       {section_kind::cpu_so, "x86-64-v3", "probe_two"},
                                       {section_kind::cpu_registered, "", ""}});
  const auto& levels = host_levels();
  const bool v3 = std::find(levels.begin(), levels.end(), "x86-64-v3") != levels.end();
  EXPECT_EQ(number_in(image), v3 ? 2 : 1);
  load_options options;
  options.max_level = "x86-64-v1";
  EXPECT_EQ(number_in(image, options), 1);
  if (v3) {
    options.max_level = "x86-64-v3";
    EXPECT_EQ(number_in(image, options), 2);
    options.max_level = "x86-64-v2";
    EXPECT_EQ(number_in(image, options), 1);
  }
}

TEST(Loader, LoadsNothingThatTheProcessorCannotRun) {
  ::unsetenv("WEIR_PROBE_RAN");
  load_options options;
  options.max_level = base_level();
  for (const char* level : {"x86-64-v2", "x86-64-v4", "x86-64-v5", "aarch128", "sm_90"}) {
    const byte_vector image = fatbin_of({{section_kind::cpu_so, level, "probe_one"}});
    EXPECT_EQ(code_of(image, options), errc::arch_mismatch) << level;
  }
  EXPECT_EQ(::getenv("WEIR_PROBE_RAN"), nullptr);
  EXPECT_EQ(number_in(fatbin_of_probe("probe_one")), 1);
  EXPECT_NE(::getenv("WEIR_PROBE_RAN"), nullptr);
}

TEST(Loader, RunsNothingOfADamagedModule) {
  byte_vector image = fatbin_of_probe("probe_one");
  ::unsetenv("WEIR_PROBE_RAN");
  const std::size_t code = test::find_section(image, section_kind::cpu_so);
  for (std::size_t i = 0; i < image.size(); i += 97) {
    image[i] ^= std::byte(0x20);
    ASSERT_NE(code_of(image), errc{}) << i;
    image[i] ^= std::byte(0x20);
  }
  image[code + 100] ^= std::byte(0x20);
  EXPECT_EQ(code_of(image), errc::corrupt);
  EXPECT_EQ(::getenv("WEIR_PROBE_RAN"), nullptr);
}

TEST(Loader, SaysWhetherCodeIsForAnotherMachineOrWantsACompiler) {
  using kind = section_kind;
  const auto code_for = [](std::vector<probe_section> sections) {
    return code_of(fatbin_of(sections));
  };
  EXPECT_EQ(code_for({}), errc::arch_mismatch);
  EXPECT_EQ(code_for({{kind::ptx, "compute_80", ""}}), errc::arch_mismatch);
  EXPECT_EQ(code_for({{kind::cubin, "sm_90a", ""}}), errc::arch_mismatch);
  EXPECT_EQ(code_for({{kind::hsaco, "gfx942", ""}}), errc::arch_mismatch);
  EXPECT_EQ(code_for({{kind::cpu_so, "riscv64", ""}}), errc::arch_mismatch);
  EXPECT_EQ(code_for({{kind::nvvm_bitcode, "nvvm70", ""}}), errc::unsupported);
  EXPECT_EQ(code_for({{kind::rocdl_bitcode, "gfx942", ""}}), errc::unsupported);
  EXPECT_EQ(code_for({{kind::cubin, "sm_90", ""}, {kind::nvvm_bitcode, "nvvm70", ""}}),
            errc::unsupported);
  const byte_vector mixed = fatbin_of({{kind::ptx, "compute_80", ""},
                                       {kind::cpu_so, base_level(), "probe_two"},
                                       {kind::rocdl_bitcode, "gfx942", ""}});
  const auto module = or_throw(load_module(mixed));
  EXPECT_EQ(number_from(*module), 2);
  ASSERT_EQ(module->sections().size(), 3U);
  EXPECT_EQ(module->sections()[0].kind, kind::ptx);
  EXPECT_FALSE(module->sections()[0].selected);
  EXPECT_TRUE(module->sections()[1].selected);
}

TEST(Loader, WantsEveryKernelToRunHere) {
  fatbin_builder b;
  kernel_record here = probe_kernel();
  here.targets = 1;
  kernel_record elsewhere = probe_kernel();
  elsewhere.name = "elsewhere";
  elsewhere.targets = 2;
  ASSERT_TRUE(b.add_kernel(here));
  ASSERT_TRUE(b.add_kernel(elsewhere));
  const byte_vector code = probe("probe_one");
  b.add_code(section_kind::cpu_so, base_level(), code);
  b.add_code(section_kind::ptx, "compute_80", as_view("x"));
  EXPECT_EQ(code_of(or_throw(b.build())), errc::arch_mismatch);
}

TEST(Loader, LoadsAModuleOfHintsAlone) {
  fatbin_builder b;
  b.add_plan({1, 0, "dp", 2, 0, 1 << 20, 0, 0});
  b.set_policy({});
  const auto module = or_throw(load_module(or_throw(b.build())));
  EXPECT_TRUE(module->kernels().empty());
  EXPECT_EQ(module->plans().size(), 1U);
  EXPECT_TRUE(module->policy());
}

TEST(Loader, RefusesSharedObjectsThatDisagreeWithTheContainer) {
  EXPECT_EQ(code_of(fatbin_of_probe("probe_bytes")), errc::invalid_argument);
  EXPECT_EQ(code_of(fatbin_of_probe("probe_flags")), errc::invalid_argument);
  EXPECT_EQ(code_of(fatbin_of_probe("probe_short")), errc::invalid_argument);
  EXPECT_EQ(code_of(fatbin_of_probe("probe_bare")), errc::invalid_argument);
  EXPECT_EQ(code_of(fatbin_of_probe("")), errc::invalid_argument);
  EXPECT_EQ(code_of(fatbin_of_probe("probe_major")), errc::unsupported_version);
  EXPECT_EQ(code_of(fatbin_of_probe("probe_minor")), errc::unsupported_version);
  kernel_record k = probe_kernel();
  k.symbol = "other";  // the module has no entry with this name
  k.parameters = {};
  k.flags = 0;
  EXPECT_EQ(code_of(fatbin_of({{section_kind::cpu_so, base_level(), "probe_one"}}, k)),
            errc::invalid_argument);
}

/// A registered kernel that stores 7.
int store_seven(const tessBlockContext*, const void* args) {
  **static_cast<int* const*>(args) = 7;
  return 0;
}

TEST(Loader, TakesRegisteredFunctionsWhereThereIsNoCode) {
  host_kernel own;
  own.name = "store_number";
  own.entry = reinterpret_cast<kernel_entry>(store_seven);
  own.parameters = probe_kernel().parameters;
  own.flags = TESS_KERNEL_DETERMINISTIC;
  const byte_vector image = fatbin_of(
      {{section_kind::cpu_registered, "", ""}, {section_kind::ptx, "compute_80", ""}});
  EXPECT_EQ(code_of(image), errc::arch_mismatch);
  ASSERT_TRUE(register_host_kernel(own));
  EXPECT_EQ(register_host_kernel(own).error().code(), errc::already_exists);
  EXPECT_EQ(number_in(image), 7);
  const byte_vector both = fatbin_of({{section_kind::cpu_registered, "", ""},
                                      {section_kind::cpu_so, base_level(), "probe_two"}});
  EXPECT_EQ(number_in(both), 2);
  ASSERT_TRUE(unregister_host_kernel("store_number"));
  EXPECT_EQ(unregister_host_kernel("store_number").error().code(), errc::not_found);
  own.parameters.push_back(scalar_parameter("n", 9));
  ASSERT_TRUE(register_host_kernel(own));
  EXPECT_EQ(code_of(image), errc::invalid_argument);
  ASSERT_TRUE(unregister_host_kernel("store_number"));
  own = {"9", own.entry, {}, 0};
  EXPECT_FALSE(register_host_kernel(own));
  own = {"nine", nullptr, {}, 0};
  EXPECT_FALSE(register_host_kernel(own));
  own = {"nine", reinterpret_cast<kernel_entry>(store_seven), {}, 64};
  EXPECT_FALSE(register_host_kernel(own));
  EXPECT_FALSE(find_host_kernel("nine"));
}

TEST(Loader, WantsSignaturesThatCountWhereTheyAreRequired) {
  const key_pair ours = test::test_keys(1);
  const key_pair theirs = test::test_keys(2);
  const std::vector<probe_section> sections{
      {section_kind::cpu_so, base_level(), "probe_one"}};
  const byte_vector bare = fatbin_of(sections);
  const byte_vector by_us = fatbin_of(sections, probe_kernel(), &ours.secret);
  const byte_vector by_them = fatbin_of(sections, probe_kernel(), &theirs.secret);
  load_options options;
  EXPECT_EQ(or_throw(load_module(by_us, options))->signature(), signature_state::valid);
  options.trust.keys = {ours.open};
  EXPECT_EQ(or_throw(load_module(by_us, options))->signature(), signature_state::trusted);
  EXPECT_EQ(or_throw(load_module(by_them, options))->signature(), signature_state::valid);
  EXPECT_EQ(code_of(bare, options), errc{});
  options.trust.required = true;
  EXPECT_EQ(code_of(by_us, options), errc{});
  EXPECT_EQ(code_of(by_them, options), errc::invalid_argument);
  EXPECT_EQ(code_of(bare, options), errc::invalid_argument);
  options.trust.keys = {};
  EXPECT_EQ(code_of(by_us, options), errc::invalid_argument);
}

// The dynamic linker identifies objects by name. Code is loaded through /proc/self/fd, so
// a descriptor number that is used again gives the same name to other code.
TEST(Loader, RunsTheCodeOfTheRightModuleWhenDescriptorsAreUsedAgain) {
  const byte_vector one = fatbin_of_probe("probe_one");
  const byte_vector two = fatbin_of_probe("probe_two");
  const byte_vector stays = fatbin_of_probe("probe_stays");
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 3; ++round) {
    auto first = or_throw(load_module(one));
    auto second = or_throw(load_module(two));
    EXPECT_EQ(number_from(*first), 1);
    EXPECT_EQ(number_from(*second), 2);
    first.reset();
    const auto third = or_throw(load_module(two));
    EXPECT_EQ(number_from(*third), 2);
    const auto fourth = or_throw(load_module(one));
    EXPECT_EQ(number_from(*fourth), 1);
    EXPECT_EQ(number_from(*second), 2);
  }
  EXPECT_EQ(open_descriptors(), before);
  // The name of code that cannot be unloaded stays in use.
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(number_in(stays), 3);
    EXPECT_EQ(number_in(one), 1);
    EXPECT_EQ(number_in(two), 2);
  }
}

TEST(Loader, LeavesNothingBehindAfterManyLoads) {
  const byte_vector image = fatbin_of_probe("probe_one");
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(number_in(image), 1);
  }
  const byte_vector bare = fatbin_of_probe("probe_bare");
  const byte_vector empty = fatbin_of_probe("");
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(code_of(bare), errc{});
    ASSERT_NE(code_of(empty), errc{});
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Loader, LoadsFromTheCacheWhereMemoryIsNoPlaceForCode) {
  const temp_folder folder;
  cache_options where;
  where.folder = folder / "cache";
  const auto cache = or_throw(module_cache::open(where));
  load_options options;
  options.from_files = true;
  const byte_vector image = fatbin_of_probe("probe_two");
  EXPECT_EQ(code_of(image, options), errc::unsupported);
  options.cache = cache.get();
  EXPECT_EQ(number_in(image, options), 2);
  EXPECT_EQ(cache->stats().writes, 1U);
  EXPECT_EQ(number_in(image, options), 2);
  EXPECT_EQ(cache->stats().writes, 1U);
  EXPECT_EQ(number_in(fatbin_of_probe("probe_one"), options), 1);
  EXPECT_EQ(cache->stats().entries, 2U);
}

TEST(Loader, LoadsOneEntryOfTheCacheManyTimesAtOnce) {
  const temp_folder folder;
  cache_options where;
  where.folder = folder / "cache";
  const auto cache = or_throw(module_cache::open(where));
  load_options options;
  options.from_files = true;
  options.cache = cache.get();
  const byte_vector one = fatbin_of_probe("probe_one");
  const byte_vector two = fatbin_of_probe("probe_two");
  auto first = or_throw(load_module(one, options));
  const auto second = or_throw(load_module(one, options));
  const auto other = or_throw(load_module(two, options));
  first.reset();
  const auto third = or_throw(load_module(one, options));
  const auto from_memory = or_throw(load_module(two));
  EXPECT_EQ(number_from(*second), 1);
  EXPECT_EQ(number_from(*third), 1);
  EXPECT_EQ(number_from(*other), 2);
  EXPECT_EQ(number_from(*from_memory), 2);
}

TEST(Loader, HealsADamagedEntryUnlessItIsStrict) {
  const temp_folder folder;
  cache_options where;
  where.folder = folder / "cache";
  const byte_vector image = fatbin_of_probe("probe_two");
  load_options options;
  options.from_files = true;
  for (const bool strict : {true, false}) {
    where.strict = strict;
    const auto cache = or_throw(module_cache::open(where));
    options.cache = cache.get();
    ASSERT_TRUE(cache->clear());
    ASSERT_EQ(number_in(image, options), 2);
    for (const auto& entry : std::filesystem::directory_iterator(where.folder)) {
      std::filesystem::resize_file(entry.path(), 1000);
    }
    ::unsetenv("WEIR_PROBE_RAN");
    if (strict) {
      EXPECT_EQ(code_of(image, options), errc::cache_corrupt);
      EXPECT_EQ(::getenv("WEIR_PROBE_RAN"), nullptr);
    } else {
      EXPECT_EQ(number_in(image, options), 2);
      EXPECT_EQ(cache->stats().quarantined, 1U);
    }
  }
}

TEST(Loader, LoadsOnManyThreads) {
  const byte_vector one = fatbin_of_probe("probe_one");
  const byte_vector two = fatbin_of_probe("probe_two");
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const int wanted = (t + i) % 2 + 1;
        const auto module = load_module(wanted == 1 ? one : two);
        if (!module || number_from(**module) != wanted) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(CpuLevel, NamesEveryLevelBelowTheHighest) {
  const auto& levels = host_levels();
  ASSERT_FALSE(levels.empty());
  if (base_level() == "x86-64-v1") {
    for (std::size_t i = 0; i < levels.size(); ++i) {
      EXPECT_EQ(levels[i], "x86-64-v" + std::to_string(levels.size() - i));
    }
#if defined(__x86_64__)
    EXPECT_EQ(levels.size() >= 3, __builtin_cpu_supports("avx2") &&
                                      __builtin_cpu_supports("fma") &&
                                      __builtin_cpu_supports("bmi2"));
#endif
  }
  EXPECT_EQ(host_levels_up_to(""), levels);
  EXPECT_EQ(host_levels_up_to(base_level()), std::vector<std::string>{base_level()});
  EXPECT_TRUE(host_levels_up_to("x86-64-v9").empty());
}

}  // namespace
}  // namespace weir::tessera
