// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the traces that a profiler writes: they are valid JSON, the events of a row do
/// not overlap, times are in order, and flows have both ends.
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "support.hpp"
#include "support/temp_folder.hpp"

namespace weir::test {
namespace {

/// A JSON value. Numbers keep their text, so that their decimals can be checked.
struct json_value {
  enum class type { null, boolean, number, text, list, object } is = type::null;
  std::string text;
  std::vector<json_value> items;
  std::map<std::string, json_value> members;

  [[nodiscard]] const json_value& operator[](const std::string& name) const {
    static const json_value none;
    const auto found = members.find(name);
    return found == members.end() ? none : found->second;
  }
  [[nodiscard]] int64_t whole() const {
    return is == type::number ? std::stoll(text) : std::numeric_limits<int64_t>::min();
  }
  /// Returns the nanoseconds of a number of microseconds that has exactly three decimals,
  /// or nothing for other values.
  [[nodiscard]] std::optional<int64_t> nanoseconds() const {
    const std::size_t dot = text.find('.');
    if (is != type::number || dot == std::string::npos || text.size() != dot + 4) {
      return std::nullopt;
    }
    const int64_t fraction = std::stoll(text.substr(dot + 1));
    const int64_t micros = std::stoll(text.substr(0, dot));
    return micros * 1000 + (text[0] == '-' ? -fraction : fraction);
  }
};

/// Builds a value from the events of the parser. Refuses objects in which a member occurs
/// twice.
class json_builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  json_value root;

