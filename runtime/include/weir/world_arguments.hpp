// SPDX-License-Identifier: Apache-2.0
/// @file
/// The arguments of a task of a world: their accesses for the engine, their views for the
/// kernel, and the identity by which equal tasks are recognised.
#pragma once

#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "weir/runtime/world.hpp"
#include "weir/tiles.hpp"

namespace weir {

/// Properties of the arguments of tasks of a world: `is_part` of a world tensor, `writes`
/// for arguments that a kernel may write, `one_access` for those with one box of bytes.
template <class Argument>
struct world_argument;
/// Properties of a number that all ranks have.
template <class T, int Rank, runtime::access_mode Mode>
struct world_argument<argument<T, Rank, Mode>> {
  static constexpr bool is_part = false;    ///< it has no owner
  static constexpr bool one_access = true;  ///< it is one box
  /// True if the kernel may write it.
  static constexpr bool writes = !argument<T, Rank, Mode>::reads_only;
};
/// Properties of a part of a world tensor.
template <class T, int Rank, runtime::access_mode Mode>
struct world_argument<tile_argument<T, Rank, Mode>>
    : world_argument<argument<T, Rank, Mode>> {
  static constexpr bool is_part = true;  ///< it has an owner
};
/// Properties of a part over the edges.
template <class T, int Rank>
struct world_argument<wrapped_part<T, Rank>> {
  static constexpr bool is_part = true;      ///< it has an owner
  static constexpr bool one_access = false;  ///< it is several boxes
  static constexpr bool writes = false;      ///< it is for reading
};

/// Functions over the arguments of a task of a world. @threads{pure}
struct world_arguments {
  /// Returns an argument as an engine knows it.
  template <class T, int Rank, runtime::access_mode Mode>
  static const auto& plain_of(const argument<T, Rank, Mode>& a) {
    return a;
  }
  /// Returns a part of a world tensor as an engine knows it.
  template <class T, int Rank, runtime::access_mode Mode>
  static const auto& plain_of(const tile_argument<T, Rank, Mode>& a) {
    return a.plain;
  }
  /// Returns the accesses of all arguments. Only parts over the edges need an allocation.
  template <class... Argument>
  static auto accesses_of(const Argument&... arguments) {
    if constexpr ((world_argument<Argument>::one_access && ...)) {
      return std::array<runtime::access, sizeof...(Argument)>{
          plain_of(arguments).access()...};
    } else {
      std::vector<runtime::access> all;
      (add_accesses(all, arguments), ...);
      return all;
    }
  }
  /// Adds the bytes that a kernel declares by an argument, where views are checked.
  template <class Declared, class Argument>
  static void declare(std::vector<Declared>& out, const Argument& a) {
    if constexpr (world_argument<Argument>::one_access) {
      out.push_back({plain_of(a).operand.bytes(),
                     std::remove_cvref_t<decltype(plain_of(a))>::reads_only});
    } else {
      for (const auto& piece : a.pieces) {
        out.push_back({piece.bytes(), true});
      }
    }
  }
  /// Returns the view that the kernel gets for an argument. `owner` names the task in
  /// messages.
  template <class Argument>
  static auto view_of(view_owner owner, const Argument& a) {
    if constexpr (world_argument<Argument>::one_access) {
      return plain_of(a).elements(owner);
    } else {
      return a.elements;
    }
  }
  /// Returns the function that calls a kernel with the views of its arguments. It returns
  /// `result<void>`, also if the kernel returns nothing.
  template <class Kernel, class... Argument>
  static auto call_of(const char* name, Kernel kernel, const Argument&... arguments) {
    return call_by_index(name, std::move(kernel), std::index_sequence_for<Argument...>(),
                         arguments...);
  }
  /// Calls `submit(kernel, keep)` with a kernel of a task that calls `call`: one that
  /// captures the function itself if it is small, or else an object that the task keeps.
  template <class Call, class Submit>
  static auto submit_call(Call call, const Submit& submit) {
    if constexpr (std::is_trivially_copyable_v<Call> &&
                  sizeof(Call) <= runtime::world::max_capture) {
      return submit([call](const runtime::task_context&) { return call(); },
                    runtime::world::kept_object());
    } else {
      const auto stored = std::make_shared<Call>(std::move(call));
      Call* const own = stored.get();
      return submit([own](const runtime::task_context&) { return (*own)(); },
                    runtime::world::kept_object(stored));
    }
  }
  /// Returns the identity of a task, see `runtime::kernel_identity`.
  template <class Kernel, class... Argument>
  static std::uint64_t identity_of(const Kernel& kernel, const Argument&... arguments) {
    runtime::kernel_identity identity(kernel);
    (add_view(identity, arguments), ...);
    return identity.value();
  }

 private:
  template <class Kernel, std::size_t... I, class... Argument>
  static auto call_by_index(const char* name, Kernel kernel, std::index_sequence<I...>,
                            const Argument&... arguments) {
    return with_declared_bytes(
        name,
        [kernel = std::move(kernel),
         ... views = view_of(view_owner{name, static_cast<int>(I)},
                             arguments)]() -> result<void> {
          if constexpr (std::is_void_v<decltype(kernel(views...))>) {
            kernel(views...);
            return {};
          } else {
            return kernel(views...);
          }
        },
        [&](auto& out) { (declare(out, arguments), ...); });
  }
  template <class Argument>
  static void add_accesses(std::vector<runtime::access>& all, const Argument& a) {
    all.push_back(plain_of(a).access());
  }
  template <class T, int Rank>
  static void add_accesses(std::vector<runtime::access>& all,
                           const wrapped_part<T, Rank>& a) {
    for (const tensor<T, Rank>& piece : a.pieces) {
      all.push_back(runtime::reads(piece.bytes()));
    }
  }
  template <class Argument>
  static void add_view(runtime::kernel_identity& identity, const Argument& a) {
    if constexpr (world_argument<Argument>::one_access) {
      const runtime::tensor& bytes = plain_of(a).operand.bytes();
      identity.add(reinterpret_cast<std::uintptr_t>(bytes.data()));
      identity.add(std::as_bytes(bytes.shape()));
      identity.add(std::as_bytes(bytes.strides()));
    } else {
      static_assert(std::has_unique_object_representations_v<decltype(a.elements)>);
      identity.add(std::as_bytes(std::span(&a.elements, 1)));
    }
  }
};

}  // namespace weir
