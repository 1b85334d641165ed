// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads PTX as nvcc writes it: one directive, label or instruction in each line.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include <fmt/core.h>

#include "ptx/module.hpp"

namespace weir::tessera::ptx {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

/// Returns the pieces between commas outside of braces and brackets, and without these.
std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == ',') {
      std::string_view piece = trimmed(text.substr(begin, i - begin));
      while (!piece.empty() && (piece.front() == '{' || piece.front() == '[')) {
        piece.remove_prefix(1);
      }
      while (!piece.empty() && (piece.back() == '}' || piece.back() == ']')) {
        piece.remove_suffix(1);
      }
      if (!piece.empty()) {
        out.push_back(trimmed(piece));
      }
      begin = i + 1;
    }
  }
  return out;
}

bool whole_number(std::string_view text, int base, std::uint64_t& to) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), to, base);
  return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size();
}

/// Reads "12", "-3", "0xFF", "0f3F800000" and "0d3FF0000000000000" as bits.
bool number_of(std::string_view text, std::uint64_t& to) {
  if (text.starts_with("0f") || text.starts_with("0d") || text.starts_with("0x")) {
    return whole_number(text.substr(2), 16, to);
  }
  const bool negative = text.starts_with("-");
  if (!whole_number(text.substr(negative ? 1 : 0), 10, to)) {
    return false;
  }
  to = negative ? 0 - to : to;
  return true;
}

class reader {
 public:
  explicit reader(std::string_view text) : text_(text) {}

