// SPDX-License-Identifier: Apache-2.0
/// @file
/// Executes the instructions of PTX.
#include "ptx/interpreter.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include <fmt/core.h>

#include "cpu_kernels/access_check.hpp"

namespace weir::tessera::ptx {
namespace {

using kernel_machine::access_kind;
using kernel_machine::thread_order;

enum class run_state : std::uint8_t { ready, at_barrier, ended };

/// A thread of a block.
struct lane {
  std::uint32_t block = 0;  ///< index in the blocks that are alive
  std::array<std::uint32_t, 12> special{};
  std::vector<std::uint64_t> registers;
  std::vector<std::byte> local;
  std::uint32_t at = 0;  ///< number of the next instruction
  run_state state = run_state::ready;
};

/// A block that is alive.
struct running_block {
  std::int64_t number = 0;
  std::uint32_t epoch = 0;
  std::unique_ptr<std::uint64_t[]> shared;
};

class machine {
 public:
  machine(const kernel& code, const launch& what)
      : code_(code),
        what_(what),
        blocks_(product(what.options.grid)),
        threads_(product(what.options.block)),
        check_(what.options.checked ? static_cast<std::size_t>(blocks_) : 0),
        random_(what.options.seed) {
    for (const kernel_machine::memory_range& m : what.options.memory) {
      if (what.options.checked) {
        check_.add(m.first, m.bytes, true);
      }
    }
  }

  outcome run() {
    std::vector<std::int64_t> order(static_cast<std::size_t>(blocks_));
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = static_cast<std::int64_t>(i);
    }
    arrange(order);
    const std::size_t together = what_.options.cooperative ? order.size() : 1;
    for (std::size_t i = 0; i < order.size() && out_.fault.empty(); i += together) {
      run_blocks(std::span(order).subspan(i, together));
    }
    return std::move(out_);
  }

 private:
  static std::int64_t product(const std::array<std::uint32_t, 3>& extents) {
    return std::int64_t{extents[0]} * extents[1] * extents[2];
  }

  template <class T>
  void arrange(std::vector<T>& items) {
    if (what_.options.order == thread_order::descending) {
      std::reverse(items.begin(), items.end());
    } else if (what_.options.order == thread_order::random) {
      std::shuffle(items.begin(), items.end(), random_);
    }
  }

  void fail(errc code, std::string_view text, const instruction& in) {
    if (out_.fault.empty()) {
      out_.code = code;
      out_.fault = fmt::format("{}, line {}, {}: {}", code_.name, in.line,
                               code_.forms[in.name], text);
    }
  }

  void start(std::span<const std::int64_t> numbers) {
    live_.clear();
    lanes_.clear();
    const auto& grid = what_.options.grid;
    const auto& block = what_.options.block;
    for (const std::int64_t number : numbers) {
      running_block b;
      b.number = number;
      b.shared = std::make_unique<std::uint64_t[]>(code_.shared_bytes / 8 + 1);
      std::memset(b.shared.get(), 0xFF, code_.shared_bytes);
      if (what_.options.checked && code_.shared_bytes != 0) {
        check_.add(b.shared.get(), code_.shared_bytes, false);
      }
      const auto n = static_cast<std::uint64_t>(number);
      for (std::int64_t t = 0; t < threads_; ++t) {
        const auto u = static_cast<std::uint64_t>(t);
        lane& l = lanes_.emplace_back();
        l.block = static_cast<std::uint32_t>(live_.size());
        const std::array<std::uint64_t, 12> special = {u % block[0],
                                                       u / block[0] % block[1],
                                                       u / block[0] / block[1],
                                                       block[0],
                                                       block[1],
                                                       block[2],
                                                       n % grid[0],
                                                       n / grid[0] % grid[1],
                                                       n / grid[0] / grid[1],
                                                       grid[0],
                                                       grid[1],
                                                       grid[2]};
        std::transform(special.begin(), special.end(), l.special.begin(),
                       [](std::uint64_t x) { return static_cast<std::uint32_t>(x); });
        l.registers.resize(code_.register_bits.size(), 0xAAAAAAAAAAAAAAAAU);
        l.local.resize(code_.local_bytes);
      }
      live_.push_back(std::move(b));
    }
  }

  void run_blocks(std::span<const std::int64_t> numbers) {
    start(numbers);
    std::vector<lane*> round;
    while (out_.fault.empty()) {
      round.clear();
      for (lane& l : lanes_) {
        if (l.state == run_state::ready) {
          round.push_back(&l);
        }
      }
      if (round.empty()) {
        break;
      }
      arrange(round);
      for (lane* l : round) {
        while (out_.fault.empty() && l->state == run_state::ready && step(*l)) {
        }
      }
      release();
    }
    for (const running_block& b : live_) {
      check_.remove(b.shared.get());
    }
  }