  bool null() override { return add(json_value::type::null, ""); }
  bool boolean(bool) override { return add(json_value::type::boolean, ""); }
  bool number_integer(number_integer_t n) override {
    return add(json_value::type::number, std::to_string(n));
  }
  bool number_unsigned(number_unsigned_t n) override {
    return add(json_value::type::number, std::to_string(n));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return add(json_value::type::number, text);
  }
  bool string(string_t& text) override { return add(json_value::type::text, text); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json_value::type::object); }
  bool start_array(std::size_t) override { return open(json_value::type::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    key_ = name;
    return open_.back()->members.count(name) == 0;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_position = position;
    return false;
  }

  std::size_t error_position = 0;

 private:
  json_value* place() {
    if (open_.empty()) {
      return &root;
    }
    json_value& parent = *open_.back();
    return parent.is == json_value::type::object ? &parent.members[key_]
                                                 : &parent.items.emplace_back();
  }
  bool add(json_value::type type, std::string text) {
    json_value* const value = place();
    value->is = type;
    value->text = std::move(text);
    return true;
  }
  bool open(json_value::type type) {
    json_value* const value = place();
    value->is = type;
    open_.push_back(value);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<json_value*> open_;  ///< objects and lists that are still open
  std::string key_;
};

/// Parses a file as JSON.
json_value parsed_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  json_builder builder;
  EXPECT_TRUE(nlohmann::json::sax_parse(text, &builder))
      << path << " is not JSON at byte " << builder.error_position;
  return std::move(builder.root);
}

/// The result of check_trace: counts and times of the events in a trace.
struct trace_facts {
  std::map<std::string, int> calls;                ///< by name, on the host
  std::map<std::string, int64_t> time_in_calls;    ///< total nanoseconds, by name
  std::map<std::string, int> operations;           ///< by category, on devices
  std::map<int64_t, std::map<int64_t, int>> rows;  ///< events by pid and tid
  std::map<int64_t, int64_t> in_flight;  ///< largest number of bytes at a time, by pid
  std::map<int64_t, std::vector<std::string>> names;  ///< names of operations, by pid
  int flows = 0;
};

/// Start and end of an event in nanoseconds.
struct timed_event {
  int64_t start;
  int64_t end;
};

/// Checks the times of an operation on a device.
void check_operation(const json_value& event, int64_t start, int64_t took) {
  const json_value& args = event["args"];
  const int64_t enqueued = args["enqueue_ns"].whole();
  EXPECT_GE(enqueued, -1'000'000'000'000) << "every event has enqueue_ns";
  EXPECT_LE(enqueued, args["start_ns"].whole());
  EXPECT_LE(args["start_ns"].whole(), args["stop_ns"].whole());
  EXPECT_EQ(args["start_ns"].whole(), start);
  EXPECT_EQ(args["stop_ns"].whole(), start + took);
  EXPECT_GE(args["bytes"].whole(), 0);
}

/// Checks everything that holds for any trace and returns what the trace contains.
trace_facts check_trace(const json_value& trace) {
  using type = json_value::type;
  trace_facts out;
  EXPECT_EQ(trace["displayTimeUnit"].text, "ns");
  EXPECT_EQ(trace["metadata"].is, type::object);
  EXPECT_EQ(trace["traceEvents"].is, type::list);
  std::map<std::pair<int64_t, int64_t>, std::vector<timed_event>> rows;
  std::map<std::pair<int64_t, int64_t>, std::string> named;
  std::map<int64_t, std::vector<std::pair<char, int64_t>>> flows;
  std::map<int64_t, std::pair<int64_t, int64_t>> counted;
  for (const json_value& event : trace["traceEvents"].items) {
    const std::string& phase = event["ph"].text;
    const std::pair<int64_t, int64_t> row{event["pid"].whole(), event["tid"].whole()};
    EXPECT_GE(row.first, 0);
    EXPECT_GE(row.second, 0);
    if (phase == "M") {
      if (event["name"].text == "thread_name") {
        named[row] = event["args"]["name"].text;
      }
      continue;
    }
    const auto start = event["ts"].nanoseconds();
    if (!start) {
      ADD_FAILURE() << "a moment without three decimals: " << event["ts"].text;
      continue;
    }
    if (phase == "C") {
      const int64_t bytes = event["args"]["bytes"].whole();
      EXPECT_GE(bytes, 0);
      EXPECT_GE(*start, counted[row.first].first) << "counters are sorted by time";
      counted[row.first] = {*start, bytes};
      out.in_flight[row.first] = std::max(out.in_flight[row.first], bytes);
    } else if (phase == "X") {
      const auto took = event["dur"].nanoseconds();
      EXPECT_TRUE(took && *took >= 0) << event["dur"].text;
      EXPECT_FALSE(event["name"].text.empty());
      rows[row].push_back({*start, *start + took.value_or(0)});
      ++out.rows[row.first][row.second];
      if (row.first == 0) {
        EXPECT_EQ(event["cat"].text, "call");
        ++out.calls[event["name"].text];
        out.time_in_calls[event["name"].text] += took.value_or(0);
      }
      if (row.first > 0) {
        ++out.operations[event["cat"].text];
        out.names[row.first].push_back(event["name"].text);
        check_operation(event, *start, took.value_or(0));
      }
    } else {
      EXPECT_TRUE(phase == "s" || phase == "f") << phase;
      flows[event["id"].whole()].emplace_back(phase[0], *start);
    }
  }
  for (auto& [row, events] : rows) {
    EXPECT_TRUE(named.count(row) == 1) << row.first << " " << row.second;
    std::sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
      return std::tie(a.start, a.end) < std::tie(b.start, b.end);
    });
    for (std::size_t i = 1; i < events.size(); ++i) {
      EXPECT_LE(events[i - 1].end, events[i].start)
          << "overlap on pid " << row.first << " tid " << row.second;
    }
  }
  for (const auto& [id, ends] : flows) {
    EXPECT_TRUE(ends.size() == 2 && ends[0].first == 's' && ends[1].first == 'f' &&
                ends[0].second <= ends[1].second)
        << "flow " << id;
  }
  for (const auto& [pid, last] : counted) {
    EXPECT_EQ(last.second, 0) << "bytes that never arrived on pid " << pid;
  }
  out.flows = static_cast<int>(flows.size());
  return out;
}

/// Adds its number to the element of each block.
int traced_kernel(const tessBlockContext* block, const void* args) {
  auto* x = *static_cast<int64_t* const*>(args);
  x[block->blockIndex[0]] += block->blockIndex[0];
  return 0;
}
/// Fails in every block.
int refusing_kernel(const tessBlockContext*, const void*) {
  return 7;
}

