// SPDX-License-Identifier: Apache-2.0
/// @file
/// Names, exit codes and messages of errors.
///
/// Names and exit codes are part of the interface for programs that call Weir, so they
/// never change. The texts of errors are for people.
#include "weir/base/error.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace weir {

/// The name of an enumerator, as it is spelled.
std::string_view name_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument: return "invalid_argument";
    case errc::unknown_key: return "unknown_key";
    case errc::config_mismatch: return "config_mismatch";
    case errc::unsupported: return "unsupported";
    case errc::arch_mismatch: return "arch_mismatch";
    case errc::not_initialized: return "not_initialized";
    case errc::not_found: return "not_found";
    case errc::already_exists: return "already_exists";
    case errc::corrupt: return "corrupt";
    case errc::torn: return "torn";
    case errc::unsupported_version: return "unsupported_version";
    case errc::stream_model_mismatch: return "stream_model_mismatch";
    case errc::history_mismatch: return "history_mismatch";
    case errc::missing_cursor: return "missing_cursor";
    case errc::position_out_of_bounds: return "position_out_of_bounds";
    case errc::rng_mismatch: return "rng_mismatch";
    case errc::lane_mismatch: return "lane_mismatch";
    case errc::build_mismatch: return "build_mismatch";
    case errc::missing_hash: return "missing_hash";
    case errc::hash_mismatch: return "hash_mismatch";
    case errc::out_of_range: return "out_of_range";
    case errc::generation_skew: return "generation_skew";
    case errc::hole: return "hole";
    case errc::cache_corrupt: return "cache_corrupt";
    case errc::io: return "io";
    case errc::no_space: return "no_space";
    case errc::out_of_memory: return "out_of_memory";
    case errc::source_unavailable: return "source_unavailable";
    case errc::locked: return "locked";
    case errc::interrupted: return "interrupted";
    case errc::timeout: return "timeout";
    case errc::stopping: return "stopping";
    case errc::abandoned: return "abandoned";
    case errc::upstream_failed: return "upstream_failed";
    case errc::kernel_failed: return "kernel_failed";
    case errc::collective_mismatch: return "collective_mismatch";
    case errc::determinism_violation: return "determinism_violation";
    case errc::internal: return "internal";
    case errc::rank_lost: return "rank_lost";
    case errc::diverged: return "diverged";
    case errc::device_lost: return "device_lost";
    case errc::overloaded: return "overloaded";
    case errc::cancelled: return "cancelled";
  }
  // A number of a newer version.
  return "unknown";
}

// The families of ten are described at the enumeration; data has two of them, and so has
// the course of a run.
int exit_code_of(errc code) noexcept {
  const int number = static_cast<int>(code);
  if (number < 20) {
    return 2;
  }
  if (number < 30) {
    return 3;
  }
  if (number < 50) {
    return 4;
  }
  if (number < 60) {
    return 5;
  }
  // Internal errors are the family of seventy. Everything else belongs to the course of a
  // run.
  return number / 10 == 7 ? 70 : 6;
}

/// Only codes that callers treat differently are told apart.
/// Both missing files and missing folders are "not found".
errc errc_of_errno(int number) noexcept {
  switch (number) {
    case ENOENT:
    case ENOTDIR: return errc::not_found;
    case EEXIST: return errc::already_exists;
    case ENOSPC:
    case EDQUOT: return errc::no_space;
    default: return errc::io;
  }
}

/// `action` and `thing` make a sentence: cannot open "a/b".
error system_error(std::string_view action, std::string_view thing, int number) {
  return {errc_of_errno(number),
          fmt::format("cannot {} \"{}\": {}", action, thing, std::strerror(number))};
}

/// The chain is never a circle: a cause is set when its error is made.
const error& error::root() const noexcept {
  // Goes down to the innermost cause, which says most precisely what is wrong.
  const error* e = this;
  while (e->cause_) {
    e = e->cause_.get();
  }
  return *e;
}

/// One line for the error and its hint, and one each for its place and every cause.
std::string error::message() const {
  std::string out = text_;
  if (!hint_.empty()) {
    out += fmt::format("; {}", hint_);
  }
  if (!location_.empty()) {
    out += fmt::format("\n  at {}", location_);
  }
  // The causes follow in order, the innermost last.
  if (cause_) {
    out += fmt::format("\n  caused by: {}", cause_->message());
  }
  return out;
}

// The classes are not in the header, so that users catch the standard types and include
// no exception header.
class contract_violation : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken contract is a defect of the program, not an error of its input.
void throw_contract_violation(const char* condition, const char* file, int line) {
  throw contract_violation(
      fmt::format("contract violated: {} at {}:{}", condition, file, line));
}

/// For callers that use exceptions; the text is that of `message`.
void throw_failure(const error& e) {
  throw failure(e.message());
}

}  // namespace weir
