// SPDX-License-Identifier: Apache-2.0
/// @file
/// `weir doctor`: describes this build and this machine, for reports of problems.
///
/// Everything is collected as JSON first, in sections. The text is printed from the same
/// JSON, so both forms have the same facts. Nothing leaves the machine.
///
/// Of several ranks, rank 0 says everything, and the others only what differs: their
/// part of the section about the run.
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "commands.hpp"
#include "launch/launch.hpp"
#include "weir/base/clock.hpp"
#include "weir/base/file.hpp"
#include "weir/base/system/memory.hpp"
#include "weir/base/text.hpp"
#include "weir/formats/tensogram_validate.hpp"
#include "weir/models/facts.hpp"
#include "weir/models/instruction_sets.hpp"
#include "weir/models/prose.hpp"
#include "weir/mpi/ranks.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/world.hpp"

namespace weir::tools {

namespace {

using json = nlohmann::ordered_json;

// Returns version, compiler and kind of this build.
// All of it is known when the program is compiled.
json build_facts() {
#if defined(__clang__)
  const std::string compiler = "clang++ " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
/// `assert` is active without NDEBUG, whatever the level of optimisation.
#if defined(NDEBUG)
  const std::string type = "release";
#else
  const std::string type = "with assertions";
#endif
  return {{"version", WEIR_VERSION},
          {"compiler", compiler},
          {"build", type},
          // The macro is an empty text in ordinary builds.
          {"sanitizer", std::string(WEIR_SANITIZER).empty() ? "none" : WEIR_SANITIZER}};
}

/// Returns the versions of the libraries that this program is linked with. Those that can
/// be asked at run time are asked, because a shared library may be newer than its header.
json library_facts() {
  return {{"caf", WEIR_CAF_VERSION},
          {"zstd", ZSTD_versionString()},
          {"zlib", zlibVersion()},
          {"xxhash", XXH_versionNumber()},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                              FMT_VERSION % 100)},
          {"nlohmann-json",
           fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR,
                       NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)}};
}

// Returns the instruction sets of this processor that Weir has code for.
json features() {
  json out = json::array();
  const auto add = [&](bool has, const char* name) {
    if (has) {
      out.push_back(name);
    }
  };
  // The features are read once by the C runtime, and this makes sure that they have been.
  __builtin_cpu_init();
  add(__builtin_cpu_supports("sse4.2") != 0, "sse4.2");
  add(__builtin_cpu_supports("pclmul") != 0, "pclmul");
  add(__builtin_cpu_supports("avx") != 0, "avx");
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("fma") != 0, "fma");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(__builtin_cpu_supports("avx512vl") != 0, "avx512vl");
  return out;
}

/// Returns cores, and the memory that this process may use.
json machine_facts() {
  const memory_facts memory = memory_of_machine();
  return {{"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", memory.total},
          {"memory_available_bytes", memory.available},
          {"cpu_features", features()}};
}

// Builds a small model, because the name of the kernel set is chosen when a model is
// built.
json kernel_facts() {
  // The engine has no extra workers here. It only owns the memory of the model.
  auto engine = runtime::engine::create({});
  if (!engine) {
    // A failure is a fact of the report as well, and decides the exit code at the end.
    return {{"problem", engine.error().message()}};
  }
  auto model = models::prose::create(**engine, {});
  if (!model) {
    return {{"problem", model.error().message()}};
  }
  json sets = json::array();
  for (const std::string_view name : models::instruction_sets_here()) {
    sets.push_back(name);
  }
  return {{"kernel_set", (*model)->kernel_set()},
          {"instruction_sets", std::move(sets)},
          {"parameters", (*model)->parameter_count()}};
}

// Returns the compressions that the self-test of the message format reports as built in.
json compressions() {
  json out = {"none"};
  const formats::self_test_report report = formats::self_test();
  // The self-test encodes and decodes with every codec, so "on" means more than being
  // linked.
  for (const formats::cbor_value& row : *report.facts.find("features")->array()) {
    const formats::cbor_map& facts = *row.map();
    if (*facts.find("kind")->text() == "compression" &&
        *facts.find("state")->text() == "on") {
      out.push_back(*facts.find("name")->text());
    }
  }
  return out;
}

