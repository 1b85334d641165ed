// SPDX-License-Identifier: Apache-2.0
/// @file
/// Expected results of fills and strided copies.
#include "cases/case_support.hpp"

namespace weir::tessera::test {
namespace {

std::vector<std::uint8_t> counted_bytes(std::size_t n) {
  std::vector<std::uint8_t> out(n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<std::uint8_t>(i * 7 + 3);
  }
  return out;
}

std::string fill_case(const kernel_runner& run, std::uint32_t pattern_bytes,
                      std::size_t count, std::size_t shift) {
  const std::vector<std::uint8_t> pattern = counted_bytes(16);
  std::vector<std::uint64_t> memory((count * pattern_bytes + shift) / 8 + 2, 0);
  auto* bytes = reinterpret_cast<std::uint8_t*>(memory.data());
  std::vector<std::uint8_t> expected(memory.size() * 8);
  for (std::size_t i = 0; i < count * pattern_bytes; ++i) {
    expected[shift + i] = pattern[i % pattern_bytes];
  }
  std::array<std::uint64_t, 2> words{};
  std::memcpy(words.data(), pattern.data(), 16);
  launch_maker m("weir_fill", {2, 1, 1}, {5, 1, 1});
  m.number(bytes + shift).number(static_cast<std::int64_t>(count));
  m.number(words[0]).number(words[1]).number(pattern_bytes).reachable(memory);
  const std::string fault = run(m.made());
  if (!fault.empty()) {
    return fault;
  }
  return difference(std::vector<std::uint8_t>(bytes, bytes + expected.size()), expected);
}

std::string copy_case(const kernel_runner& run, std::uint32_t element_bytes,
                      std::int64_t gap, bool backwards) {
  constexpr std::array<std::int64_t, 4> sizes = {2, 3, 2, 5};
  const std::int64_t element = element_bytes;
  // The source is a transposed box with gaps, the destination is dense.
  const std::array<std::int64_t, 4> to = {30 * element, 10 * element, 5 * element,
                                          element};
  std::array<std::int64_t, 4> from = {element + gap, 2 * (element + gap),
                                      6 * (element + gap), 12 * (element + gap)};
  const std::vector<std::uint8_t> source =
      counted_bytes(static_cast<std::size_t>(60 * (element + gap)));
  std::vector<std::uint64_t> aligned(source.size() / 8 + 1);
  std::memcpy(aligned.data(), source.data(), source.size());
  std::vector<std::uint64_t> result(static_cast<std::size_t>(60 * element) / 8 + 1);
  std::vector<std::uint8_t> expected(result.size() * 8);
  std::int64_t begin = 0;
  if (backwards) {  // the first dimension runs down
    begin = from[0] * (sizes[0] - 1);
    from[0] = -from[0];
  }
  std::size_t out = 0;
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    for (std::int64_t j = 0; j < sizes[1]; ++j) {
      for (std::int64_t k = 0; k < sizes[2]; ++k) {
        for (std::int64_t l = 0; l < sizes[3]; ++l) {
          const std::int64_t at =
              begin + i * from[0] + j * from[1] + k * from[2] + l * from[3];
          for (std::int64_t b = 0; b < element; ++b) {
            expected[out++] = source[static_cast<std::size_t>(at + b)];
          }
        }
      }
    }
  }
  const auto* read = reinterpret_cast<const std::uint8_t*>(aligned.data()) + begin;
  launch_maker m("weir_strided_copy", {3, 1, 1}, {7, 1, 1});
  m.memory(result).number(read).number(element_bytes).reachable(aligned);
  for (const auto& list : {sizes, to, from}) {
    for (const std::int64_t value : list) {
      m.number(value);
    }
  }
  const std::string fault = run(m.made());
  if (!fault.empty()) {
    return fault;
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(result.data());
  return difference(std::vector<std::uint8_t>(bytes, bytes + expected.size()), expected);
}

}  // namespace

void add_memory_cases(std::vector<kernel_case>& cases, bool large) {
  for (const std::uint32_t bytes : {1U, 2U, 4U, 8U, 16U}) {
    cases.push_back({fmt::format("weir_fill of {} bytes", bytes), false,
                     [=](const kernel_runner& run) {
                       const std::string found =
                           fill_case(run, bytes, large ? 3000 : 13, 0);
                       return found.empty() ? fill_case(run, bytes, 13, 3) : found;
                     }});
    cases.push_back({fmt::format("weir_strided_copy of {} bytes", bytes), false,
                     [=](const kernel_runner& run) {
                       const std::string found = copy_case(run, bytes, 8, true);
                       return found.empty() ? copy_case(run, bytes, 1, false) : found;
                     }});
  }
}

}  // namespace weir::tessera::test
