// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads descriptions of modules from TOML. Unknown keys are errors, so that a misspelt
/// key does not silently leave a default in place.
///
/// The tables of the description are read with `table_reader`: each `read` takes one key
/// and converts its value to the type of the variable, and `finish` reports the first
/// error, or a key that no `read` has asked for. The place of an error is the path of the
/// key and its line, such as "kernel[1].block in line 7".
///
///   sources, explain         top level
///   [[kernel]]               name, symbol, block, parameters, flags, targets, ...
///   [[code]]                 kind, arch, file
///   [[plan]]                 a choice of an algorithm for collectives
///   [policy]                 numeric promises of the module
#include "module/description.hpp"

#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <optional>
#include <span>

#include "config/values.hpp"
#include "tessera_kernel.h"
#include "weir/base/text.hpp"

#include "config/toml_library.hpp"

namespace weir::tools {

namespace {

/// A word of the description and the number of the fatbin that it stands for.
struct named_number {
  std::string_view name;
  std::uint32_t number;
};
/// Numbers of `tessera_kernel.h`; each is one bit.
constexpr std::array<named_number, 5> flag_names{{
    {"deterministic", TESS_KERNEL_DETERMINISTIC},
    {"uses_barrier", TESS_KERNEL_USES_BARRIER},
    {"per_thread", TESS_KERNEL_PER_THREAD},
    {"persistent_only", TESS_KERNEL_PERSISTENT_ONLY},
    {"persistent_capable", TESS_KERNEL_PERSISTENT_CAPABLE},
}};
/// Numbers of the plan records of a fatbin; "any" makes a plan match every one.
constexpr std::array<named_number, 5> collective_names{{
    {"any", 0},
    {"all_reduce", 1},
    {"reduce_scatter", 2},
    {"all_gather", 3},
    {"broadcast", 4},
}};
constexpr std::array<named_number, 5> algorithm_names{
    {{"any", 0}, {"ring", 1}, {"tree", 2}, {"hierarchical", 3}, {"direct", 4}}};

/// Returns the number of a word in a table.
/// The error suggests the nearest word of the table.
result<std::uint32_t> number_named(std::string_view name,
                                   std::span<const named_number> table) {
  std::vector<std::string> names;
  for (const named_number& n : table) {
    if (n.name == name) {
      return n.number;
    }
    names.emplace_back(n.name);
  }
  return error(errc::unknown_key,
               fmt::format("cannot read the description of a module: expected a known "
                           "word, found \"{}\"{}",
                           name, did_you_mean(name, names)));
}

/// Reads the keys of one table into variables and keeps the first error. A variable keeps
/// its value if its key is absent. The keys that were read are remembered, so that
/// `finish` can refuse all others.
class table_reader {
 public:
  table_reader(const toml::table& table, std::string name)
      : table_(table), name_(std::move(name)) {}

  // Does not count as reading: the key must be read as well.
  [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }

