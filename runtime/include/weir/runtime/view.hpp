// SPDX-License-Identifier: Apache-2.0
/// @file
/// Typed views of tensors: what a kernel gets of what it has declared. Without NDEBUG, or
/// with WEIR_CHECKED, every access to an element is checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <type_traits>

#include "weir/runtime/running_kernel.hpp"

namespace weir {

#if WEIR_VIEWS_CHECKED
inline namespace checked_views {
#else
inline namespace plain_views {
#endif

/// The last words of a kernel that touches what it has not declared. `byte` counts from
/// the view's first element.
[[noreturn]] inline void touched_outside(const view_owner& owner, std::int64_t index,
                                         int dimension, std::int64_t extent,
                                         std::int64_t byte) {
  std::fprintf(
      stderr,
      "task \"%s\", access %d: expected index %d in [0, %lld), found %lld, which "
      "is byte %lld of its view\n",
      owner.task, owner.access, dimension, static_cast<long long>(extent),
      static_cast<long long>(index), static_cast<long long>(byte));
  std::abort();
}

/// Elements side by side: a `std::span` whose indexes are checked where views are.
template <class T>
class dense_view {
 public:
  dense_view() = default;
  explicit dense_view(std::span<T> all, [[maybe_unused]] view_owner owner = {})
      : all_(all) {
#if WEIR_VIEWS_CHECKED
    owner_ = owner;
#endif
  }

  [[nodiscard]] T& operator[](std::size_t index) const {
#if WEIR_VIEWS_CHECKED
    if (index >= all_.size()) {
      touched_outside(owner_, static_cast<std::int64_t>(index), 0,
                      static_cast<std::int64_t>(all_.size()),
                      static_cast<std::int64_t>(index * sizeof(T)));
    }
    touch(index, 1);
#endif
    return all_[index];
  }
  [[nodiscard]] std::size_t size() const {
    return all_.size();
  }
  [[nodiscard]] bool empty() const {
    return all_.empty();
  }
  [[nodiscard]] T* data() const {
    return all().data();
  }
  [[nodiscard]] auto begin() const {
    return all().begin();
  }
  [[nodiscard]] auto end() const {
    return all_.end();
  }
  /// For functions that take one; nobody checks there.
  operator std::span<T>() const {
    return all();
  }  // NOLINT: implicit on purpose

 private:
  /// For who may reach every element from here on.
  [[nodiscard]] std::span<T> all() const {
#if WEIR_VIEWS_CHECKED
    touch(0, all_.size());
#endif
    return all_;
  }
#if WEIR_VIEWS_CHECKED
  void touch(std::size_t index, std::size_t count) const {
    if (owner_.captured) {
      running_kernel::touch(all_.data() + index, count * sizeof(T), !std::is_const_v<T>,
                            static_cast<std::int64_t>(index * sizeof(T)));
    }
  }
#endif

  std::span<T> all_;
#if WEIR_VIEWS_CHECKED
  view_owner owner_;
#endif
};

/// `Rank` extents and strides over elements of type T, which is const for who only reads.
/// A value; owns nothing.
/// @threads{const; safe to use concurrently}
template <class T, int Rank>
class view {
 public:
  using extents = std::array<std::int64_t, static_cast<std::size_t>(Rank)>;

  view() = default;
  /// Strides count elements.
  view(T* data, const extents& shape, const extents& strides,
       [[maybe_unused]] view_owner owner = {})
      : data_(data), shape_(shape), strides_(strides) {
#if WEIR_VIEWS_CHECKED
    owner_ = owner;
#endif
  }

  [[nodiscard]] std::int64_t extent(int dimension) const {
    return shape_[static_cast<std::size_t>(dimension)];
  }
  /// Elements.
  [[nodiscard]] std::int64_t size() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape_) {
      n *= extent;
    }
    return n;
  }

  /// One element.
  template <class... Index>
  requires(sizeof...(Index) == Rank && (std::is_integral_v<Index> && ...))
      [[nodiscard]] T&
      operator()(Index... index) const {
    const extents at{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      offset += at[i] * strides_[i];
    }
    check(at, offset);
    touch(offset);
    return data_[offset];
  }
  template <class Index>
  requires(Rank == 1 && std::is_integral_v<Index>) [[nodiscard]] T& operator[](
      Index index) const {
    return (*this)(index);
  }
  /// The view of one index of the first dimension.
  template <class Index>
  requires(Rank > 1 && std::is_integral_v<Index>) [[nodiscard]] view<T, Rank - 1>
  operator[](Index index) const {
    const auto first = static_cast<std::int64_t>(index);
    const std::int64_t offset = first * strides_[0];
    extents at{};
    at[0] = first;
    check(at, offset, 1);
    typename view<T, Rank - 1>::extents shape{};
    typename view<T, Rank - 1>::extents strides{};
    for (std::size_t i = 1; i < shape_.size(); ++i) {
      shape[i - 1] = shape_[i];
      strides[i - 1] = strides_[i];
    }
    return view<T, Rank - 1>(data_ + offset, shape, strides, owner());
  }

  /// Elements side by side, in row-major order; empty if they do not lie so.
  [[nodiscard]] dense_view<T> dense() const {
    std::int64_t expected = 1;
    for (std::size_t i = shape_.size(); i-- > 0;) {
      if (shape_[i] != 1 && strides_[i] != expected) {
        return {};
      }
      expected *= shape_[i];
    }
    return dense_view<T>({data_, static_cast<std::size_t>(size())}, owner());
  }
  /// Address of the first element, for who reaches all of them from there.
  [[nodiscard]] T* data() const {
    touch_from(0, 0);
    return data_;
  }

  /// Steps through a view of one dimension.
  class iterator {
   public:
    using value_type = std::remove_const_t<T>;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using pointer = T*;
    using reference = T&;

    iterator() = default;
    iterator(const view& of, std::int64_t index) : of_(of), index_(index) {}
    T& operator*() const { return of_(index_); }
    iterator& operator++() {
      ++index_;
      return *this;
    }
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const iterator& a, const iterator& b) {
      return a.index_ == b.index_;
    }

   private:
    view of_;
    std::int64_t index_ = 0;
  };
  [[nodiscard]] iterator begin() const requires(Rank == 1) {
    return {*this, 0};
  }
  [[nodiscard]] iterator end() const requires(Rank == 1) {
    return {*this, shape_[0]};
  }

