// SPDX-License-Identifier: Apache-2.0
/// @file
/// How hosts call a stage: an exception of the stage becomes an error, and every error
/// names the stage, and the item if there is one. The code of the stage's error is kept.
/// @threads{the thread of the stage's host}
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

/// Calls a function that returns a `result`. An exception becomes an error of the code
/// `kernel_failed`, or `out_of_memory` for `std::bad_alloc`.
template <class Function>
[[nodiscard, gnu::always_inline]] inline auto guarded(Function&& call_stage)
    -> decltype(call_stage()) {
  try {
    return call_stage();
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "cannot allocate memory for a stage");
  } catch (const std::exception& e) {
    return error(errc::kernel_failed, std::string("a stage has thrown: ") + e.what());
  } catch (...) {
    return error(errc::kernel_failed,
                 "a stage has thrown an object that is no std::exception");
  }
}

/// Returns the error of an item: `cannot process item <seq> in stage "<name>"`.
[[nodiscard]] error item_error(const std::string& stage, std::uint64_t seq, error cause);

/// Lets a source fill an item. If the source is joined with others, the item gets the
/// position behind it, too. @error{kernel_failed, the stage has thrown. An error of the
/// stage keeps its code}
[[nodiscard]] result<bool> call_next(stage_object& stage, const std::string& name,
                                     blank& item);
/// Lets a blocking stage make an item of another. `execution::give_back` adds stage and
/// item to the error. @error{kernel_failed, see `call_next`}
[[nodiscard]] result<void> call_on_ready(stage_object& stage, exchange& item);
/// Lets a sink write an item. @error{kernel_failed, see `call_next`}
[[nodiscard]] result<void> call_put(stage_object& stage, const std::string& name,
                                    taken& item);
/// Lets a sink make its items durable. @error{kernel_failed, see `call_next`}
[[nodiscard]] result<small_record> call_settle(stage_object& stage,
                                               const std::string& name);

}  // namespace weir::flow
