// SPDX-License-Identifier: Apache-2.0
/// @file
/// A plain function as a stage: one task for each item.
/// @threads{a stage is called by one thread at a time; its function runs in tasks,
/// several of which may run at the same time}
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "weir/pipeline/stage_object.hpp"

namespace weir::flow {

/// The parameters of a function from one view to another.
template <class F>
struct map_signature;
/// The parameters of a plain function.
template <class A, int RankA, class B, int RankB>
struct map_signature<void (*)(view<A, RankA>, view<B, RankB>)> {
  using from = std::remove_const_t<A>;     ///< element type of the inlet
  using to = B;                            ///< element type of the outlet
  static constexpr int from_rank = RankA;  ///< dimensions of the inlet
  static constexpr int to_rank = RankB;    ///< dimensions of the outlet
};
/// The parameters of a function object.
template <class C, class A, int RankA, class B, int RankB>
struct map_signature<void (C::*)(view<A, RankA>, view<B, RankB>) const>
    : map_signature<void (*)(view<A, RankA>, view<B, RankB>)> {};
/// The type that names the parameters of a function object.
template <class F>
struct map_function {
  using type = decltype(&F::operator());  ///< the call of the object
};
/// The type that names the parameters of a plain function.
template <class R, class... As>
struct map_function<R (*)(As...)> {
  using type = R (*)(As...);  ///< the function itself
};
/// A function from a view of const elements to a view of elements.
template <class F>
concept mappable = requires {
  typename map_signature<typename map_function<F>::type>::from;
};
/// The parameters of a function or function object.
template <class F>
using map_parameters = map_signature<typename map_function<F>::type>;

/// Checks the types of a map stage and describes it.
/// @error{invalid_argument, a type does not fit to the function, or an extent of `to` is
/// neither fixed nor a letter of `from`}
[[nodiscard]] result<stage_info> describe_map(std::string_view from, dtype from_element,
                                              int from_rank, std::string_view to,
                                              dtype to_element, int to_rank);
/// Sets `to` to the shape of the outlet for a shape of the inlet.
void map_shape(const stage_info& info, std::span<const std::int64_t> from,
               std::vector<std::int64_t>& to);

/// A function as a stage.
template <class Function>
class map_stage final : public stage_object {
 public:
  /// Makes the stage. @param info Of `describe_map`.
  map_stage(stage_info info, Function function)
      : info_(std::move(info)), function_(std::move(function)) {}
  result<void> on_item(step& s) override {
    using types = map_parameters<Function>;
    const auto x = s[in<typename types::from, types::from_rank>{0}];
    map_shape(info_, x.bytes().shape(), shape_);
    auto made = s.make_bytes(0, dtype_of<typename types::to>, shape_);
    if (!made) {
      return std::move(made.error());
    }
    s.submit("map", function_, read(x),
             write(tensor<typename types::to, types::to_rank>(*made)));
    return s.emit();
  }

 private:
  stage_info info_;
  Function function_;
  /// Shape of the newest item. Its memory is kept, so that an item needs no allocation.
  std::vector<std::int64_t> shape_;
};

/// Makes a stage of a function from a view of const elements to a view of elements.
/// @error{invalid_argument, see `describe_map`}
template <class Function>
[[nodiscard]] result<described_stage> make_map_stage(std::string_view from,
                                                     std::string_view to,
                                                     Function function) {
  static_assert(mappable<Function>,
                "a map stage is a function `void(view<const A, m>, view<B, n>)`");
  using types = map_parameters<Function>;
  auto info = describe_map(from, dtype_of<typename types::from>, types::from_rank, to,
                           dtype_of<typename types::to>, types::to_rank);
  if (!info) {
    return std::move(info.error());
  }
  described_stage made;
  made.info = *info;
  made.object =
      std::make_unique<map_stage<Function>>(std::move(*info), std::move(function));
  return made;
}

}  // namespace weir::flow
