// SPDX-License-Identifier: Apache-2.0
/// @file
/// Chooses code sections for GPUs, loads them and finds their kernels.
///
/// A section becomes a library of the driver, which all devices share. Each kernel is
/// looked up on every device at once: the driver loads code of a library only then, and
/// it may wait for running kernels while it does.
#include "device/cuda/modules.hpp"

#include <unistd.h>

#include <charconv>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "device/cuda/status_table.hpp"
#include "weir/base/text.hpp"

/// Several devices with the same architecture share one section and one library. Loading
/// reads the code of a module only; parameters and names come from the container, which
/// was checked before.
namespace weir::tessera {
namespace {

/// An architecture such as "sm_90a": its number and its suffix.
struct cuda_arch {
  int number = 0;
  std::string_view suffix;
};

/// Reads a name such as "sm_90a" or "compute_75"; the number is 0 for others. "sm_"
/// names machine code, "compute_" names PTX.
cuda_arch arch_named(std::string_view name) noexcept {
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      cuda_arch found;
      const auto read =
          std::from_chars(name.data(), name.data() + name.size(), found.number);
      found.suffix = name.substr(static_cast<std::size_t>(read.ptr - name.data()));
      return read.ec == std::errc() ? found : cuda_arch{};
    }
  }
  return {};
}

/// Returns true if a device runs a section. Code with the suffix "a" runs on its own
/// version alone, with "f" on later minor versions too.
///
/// Machine code runs on devices of the same major version, PTX on all later ones.
bool runs(const code_section& section, int capability) noexcept {
  const cuda_arch arch = arch_named(section.arch);
  if (arch.number == 0 || arch.number > capability) {
    return false;
  }
  if (arch.suffix == "a") {
    return arch.number == capability;
  }
  const bool same_major = arch.number / 10 == capability / 10;
  if (section.kind == section_kind::cubin || arch.suffix == "f") {
    return same_major;
  }
  return section.kind == section_kind::ptx;
}

}  // namespace

/// Prefers machine code to PTX, and then the highest version. Returns the number of the
/// section in the module.
result<std::size_t> choose_cuda_section(const fatbin& module, int capability) {
  std::optional<std::size_t> best;
  std::string present;
  // A pair is compared from its first member on.
  const auto rank = [&](const code_section& s) {
    return std::pair(s.kind == section_kind::cubin, arch_named(s.arch).number);
  };
  for (std::size_t i = 0; i < module.code.size(); ++i) {
    const code_section& s = module.code[i];
    if (s.kind != section_kind::cubin && s.kind != section_kind::ptx) {
      continue;
    }
    // For the error: all sections for GPUs that the module has.
    present +=
        (present.empty() ? "" : ", ") + std::string(name_of(s.kind)) + " " + s.arch;
    if (runs(s, capability) && (!best || rank(module.code[*best]) < rank(s))) {
      best = i;
    }
  }
  if (!best) {
    return error(errc::arch_mismatch,
                 fmt::format("cannot load the module: expected code for sm_{}, found {}",
                             capability, present.empty() ? "none for GPUs" : present))
        .hint("build the module with PTX for compute_75");
  }
  return *best;
}

namespace cuda {
namespace {

/// A library of the driver, which is unloaded by the destructor.
class loaded_library {
 public:
  loaded_library(device_thread& thread, const driver_api& api, library_handle handle)
      : thread_(&thread), api_(&api), handle_(handle) {}
  // Unloading waits for running kernels, so a thread that must not wait leaves it to the
  // thread of the device.
  ~loaded_library() {
    // A child of `fork` has neither the thread nor the driver of its parent.
    if (::getpid() != owner_) {
      return;
    }
    // The copies of the members live as long as the function needs them.
    const auto unload = [api = api_, handle = handle_]() -> result<void> {
      (void)api->library_unload(handle);
      return {};
    };
    if (no_device_waits::active()) {
      thread_->post([unload] { (void)unload(); });
    } else {
      (void)thread_->call(unload, true);
    }
  }
  loaded_library(const loaded_library&) = delete;
  loaded_library& operator=(const loaded_library&) = delete;
  [[nodiscard]] library_handle get() const noexcept { return handle_; }

 private:
  device_thread* thread_;
  const driver_api* api_;
  library_handle handle_;
  pid_t owner_ = ::getpid();
};

/// Libraries end before the threads that unload them.
class loaded_cuda_module final : public cuda_module {
 public:
  // The result refers to this object, which must live longer.
  [[nodiscard]] result<kernel_code> kernel(std::string_view name) const override {
    const auto found = kernels.find(name);
    if (found == kernels.end()) {
      return error(errc::not_found,
                   fmt::format("cannot find the kernel {}: expected one of the module, "
                               "found none",
                               json_quote(name)));
    }
    const auto& [made, flags] = *found->second;
    // `entry_of` makes the address that a launch passes to the backend.
    return kernel_code{made.name, entry_of(made), flags};
  }
  [[nodiscard]] const std::vector<std::size_t>& sections() const noexcept override {
    return chosen;
  }