  // `value_exact` refuses values of other types, so `block = "3"` is an error and not a
  // 3.
  void read(const char* key, std::string& to) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<std::string>()) {
        to = *value;
      } else {
        refuse(key, *node, "a string");
      }
    }
  }
  void read(const char* key, bool& to) {
    if (const toml::node* node = find(key)) {
      if (const auto value = node->value_exact<bool>()) {
        to = *value;
      } else {
        refuse(key, *node, "true or false");
      }
    }
  }
  // TOML has signed numbers of 64 bits, so larger ones cannot be written.
  void read(const char* key, std::uint64_t& to) {
    if (const toml::node* node = find(key)) {
      whole_number(key, *node, std::numeric_limits<std::int64_t>::max(), to);
    }
  }
  void read(const char* key, std::uint32_t& to) {
    if (const toml::node* node = find(key)) {
      // Keeps the default if the key is absent.
      std::uint64_t wide = to;
      whole_number(key, *node, std::numeric_limits<std::uint32_t>::max(), wide);
      to = static_cast<std::uint32_t>(wide);
    }
  }
  void read(const char* key, std::vector<std::string>& to) {
    each(key, [&](const toml::node& node) {
      if (const auto value = node.value_exact<std::string>()) {
        to.push_back(*value);
      } else {
        refuse(key, node, "an array of strings");
      }
    });
  }
  // An array of fewer than three numbers leaves the default of the others in place.
  void read(const char* key, std::array<std::uint32_t, 3>& to) {
    std::size_t i = 0;
    each(key, [&](const toml::node& node) {
      std::uint64_t value = 0;
      whole_number(key, node, std::numeric_limits<std::uint32_t>::max(), value);
      if (i < to.size()) {
        to[i] = static_cast<std::uint32_t>(value);
      }
      ++i;
    });
    if (i > to.size()) {
      refuse(key, *table_.get(key), "three numbers");
    }
  }
  // Reads a word of a table of names.
  void read(const char* key, std::span<const named_number> names, std::uint32_t& to) {
    std::string word;
    read(key, word);
    // A value that is no string has been refused by `read`. An empty word is unknown.
    if (const toml::node* node = table_.get(key); node != nullptr && node->is_string()) {
      keep(number_named(word, names), key, to);
    }
  }

  /// Calls `one` with a reader for each table of an array of tables.
  /// Readers of inner tables report their own unknown keys; the first error of all
  /// counts.
  template <class One>
  void each_table(const char* key, One one) {
    std::size_t number = 0;
    each(key, [&](const toml::node& node) {
      if (const toml::table* inner = node.as_table()) {
        table_reader reader(*inner, fmt::format("{}[{}]", key, number++));
        one(reader);
        keep_error(reader.finish());
      } else {
        refuse(key, node, "an array of tables");
      }
    });
  }
  // Calls `one` with a reader of the table, if there is one.
  template <class One>
  void one_table(const char* key, One one) {
    const toml::node* node = find(key);
    if (node == nullptr) {
      return;
    }
    if (const toml::table* inner = node->as_table()) {
      table_reader reader(*inner, key);
      one(reader);
      keep_error(reader.finish());
    } else {
      refuse(key, *node, "a table");
    }
  }

  /// Stores the value of a result, or keeps its error with the place of the key.
  template <class T>
  void keep(result<T> value, const char* key, T& to) {
    if (value) {
      to = std::move(*value);
    } else if (!problem_) {
      problem_ = std::move(value.error()).located(place(key, *table_.get(key)));
    }
  }

  /// Returns the first error; without one, the error for a key that was never read.
  result<void> finish() {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      // The first unknown key in the order of the table is reported.
      if (std::find(asked_.begin(), asked_.end(), name) == asked_.end() && !problem_) {
        problem_ = error(errc::unknown_key,
                         fmt::format("cannot read the description of a module: expected "
                                     "a known key, found \"{}\"{}",
                                     name, did_you_mean(name, asked_)))
                       .located(place(name, node));
      }
    }
    return problem_ ? result<void>(*problem_) : result<void>();
  }

 private:
  // Returns the value of a key, or null, and remembers that the key is known.
  const toml::node* find(const char* key) {
    asked_.emplace_back(key);
    return table_.get(key);
  }

  // Calls `one` for each element of an array. A missing key is an empty array.
  template <class One>
  void each(const char* key, One one) {
    const toml::node* node = find(key);
    if (node == nullptr) {
      return;
    }
    if (const toml::array* all = node->as_array()) {
      for (const toml::node& element : *all) {
        one(element);
      }
    } else {
      refuse(key, *node, "an array");
    }
  }

  // Stores a number from 0 to `max`, or refuses the value and leaves `to` as it is.
  void whole_number(const char* key, const toml::node& node, std::int64_t max,
                    std::uint64_t& to) {
    const auto value = node.value_exact<std::int64_t>();
    if (value && *value >= 0 && *value <= max) {
      to = static_cast<std::uint64_t>(*value);
    } else {
      refuse(key, node, fmt::format("a number from 0 to {}", max));
    }
  }

  // Returns the words for the place of a key in messages.
  [[nodiscard]] std::string place(std::string_view key, const toml::node& node) const {
    return fmt::format("{}{}{} in line {}", name_, name_.empty() ? "" : ".", key,
                       node.source().begin.line);
  }
  // Reports a value of the wrong kind.
  void refuse(const char* key, const toml::node& node, std::string_view expected) {
    keep_error(error(errc::invalid_argument,
                     fmt::format("cannot read \"{}\" of a module: expected {}, found "
                                 "something else",
                                 key, expected))
                   .located(place(key, node)));
  }
  // Only the first error is kept, because later ones often follow from it.
  void keep_error(result<void> r) {
    if (!r && !problem_) {
      problem_ = std::move(r).error();
    }
  }

  const toml::table& table_;
  /// Path of the table in messages; empty at the top level.
  std::string name_;
  /// Keys that were asked for, which are all known ones; suggestions come from them.
  std::vector<std::string> asked_;
  std::optional<error> problem_;
};

