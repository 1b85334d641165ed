// SPDX-License-Identifier: Apache-2.0
/// @file
/// The stage `elementwise`: one operation on every element of a tensor.
///
/// A tensor is cut into parts of `elements_of_task` elements, each with a task and
/// accesses of its own, so that a later stage can begin with the first part. The operands
/// become numbers of the element type when a task is submitted.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "stages/element_kernels.hpp"
#include "stages/factories.hpp"
#include "stages/number_types.hpp"

namespace weir::flow {
namespace {

using op = element_operation;

/// Elements of one task. A task of a later stage can begin when the task of the same
/// elements has ended, so large tensors have several.
constexpr std::int64_t elements_of_task = std::int64_t{1} << 16;
/// Integers up to this number are exact as a number of a setting.
constexpr double largest_exact = 9007199254740992.0;

/// See the table.
struct elementwise_settings {
  op operation = op::add;
  std::string type;
  double operand = 0;
  double low = 0;
  double high = 0;
  std::string to;
};

/// Operations and their names, in the order of the enumeration.
const std::vector<std::pair<const char*, op>>& operations() {
  static const std::vector<std::pair<const char*, op>> all = {
      {"add", op::add},         {"subtract", op::subtract}, {"multiply", op::multiply},
      {"divide", op::divide},   {"negate", op::negate},     {"absolute", op::absolute},
      {"minimum", op::minimum}, {"maximum", op::maximum},   {"relu", op::relu},
      {"clamp", op::clamp},     {"convert", op::convert}};
  return all;
}

/// Name of an operation.
std::string_view text_of_op(op operation) {
  return operations()[static_cast<std::size_t>(operation)].first;
}

/// Which operands an operation needs is checked afterwards.
settings_table<elementwise_settings> elementwise_table() {
  settings_table<elementwise_settings> table("the stage elementwise");
  table.add("op", &elementwise_settings::operation, operations(),
            "operation on each element");
  // The type of the setting is that of the inlet, and of the outlet unless elements are
  // converted.
  table.add("type", &elementwise_settings::type, "type of the tensors, such as f32[n,4]")
      .required()
      .rule("that is a type of a port whose element type is " + number_types_text(),
            [](const std::string& text) {
              const auto type = port_type::parse(text);
              return type && type->element && is_number_type(*type->element);
            });
  table.add("operand", &elementwise_settings::operand,
            "second operand of add, subtract, multiply, divide, minimum and maximum");
  table.add("low", &elementwise_settings::low, "smallest result of clamp");
  table.add("high", &elementwise_settings::high, "largest result of clamp");
  table.add("to", &elementwise_settings::to, "element type of the results of convert")
      .rule("that is empty or " + number_types_text(), [](const std::string& text) {
        return text.empty() || number_type_named(text).has_value();
      });
  return table;
}

/// Returns the names of the settings that an operation needs.
/// All others take `operand`.
std::vector<std::string_view> needed_by(op operation) {
  switch (operation) {
    case op::negate:
    case op::absolute:
    case op::relu: return {};
    case op::clamp: return {"low", "high"};
    case op::convert: return {"to"};
    default: return {"operand"};
  }
}

/// An operation has exactly the operands that it needs.
/// @param given  Settings that the user has set.
result<void> check_operands(const elementwise_settings& s, const given_settings& given) {
  const auto needed = needed_by(s.operation);
  for (const std::string_view name : {"operand", "low", "high", "to"}) {
    // A setting that is given and has no use is refused as well.
    const bool needs = std::find(needed.begin(), needed.end(), name) != needed.end();
    if (needs != (given.find(name) != given.end())) {
      return error(errc::invalid_argument,
                   fmt::format("cannot make the stage elementwise: expected {} setting "
                               "\"{}\" for the operation {}, found {}",
                               needs ? "the" : "no", name, text_of_op(s.operation),
                               needs ? "none" : "one"));
    }
  }
  // Equal ends are allowed: every element becomes the same number.
  if (s.operation == op::clamp && s.low > s.high) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make the stage elementwise: expected low up to high, "
                    "found low = {} and high = {}",
                    s.low, s.high));
  }
  return {};
}

/// An operand of integers is an integer of their type.
/// Numbers of settings are real numbers, so integers above 2^53 cannot be given.
result<void> check_number(dtype type, std::string_view name, double value,
                          bool may_be_zero) {
  const bool fits = with_number_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      // The number is an integer, small enough to be exact, and in the range of the type.
      return std::floor(value) == value && std::abs(value) <= largest_exact &&
             value >= static_cast<double>(std::numeric_limits<T>::min()) &&
             value <= static_cast<double>(std::numeric_limits<T>::max()) &&
             (may_be_zero || value != 0);
    } else {
      return true;
    }
  });
  // Floating-point types take every number, rounded.
  if (!fits) {
    return error(
        errc::invalid_argument,
        fmt::format("cannot make the stage elementwise: expected \"{}\" to be an "
                    "integer of {}{}, found {}",
                    name, port_text(type), may_be_zero ? "" : " other than 0", value));
  }
  return {};
}

