// SPDX-License-Identifier: Apache-2.0
/// @file
/// Modules with machine code: the section of the device's own architecture is loaded,
/// with all of its bytes.
#include <cstring>
#include <future>

#include "conformance/conformance_kernels.hpp"
#include "tessera/cuda/support.hpp"
#include "weir/base/file.hpp"

namespace weir::tessera::stand_in {
namespace {

/// Returns an ELF file of 64 bits with a section for the code of each kernel and one for
/// the names. Like machine code of a device, it has zeros at many places.
std::string machine_code_of(const std::vector<std::string>& kernels) {
  std::string names(1, '\0');
  for (const std::string& kernel : kernels) {
    names += ".text." + kernel + '\0';
  }
  constexpr std::size_t header = 64;
  const std::size_t sections = (header + names.size() + 7) / 8 * 8;
  std::string file(sections + 2 * header, '\0');
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    std::memcpy(file.data() + at, &value, size);
  };
  file.replace(0, 4,
               "\x7f"
               "ELF");
  put(4, 2, 1);          // 64 bits
  put(40, sections, 8);  // table of sections
  put(58, header, 2);    // size of an entry
  put(60, 2, 2);         // number of entries
  file.replace(header, names.size(), names);
  put(sections + header + 4, 3, 4);  // a table of texts
  put(sections + header + 24, header, 8);
  put(sections + header + 32, names.size(), 8);
  return file;
}

/// Passes code on, and remembers what it got.
class remembering_executor final : public kernel_executor {
 public:
  result<module_id> load(std::span<const std::byte> image) override {
    loaded.assign(reinterpret_cast<const char*>(image.data()), image.size());
    return sources_->load(image);
  }
  void unload(module_id module) noexcept override { sources_->unload(module); }
  result<function_facts> find(module_id module, std::string_view name) override {
    return sources_->find(module, name);
  }
  result<launch_report> launch(const launch_request& request) override {
    return sources_->launch(request);
  }
  std::string loaded;  ///< the newest code

 private:
  std::shared_ptr<kernel_executor> sources_ =
      conformance::kernel_executor_of(conformance::kernel_form::sources);
};

/// Loads a container on a device of capability 9.0, runs a kernel, and returns the number
/// of the section that was loaded.
std::size_t run_on_sm_90(const byte_vector& image,
                         const std::shared_ptr<kernel_executor>& executor) {
  set_up(machine{}, executor);
  const auto backend = or_throw(make_cuda_backend(stand_in_options()));
  auto module = or_throw(backend->load(or_throw(parse_fatbin(image)), "code.fatbin"));
  std::byte* const memory = or_throw(backend->allocate(0, 64));
  std::int32_t found[4] = {};
  const auto perform = [&](const device_work& work) {
    std::promise<result<void>> ended;
    backend->submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
    EXPECT_TRUE(ended.get_future().get());
  };
  perform(fill_work{memory, 64, 0, 1, {}});
  grid_launch launch;
  launch.code = or_throw(module->kernel("write_indices"));
  launch.grid = {2, 1, 1};
  launch.block = {2, 1, 1};
  launch.args = std::as_bytes(std::span(&memory, 1));
  perform(grid_work{launch, 0, launch.blocks()});
  perform(copy_work{copy_kind::device_to_host, reinterpret_cast<std::byte*>(found),
                    memory, sizeof found, 0, 0});
  for (std::int32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(found[i], i + 1);
  }
  EXPECT_TRUE(backend->free(0, memory));
  const std::size_t section = module->sections().at(0);
  module.reset();
  return section;
}

/// Returns a container with PTX and, behind it, machine code.
byte_vector container_with(std::string_view machine_code, const char* architecture) {
  const byte_vector image = conformance::conformance_container();
  const fatbin plain = or_throw(parse_fatbin(image));
  fatbin_builder builder;
  builder.add_code(section_kind::ptx, "compute_75", plain.code[0].bytes);
  builder.add_code(section_kind::cubin, architecture, as_view(machine_code));
  for (const kernel_record& record : plain.kernels) {
    kernel_record both = record;
    both.targets = 3;
    or_throw(builder.add_kernel(std::move(both)));
  }
  return or_throw(builder.build());
}

std::vector<std::string> names_of_kernels() {
  std::vector<std::string> names;
  const byte_vector image = conformance::conformance_container();
  for (const kernel_record& record : or_throw(parse_fatbin(image)).kernels) {
    names.push_back(record.name);
  }
  return names;
}

TEST(CudaCubin, OfTheDevicesArchitectureIsLoadedWithAllOfItsBytes) {
  const std::string code = machine_code_of(names_of_kernels());
  const auto executor = std::make_shared<remembering_executor>();
  EXPECT_EQ(run_on_sm_90(container_with(code, "sm_90"), executor), 1U);
  EXPECT_EQ(executor->loaded, code);
}

TEST(CudaCubin, OfAnotherArchitectureLeavesTheDeviceItsPtx) {
  const std::string code = machine_code_of(names_of_kernels());
  const auto executor = std::make_shared<remembering_executor>();
  EXPECT_EQ(run_on_sm_90(container_with(code, "sm_100"), executor), 0U);
  EXPECT_TRUE(executor->loaded.find(".entry write_indices(") != std::string::npos);
}

TEST(CudaCubin, WithoutAKernelIsAnErrorThatNamesTheKernel) {
  set_up(machine{}, std::make_shared<remembering_executor>());
  const auto backend = or_throw(make_cuda_backend(stand_in_options()));
  const byte_vector image = container_with(machine_code_of({"reverse"}), "sm_90");
  const auto loaded = backend->load(or_throw(parse_fatbin(image)), "partial.fatbin");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), errc::not_found);
  EXPECT_NE(loaded.error().message().find("write_indices"), std::string::npos)
      << loaded.error().message();
}