  /// Lets the blocks go on whose threads all wait at one barrier.
  void release() {
    const auto n = static_cast<std::size_t>(threads_);
    for (std::size_t b = 0; b < live_.size() && out_.fault.empty(); ++b) {
      const std::span<lane> lanes = std::span(lanes_).subspan(b * n, n);
      const auto in_state = [&](run_state s) {
        return std::count_if(lanes.begin(), lanes.end(),
                             [&](const lane& l) { return l.state == s; });
      };
      const auto waiting = in_state(run_state::at_barrier);
      if (waiting == 0 || in_state(run_state::ready) != 0) {
        continue;
      }
      const lane& first = *std::find_if(lanes.begin(), lanes.end(), [](const lane& l) {
        return l.state == run_state::at_barrier;
      });
      for (lane& l : lanes) {
        if (l.state == run_state::ended || l.at != first.at) {
          fail(errc::kernel_failed, "not all threads of the block reach this barrier",
               code_.code[first.at - 1]);
        }
        l.state = run_state::ready;
      }
      ++live_[b].epoch;
    }
  }

  [[nodiscard]] std::uint64_t value_of(const lane& l, const operand& o) const {
    switch (o.kind) {
      case operand_kind::reg: return l.registers[o.reg];
      case operand_kind::special: return l.special[o.reg];
      default: return o.value;
    }
  }

  /// Writes a register. The value is extended from the type to the width of the register.
  void set(lane& l, const operand& to, type from, std::uint64_t value) const {
    const int width = code_.register_bits[to.reg];
    if (from.bits < 64) {
      value &= (std::uint64_t{1} << from.bits) - 1;
      if (from.kind == type_kind::s && (value >> (from.bits - 1) & 1U) != 0) {
        value |= ~std::uint64_t{0} << from.bits;
      }
    }
    l.registers[to.reg] = width < 64 ? value & ((std::uint64_t{1} << width) - 1) : value;
  }

  /// Executes the next instruction. Returns false if other threads are to run.
  bool step(lane& l) {
    if (l.at >= code_.code.size()) {
      l.state = run_state::ended;
      out_.registers = l.registers;
      return false;
    }
    const instruction& in = code_.code[l.at++];
    if (in.guarded && ((l.registers[in.guard] & 1U) != 0) == in.guard_negated) {
      return true;
    }
    switch (in.what.op) {
      case operation::bra: l.at = in.target; return true;
      case operation::ret:
        l.state = run_state::ended;
        out_.registers = l.registers;
        return false;
      case operation::bar: l.state = run_state::at_barrier; return false;
      case operation::nanosleep: return false;
      case operation::membar: return true;
      case operation::ld:
      case operation::st: move(l, in); return true;
      case operation::atom_add:
      case operation::atom_cas: return atomic(l, in);
      default: break;
    }
    std::array<std::uint64_t, 4> values{};
    for (std::size_t i = 1; i < in.operands.size(); ++i) {
      values[i - 1] = value_of(l, in.operands[i]);
    }
    const auto value = compute(in.what, values);
    if (!value) {
      fail(errc::kernel_failed, value.error().text(), in);
      return false;
    }
    set(l, in.operands[0], type_of_result(in.what), *value);
    return true;
  }

  static type type_of_result(const form& f) {
    if (f.op == operation::setp) {
      return {type_kind::pred, 1};
    }
    return f.op == operation::mul_wide
               ? type{f.to.kind, static_cast<std::uint8_t>(f.to.bits * 2)}
               : f.to;
  }

  /// Returns the memory of an access, or null after a fault.
  std::byte* memory_of(lane& l, const instruction& in, const operand& address,
                       std::size_t bytes, access_kind kind) {
    const std::uint64_t place =
        value_of(l, address) + static_cast<std::uint64_t>(address.offset);
    if (place % bytes != 0) {
      fail(errc::invalid_argument, "the address is not a multiple of the size", in);
      return nullptr;
    }
    if (in.what.in == space::local || in.what.in == space::shared) {
      const bool shared = in.what.in == space::shared;
      const std::size_t size = shared ? code_.shared_bytes : code_.local_bytes;
      if (place > size || bytes > size - place) {
        fail(errc::out_of_range, "the address is outside of the array", in);
        return nullptr;
      }
      if (!shared) {
        return l.local.data() + place;
      }
    }
    std::byte* at =
        in.what.in == space::shared
            ? reinterpret_cast<std::byte*>(live_[l.block].shared.get()) + place
            : reinterpret_cast<std::byte*>(place);
    return allowed(l, in, at, bytes, kind) ? at : nullptr;
  }

