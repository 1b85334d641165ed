// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches and copies without an order between them are reported, whatever runs the
/// kernels: an executor that tells each access, or one whose accesses are taken from the
/// pointer arguments.
#include <atomic>
#include <future>

#include "conformance/conformance_kernels.hpp"
#include "tessera/cuda/support.hpp"

namespace weir::tessera::stand_in {
namespace {

using conformance::kernel_form;
using cuda::status;

/// The unchanged functions, and whether the end of work is not waited for.
cuda::driver_api waited_for;
std::atomic<bool> hasty{false};

constexpr std::int32_t array_length = 64;
constexpr std::size_t array_bytes = array_length * sizeof(std::int32_t);

/// A device on which `reverse` has read one array and written another. The backend takes
/// the kernel for ended without having asked, so nothing orders later work behind it.
class hasty_device {
 public:
  explicit hasty_device(kernel_form form) {
    const auto listed = std::make_shared<listed_executor>(conformance_list());
    const bool functions = form == kernel_form::functions;
    std::shared_ptr<kernel_executor> executor = listed;
    if (!functions) {
      executor = conformance::kernel_executor_of(form);
    }
    set_up(machine{}, executor);
    changed_ = or_throw(cuda::load_driver(WEIR_STAND_IN_DRIVER));
    waited_for = changed_.api;
    changed_.api.event_query = [](cuda::event_handle e) {
      if (hasty) {
        settle();  // the mistake does no harm
        return status::success;
      }
      return waited_for.event_query(e);
    };
    cuda_options options = stand_in_options();
    options.driver = &changed_;
    rig_ = std::make_unique<rig>(
        machine{}, options, executor,
        functions ? listed->container("8.0") : conformance::conformance_container());
    in = or_throw(rig_->backend().allocate(0, array_bytes));
    out = or_throw(rig_->backend().allocate(0, array_bytes));
    or_throw(rig_->backend().pin_host(host(), array_bytes));
    copy(copy_kind::host_to_device, in);
    copy(copy_kind::host_to_device, out);
    launch();
  }
  /// Returns what was reported, and ends the device in order.
  std::vector<breach> end() {
    std::vector<breach> found = take_breaches();
    hasty = false;
    // Work in each stream, whose end is waited for.
    perform(copy_work{copy_kind::device_to_device, out, in, array_bytes, 0, 0});
    copy(copy_kind::host_to_device, in);
    copy(copy_kind::device_to_host, in);
    (void)take_breaches();
    for (std::byte* const p : {in, out}) {
      EXPECT_TRUE(rig_->backend().free(0, p));
    }
    rig_->backend().unpin_host(host(), array_bytes);
    rig_->close();
    return found;
  }
  /// Copies numbers to an array of the device, or from it.
  void copy(copy_kind kind, std::byte* array) {
    const bool down = kind == copy_kind::host_to_device;
    perform(
        copy_work{kind, down ? array : host(), down ? host() : array, array_bytes, 0, 0});
  }

  std::byte* in = nullptr;   ///< is read by the kernel
  std::byte* out = nullptr;  ///< is written by the kernel

 private:
  std::byte* host() { return reinterpret_cast<std::byte*>(host_.data()); }
  void perform(const device_work& work) {
    std::promise<result<void>> ended;
    rig_->backend().submit(work, [&](result<void> r) { ended.set_value(std::move(r)); });
    EXPECT_TRUE(ended.get_future().get());
  }
  void launch() {
    const struct {
      const std::byte* in;
      std::byte* out;
    } args{in, out};
    grid_launch launch;
    launch.code = rig_->kernel("reverse");
    launch.grid = {array_length / 16, 1, 1};
    launch.block = {16, 1, 1};
    launch.shared_bytes = 16 * sizeof(std::int32_t);
    launch.args = std::as_bytes(std::span(&args, 1));
    EXPECT_TRUE(take_breaches().empty());
    hasty = true;
    perform(grid_work{launch, 0, launch.blocks()});
  }

  cuda::driver changed_;
  std::vector<std::int32_t> host_ = std::vector<std::int32_t>(array_length);
  std::unique_ptr<rig> rig_;
};

constexpr kernel_form all_forms[] = {kernel_form::functions, kernel_form::sources,
                                     kernel_form::ptx};

TEST(CudaOrder, AReadOfWhatAnUnorderedLaunchWritesIsReportedWithBothOperations) {
  for (const kernel_form form : all_forms) {
    hasty_device device(form);
    device.copy(copy_kind::device_to_host, device.out);
    const std::vector<breach> found = device.end();
    ASSERT_EQ(found.size(), 1U) << static_cast<int>(form);
    EXPECT_EQ(found[0].rule, "access_order");
    for (const char* const part :
         {"reverse in stream", " writes [", "cuMemcpyDtoHAsync in stream", " reads ["}) {
      EXPECT_NE(found[0].text.find(part), std::string::npos) << found[0].text;
    }
  }
}

TEST(CudaOrder, AWriteOfWhatAnUnorderedLaunchReadsIsReported) {
  for (const kernel_form form : all_forms) {
    hasty_device device(form);
    device.copy(copy_kind::host_to_device, device.in);
    const std::vector<breach> found = device.end();
    ASSERT_EQ(found.size(), 1U) << static_cast<int>(form);
    EXPECT_EQ(found[0].rule, "access_order");
    EXPECT_NE(found[0].text.find("reverse in stream"), std::string::npos)
        << found[0].text;
  }
}

TEST(CudaOrder, TwoReadersNeedNoOrder) {
  for (const kernel_form form : all_forms) {
    hasty_device device(form);
    device.copy(copy_kind::device_to_host, device.in);
    const std::vector<breach> found = device.end();
    EXPECT_TRUE(found.empty()) << static_cast<int>(form) << ": " << found[0].text;
  }
}

TEST(CudaOrder, WhatTheSourcesWriteIsWhatTheTableOfParametersSays) {
  const auto sources = conformance::kernel_executor_of(kernel_form::sources);
  const byte_vector image = conformance::conformance_container();
  const fatbin container = or_throw(parse_fatbin(image));
  const module_id module = or_throw(sources->load(container.code[0].bytes));
  for (const kernel_record& record : container.kernels) {
    const function_facts facts = or_throw(sources->find(module, record.name));
    for (std::size_t i = 0; i < record.parameters.size(); ++i) {
      const kernel_parameter& p = record.parameters[i];
      const pointer_use use = p.kind != parameter_kind::pointer ? pointer_use::none
                              : p.direction == parameter_direction::in
                                  ? pointer_use::reads
                                  : pointer_use::writes;
      EXPECT_EQ(facts.parameters[i].use, use) << record.name << " " << p.name;
    }
  }
}

}  // namespace
}  // namespace weir::tessera::stand_in