/// Returns what this program can read, write and compute with, from the view of a user.
json built_in() {
  return {
      {"formats", {"tensogram", "safetensors", "gguf", "fatbin"}},
      {"compression", compressions()},
      {"volumes", {"hn4"}},
      {"devices", {"cpu"}},
      {"gpus",
       "a backend for CUDA 12.0 and newer, which TESS_BACKEND=cuda selects; it has run "
       "over a stand-in for the driver, and no result on a physical GPU has been seen"},
      {"models",
       {"prose", std::string(name_of(models::architecture::llama)),
        std::string(name_of(models::architecture::bert))}}};
}

/// Returns true if a folder of PATH has a program.
bool has_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access(join_path(folder, name).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

// Returns how to start as many ranks as there are processors, and more.
json start_advice(bool has_openmpi, bool has_mpich, int processors) {
  if (has_openmpi) {
    // Open MPI binds ranks to cores, which would leave the threads of a rank on one core,
    // and has room for one rank per core, even where a core is several processors.
    // As the superuser it refuses to start without an option, and it starts processes of
    // this machine by ssh or rsh unless it is told not to.
    const bool has_shell = has_program("ssh") || has_program("rsh");
    return {
        {"start",
         fmt::format(
             "mpirun.openmpi --bind-to none --use-hwthread-cpus{}{} -n {} PROGRAM",
             getuid() == 0 ? " --allow-run-as-root" : "",
             has_shell ? "" : " --mca plm isolated", processors)},
        {"more_ranks", fmt::format("add --oversubscribe for more than {}", processors)}};
  }
  if (has_mpich) {
    return {{"start", fmt::format("mpirun.mpich -n {} PROGRAM", processors)},
            {"more_ranks",
             fmt::format("more than {} need no option, but each rank of MPICH keeps a "
                         "processor busy while it waits",
                         processors)}};
  }
  return {{"start",
           "install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev, and build "
           "again"}};
}

// Returns what is here for worlds of several processes, and how to start them.
json mpi_facts(const launch_facts& run, const processor_facts& processors) {
  // Each finding is one library of MPI: its plug-in of Weir and its launcher, both with a
  // path if they exist.
  json out;
  bool has_openmpi = false;
  bool has_mpich = false;
  for (const mpi_finding& one : find_mpi()) {
    // Only a complete library leads to advice on how to start.
    const bool complete = !one.plugin.empty() && !one.launcher.empty();
    has_openmpi = has_openmpi || (complete && one.library == "openmpi");
    has_mpich = has_mpich || (complete && one.library == "mpich");
    out[one.library] = fmt::format(
        "{}, {}", one.plugin.empty() ? "no plug-in of Weir" : "plug-in " + one.plugin,
        one.launcher.empty() ? "no launcher" : "launcher " + one.launcher);
  }
  // The processors that this process may use may be fewer than the machine has, for
  // instance in a container. One is the safe answer if the system does not say. What a
  // launcher has bound a rank to says nothing about the next start.
  const int usable =
      std::max(1, run.by == launcher::none ? processors.allowed : processors.reachable);
  out["processors"] = fmt::format("{} allowed of {}; more ranks x workers share them",
                                  usable, std::thread::hardware_concurrency());
  out.update(start_advice(has_openmpi, has_mpich, usable));
  return out;
}

// Returns how this process was started, and whether its workers have processors. All of
// this differs between ranks.
json run_facts(const launch_facts& run, const processor_facts& processors, int workers) {
  const launch_verdict found = judge(run, processors, workers);
  json out{{"launcher", name_of(run.by)}, {"rank", run.rank}, {"ranks", run.ranks}};
  if (!run.is_connected) {
    out["connection"] =
        "none, so each rank is a world of its own: start with srun --mpi=pmix for "
        "OpenMPI, or --mpi=pmi2 for MPICH";
  }
  if (run.ranks_here > 0) {
    out["ranks_here"] = run.ranks_here;
  }
  out.update({{"workers", workers},
              {"processors", processors.allowed},
              {"their_numbers", processors.numbers},
              {"binding_fits", found.binding_fits},
              {"binding", found.binding},
              {"oversubscribed", found.is_oversubscribed},
              {"oversubscription", found.oversubscription}});
  return out;
}

// Tests whether files can be written durably and replaced in a folder.
json folder_fact(const std::string& folder) {
  // The number of the process keeps two doctors apart.
  const std::string path = join_path(folder, fmt::format(".weir-doctor-{}", getpid()));
  const auto written = write_file_atomically(posix_file_system(), path, as_view("weir"));
  if (!written) {
    return {
        {"folder", folder}, {"writable", false}, {"problem", written.error().message()}};
  }
  // A file that can be written but not removed counts as not writable.
  const auto removed = posix_file_system().remove(path);
  return {{"folder", folder}, {"writable", removed.has_value()}};
}

/// The current folder, where run folders are made, and the one for temporary files.
json folder_facts() {
  namespace fs = std::filesystem;
  json out = json::array();
  for (const auto& [words, path_of] :
       {std::pair{"the current folder",
                  +[](std::error_code& e) { return fs::current_path(e); }},
        std::pair{"the folder for temporary files",
                  +[](std::error_code& e) { return fs::temp_directory_path(e); }}}) {
    std::error_code failed;
    const fs::path path = path_of(failed);
    out.push_back(
        failed
            ? json{{"folder", words}, {"writable", false}, {"problem", failed.message()}}
            : folder_fact(path.string()));
  }
  return out;
}

// Returns the time of day, and the smallest step of the monotonic clock that was seen.
json clock_facts() {
  // The smallest of a thousand steps: larger ones include interruptions.
  std::int64_t step = INT64_MAX;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t from = now_ns();
    std::int64_t to = now_ns();
    // Steps of zero are passed over by waiting for the next value.
    while (to == from) {
      to = now_ns();
    }
    step = std::min(step, to - from);
  }
  std::array<char, 32> text{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {{"utc", text.data()}, {"monotonic_step_ns", step}};
}

// Returns a fact as text. Keys that end with "_bytes" hold sizes.
// Arrays and objects are handled here, so the caller need not know the shape of a value.
std::string in_words(const std::string& key, const json& value) {
  if (value.is_array()) {
    std::string out;
    for (const json& item : value) {
      out += (out.empty() ? "" : ", ") + in_words("", item);
    }
    return out;
  }
  if (value.is_object()) {  // only folders are objects
    return value["folder"].get<std::string>() +
           (value["writable"].get<bool>() ? " is writable" : " is NOT writable");
  }
  // The text must be longer than the ending, which alone is no name.
  if (key.size() > 6 && key.substr(key.size() - 6) == "_bytes") {
    return human_bytes(value.get<std::uint64_t>());
  }
  // Numbers are printed as JSON writes them.
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Prints a line for each fact. The name of a section stands only in its first line.
/// @param begin  of each line
void print_doctor_facts(const json& facts, const std::string& begin, output& out) {
  for (const auto& [section, content] : facts.items()) {
    if (!content.is_object()) {
      out.print("{}{:10} {}\n", begin, section, in_words("", content));
      continue;
    }
    std::string title = section;
    for (const auto& [key, value] : content.items()) {
      out.print("{}{:10} {:18} {}\n", begin, title, key, in_words(key, value));
      title.clear();
    }
  }
}

/// Prints the facts. Several ranks write to one output, where lines may mix, so each
/// prints its JSON as one line.
/// Names of folders may be invalid UTF-8, which JSON cannot hold. They are replaced.
void print_facts_of_rank(const json& facts, const launch_facts& run, bool as_json,
                         output& out) {
  if (!as_json) {
    print_doctor_facts(
        facts,
        run.rank == 0 ? ""
                      : runtime::line_prefix(static_cast<runtime::rank_id>(run.rank)),
        out);
  } else if (run.ranks > 1) {
    out.print("{}\n", json_text(facts));
  } else {
    out.print("{}\n", facts.dump(2, ' ', false, json::error_handler_t::replace));
  }
}

}  // namespace

command_result doctor_command(const doctor_options& options, output& out) {
  const launch_facts run = launch_of([](const char* name) { return std::getenv(name); });
  const processor_facts processors = processors_of_process();
  const int workers =
      options.workers > 0 ? options.workers : fair_workers(run, processors);
  const json of_run = run_facts(run, processors, workers);
  if (run.rank != 0) {
    print_facts_of_rank({{"run", of_run}}, run, options.json, out);
    return 0;
  }
  // Every section is computed even if an earlier one failed.
  const json facts{{"build", build_facts()},
                   {"kernels", kernel_facts()},
                   {"machine", machine_facts()},
                   {"libraries", library_facts()},
                   {"built_in", built_in()},
                   {"mpi", mpi_facts(run, processors)},
                   {"run", of_run},
                   {"folders", folder_facts()},
                   {"clock", clock_facts()}};
  print_facts_of_rank(facts, run, options.json, out);
  // Kernels are what the program cannot work without. Other findings are no failure.
  return facts["kernels"].contains("problem") ? exit_code_of(errc::internal) : 0;
}

}  // namespace weir::tools
