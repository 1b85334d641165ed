// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads the files of a run folder.
///
/// Only metrics.json must exist. Whatever else cannot be read is noted and left out.
#include "run_data.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "config/config.hpp"
#include "metrics_file.hpp"
#include "weir/base/bytes.hpp"
#include "weir/base/file.hpp"
#include "weir/base/hash.hpp"
#include "weir/formats/tensogram.hpp"

namespace weir::tools {

namespace {

using nlohmann::json;

/// Metrics are an object of JSON; a parser without exceptions gives a special value for
/// anything else.
result<json> read_metrics(const std::string& folder) {
  const std::string path = join_path(folder, "metrics.json");
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  return parse_metrics<json>(as_text(content), path);
}

/// Returns the content of a file, or an empty text if it cannot be read.
std::string text_of_file(const std::string& path) {
  const auto content = read_file(posix_file_system(), path);
  return content ? std::string(as_text(*content)) : std::string();
}

// Returns all elements of the object with the given name.
// Elements are converted to doubles, whatever number they are stored as.
result<std::vector<double>> numbers(const formats::message_reader& reader,
                                    const std::string& name) {
  const auto index = reader.find(name);
  if (!index) {
    return error(errc::not_found,
                 fmt::format("cannot read the curve: expected an object \"{}\", "
                             "found none",
                             name));
  }
  // Decoding checks the digest of the object, too.
  WEIR_TRY(const byte_vector bytes, reader.decode(*index));
  // The argument only carries the type. The bytes need not be aligned, so they are
  // copied.
  const auto convert = [&bytes](auto example) {
    using type = decltype(example);
    std::vector<double> out(bytes.size() / sizeof(type));
    for (std::size_t i = 0; i < out.size(); ++i) {
      type value;
      std::memcpy(&value, bytes.data() + i * sizeof(type), sizeof(type));
      out[i] = static_cast<double>(value);
    }
    return out;
  };
  // Types that curves have had so far.
  switch (reader.descriptor(*index).type) {
    case dtype::fp32: return convert(float{});
    case dtype::fp64: return convert(double{});
    case dtype::uint64: return convert(std::uint64_t{});
    case dtype::int64: return convert(std::int64_t{});
    default:
      return error(
          errc::unsupported,
          fmt::format(
              "cannot read the curve: expected \"{}\" as fp32, fp64 or 64-bit integers, "
              "found {}",
              name, info_of(reader.descriptor(*index).type).tensogram));
  }
}

/// Returns pairs of tokens and bits. A curve is a message with two arrays.
result<std::vector<std::pair<double, double>>> read_curve(const std::string& path) {
  WEIR_TRY(const byte_vector content, read_file(posix_file_system(), path));
  WEIR_TRY(const auto reader, formats::message_reader::open(bytes_view(content)));
  WEIR_TRY(const auto tokens, numbers(reader, "tokens"));
  WEIR_TRY(const auto bits, numbers(reader, "bits_per_byte"));
  std::vector<std::pair<double, double>> out;
  // Both arrays should have one length. If not, the shorter one decides.
  for (std::size_t i = 0; i < std::min(tokens.size(), bits.size()); ++i) {
    out.emplace_back(tokens[i], bits[i]);
  }
  return out;
}

// Stores a part of the report, or notes why it is missing.
template <class T, class Part>
void take(result<T> read, Part& part, const char* name, run_data& data) {
  if (read) {
    part = std::move(*read);
  } else {
    data.missing.push_back(fmt::format("{}: {}", name, read.error().message()));
  }
}

// Returns the value at a dotted key such as "phases.build.tokens", or a null pointer.
const json* find_at(const json& metrics, const std::string& key) {
  const json* value = &metrics;
  // Each round follows one part of the key.
  for (std::size_t from = 0; from <= key.size();) {
    // The last part ends with the key.
    const std::size_t dot = std::min(key.find('.', from), key.size());
    if (!value->is_object()) {
      return nullptr;
    }
    const auto found = value->find(key.substr(from, dot - from));
    if (found == value->end()) {
      return nullptr;
    }
    value = &*found;
    from = dot + 1;
  }
  return value;
}

/// Compares with other models if the corpus is still there and has not changed.
void read_corpus(run_data& data) {
  // A mixture has no order of its own that the other models could read.
  if (!data.config.source.mix.sources.empty()) {
    data.missing.push_back("comparison with other models: the run reads a mixture");
    return;
  }
  const double tokens = number_at(data.metrics, "phases.build.tokens");
  // Metrics may come from anywhere. The comparison is false for NaN.
  if (!(tokens >= 0 && tokens < 0x1p63)) {
    data.missing.push_back(fmt::format(
        "comparison with other models: expected a number of Build tokens, found {}",
        tokens));
    return;
  }
  // Only tokens that the model has learned from are compared.
  auto corpus = compare_corpus(data.config.source.paths, data.config.source.eot,
                               static_cast<std::uint64_t>(tokens));
  // A run without an identity is compared without this check.
  const std::string known = text_at(data.metrics, "corpus.identity");
  if (corpus && !known.empty() && known != hex64(corpus->identity)) {
    data.missing.push_back(
        "comparison with other models: the corpus has changed since the run, or its "
        "tokens are no bytes");
    return;
  }
  take(std::move(corpus), data.corpus, "comparison with other models", data);
}

}  // namespace

double number_at(const json& metrics, const std::string& key, double otherwise) {
  const json* value = find_at(metrics, key);
  return value != nullptr && value->is_number() ? value->get<double>() : otherwise;
}

std::string text_at(const json& metrics, const std::string& key) {
  const json* value = find_at(metrics, key);
  return value != nullptr && value->is_string() ? value->get<std::string>()
                                                : std::string();
}

result<run_data> read_run(const std::string& folder) {
  // A folder that does not exist deserves another message than one without metrics.
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return error(errc::not_found,
                 fmt::format("cannot report on \"{}\": expected a run folder, found "
                             "none",
                             folder));
  }
  run_data data;
  data.folder = folder;
  WEIR_TRY(data.metrics, read_metrics(folder));
  // A configuration that cannot be read leaves its defaults.
  take(load_config(join_path(folder, "config.toml"), {}), data.config, "settings", data);
  data.config_text = text_of_file(join_path(folder, "config.toml"));
  // The log may not exist, and then its part of the page is empty.
  data.log = text_of_file(join_path(folder, "log"));
  take(read_curve(join_path(folder, "curve.tgm")), data.curve, "learning curve", data);
  // A run without a trace has no file, which is not worth a note.
  if (data.config.trace != runtime::trace_mode::off) {
    take(read_trace(join_path(folder, "trace.json")), data.trace, "time line", data);
  }
  // Last, since it needs metrics and configuration.
  read_corpus(data);
  return data;
}

}  // namespace weir::tools
