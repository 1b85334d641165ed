// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `reduce`: one tensor of several, in a fixed order.
///
/// The order is a balanced tree over the index: 0 with 1, 2 with 3 and so on, then the
/// results in the same way; one that has no partner goes up as it is. A tree of n leaves
/// is therefore a tree of the largest power of two below n, combined with one of the
/// rest.
///
/// Floating-point sums depend on their order. This order depends on nothing but the
/// number of leaves, so the result has the same bits whatever the workers do.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "stages/element_kernels.hpp"
#include "stages/factories.hpp"
#include "stages/number_types.hpp"

namespace weir::flow {
namespace {

/// Operation that combines two elements.
enum class reduction : std::uint8_t { sum, mean, minimum, maximum };
/// What is combined with each other.
enum class reduced : std::uint8_t { items, lanes };
/// What happens to a last group of fewer items.
enum class last_group : std::uint8_t { keep, drop };

/// See the table.
struct reduce_settings {
  std::string type;
  reduction operation = reduction::sum;
  reduced over = reduced::items;
  std::uint32_t size = 2;
  last_group last = last_group::keep;
};

/// A mean needs real numbers, which is checked with the type.
settings_table<reduce_settings> reduce_table() {
  settings_table<reduce_settings> table("the stage reduce");
  table
      .add("type", &reduce_settings::type,
           "type of the result and of each tensor from which it is made, such as f32[4]")
      .required()
      .rule("that is a type of a port with elements " + number_types_text() +
                " and at most 7 extents, all of them numbers",
            [](const std::string& text) {
              const auto type = port_type::parse(text);
              return type && type->bytes() && is_number_type(*type->element) &&
                     type->shape.size() < runtime::max_dims;
            });
  table.add("op", &reduce_settings::operation,
            {{"sum", reduction::sum},
             {"mean", reduction::mean},
             {"min", reduction::minimum},
             {"max", reduction::maximum}},
            "sum; mean, of f32 and f64; min or max, NaN if one is NaN");
  table.add("over", &reduce_settings::over,
            {{"items", reduced::items}, {"lanes", reduced::lanes}},
            "items: consecutive items; lanes: the slowest dimension of one item");
  table.add("size", &reduce_settings::size, "consecutive items that make one")
      .range(1, 4096)
      .unit("items");
  table.add("last", &reduce_settings::last,
            {{"keep", last_group::keep}, {"drop", last_group::drop}},
            "treatment of the last group of items if it is shorter");
  return table;
}

/// Combines two elements. Sums of integers are computed modulo their range.
/// A NaN wins against every number, on both sides.
template <class T>
T combined(reduction operation, T x, T y) {
  switch (operation) {
    case reduction::sum:
    case reduction::mean: return arithmetic<T>::add(x, y);
    // `x != x` is true for NaN alone.
    case reduction::minimum: return x != x ? x : (y != y || y < x ? y : x);
    case reduction::maximum: return x != x ? x : (y != y || x < y ? y : x);
  }
  return x;
}

/// Returns the number of leaves of the left part of a tree.
/// Example: of 5 leaves the left part has 4, of 8 leaves 4. @pre `leaves` is at least 2.
std::size_t left_part(std::size_t leaves) {
  return std::bit_floor(leaves - 1);
}

/// Combines two tensors of elements. Divides by `divisor` if it is not 0.
/// Only the last step of a mean divides.
template <class T>
struct pair_kernel {
  const std::byte* a;
  const std::byte* b;
  std::byte* to;
  std::int64_t count;
  reduction operation;
  std::uint64_t divisor;

  void operator()() const {
    const T* x = reinterpret_cast<const T*>(a);  // NOLINT: slots are aligned to 64
    const T* y = reinterpret_cast<const T*>(b);  // NOLINT
    T* z = reinterpret_cast<T*>(to);             // NOLINT
    for (std::int64_t i = 0; i < count; ++i) {
      z[i] = combined(operation, x[i], y[i]);
    }
    // The divisor is the number of tensors in all.
    if (divisor != 0) {
      for (std::int64_t i = 0; i < count; ++i) {
        z[i] = static_cast<T>(z[i] / static_cast<T>(divisor));
      }
    }
  }
};

/// Combines the lanes of one tensor.
/// It works on blocks of elements, so that the intermediate results of a tree fit on the
/// stack: one block for each level.
template <class T>
struct lanes_kernel {
  /// Elements of a block.
  static constexpr std::int64_t block = 128;
  static constexpr int max_depth = 64;
  const std::byte* from;
  std::byte* to;
  std::int64_t lanes;
  std::int64_t count;  ///< elements of a lane
  reduction operation;

