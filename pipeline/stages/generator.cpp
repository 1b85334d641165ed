// SPDX-License-Identifier: Apache-2.0
/// @file
/// A source whose items depend on their numbers and on a seed alone.
///
/// The source needs no file, so examples and tests begin with it. Item n can be made
/// without those before it, which makes its cursor a single number.
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "stages/factories.hpp"
#include "stages/number_types.hpp"
#include "weir/base/philox.hpp"

namespace weir::flow {
namespace {

/// What the elements are.
enum class content : std::uint8_t { index, philox };

/// See the table.
struct generator_settings {
  std::uint64_t count = 1000;
  std::vector<std::int64_t> shape = {1};
  std::string element = "f32";
  content kind = content::index;
  std::uint64_t seed = 1;
};

/// The product of the extents is checked when an item is made.
settings_table<generator_settings> generator_table() {
  settings_table<generator_settings> table("the generator");
  table.add("count", &generator_settings::count, "number of items").unit("items");
  // An empty list of extents is a scalar.
  table
      .add("shape", &generator_settings::shape,
           "extents of each item, the slowest dimension first; none for a scalar")
      .range(0, std::int64_t{1} << 40)
      .count(0, runtime::max_dims);
  table
      .add("element", &generator_settings::element,
           "type of the elements, such as f32 or u8")
      .rule(number_types_text(),
            [](const std::string& text) { return number_type_named(text).has_value(); });
  table.add("kind", &generator_settings::kind,
            {{"index", content::index}, {"philox", content::philox}},
            "index: elements count on from item to item; philox: random numbers");
  table.add("seed", &generator_settings::seed, "seed of random numbers");
  return table;
}

/// Elements count on over all items: element i of item n is n * size + i. A type that
/// cannot hold the number takes it modulo its range, or rounds it to nearest.
/// The numbers wrap around after 2^64 elements.
struct fill_with_indices {
  mutable_bytes to;
  std::uint64_t first;
  template <class T>
  void operator()(T /*type*/) const {
    for (std::size_t i = 0; i < to.size() / sizeof(T); ++i) {
      // The cast takes integers modulo the range of the type.
      const auto element = static_cast<T>(first + i);
      std::memcpy(to.data() + i * sizeof(T), &element, sizeof(T));
    }
  }
};

/// Integers have all values of their type; floating-point numbers lie in [0, 1).
/// A random number of an element is a function of seed, item and element.
struct fill_with_random {
  mutable_bytes to;
  philox numbers;
  template <class T>
  void operator()(T /*type*/) const {
    for (std::size_t i = 0; i < to.size() / sizeof(T); ++i) {
      T element{};
      if constexpr (std::is_floating_point_v<T>) {
        // A number in [0, 1) from 24 bits, as the reference says.
        element = static_cast<T>(numbers.uniform(i));
      } else {
        element = static_cast<T>(numbers.bits(i));
      }
      std::memcpy(to.data() + i * sizeof(T), &element, sizeof(T));
    }
  }
};

/// Its only state is the number of the next item.
class generator final : public stage_object {
 public:
  generator(generator_settings settings, dtype element)
      : settings_(std::move(settings)), element_(element) {}

  /// Fills the next item.
  result<bool> next(pull& p) override {
    // The number of items is a setting, so the source knows its end.
    if (next_ >= settings_.count) {
      return false;
    }
    // The shape of all items is the same.
    WEIR_TRY(const runtime::tensor x, p.fill_bytes(0, element_, settings_.shape));
    const auto count = static_cast<std::uint64_t>(x.count());
    const mutable_bytes to(x.data(), count * info_of(element_).size);
    // The first element of an item follows from its number.
    if (settings_.kind == content::index) {
      with_number_type(element_, fill_with_indices{to, next_ * count});
    } else {
      with_number_type(element_, fill_with_random{to, philox(settings_.seed, next_)});
    }
    ++next_;
    return true;
  }
  /// The number of the next item.
  [[nodiscard]] small_record position() const override {
    return small_record::holding(next_);
  }
  /// A cursor behind the last item belongs to a source with more items.
  result<void> seek(bytes_view cursor) override {
    if (cursor.size() != sizeof next_) {
      return error(errc::corrupt,
                   fmt::format("cannot use the stored cursor of a generator: expected {} "
                               "bytes, found {}",
                               sizeof next_, cursor.size()));
    }
    // The record of a cursor has a fixed size.
    std::uint64_t next = 0;
    std::memcpy(&next, cursor.data(), sizeof next);
    if (next > settings_.count) {
      return error(errc::position_out_of_bounds,
                   fmt::format("cannot continue a generator: expected an item up to {}, "
                               "found {}",
                               settings_.count, next));
    }
    // Items need nothing of those before them.
    next_ = next;
    return {};
  }

 private:
  generator_settings settings_;
  dtype element_;
  std::uint64_t next_ = 0;
};

/// Further paragraphs of the reference of `generator`.
constexpr std::string_view generator_details =
    R"(Outlet `x` has the type of the settings.

`index`: element i of item n is n times the size of an item plus i, modulo the range
of an integer type, rounded to the nearest floating-point number. `philox`: element i
of item n is random number i of stream n of the seed: all values of an integer type,
or a multiple of 2^-24 in [0, 1). The cursor is the number of the next item.)";

/// A small pipeline with `generator`.
constexpr std::string_view generator_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 100
shape = [16, 4]
kind = "philox"

[[stage]]
name = "sink"
use = "null"
)";

}  // namespace

/// The type of the outlet follows from the settings.
result<void> make_generator(described_stage& made, const given_settings& given) {
  made.info.name = "generator";
  made.info.documentation =
      "makes items whose elements depend on the number of the item and a seed alone";
  made.info.face = face::source;
  made.info.details = generator_details;
  made.info.example = generator_example;
  WEIR_TRY(generator_settings settings,
           read_settings(made.info, generator_table(), given));
  port_type type;
  // The rule of the setting has accepted it already.
  type.element = number_type_named(settings.element);
  // Every extent is fixed, so the pools of the outlet have fixed sizes.
  for (const std::int64_t extent_of_item : settings.shape) {
    type.shape.push_back({extent::kind::fixed, extent_of_item, '?'});
  }
  const dtype element = *type.element;
  made.info.ports = {{"x", std::move(type), false}};
  made.object = std::make_unique<generator>(std::move(settings), element);
  return {};
}

}  // namespace weir::flow
