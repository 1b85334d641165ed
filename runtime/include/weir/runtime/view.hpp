// SPDX-License-Identifier: Apache-2.0
/// @file
/// Typed views of tensors, which kernels get for the accesses that they have declared.
/// Without NDEBUG, or with WEIR_CHECKED, every access to an element is checked.
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

/// Prints the task, the access and the index that is out of range, and ends the program.
/// `byte` is the offset from the first element of the view.
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

/// Elements without gaps: a `std::span` whose indices are checked where views are.
/// @threads{const; safe to use concurrently}
template <class T>
class dense_view {
 public:
  /// Makes a view of no elements.
  dense_view() = default;
  /// Makes a view of these elements. `owner` is named in messages.
  explicit dense_view(std::span<T> all, [[maybe_unused]] view_owner owner = {})
      : all_(all) {
#if WEIR_VIEWS_CHECKED
    owner_ = owner;
#endif
  }

  /// Returns one element. An index that is out of range ends the program where views are
  /// checked, and is undefined otherwise.
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
  /// Returns the number of elements.
  [[nodiscard]] std::size_t size() const {
    return all_.size();
  }
  /// Returns true if there is no element.
  [[nodiscard]] bool empty() const {
    return all_.empty();
  }
  /// Returns the address of the first element. Later accesses are not checked.
  [[nodiscard]] T* data() const {
    return all().data();
  }
  /// Returns an iterator to the first element. Later accesses are not checked.
  [[nodiscard]] auto begin() const {
    return all().begin();
  }
  /// Returns the iterator behind the last element.
  [[nodiscard]] auto end() const {
    return all_.end();
  }
  /// Converts to a span, whose accesses are not checked.
  operator std::span<T>() const {
    return all();
  }  // NOLINT: implicit on purpose

 private:
  /// All elements of the view, unchecked from now on.
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

/// A view of `Rank` dimensions with any strides over elements of type `T`, which is const
/// in views for reading. A value; owns nothing.
/// @threads{const; safe to use concurrently}
template <class T, int Rank>
class view {
 public:
  /// One number per dimension.
  using extents = std::array<std::int64_t, static_cast<std::size_t>(Rank)>;

  /// Makes a view of no elements.
  view() = default;
  /// Makes a view of the elements at `data`. @units{shape, strides: elements}
  view(T* data, const extents& shape, const extents& strides,
       [[maybe_unused]] view_owner owner = {})
      : data_(data), shape_(shape), strides_(strides) {
#if WEIR_VIEWS_CHECKED
    owner_ = owner;
#endif
  }

  /// Returns the number of elements along a dimension in [0, Rank).
  [[nodiscard]] std::int64_t extent(int dimension) const {
    return shape_[static_cast<std::size_t>(dimension)];
  }
  /// Returns the number of elements.
  [[nodiscard]] std::int64_t size() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape_) {
      n *= extent;
    }
    return n;
  }

  /// Returns one element, by one index per dimension. An index that is out of range ends
  /// the program where views are checked, and is undefined otherwise.
  template <class... Index>
  requires(sizeof...(Index) == Rank && (std::is_integral_v<Index> && ...))
      [[nodiscard]] T&
      operator()(Index... index) const {
    const extents indices{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < indices.size(); ++i) {
      offset += indices[i] * strides_[i];
    }
    check(indices, offset);
    touch(offset);
    return data_[offset];
  }
  /// Returns one element of a view of one dimension.
  template <class Index>
  requires(Rank == 1 && std::is_integral_v<Index>) [[nodiscard]] T& operator[](
      Index index) const {
    return (*this)(index);
  }
  /// Returns the view of one index of the first dimension.
  template <class Index>
  requires(Rank > 1 && std::is_integral_v<Index>) [[nodiscard]] view<T, Rank - 1>
  operator[](Index index) const {
    const auto first = static_cast<std::int64_t>(index);
    const std::int64_t offset = first * strides_[0];
    extents indices{};
    indices[0] = first;
    check(indices, offset, 1);
    typename view<T, Rank - 1>::extents shape{};
    typename view<T, Rank - 1>::extents strides{};
    for (std::size_t i = 1; i < shape_.size(); ++i) {
      shape[i - 1] = shape_[i];
      strides[i - 1] = strides_[i];
    }
    return view<T, Rank - 1>(data_ + offset, shape, strides, owner());
  }

  /// Returns the elements in row-major order, or an empty view if they do not lie so.
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
  /// Returns the address of the first element. Later accesses are not checked.
  [[nodiscard]] T* data() const {
    touch_from(0, 0);
    return data_;
  }

  /// Iterator over the elements of a view of one dimension.
  class iterator {
   public:
    /// Type of the elements.
    using value_type = std::remove_const_t<T>;
    /// Type of distances.
    using difference_type = std::ptrdiff_t;
    /// Category of the iterator.
    using iterator_category = std::forward_iterator_tag;
    /// Pointer to an element.
    using pointer = T*;
    /// Reference to an element.
    using reference = T&;

    /// Makes an iterator that must not be dereferenced.
    iterator() = default;
    /// Makes an iterator to one element of a view.
    iterator(const view& elements, std::int64_t index)
        : elements_(elements), index_(index) {}
    /// Returns the element.
    T& operator*() const { return elements_(index_); }
    /// Moves to the next element.
    iterator& operator++() {
      ++index_;
      return *this;
    }
    /// Moves to the next element and returns the iterator before.
    iterator operator++(int) {
      iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const iterator& a, const iterator& b) {
      return a.index_ == b.index_;
    }

   private:
    view elements_;
    std::int64_t index_ = 0;
  };
  /// Returns an iterator to the first element.
  [[nodiscard]] iterator begin() const requires(Rank == 1) {
    return {*this, 0};
  }
  /// Returns the iterator behind the last element.
  [[nodiscard]] iterator end() const requires(Rank == 1) {
    return {*this, shape_[0]};
  }

 private:
  void check(
      [[maybe_unused]] const extents& indices, [[maybe_unused]] std::int64_t offset,
      [[maybe_unused]] std::size_t dimensions = static_cast<std::size_t>(Rank)) const {
#if WEIR_VIEWS_CHECKED
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (indices[i] < 0 || indices[i] >= shape_[i]) {
        touched_outside(owner_, indices[i], static_cast<int>(i), shape_[i],
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

/// Returns the elements of a tensor whose type is known only at run time. It has `Rank`
/// dimensions and elements of type `E`, which may be const. `owner` is named in messages.
/// @shape{the extents of the tensor} @threads{pure}
template <class E, int Rank>
[[nodiscard]] view<E, Rank> elements_of(const runtime::tensor& bytes,
                                        view_owner owner = {"no task", 0, true}) {
  typename view<E, Rank>::extents shape{};
  typename view<E, Rank>::extents strides{};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = bytes.shape()[i];
    strides[i] = bytes.strides()[i] / static_cast<std::int64_t>(sizeof(E));
  }
  return {bytes.template as<E>(), shape, strides, owner};
}

}  // namespace checked_views or plain_views
}  // namespace weir