  void operator()() const {
    T* z = reinterpret_cast<T*>(to);  // NOLINT: slots are aligned to 64
    for (std::int64_t begin = 0; begin < count; begin += block) {
      // The last block may be narrower.
      const std::int64_t width = std::min(block, count - begin);
      tree(0, static_cast<std::size_t>(lanes), begin, width, z + begin);
      for (std::int64_t i = 0; operation == reduction::mean && i < width; ++i) {
        z[begin + i] = static_cast<T>(z[begin + i] / static_cast<T>(lanes));
      }
    }
  }
  /// Combines `leaves` lanes from `lane` on, for `width` elements from `begin` on. The
  /// depth is the logarithm of the number of lanes.
  void tree(std::size_t lane, std::size_t leaves, std::int64_t begin, std::int64_t width,
            T* out) const {
    // A leaf is a part of one lane.
    if (leaves == 1) {
      const T* x = reinterpret_cast<const T*>(from);  // NOLINT
      std::copy_n(x + static_cast<std::int64_t>(lane) * count + begin, width, out);
      return;
    }
    const std::size_t left = left_part(leaves);
    // The left part uses the output, the right part a block of its own.
    std::array<T, static_cast<std::size_t>(block)> right;
    tree(lane, left, begin, width, out);
    tree(lane + left, leaves - left, begin, width, right.data());
    for (std::int64_t i = 0; i < width; ++i) {
      out[i] = combined(operation, out[i], right[static_cast<std::size_t>(i)]);
    }
  }
};

/// Over items. The intermediate tensors of the tree belong to the stage and are no state,
/// because every call fills them anew.
class reduce_items final : public stage_object {
 public:
  reduce_items(const reduce_settings& settings, const port_type& type)
      : settings_(settings), element_(*type.element) {
    for (const extent& one : type.shape) {
      shape_.push_back(one.number);
    }
  }

  /// Makes a tensor for each level of the tree.
  result<void> open(opening& run) override {
    std::int64_t count = 1;
    for (const std::int64_t one : shape_) {
      count *= one;
    }
    WEIR_TRY(const std::int64_t bytes, byte_size(element_, count));
    // A tree of n leaves has at most as many levels as n has bits.
    const auto levels = static_cast<std::size_t>(std::bit_width(settings_.size));
    for (std::size_t i = 0; bytes != 0 && i < levels; ++i) {
      WEIR_TRY(const runtime::storage memory,
               run.host().base().allocate(bytes, "reduce"));
      WEIR_TRY(levels_.emplace_back(),
               runtime::tensor::over(memory, element_, shape_, 0));
    }
    return {};
  }
  /// Submits the tasks of the tree; the last one writes the result.
  result<void> on_item(step& s) override {
    // The flow collects the items of a call; the last call may have fewer.
    if (s.count() < settings_.size && settings_.last == last_group::drop) {
      return {};
    }
    WEIR_TRY(const runtime::tensor to, s.make_bytes(0, element_, shape_));
    if (to.count() != 0) {
      const std::size_t leaves = s.count();
      // The two largest parts are combined last, into the item.
      const std::size_t left = leaves == 1 ? 1 : left_part(leaves);
      WEIR_TRY(const runtime::tensor a, tree(s, 0, left, 0));
      if (leaves == 1) {
        WEIR_CHECK(copy(s, a, to));
      } else {
        WEIR_TRY(const runtime::tensor b, tree(s, left, leaves - left, 1));
        WEIR_CHECK(
            pair(s, a, b, to, settings_.operation == reduction::mean ? leaves : 0));
      }
    }
    return s.emit();
  }

 private:
  /// Submits the tasks of a tree. Its result is an item, or is in the tensor of a level.
  /// The left part may use the tensor of its level, because the right part begins one
  /// level above; the task that combines both reads it before it is written again.
  result<runtime::tensor> tree(step& s, std::size_t first, std::size_t leaves,
                               std::size_t level) {
    if (leaves == 1) {
      return s.input(any_in{0}, first);
    }
    // The left part has the largest power of two below the number of leaves.
    const std::size_t left = left_part(leaves);
    WEIR_TRY(const runtime::tensor a, tree(s, first, left, level));
    WEIR_TRY(const runtime::tensor b, tree(s, first + left, leaves - left, level + 1));
    WEIR_CHECK(pair(s, a, b, levels_[level], 0));
    return levels_[level];
  }
  /// Submits the task that combines two tensors. `to` may be one of them.
  result<void> pair(step& s, const runtime::tensor& a, const runtime::tensor& b,
                    const runtime::tensor& to, std::uint64_t divisor) {
    // Accesses order the task behind those that write both tensors.
    const runtime::access accesses[] = {runtime::reads(a), runtime::reads(b),
                                        runtime::writes(to)};
    return with_number_type(element_, [&](auto zero) {
      return s.submit_bytes(
          "reduce", accesses,
          pair_kernel<decltype(zero)>{a.data(), b.data(), to.data(), to.count(),
                                      settings_.operation, divisor});
    });
  }
  /// A single item is copied.
  static result<void> copy(step& s, const runtime::tensor& from,
                           const runtime::tensor& to) {
    const runtime::access accesses[] = {runtime::reads(from), runtime::writes(to)};
    WEIR_TRY(const std::int64_t bytes, byte_size(to.type(), to.count()));
    return s.submit_bytes("reduce", accesses,
                          [source = from.data(), target = to.data(), bytes] {
                            std::memcpy(target, source, static_cast<std::size_t>(bytes));
                          });
  }