std::vector<registered_module::entry> traced_kernels() {
  return {{"traced", traced_kernel, {pointer_to("x", TESS_INT64)}},
          {"refusing", refusing_kernel, {}}};
}

tessLaunchConfig traced_blocks(int n) {
  return {{n, 1, 1}, {1, 1, 1}, 0, 0};
}

TEST(TesseraTrace, HasOneLaneForEachDeviceAndStream) {
  const environment workers({{"TESS_NUM_THREADS", "3"}});
  const temp_folder folder;
  session s(4, {2, 1, 2, 1});
  const registered_module m(s.context, traced_kernels());
  auto* x = s.memory<int64_t>(64);
  auto* y = s.memory<int64_t>(64);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessStream_t other = nullptr;
  tessEvent_t event = nullptr;
  ASSERT_TESS(tessStreamCreate(s.mesh, -1, &other));
  ASSERT_TESS(tessEventCreate(&event));
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  std::vector<int64_t> host(64);
  constexpr int rounds = 60;
  for (int i = 0; i < rounds; ++i) {
    tessStream_t const target = i % 3 == 0 ? other : s.stream;
    int64_t* buffer = i % 3 == 0 ? y : x;
    ASSERT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(i % 2 == 0 ? 1 : 64),
                           &buffer, sizeof buffer, target));
    ASSERT_TESS(tessMemcpyAsync(buffer, host.data(), 512, TESS_COPY_H2D, target));
    ASSERT_TESS(tessMemcpyAsync(buffer, buffer + 32, 256, TESS_COPY_D2D, target));
    ASSERT_TESS(tessMemsetAsync(buffer, i, 100, target));
    ASSERT_TESS(tessAllReduce(s.mesh, buffer, 64, TESS_INT64, TESS_COLL_MAX,
                              i % 2 == 0 ? "dp" : nullptr, target));
    ASSERT_TESS(tessEventRecord(event, target));
    ASSERT_TESS(tessStreamWaitEvent(target == other ? s.stream : other, event));
    ASSERT_TESS(tessLaunchHostFunc(
        target, [](void*) {}, nullptr));
  }
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  EXPECT_TESS(tessStreamSynchronize(other));
  const std::string path = folder / "trace.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const trace_facts facts = check_trace(parsed_file(path));
  EXPECT_EQ(facts.operations.at("kernel"), rounds * 4);
  EXPECT_EQ(facts.operations.at("copy"), rounds * 8);
  EXPECT_EQ(facts.operations.at("fill"), rounds * 4);
  EXPECT_EQ(facts.operations.at("collective"), rounds * 4);
  EXPECT_GE(facts.operations.at("host"), rounds);
  for (int64_t device = 1; device <= 4; ++device) {
    EXPECT_EQ(facts.rows.at(device).size(), 2U) << "streams of device " << device;
  }
  int events = 0;
  for (const auto& [category, count] : facts.operations) {
    events += count;
  }
  EXPECT_EQ(facts.flows, events);
  for (int64_t device = 1; device <= 4; ++device) {
    EXPECT_GE(facts.in_flight.at(device), 512) << "of device " << device;
  }
}