  result<std::vector<kernel>> read() {
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      std::string_view line = trimmed(text_.substr(0, end));
      text_.remove_prefix(end == text_.npos ? text_.size() : end + 1);
      ++line_;
      line = trimmed(line.substr(0, line.find("//")));
      if (!line.empty() && line.front() != '\0') {
        WEIR_CHECK(read_line(line));
      }
    }
    if (current_ != nullptr) {
      return refuse("the end of the kernel", "the end of the text");
    }
    return std::move(kernels_);
  }

 private:
  error refuse(std::string_view expected, std::string_view found) const {
    return error(errc::corrupt, fmt::format("cannot read PTX: expected {}, found \"{}\"",
                                            expected, found))
        .located(fmt::format("line {}", line_));
  }

  result<void> read_line(std::string_view line) {
    if (line.starts_with(".visible .entry ")) {
      current_ = &kernels_.emplace_back();
      line.remove_prefix(std::string_view(".visible .entry ").size());
      current_->name = trimmed(line.substr(0, line.find('(')));
      symbols_.clear();
      labels_.clear();
      jumps_.clear();
      return {};
    }
    if (line.starts_with(".param ")) {
      return read_parameter(line);
    }
    if (line == "}") {
      return end_kernel();
    }
    constexpr std::array<std::string_view, 7> ignored = {
        ".version ", ".target ", ".address_size ", ".pragma ", "{", ")", "("};
    for (const std::string_view word : ignored) {
      if (line.starts_with(word)) {
        return {};
      }
    }
    if (current_ == nullptr) {
      return refuse("a kernel", line);
    }
    if (line.starts_with(".reg ")) {
      return read_registers(line);
    }
    if (line.starts_with(".shared ") || line.starts_with(".local ")) {
      return read_array(line);
    }
    if (line.back() == ':') {
      labels_[std::string(line.substr(0, line.size() - 1))] =
          static_cast<std::uint32_t>(current_->code.size());
      return {};
    }
    return read_instruction(line);
  }

  // ".param .u64 name," of a kernel.
  result<void> read_parameter(std::string_view line) {
    std::string_view rest = trimmed(line.substr(std::string_view(".param ").size()));
    if (rest.starts_with(".align ")) {
      return read_structure(line);
    }
    const std::size_t blank = rest.find_first_of(" \t");
    std::uint64_t bits = 0;
    if (current_ == nullptr || blank == rest.npos ||
        !whole_number(rest.substr(2, blank - 2), 10, bits)) {
      return refuse("a parameter of a number", line);
    }
    add_parameter(trimmed(rest.substr(blank, rest.find(',') - blank)), bits / 8,
                  bits / 8);
    return {};
  }

  void add_parameter(std::string_view name, std::size_t bytes, std::size_t alignment) {
    parameter p;
    p.bytes = bytes;
    p.name = name;
    if (!current_->parameters.empty()) {
      const parameter& last = current_->parameters.back();
      p.offset = (last.offset + last.bytes + alignment - 1) / alignment * alignment;
    }
    symbols_[p.name] = p.offset;
    current_->parameters.push_back(std::move(p));
  }

  // ".param .align 8 .b8 name[168]", a structure that is passed by value.
  result<void> read_structure(std::string_view line) {
    std::uint64_t alignment = 0, bytes = 0;
    std::string_view name;
    if (current_ == nullptr || !array_of(line, alignment, bytes, name)) {
      return refuse("a parameter of bytes", line);
    }
    add_parameter(name, bytes, alignment);
    return {};
  }

  /// Reads ".align A .b8 name[N]" in a line.
  static bool array_of(std::string_view line, std::uint64_t& alignment,
                       std::uint64_t& bytes, std::string_view& name) {
    const std::size_t open = line.find('[');
    const std::size_t close = line.find(']');
    const std::size_t align = line.find(".align ");
    if (open == line.npos || close == line.npos || align == line.npos ||
        !whole_number(line.substr(align + 7, line.find(' ', align + 7) - align - 7), 10,
                      alignment) ||
        !whole_number(line.substr(open + 1, close - open - 1), 10, bytes) ||
        alignment == 0) {
      return false;
    }
    const std::size_t begin = line.find_last_of(" \t", open) + 1;
    name = line.substr(begin, open - begin);
    return true;
  }

  // ".reg .f32 %f<7>;" or ".reg .b64 %SP;".
  result<void> read_registers(std::string_view line) {
    const std::size_t percent = line.find('%');
    const std::string_view kind = trimmed(line.substr(5, percent - 5));
    std::uint64_t bits = 1, count = 1;
    if (percent == line.npos ||
        (kind != ".pred" && !whole_number(kind.substr(2), 10, bits))) {
      return refuse("registers", line);
    }
    std::string_view name = line.substr(percent, line.find(';') - percent);
    const std::size_t open = name.find('<');
    const bool many = open != name.npos;
    if (many && !whole_number(name.substr(open + 1, name.size() - open - 2), 10, count)) {
      return refuse("a number of registers", line);
    }
    name = name.substr(0, open);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string full(name);
      full += many ? std::to_string(i) : "";
      symbols_[full] = current_->register_bits.size();
      current_->register_names.push_back(std::move(full));
      current_->register_bits.push_back(static_cast<std::uint8_t>(bits));
    }
    return {};
  }

  // ".shared .align 4 .b8 name[512];"
  result<void> read_array(std::string_view line) {
    std::uint64_t alignment = 1, bytes = 0;
    std::string_view name;
    if (!array_of(line, alignment, bytes, name)) {
      return refuse("an array of bytes", line);
    }
    std::size_t& total =
        line.starts_with(".shared") ? current_->shared_bytes : current_->local_bytes;
    total = (total + alignment - 1) / alignment * alignment;
    symbols_[std::string(name)] = total;
    total += bytes;
    return {};
  }

  result<operand> read_operand(std::string_view text) const {
    operand out;
    if (number_of(text, out.value)) {
      return out;
    }
    const auto special =
        std::find(special_registers.begin(), special_registers.end(), text);
    if (special != special_registers.end()) {
      out.kind = operand_kind::special;
      out.reg = static_cast<std::uint32_t>(special - special_registers.begin());
      return out;
    }
    const std::size_t plus = text.find('+');
    std::uint64_t offset = 0;
    if (plus != text.npos && !number_of(text.substr(plus + 1), offset)) {
      return refuse("an offset", text);
    }
    out.offset = static_cast<std::int64_t>(offset);
    const std::string name(text.substr(0, plus));
    const auto found = symbols_.find(name);
    if (found == symbols_.end()) {
      return refuse("the name of a register, a parameter or an array", text);
    }
    if (name.front() == '%') {
      out.kind = operand_kind::reg;
      out.reg = static_cast<std::uint32_t>(found->second);
    } else {
      out.value = found->second;
    }
    return out;
  }

  result<void> read_instruction(std::string_view line) {
    instruction made;
    made.line = line_;
    if (line.back() != ';') {
      return refuse("the semicolon of an instruction", line);
    }
    line = trimmed(line.substr(0, line.size() - 1));
    if (line.front() == '@') {
      made.guarded = true;
      made.guard_negated = line[1] == '!';
      const std::size_t blank = line.find_first_of(" \t");
      const std::size_t begin = made.guard_negated ? 2 : 1;
      WEIR_TRY(const operand guard, read_operand(line.substr(begin, blank - begin)));
      made.guard = guard.reg;
      line = trimmed(line.substr(blank));
    }
    const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view name = line.substr(0, blank);
    auto known = form_named(name);
    if (!known) {
      return std::move(known.error()).located(fmt::format("line {}", line_));
    }
    made.what = *known;
    made.name = static_cast<std::uint32_t>(current_->forms.size());
    current_->forms.emplace_back(name);
    const auto pieces = pieces_of(line.substr(blank));
    if (made.what.op == operation::bra) {
      jumps_.emplace_back(current_->code.size(), std::string(pieces.at(0)));
    } else {
      for (const std::string_view piece : pieces) {
        WEIR_TRY(const operand o, read_operand(piece));
        made.operands.push_back(o);
      }
    }
    if (made.operands.size() != operands_of(made.what)) {
      return refuse(fmt::format("{} operands", operands_of(made.what)), line);
    }
    current_->code.push_back(std::move(made));
    return {};
  }

  /// Number of operands of a form.
  static std::size_t operands_of(const form& f) {
    switch (f.op) {
      case operation::bra:
      case operation::ret:
      case operation::membar: return 0;
      case operation::bar:
      case operation::nanosleep: return 1;
      case operation::ld:
      case operation::st: return 1U + f.elements;
      case operation::neg:
      case operation::bit_not:
      case operation::mov:
      case operation::cvt:
      case operation::cvta:
      case operation::rcp:
      case operation::sqrt: return 2;
      case operation::mad_lo:
      case operation::selp:
      case operation::fma:
      case operation::atom_cas: return 4;
      case operation::bfi: return 5;
      default: return 3;
    }
  }

  result<void> end_kernel() {
    if (current_ == nullptr) {
      return refuse("a kernel", "}");
    }
    for (const auto& [at, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) {
        return refuse("a label of the kernel", label);
      }
      current_->code[at].target = found->second;
    }
    current_ = nullptr;
    return {};
  }

  std::string_view text_;
  std::uint32_t line_ = 0;
  std::vector<kernel> kernels_;
  kernel* current_ = nullptr;
  std::map<std::string, std::uint64_t> symbols_;  ///< registers, parameters and arrays
  std::map<std::string, std::uint32_t> labels_;
  std::vector<std::pair<std::size_t, std::string>> jumps_;
};

}  // namespace

std::uint32_t kernel::find_register(std::string_view wanted) const {
  const auto at = std::find(register_names.begin(), register_names.end(), wanted);
  return static_cast<std::uint32_t>(at - register_names.begin());
}

result<std::vector<kernel>> parse(std::string_view text) {
  return reader(text).read();
}

}  // namespace weir::tessera::ptx