 private:
  void check(
      [[maybe_unused]] const extents& at, [[maybe_unused]] std::int64_t offset,
      [[maybe_unused]] std::size_t dimensions = static_cast<std::size_t>(Rank)) const {
#if WEIR_VIEWS_CHECKED
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (at[i] < 0 || at[i] >= shape_[i]) {
        touched_outside(owner_, at[i], static_cast<int>(i), shape_[i],
                        offset * static_cast<std::int64_t>(sizeof(T)));
      }
    }
#endif
  }
  void touch([[maybe_unused]] std::int64_t offset) const {
#if WEIR_VIEWS_CHECKED
    if (owner_.captured) {
      running_kernel::touch(data_ + offset, sizeof(T), !std::is_const_v<T>,
                            offset * static_cast<std::int64_t>(sizeof(T)));
    }
#endif
  }
  /// Every element from a dimension on.
  void touch_from([[maybe_unused]] std::size_t dimension,
                  [[maybe_unused]] std::int64_t offset) const {
#if WEIR_VIEWS_CHECKED
    if (!owner_.captured) {
      return;
    }
    if (dimension == shape_.size()) {
      touch(offset);
      return;
    }
    for (std::int64_t i = 0; i < shape_[dimension]; ++i) {
      touch_from(dimension + 1, offset + i * strides_[dimension]);
    }
#endif
  }
  [[nodiscard]] view_owner owner() const {
#if WEIR_VIEWS_CHECKED
    return owner_;
#else
    return {};
#endif
  }

  T* data_ = nullptr;
  extents shape_{};
  extents strides_{};
#if WEIR_VIEWS_CHECKED
  view_owner owner_;
#endif
};

}  // namespace checked_views or plain_views
}  // namespace weir