TEST(TesseraTrace, StreamsOfOneRankAreOnTheirOwnDevice) {
  const temp_folder folder;
  session s(1);
  const int ids[] = {5, 2};
  tessMesh_t mesh = nullptr;
  void* x = nullptr;
  ASSERT_TESS(tessMeshCreate(s.context, ids, 2, {1, 1, 2, 1}, &mesh));
  ASSERT_TESS(tessMalloc(mesh, 64, &x));
  const registered_module m(s.context, traced_kernels());
  tessStream_t streams[2] = {};
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  for (int r = 0; r < 2; ++r) {
    const tessStreamDesc desc{sizeof desc, 0, r, 0, 0, -1};
    ASSERT_TESS(tessStreamCreateEx(mesh, &desc, &streams[r]));
    ASSERT_TESS(tessLaunch(m["traced"], mesh, traced_blocks(8), &x, 8, streams[r]));
    ASSERT_TESS(
        tessAllReduce(mesh, x, 8, TESS_INT64, TESS_COLL_SUM, nullptr, streams[r]));
  }
  EXPECT_TESS(tessStreamSynchronize(streams[0]));
  EXPECT_TESS(tessStreamSynchronize(streams[1]));
  const std::string path = folder / "ranks.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const json_value trace = parsed_file(path);
  const trace_facts facts = check_trace(trace);
  for (const int64_t pid : {6, 3}) {
    ASSERT_EQ(facts.rows.count(pid), 1U) << pid;
    EXPECT_EQ(facts.rows.at(pid).size(), 1U) << "each device has one stream";
    const auto& names = facts.names.at(pid);
    EXPECT_EQ(std::count(names.begin(), names.end(), "traced"), 1);
    EXPECT_EQ(std::count(names.begin(), names.end(), "all_reduce"), 1);
  }
  EXPECT_EQ(facts.rows.size(), 3U) << "the trace has the host and two devices";
}

TEST(TesseraTrace, LaunchesSayHowMuchOfTheMachineTheyCanUse) {
  const environment workers({{"TESS_NUM_THREADS", "4"}});
  const temp_folder folder;
  session s(1);
  const registered_module m(s.context, traced_kernels());
  auto* x = s.memory<int64_t>(256);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  ASSERT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(1), &x, 8, s.stream));
  ASSERT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(256), &x, 8, s.stream));
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  const std::string path = folder / "occupancy.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  std::vector<std::string> found;
  const json_value trace = parsed_file(path);
  for (const json_value& event : trace["traceEvents"].items) {
    if (event["cat"].text == "kernel") {
      found.push_back(event["args"]["occupancy"].text);
    }
  }
  EXPECT_EQ(found, (std::vector<std::string>{"0.250", "1.000"}));
}

TEST(TesseraTrace, ShowsHowLongEachCallTook) {
  const temp_folder folder;
  session s(2);
  session other;
  const registered_module m(s.context, traced_kernels());
  auto* x = s.memory<int64_t>(8);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  ASSERT_TESS(tessLaunchHostFunc(
      s.stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); },
      nullptr));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  std::thread([&] {
    EXPECT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(8), &x, 8, s.stream));
  }).join();
  EXPECT_EQ(tessMemsetAsync(x, 0, 1000, s.stream), TESS_ERR_INVALID_VALUE);
  ASSERT_TESS(tessStreamSynchronize(other.stream));  // a call on another context
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const std::string path = folder / "calls.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const json_value trace = parsed_file(path);
  const trace_facts facts = check_trace(trace);
  EXPECT_EQ(facts.calls.at("tessStreamSynchronize"), 2);
  EXPECT_GE(facts.time_in_calls.at("tessStreamSynchronize"), 15'000'000);
  EXPECT_EQ(facts.calls.at("tessLaunch"), 1);
  EXPECT_GT(facts.time_in_calls.at("tessLaunch"), 0);
  EXPECT_EQ(facts.calls.at("tessMemsetAsync"), 1);
  EXPECT_EQ(facts.rows.at(0).size(), 2U)
      << "the host has one row for each thread that called";
  // Each flow begins inside the call that enqueued the operation.
  std::map<std::string, std::pair<int64_t, int64_t>> call;
  std::map<std::string, int64_t> thread;
  int64_t launched_by = -1;
  for (const json_value& event : trace["traceEvents"].items) {
    if (event["cat"].text == "call") {
      const int64_t start = event["ts"].nanoseconds().value_or(-1);
      call[event["name"].text] = {start, start + event["dur"].nanoseconds().value_or(0)};
      thread[event["name"].text] = event["tid"].whole();
      EXPECT_EQ(event["args"]["status"].text, event["name"].text == "tessMemsetAsync"
                                                  ? "TESS_ERR_INVALID_VALUE"
                                                  : "TESS_OK");
    }
    if (event["name"].text == "traced") {
      const int64_t enqueued = event["args"]["enqueue_ns"].whole();
      EXPECT_GE(enqueued, call.at("tessLaunch").first);
      EXPECT_LE(enqueued, call.at("tessLaunch").second);
    }
    if (event["ph"].text == "s" && launched_by != thread.at("tessLaunch")) {
      launched_by = event["tid"].whole();
    }
  }
  EXPECT_EQ(launched_by, thread.at("tessLaunch"));
}