  reduce_settings settings_;
  dtype element_;
  /// Of the result.
  std::vector<std::int64_t> shape_;
  /// A tensor for each level of the tree; empty if items have no bytes.
  std::vector<runtime::tensor> levels_;
};

/// Over the slowest dimension of one item, in one task.
class reduce_lanes final : public stage_object {
 public:
  explicit reduce_lanes(reduction operation) : operation_(operation) {}

  result<void> on_item(step& s) override {
    const runtime::tensor from = s[any_in{0}];
    // There is no result of no lanes.
    if (from.shape()[0] == 0) {
      return error(errc::invalid_argument,
                   "cannot reduce lanes: expected at least one, found none");
    }
    WEIR_TRY(const runtime::tensor to,
             s.make_bytes(0, from.type(), from.shape().subspan(1)));
    if (to.count() != 0) {
      // The result is written by one task, because the tree is inside the kernel.
      const runtime::access accesses[] = {runtime::reads(from), runtime::writes(to)};
      WEIR_CHECK(with_number_type(from.type(), [&](auto zero) {
        return s.submit_bytes(
            "reduce lanes", accesses,
            lanes_kernel<decltype(zero)>{from.data(), to.data(), from.shape()[0],
                                         to.count(), operation_});
      }));
    }
    return s.emit();
  }

 private:
  reduction operation_;
};

/// Further paragraphs of the reference of `reduce`.
constexpr std::string_view reduce_details =
    R"(The order is a balanced tree over the index: 0 with 1, 2 with 3 and so on, then
these results in the same way; one without a partner goes up as it is. It is the order
of the collectives, does not depend on workers or windows, and fixes every bit. Sums of
integers are computed modulo their range. A mean is the sum divided by the number of
tensors.

Over items: each `size` consecutive items make one with a number of its own; gaps are
left out. The result has the attributes of the first item. Over lanes: inlet `x` has one
more slowest dimension, whose elements are the lanes, the numbers stay, and there is no
state.)";

/// A small pipeline with `reduce`.
constexpr std::string_view reduce_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 10
shape = [4]

[[stage]]
name = "mean"
use = "reduce"
type = "f32[4]"
op = "mean"
size = 5

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// The two forms differ in ports and numbering.
result<void> make_reduce(described_stage& made, const given_settings& given) {
  made.info.name = "reduce";
  made.info.documentation =
      "makes the sum, mean, minimum or maximum of items, or of the lanes of an item";
  made.info.details = reduce_details;
  made.info.example = reduce_example;
  WEIR_TRY(const reduce_settings settings,
           read_settings(made.info, reduce_table(), given));
  WEIR_TRY(const port_type type, port_type::parse(settings.type));
  // A mean of integers would have to be rounded.
  const bool real = *type.element == dtype::fp32 || *type.element == dtype::fp64;
  if (settings.operation == reduction::mean && !real) {
    return error(errc::invalid_argument,
                 fmt::format("cannot make the stage reduce: expected f32 or f64 for a "
                             "mean, found {}",
                             port_text(*type.element)));
  }
  // Over items: a call takes `size` items and makes one.
  if (settings.over == reduced::items) {
    made.info.ports = {{"x", type, true}, {"y", type, false}};
    made.info.takes = settings.size;
    made.info.own_numbering = true;
    made.object = std::make_unique<reduce_items>(settings, type);
    return {};
  }
  // Over lanes: the inlet has one more dimension.
  port_type lanes = type;
  lanes.shape.insert(lanes.shape.begin(), extent{});
  made.info.ports = {{"x", std::move(lanes), true}, {"y", type, false}};
  made.info.stateless = true;
  made.object = std::make_unique<reduce_lanes>(settings.operation);
  return {};
}

}  // namespace weir::flow
