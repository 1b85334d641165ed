// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads a trace event by event.
#include "trace_data.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

namespace weir::tools {

namespace {

// Keeps only what the drawings need of each event, so that a large trace stays small in
// memory.
class trace_reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t n) override {
    return number(static_cast<double>(n));
  }
  bool number_unsigned(number_unsigned_t n) override {
    return number(static_cast<double>(n));
  }
  bool number_float(number_float_t n, const string_t&) override { return number(n); }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& k) override {
    key_ = k;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == event_depth) {
      (key_ == "name"  ? name_
       : key_ == "ph"  ? kind_
       : key_ == "cat" ? category_
                       : ignored_) = text;
    } else if (depth_ == event_depth + 1 && key_ == "name") {
      inner_name_ = text;
    }
    return true;
  }
  bool start_object(std::size_t) override {
    if (++depth_ == event_depth) {
      kind_.clear();
      category_.clear();
      name_.clear();
      start_ = length_ = thread_ = 0;
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == event_depth) {
      finish_event();
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& e) override {
    problem_ = fmt_problem(position, e.what());
    return false;
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] trace_data finish() &&;

 private:
  // {"traceEvents": [ {event} ] }: an event is three levels deep.
  static constexpr int event_depth = 3;

  static std::string fmt_problem(std::size_t position, const char* what) {
    return "byte " + std::to_string(position) + ": " + what;
  }
  bool number(double n) {
    if (depth_ == event_depth) {
      (key_ == "ts"    ? start_
       : key_ == "dur" ? length_
       : key_ == "tid" ? thread_
                       : unused_) = n;
    }
    return true;
  }
  void finish_event() {
    if (kind_ == "X") {
      const auto [at, added] =
          names_.emplace(name_, static_cast<std::uint32_t>(names_.size()));
      threads_.emplace(thread_, std::string());
      spans_.push_back({at->second, 0, category_ != "span", start_, length_});
      span_threads_.push_back(thread_);
    } else if (kind_ == "M" && name_ == "thread_name") {
      threads_[thread_] = inner_name_;
    }
  }

  int depth_ = 0;
  std::string key_, name_, kind_, category_, inner_name_, ignored_, problem_;
  double start_ = 0, length_ = 0, thread_ = 0, unused_ = 0;
  std::map<std::string, std::uint32_t> names_;
  std::map<double, std::string> threads_;
  std::vector<trace_span> spans_;
  std::vector<double> span_threads_;
};

trace_data trace_reader::finish() && {
  trace_data out;
  out.names.resize(names_.size());
  for (const auto& [name, index] : names_) {
    out.names[index] = name;
  }
  std::map<double, bool> used;
  for (const double thread : span_threads_) {
    used[thread] = true;
  }
  std::map<double, std::uint32_t> lanes;
  for (const auto& [thread, name] : threads_) {
    if (used.count(thread) != 0) {
      lanes[thread] = static_cast<std::uint32_t>(out.lanes.size());
      out.lanes.push_back(name.empty()
                              ? "thread " + std::to_string(static_cast<long long>(thread))
                              : name);
    }
  }
  double first = spans_.empty() ? 0 : spans_.front().start;
  for (const trace_span& s : spans_) {
    first = std::min(first, s.start);
  }
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    spans_[i].lane = lanes[span_threads_[i]];
    spans_[i].start -= first;
    out.length = std::max(out.length, spans_[i].start + spans_[i].length);
  }
  std::stable_sort(
      spans_.begin(), spans_.end(),
      [](const trace_span& a, const trace_span& b) { return a.start < b.start; });
  out.spans = std::move(spans_);
  return out;
}

}  // namespace

result<trace_data> read_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return error(errc::not_found, "cannot read trace \"" + path +
                                      "\": expected a file, found none that opens");
  }
  trace_reader reader;
  if (!nlohmann::json::sax_parse(in, &reader)) {
    return error(errc::corrupt, "cannot read trace \"" + path +
                                    "\": expected JSON, found " + reader.problem());
  }
  return std::move(reader).finish();
}

std::vector<kernel_share> kernel_shares(const trace_data& trace) {
  std::vector<kernel_share> by_name(trace.names.size());
  for (const trace_span& s : trace.spans) {
    by_name[s.name].name = s.name;
    by_name[s.name].count += s.task ? 1 : 0;
    by_name[s.name].total += s.task ? s.length : 0;
  }
  std::vector<kernel_share> out;
  std::copy_if(by_name.begin(), by_name.end(), std::back_inserter(out),
               [](const kernel_share& k) { return k.count > 0; });
  std::stable_sort(
      out.begin(), out.end(), [&](const kernel_share& a, const kernel_share& b) {
        return a.total != b.total ? a.total > b.total
                                  : trace.names[a.name] < trace.names[b.name];
      });
  return out;
}

}  // namespace weir::tools