TEST(TesseraTrace, KeepsTheEarliestAndCountsTheOthers) {
  const temp_folder folder;
  session s(1);
  tessProfilerDesc desc{sizeof desc, 0, 10};
  tessProfiler_t profiler = nullptr;
  auto* x = s.memory<int64_t>(8);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  ASSERT_TESS(tessProfilerStartEx(s.context, &desc, &profiler));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TESS(tessMemsetAsync(x, i, 8, s.stream));
    ASSERT_TESS(tessStreamSynchronize(s.stream));
  }
  const std::string path = folder / "limited.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const json_value trace = parsed_file(path);
  const trace_facts facts = check_trace(trace);
  int recorded = 0;
  for (const auto& [name, count] : facts.calls) {
    recorded += count;
  }
  for (const auto& [category, count] : facts.operations) {
    recorded += count;
  }
  EXPECT_EQ(recorded, 10);
  // Each round makes a fill, its end and two calls. The end of the last fill may come
  // after the profiler has stopped.
  const int dropped = std::stoi(trace["metadata"]["dropped_records"].text);
  EXPECT_TRUE(dropped == 69 || dropped == 70) << dropped;
  EXPECT_EQ(trace["metadata"]["record_limit"].text, "10");
  desc.reserved = 1;
  EXPECT_EQ(tessProfilerStartEx(s.context, &desc, &profiler), TESS_ERR_INVALID_VALUE);
  EXPECT_EQ(tessProfilerStartEx(s.context, nullptr, &profiler), TESS_ERR_INVALID_VALUE);
}

TEST(TesseraTrace, RecordsThePolicyAndItsLocks) {
  const environment locked({{"TESS_POLICY_LOCK", "stable,nofastmath"}});
  const temp_folder folder;
  session s;
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  const tessNumericsPolicy policy{1, 0, 0, 0};
  ASSERT_TESS(tessSetNumericsPolicy(s.context, &policy));
  const std::string path = folder / "policy.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const json_value trace = parsed_file(path);
  EXPECT_EQ(trace["metadata"]["TESS_POLICY_LOCK"].text, "nofastmath,stable");
  EXPECT_EQ(trace["metadata"]["policy"].text,
            "stableReductions=1,deterministic=1,rngStateless=1,allowFastMath=0");
  EXPECT_EQ(trace["metadata"]["policy_at_end"].text,
            "stableReductions=1,deterministic=0,rngStateless=0,allowFastMath=0");
  EXPECT_EQ(trace["metadata"]["TESS_PROFILER_RECORDS"].text, "262144");
}