/// Reads one table [[kernel]]. Parameters have the notation of `read_parameter`; flags
/// are or-ed.
void read_kernel(table_reader& t, described_kernel& kernel) {
  std::vector<std::string> parameters, flags;
  t.read("name", kernel.record.name);
  t.read("symbol", kernel.record.symbol);
  t.read("block", kernel.record.default_block);
  t.read("most_threads", kernel.record.max_threads);
  t.read("shared_bytes", kernel.record.shared_bytes);
  t.read("targets", kernel.targets);
  t.read("parameters", parameters);
  t.read("flags", flags);
  for (const std::string& text : parameters) {
    tessera::kernel_parameter parameter;
    t.keep(read_parameter(text), "parameters", parameter);
    kernel.record.parameters.push_back(std::move(parameter));
  }
  for (const std::string& flag : flags) {
    std::uint32_t bit = 0;
    t.keep(number_named(flag, flag_names), "flags", bit);
    kernel.record.flags |= bit;
  }
}

/// Reads the name of a type of the ABI as its id.
/// The ids of types are dense and begin at 1.
void read_type(table_reader& t, const char* key, std::uint32_t& to) {
  // The table of types is made from the ABI, so a new type needs no change here.
  std::vector<named_number> names;
  for (std::uint32_t id = 1; tessera::size_of_dtype(id) != 0; ++id) {
    names.push_back({tessera::name_of_dtype(id), id});
  }
  t.read(key, names, to);
}

/// Reads one table [[plan]]: for messages from `least_bytes` to `most_bytes` of a type,
/// the collective uses the algorithm, the size of chunks and the type on the wire.
void read_plan(table_reader& t, tessera::plan_record& plan) {
  t.read("collective", collective_names, plan.collective);
  t.read("algorithm", algorithm_names, plan.algorithm);
  read_type(t, "dtype", plan.dtype);
  t.read("axis", plan.axis);
  t.read("least_bytes", plan.least_bytes);
  t.read("most_bytes", plan.max_bytes);
  t.read("chunk_bytes", plan.chunk_bytes);
  read_type(t, "wire_dtype", plan.wire_dtype);
}

/// Reads the table [policy].
void read_policy(table_reader& t, tessera::policy_record& policy) {
  t.read("stable_reductions", policy.stable_reductions);
  t.read("deterministic", policy.deterministic);
  t.read("rng_stateless", policy.rng_stateless);
  t.read("fast_math", policy.fast_math);
  t.read("wire_quantisation", policy.wire_quantisation);
  t.read("seed", policy.seed);
}

/// Returns a path relative to a folder; an absolute path stays as it is.
std::string below(const std::string& folder, const std::string& path) {
  return path.empty() ? path : (std::filesystem::path(folder) / path).string();
}

/// Reads one table [[code]]. The kind follows from the ending of the file unless it is
/// given.
void read_code(table_reader& t, const std::string& folder, code_file& code) {
  std::string kind;
  t.read("kind", kind);
  t.read("arch", code.arch);
  t.read("file", code.path);
  code.path = below(folder, code.path);
  // The ending of the file tells the kind of code for GPUs.
  const std::string ending = std::filesystem::path(code.path).extension().string();
  if (t.has("kind")) {
    t.keep(tessera::code_kind_named(kind), "kind", code.kind);
  } else if (ending == ".ptx" || ending == ".cu") {
    code.kind = tessera::section_kind::ptx;
  } else if (ending == ".cubin") {
    code.kind = tessera::section_kind::cubin;
  }
}

}  // namespace

// The reader of the whole text is last to finish, so that its unknown keys come after the
// errors of inner tables.
result<module_description> read_description(std::string_view text,
                                            const std::string& name,
                                            const std::string& folder) {
  WEIR_CHECK(check_key_depth(text, name));
  const toml::parse_result parsed = toml::parse(text, name);
  if (!parsed) {
    const toml::parse_error& problem = parsed.error();
    return error(errc::invalid_argument,
                 fmt::format("cannot read the description of a module: expected TOML, "
                             "found \"{}\"",
                             std::string(problem.description())))
        .located(fmt::format("{}:{}:{}", name, problem.source().begin.line,
                             problem.source().begin.column));
  }
  module_description out;
  table_reader top(parsed.table(), "");
  top.read("sources", out.sources);
  for (std::string& source : out.sources) {
    source = below(folder, source);
  }
  top.read("explain", out.explain);
  top.each_table("kernel",
                 [&](table_reader& t) { read_kernel(t, out.kernels.emplace_back()); });
  top.each_table("plan",
                 [&](table_reader& t) { read_plan(t, out.plans.emplace_back()); });
  top.each_table("code",
                 [&](table_reader& t) { read_code(t, folder, out.code.emplace_back()); });
  out.has_policy = top.has("policy");
  top.one_table("policy", [&](table_reader& t) { read_policy(t, out.policy); });
  WEIR_CHECK(top.finish());
  return out;
}

}  // namespace weir::tools