  std::vector<std::size_t> chosen;
  std::map<std::size_t, std::unique_ptr<loaded_library>> libraries;
  std::map<std::string, std::unique_ptr<std::pair<device_kernel, std::uint32_t>>,
           std::less<>>
      kernels;
};

/// Loads the bytes of a section. Runs on the thread of a device.
result<library_handle> load_library(const driver& from, const code_section& section,
                                    std::string_view name) {
  const auto* const text = reinterpret_cast<const char*>(section.bytes.data());
  std::string image(text, section.bytes.size());  // PTX has to end with a zero
  if (section.kind == section_kind::ptx) {
    WEIR_CHECK(check_ptx_version(from.version, image, name));
  }
  // The driver writes its reasons here, mostly those of the compiler of PTX.
  std::array<char, 8192> log{};
  std::array options{jit_option::error_log_buffer,
                     jit_option::error_log_buffer_size_bytes};
  std::array<void*, 2> values{log.data(), reinterpret_cast<void*>(log.size())};
  library_handle made = nullptr;
  const status s =
      from.api.library_load(&made, image.c_str(), options.data(), values.data(),
                            static_cast<unsigned>(options.size()), nullptr, nullptr, 0);
  if (s == status::success) {
    return made;
  }
  // The driver may have filled all of it.
  log.back() = '\0';
  std::string_view said(log.data());
  said = said.substr(0, said.find_last_not_of(" \n") + 1);
  return failure_of(from.api, s,
                    fmt::format("load {} {} of module {}", name_of(section.kind),
                                section.arch, name))
      .hint(said.empty() ? "the driver gave no reason"
                         : fmt::format("the driver says: {}", said));
}

/// Compares a kernel's parameters with its record, if the driver tells them. Returns true
/// if it has told that the kernel does not take the facts of its launch.
result<bool> check_parameters(const driver_api& api, kernel_handle kernel,
                              const kernel_record& record) {
  // Older drivers do not tell parameters.
  if (api.kernel_parameter_of == nullptr) {
    return false;
  }
  for (std::size_t i = 0; i < record.parameters.size(); ++i) {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    const status s = api.kernel_parameter_of(kernel, i, &offset, &bytes);
    if (kind_of(s) == status_kind::sticky) {
      return failure_of(api, s, fmt::format("load kernel {}", record.name));
    }
    if (s != status::success || bytes != record.parameters[i].size) {
      return error(
          errc::invalid_argument,
          fmt::format("cannot load kernel {}: expected {} bytes for parameter "
                      "{}, found {} in the code",
                      record.name, record.parameters[i].size, record.parameters[i].name,
                      s == status::success ? bytes : 0));
    }
  }
  // Behind the parameters of the record, a kernel may take the facts of its launch.
  std::size_t offset = 0;
  std::size_t bytes = 0;
  const std::size_t next = record.parameters.size();
  const status more = api.kernel_parameter_of(kernel, next, &offset, &bytes);
  if (more == status::success && bytes != sizeof(launch_facts)) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot load kernel {}: expected {} parameters, or the facts "
                    "of a launch behind them ({} bytes), found {} bytes more",
                    record.name, next, sizeof(launch_facts), bytes));
  }
  // The driver's outcome for a parameter that does not exist.
  return more == status::invalid_value;
}

/// Looks up all kernels on one device. Runs on its thread.
result<void> find_kernels(const driver_api& api, const fatbin& module,
                          loaded_cuda_module& made, std::size_t device) {
  const std::size_t section = made.chosen[device];
  for (const kernel_record& record : module.kernels) {
    // The kernel has no code in this section.
    if ((record.targets >> section & 1) == 0) {
      continue;
    }
    device_kernel& k = made.kernels.at(record.name)->first;
    status s = api.library_kernel(&k.kernels[device], made.libraries.at(section)->get(),
                                  record.symbol.c_str());
    if (s == status::success) {
      WEIR_TRY(const bool without, check_parameters(api, k.kernels[device], record));
      k.without_facts[device] = without ? 1 : 0;
      s = api.kernel_function(&k.functions[device], k.kernels[device]);
    }
    if (s != status::success) {
      return failure_of(api, s, fmt::format("load kernel {}", record.name));
    }
  }
  return {};
}

}  // namespace

/// Fails as a whole if one device has no code that fits.
result<std::unique_ptr<cuda_module>> load_module_on(
    device_family& family, const std::vector<std::unique_ptr<device_thread>>& threads,
    const fatbin& module, std::string_view name) {
  auto made = std::make_unique<loaded_cuda_module>();
  for (const auto& t : threads) {
    // Each device has the section that is best for it.
    WEIR_TRY(const std::size_t chosen, choose_cuda_section(module, t->capability()));
    made->chosen.push_back(chosen);
    if (!made->libraries.contains(chosen)) {
      library_handle handle = nullptr;
      WEIR_CHECK(t->call([&]() -> result<void> {
        WEIR_TRY(handle, load_library(family.from, module.code[chosen], name));
        return {};
      }));
      made->libraries.emplace(
          chosen, std::make_unique<loaded_library>(*t, family.from.api, handle));
    }
  }
  // Places for handles of all devices; the next loop fills them.
  for (const kernel_record& record : module.kernels) {
    auto entry = std::make_unique<std::pair<device_kernel, std::uint32_t>>();
    device_kernel& k = entry->first;
    k.name = record.name;
    k.kernels.resize(threads.size());
    k.functions.resize(threads.size());
    k.shared_limits.resize(threads.size());
    k.without_facts.resize(threads.size());
    for (const kernel_parameter& p : record.parameters) {
      k.places.push_back(p.offset);
    }
    k.argument_bytes = extent_of(record.parameters).used;
    entry->second = record.flags;
    made->kernels.emplace(record.name, std::move(entry));
  }
  // Each device looks up the kernels on its own thread.
  for (std::size_t d = 0; d < threads.size(); ++d) {
    WEIR_CHECK(threads[d]->call(
        [&] { return find_kernels(family.from.api, module, *made, d); }));
  }
  return std::unique_ptr<cuda_module>(std::move(made));
}

}  // namespace cuda
}  // namespace weir::tessera