TEST(TesseraTrace, EstimatesTheBusTrafficOfCollectives) {
  const temp_folder folder;
  session s(4);
  auto* x = s.memory<float>(1 << 16);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  constexpr std::size_t count = 1 << 16;
  ASSERT_TESS(
      tessAllReduce(s.mesh, x, count, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(
      tessReduceScatter(s.mesh, x, count, TESS_FP32, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessAllGather(s.mesh, x, count, TESS_FP32, nullptr, s.stream));
  ASSERT_TESS(tessBroadcast(s.mesh, x, count, TESS_FP32, 1, s.stream));
  ASSERT_TESS(tessMemsetAsync(x, 0, 4, s.stream));
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  const std::string path = folder / "bus.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const std::map<std::string, double> factors = {{"all_reduce", 1.5},
                                                 {"reduce_scatter", 0.75},
                                                 {"all_gather", 0.75},
                                                 {"broadcast", 1}};
  const json_value trace = parsed_file(path);
  int seen = 0;
  for (const json_value& event : trace["traceEvents"].items) {
    const json_value& bus = event["args"]["busGB/s"];
    const auto expected = factors.find(event["name"].text);
    if (expected == factors.end()) {
      EXPECT_EQ(bus.is, json_value::type::null) << event["name"].text;
    } else {
      ++seen;
      EXPECT_NEAR(std::stod(bus.text),
                  expected->second * std::stod(event["args"]["GB/s"].text), 0.002);
    }
  }
  EXPECT_EQ(seen, 16);
}

TEST(TesseraTrace, OfNothingIsATrace) {
  const temp_folder folder;
  session s(2);
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  const std::string path = folder / "empty.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  EXPECT_TRUE(check_trace(parsed_file(path)).operations.empty());
}

TEST(TesseraTrace, LeavesOutWhatDidNotRun) {
  const temp_folder folder;
  session s(2);
  const registered_module m(s.context, traced_kernels());
  auto* x = s.memory<int64_t>(8);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  ASSERT_TESS(tessLaunch(m["refusing"], s.mesh, traced_blocks(1), nullptr, 0, s.stream));
  ASSERT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(8), &x, 8, s.stream));
  EXPECT_EQ(tessStreamSynchronize(s.stream), TESS_ERR_LAUNCH_FAILED);
  const std::string path = folder / "failed.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const trace_facts facts = check_trace(parsed_file(path));
  EXPECT_EQ(facts.operations.at("kernel"), 2)
      << "the kernel that fails is recorded once for each device";
}

TEST(TesseraTrace, ShowsReplaysOfGraphsToo) {
  const temp_folder folder;
  session s(2);
  const registered_module m(s.context, traced_kernels());
  auto* x = s.memory<int64_t>(8);
  ASSERT_TESS(tessStreamSynchronize(s.stream));
  tessProfiler_t profiler = nullptr;
  ASSERT_TESS(tessProfilerStart(s.context, &profiler));
  tessGraph_t graph = nullptr;
  tessGraphExec_t exec = nullptr;
  ASSERT_TESS(tessStreamBeginCapture(s.stream));
  ASSERT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(8), &x, 8, s.stream));
  ASSERT_TESS(tessAllReduce(s.mesh, x, 8, TESS_INT64, TESS_COLL_SUM, nullptr, s.stream));
  ASSERT_TESS(tessStreamEndCapture(s.stream, &graph));
  ASSERT_TESS(tessGraphInstantiate(graph, &exec));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TESS(tessGraphLaunch(exec, s.stream));
  }
  EXPECT_TESS(tessStreamSynchronize(s.stream));
  const std::string path = folder / "graph.json";
  ASSERT_TESS(tessProfilerStop(profiler, path.c_str()));
  const trace_facts facts = check_trace(parsed_file(path));
  EXPECT_EQ(facts.operations.at("kernel"), 5 * 2);
  EXPECT_EQ(facts.operations.at("collective"), 5 * 2);
}

/// Several profilers start and stop while streams are busy.
TEST(TesseraTrace, ProfilersComeAndGoWhileStreamsWork) {
  const temp_folder folder;
  session s(2);
  const registered_module m(s.context, traced_kernels());
  auto* x = s.memory<int64_t>(8);
  std::atomic<bool> stop{false};
  std::thread work([&] {
    while (!stop) {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TESS(tessLaunch(m["traced"], s.mesh, traced_blocks(8), &x, 8, s.stream));
      }
      EXPECT_TESS(tessStreamSynchronize(s.stream));
    }
  });
  std::vector<std::string> paths;
  for (int i = 0; i < 8; ++i) {
    tessProfiler_t outer = nullptr;
    tessProfiler_t inner = nullptr;
    EXPECT_TESS(tessProfilerStart(s.context, &outer));
    EXPECT_TESS(tessProfilerStart(s.context, &inner));
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    EXPECT_TESS(tessProfilerStop(outer, nullptr));
    paths.push_back(folder / (std::to_string(i) + ".json"));
    EXPECT_TESS(tessProfilerStop(inner, paths.back().c_str()));
  }
  stop = true;
  work.join();
  for (const std::string& path : paths) {
    check_trace(parsed_file(path));
  }
}

}  // namespace
}  // namespace weir::test