/// Returns a part of a row-major tensor as a tensor of one dimension.
result<runtime::tensor> part_of(const runtime::tensor& t, std::int64_t begin,
                                std::int64_t count) {
  // A tensor of one dimension has the same bytes in the same order.
  const std::int64_t shape[] = {count};
  return runtime::tensor::over(t.store(), t.type(), shape,
                               t.offset() + begin * info_of(t.type()).size);
}

/// Has no state.
class elementwise final : public stage_object {
 public:
  elementwise(const elementwise_settings& settings, dtype from, dtype to)
      : settings_(settings), from_(from), to_(to) {}

  /// Submits a task per part.
  result<void> on_item(step& s) override {
    const runtime::tensor x = s[any_in{0}];
    WEIR_TRY(const runtime::tensor y, s.make_bytes(0, to_, x.shape()));
    // The last part may have fewer elements.
    for (std::int64_t begin = 0; begin < x.count(); begin += elements_of_task) {
      const std::int64_t count = std::min(elements_of_task, x.count() - begin);
      WEIR_TRY(const auto from, part_of(x, begin, count));
      WEIR_TRY(const auto to, part_of(y, begin, count));
      WEIR_CHECK(submit(s, from, to));
    }
    return s.emit();
  }

 private:
  /// Submits the task of one part.
  [[nodiscard]] result<void> submit(step& s, const runtime::tensor& from,
                                    const runtime::tensor& to) const {
    const runtime::access accesses[] = {runtime::reads(from), runtime::writes(to)};
    const std::byte* source = from.data();
    // The kernel is chosen by the element type, once for each part.
    return with_number_type(from_, [&](auto x) -> result<void> {
      using T = decltype(x);
      if (settings_.operation == op::convert) {
        return with_number_type(to_, [&](auto y) {
          return s.submit_bytes(
              "convert", accesses,
              convert_kernel<T, decltype(y)>{source, to.data(), to.count()});
        });
      }
      // Unused operands are 0, which every type has.
      const bool clamps = settings_.operation == op::clamp;
      return s.submit_bytes(
          "elementwise", accesses,
          element_kernel<T>{source, to.data(), to.count(), settings_.operation,
                            static_cast<T>(clamps ? settings_.low : settings_.operand),
                            static_cast<T>(settings_.high)});
    });
  }

  elementwise_settings settings_;
  dtype from_;
  dtype to_;
};

/// Further paragraphs of the reference of `elementwise`.
constexpr std::string_view elementwise_details =
    R"(Large tensors are computed by several tasks.

An operation needs exactly its operands; others are refused. Operands of integer types
are integers of the type, up to 2^53; the divisor of integers is not 0. Results are
exact, so they have the same bits everywhere: floating-point numbers follow IEEE 754
with one rounding, integers are computed modulo their range, and division of integers
rounds towards zero. NaN passes through minimum, maximum, relu and clamp. `convert`
takes integers modulo the range of the result; from floating-point numbers to integers
it rounds towards zero and takes the nearest end of the range, and 0 for NaN.)";

/// A small pipeline with `elementwise`.
constexpr std::string_view elementwise_example = R"([[stage]]
name = "numbers"
use = "generator"
count = 6
shape = [4]

[[stage]]
name = "scale"
use = "elementwise"
op = "multiply"
type = "f32[n]"
operand = 0.5

[[stage]]
name = "sink"
use = "tgm.write"
path = "out.tgm"
)";

}  // namespace

/// Checks the operands against the operation and against the type.
result<void> make_elementwise(described_stage& made, const given_settings& given) {
  made.info.name = "elementwise";
  made.info.documentation = "applies one exact operation to every element of a tensor";
  made.info.stateless = true;
  made.info.details = elementwise_details;
  made.info.example = elementwise_example;
  WEIR_TRY(const elementwise_settings settings,
           read_settings(made.info, elementwise_table(), given));
  WEIR_CHECK(check_operands(settings, given));
  WEIR_TRY(port_type x, port_type::parse(settings.type));
  const dtype from = *x.element;
  // A divisor of 0 would be undefined for integers.
  const bool divides = settings.operation == op::divide;
  WEIR_CHECK(check_number(from, "operand", settings.operand, !divides));
  WEIR_CHECK(check_number(from, "low", settings.low, true));
  WEIR_CHECK(check_number(from, "high", settings.high, true));
  port_type y = x;
  // Only `convert` changes the element type.
  if (settings.operation == op::convert) {
    y.element = number_type_named(settings.to);
  }
  const dtype to = *y.element;
  made.info.ports = {{"x", std::move(x), true}, {"y", std::move(y), false}};
  made.object = std::make_unique<elementwise>(settings, from, to);
  return {};
}

}  // namespace weir::flow