/// Returns the architecture of the section that a device of a capability runs, or
/// "none".
std::string chosen_for(std::initializer_list<code_section> sections, int capability) {
  fatbin module;
  module.code = sections;
  const auto chosen = choose_cuda_section(module, capability);
  return chosen ? module.code[*chosen].arch : "none";
}

// @source{CUDA C++ Programming Guide, compute capabilities: features of architectures and
// of families}
TEST(CudaCubin, SuffixesSayWhichDevicesRunTheCode) {
  const auto code = [](section_kind kind, const char* arch) {
    code_section out;
    out.kind = kind;
    out.arch = arch;
    return out;
  };
  const code_section plain = code(section_kind::ptx, "compute_90");
  const code_section exact = code(section_kind::ptx, "compute_90a");
  const code_section family = code(section_kind::ptx, "compute_100f");
  const code_section exact_machine = code(section_kind::cubin, "sm_90a");
  const code_section family_machine = code(section_kind::cubin, "sm_100f");
  EXPECT_EQ(chosen_for({exact}, 90), "compute_90a");
  EXPECT_EQ(chosen_for({exact}, 100), "none");
  EXPECT_EQ(chosen_for({plain, exact}, 100), "compute_90");
  EXPECT_EQ(chosen_for({exact_machine, plain}, 90), "sm_90a");
  EXPECT_EQ(chosen_for({exact_machine}, 91), "none");
  EXPECT_EQ(chosen_for({family}, 103), "compute_100f");
  EXPECT_EQ(chosen_for({family}, 120), "none");
  EXPECT_EQ(chosen_for({plain, family}, 120), "compute_90");
  EXPECT_EQ(chosen_for({family_machine, plain}, 103), "sm_100f");
  EXPECT_EQ(chosen_for({family_machine, plain}, 90), "compute_90");
}

// Machine code as nvcc makes it for WEIR_CUDA_ARCHS, in a container beside the PTX.
TEST(CudaCubin, ThatNvccHasMadeOfTheDemosKernelsIsLoaded) {
  const std::string path = WEIR_CUBIN_FATBIN;
  if (path.empty()) {
    GTEST_SKIP() << "expected nvcc, found none";
  }
  const auto executor = std::make_shared<remembering_executor>();
  set_up(machine{}, executor);
  const auto backend = or_throw(make_cuda_backend(stand_in_options()));
  const byte_vector image = or_throw(read_file(posix_file_system(), path));
  const fatbin container = or_throw(parse_fatbin(image));
  const std::size_t chosen = or_throw(choose_cuda_section(container, 90));
  EXPECT_EQ(container.code[chosen].kind, section_kind::cubin);
  EXPECT_EQ(container.code[chosen].arch, "sm_90");
  // The executor of these tests has other kernels, so the driver finds none of this
  // module.
  const auto loaded = backend->load(container, "demo.fatbin");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), errc::not_found) << loaded.error().message();
  EXPECT_EQ(executor->loaded, as_text(container.code[chosen].bytes));
}

}  // namespace
}  // namespace weir::tessera::stand_in
