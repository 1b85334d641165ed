// SPDX-License-Identifier: Apache-2.0
/// @file
/// Comparisons of declarations at compile time: ours with those of a header of NVIDIA.
#pragma once

#include <type_traits>

namespace weir::tessera::cuda {

/// True if two parameters are passed in the same way and mean the same kind of thing:
/// numbers of equal size, enumerations of equal size, pointers to such.
template <class Ours, class Theirs>
constexpr bool same_parameter() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_const_v<A> != std::is_const_v<B>) {
      return false;
    } else if constexpr (std::is_function_v<A> || std::is_function_v<B>) {
      return std::is_same_v<A, B>;
    } else if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
      return std::is_void_v<A> == std::is_void_v<B>;
    } else if constexpr (std::is_class_v<A> && std::is_class_v<B>) {
      return true;  // structures are compared below, member by member
    } else {
      return same_parameter<std::remove_cv_t<A>, std::remove_cv_t<B>>();
    }
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

/// True if two functions return `Outcome` and `TheirOutcome`, and take the same
/// parameters.
template <class Ours, class Theirs, class Outcome, class TheirOutcome>
struct same_signature : std::false_type {};
template <class... Ours, class... Theirs, class Outcome, class TheirOutcome>
requires(sizeof...(Ours) == sizeof...(Theirs)) struct same_signature<
    Outcome (*)(Ours...), TheirOutcome (*)(Theirs...), Outcome, TheirOutcome>
    : std::bool_constant<(same_parameter<Ours, Theirs>() && ...)> {
};

/// True if two enumerators have the same number.
template <class Ours, class Theirs>
constexpr bool same_number(Ours ours, Theirs theirs) {
  return sizeof(Ours) == sizeof(Theirs) &&
         static_cast<long long>(ours) == static_cast<long long>(theirs);
}
}  // namespace weir::tessera::cuda