  bool allowed(const lane& l, const instruction& in, const std::byte* at,
               std::size_t bytes, access_kind kind) {
    const bool global = in.what.in != space::shared;
    const bool writes = kind != access_kind::read && in.what.op != operation::ld;
    if (global && what_.accessible && !what_.accessible(at, bytes, writes)) {
      fail(errc::out_of_range, fmt::format("no access to {} bytes", bytes), in);
      return false;
    }
    if (global && what_.accessible) {
      bool& written = out_.touched[reinterpret_cast<std::uintptr_t>(at) / 16 * 16];
      written = written || writes;
    }
    if (!what_.options.checked) {
      return true;
    }
    const auto thread =
        static_cast<std::size_t>(&l - lanes_.data()) % static_cast<std::size_t>(threads_);
    const std::string fault =
        check_.note(at, bytes, kind,
                    {static_cast<std::uint32_t>(live_[l.block].number),
                     static_cast<std::uint32_t>(thread), live_[l.block].epoch});
    if (!fault.empty()) {
      fail(errc::out_of_range, fault, in);
    }
    return fault.empty();
  }

  void load_parameter(lane& l, const instruction& in, const operand& to,
                      std::size_t offset) {
    const std::size_t bytes = in.what.to.bits / 8U;
    for (std::size_t i = 0; i < code_.parameters.size(); ++i) {
      const parameter& p = code_.parameters[i];
      if (offset >= p.offset && offset + bytes <= p.offset + p.bytes) {
        std::uint64_t value = 0;
        std::memcpy(
            &value,
            static_cast<const std::byte*>(what_.arguments[i]) + (offset - p.offset),
            bytes);
        set(l, to, in.what.to, value);
        return;
      }
    }
    fail(errc::kernel_failed, "the address is in no parameter", in);
  }

  void move(lane& l, const instruction& in) {
    const std::size_t bytes = in.what.to.bits / 8U;
    const bool load = in.what.op == operation::ld;
    const operand& address = in.operands[load ? in.what.elements : 0];
    if (in.what.in == space::param) {
      const std::size_t first =
          value_of(l, address) + static_cast<std::uint64_t>(address.offset);
      for (std::size_t e = 0; e < in.what.elements; ++e) {
        load_parameter(l, in, in.operands[e], first + e * bytes);
      }
      return;
    }
    const access_kind kind = in.what.is_volatile ? access_kind::atomic
                             : load              ? access_kind::read
                                                 : access_kind::write;
    for (std::size_t e = 0; e < in.what.elements; ++e) {
      operand place = address;
      place.offset += static_cast<std::int64_t>(e * bytes);
      std::byte* at = memory_of(l, in, place, bytes, kind);
      if (at == nullptr) {
        return;
      }
      if (load) {
        set(l, in.operands[e], in.what.to, read(in, at, bytes));
      } else {
        write(in, at, bytes, value_of(l, in.operands[1 + e]));
      }
    }
  }

  // Threads of the host may access a volatile word at the same time.
  static std::uint64_t read(const instruction& in, const std::byte* at,
                            std::size_t bytes) {
    if (in.what.is_volatile && bytes == sizeof(std::uint32_t)) {
      return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(at),
                             __ATOMIC_ACQUIRE);
    }
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
  }
  static void write(const instruction& in, std::byte* at, std::size_t bytes,
                    std::uint64_t value) {
    if (in.what.is_volatile && bytes == sizeof(std::uint32_t)) {
      __atomic_store_n(reinterpret_cast<std::uint32_t*>(at),
                       static_cast<std::uint32_t>(value), __ATOMIC_RELEASE);
    } else {
      std::memcpy(at, &value, bytes);
    }
  }

  // In random order other threads may run before an atomic operation.
  bool atomic(lane& l, const instruction& in) {
    if (what_.options.order == thread_order::random && random_() % 2 == 0) {
      --l.at;
      return false;
    }
    const std::size_t bytes = in.what.to.bits / 8U;
    std::byte* at = memory_of(l, in, in.operands[1], bytes, access_kind::atomic);
    if (at == nullptr) {
      return false;
    }
    auto* word = reinterpret_cast<std::uint32_t*>(at);
    auto operand2 = static_cast<std::uint32_t>(value_of(l, in.operands[2]));
    if (in.what.op == operation::atom_cas) {
      const auto next = static_cast<std::uint32_t>(value_of(l, in.operands[3]));
      __atomic_compare_exchange_n(word, &operand2, next, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE);
      set(l, in.operands[0], in.what.to, operand2);
    } else {
      set(l, in.operands[0], in.what.to,
          __atomic_fetch_add(word, operand2, __ATOMIC_ACQ_REL));
    }
    return true;
  }

  const kernel& code_;
  const launch& what_;
  std::int64_t blocks_;
  std::int64_t threads_;
  kernel_machine::access_check check_;
  std::mt19937_64 random_;
  std::vector<running_block> live_;
  std::vector<lane> lanes_;
  outcome out_;
};

}  // namespace

outcome interpret(const kernel& code, const launch& what) {
  return machine(code, what).run();
}

}  // namespace weir::tessera::ptx
