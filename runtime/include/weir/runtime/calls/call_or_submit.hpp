// SPDX-License-Identifier: Apache-2.0
/// @file
/// Submission of tasks whose kernels may be called at once instead.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weir/runtime/calls/direct_calls.hpp"
#include "weir/weir.hpp"

namespace weir {

namespace detail {
/// Largest number of accesses of a kernel without typed views that is called directly.
inline constexpr std::size_t max_borrowed = 8;

template <class T, int Rank, runtime::access_mode Mode>
runtime::borrowed_access borrowed(const argument<T, Rank, Mode>& a) {
  return {&a.operand.bytes().bytes(), Mode};
}
/// Submits a kernel that fails, so that the failure of a call has a task.
template <class... Argument>
runtime::task_id submit_failure(engine& e, const char* name, error cause,
                                const Argument&... arguments) {
  return e.submit(
      name, [cause = std::move(cause)](const auto&...) -> result<void> { return cause; },
      arguments...);
}
/// Submits a kernel without typed views that fails, so that the failure of a call has a
/// task. Kernels of this layer own nothing, so the task has a pointer to the error and
/// frees it. It runs for certain: no task before it is in flight or has failed, since
/// calls are not allowed otherwise.
inline result<runtime::task_id> submit_failure_bytes(
    runtime::engine& e, const char* name, std::span<const runtime::access> accesses,
    error cause) {
  auto owned = std::make_unique<error>(std::move(cause));
  auto id =
      e.submit(name, accesses,
               [failure = owned.get()](const runtime::task_context&) -> result<void> {
                 const std::unique_ptr<error> last(failure);
                 return std::move(*last);
               });
  if (id) {
    static_cast<void>(owned.release());
  }
  return id;
}
}  // namespace detail

/// Does what `engine::submit` does. If `calls` permits it, the kernel has been called
/// when the function returns, and no task was submitted. Returns the number of the task,
/// or 0.
/// @error{not_found; thrown: the memory of a tensor was freed}
/// @threads{the submitter of the engine}
template <class Kernel, class... Argument>
runtime::task_id call_or_submit(runtime::direct_calls& calls, engine& e, const char* name,
                                Kernel kernel, const Argument&... arguments) {
  if constexpr ((requires { detail::borrowed(arguments); } && ...)) {
    const std::array<runtime::borrowed_access, sizeof...(Argument)> accesses{
        detail::borrowed(arguments)...};
    int next = 0;
    auto call = with_accesses(
        name,
        [&]() -> result<void> {
          const auto run = [&](const auto&... views) -> result<void> {
            if constexpr (std::is_void_v<decltype(kernel(views...))>) {
              kernel(views...);
              return {};
            } else {
              return kernel(views...);
            }
          };
          return std::apply(run, std::tuple{arguments.elements({name, next++})...});
        },
        arguments...);
    auto called = calls.call(accesses, call);
    if (!called) {
      return detail::submit_failure(e, name, std::move(called.error()), arguments...);
    }
    if (*called) {
      return 0;
    }
  }
  return e.submit(name, std::move(kernel), arguments...);
}

/// Does what `call_or_submit` does for accesses without types. A kernel that is called
/// with a `task_context` is submitted; one that is called without arguments may be
/// called. Both may return `result<void>` to fail.
/// @error{not_found; a stale storage id} @error{out_of_range; more accesses than fit}
/// @threads{the submitter of the engine}
template <class Kernel>
[[nodiscard]] result<runtime::task_id> call_or_submit_bytes(
    runtime::direct_calls& calls, engine& e, const char* name,
    std::span<const runtime::access> accesses, const Kernel& kernel) {
  if constexpr (!std::is_invocable_v<const Kernel&>) {
    return e.base().submit(name, accesses, kernel);
  } else {
    std::array<runtime::borrowed_access, detail::max_borrowed> borrowed{};
    const std::size_t count = std::min(accesses.size(), borrowed.size());
    for (std::size_t i = 0; i < count; ++i) {
      borrowed[i] = {&accesses[i].bytes, accesses[i].mode};
    }
    if (count == accesses.size()) {
      auto called = calls.call(std::span(borrowed).first(count), [&]() -> result<void> {
        if constexpr (std::is_void_v<std::invoke_result_t<const Kernel&>>) {
          kernel();
          return {};
        } else {
          return kernel();
        }
      });
      if (!called) {
        return detail::submit_failure_bytes(e.base(), name, accesses,
                                            std::move(called.error()));
      }
      if (*called) {
        return runtime::task_id{0};
      }
    }
    return e.base().submit(name, accesses,
                           [kernel](const runtime::task_context&) { return kernel(); });
  }
}

}  // namespace weir
