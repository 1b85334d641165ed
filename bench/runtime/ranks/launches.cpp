// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches of programs of several ranks.
#include "launches.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>

#include "clean.hpp"
#include "turns.hpp"

namespace weir::bench {
namespace {

/// Number of quiet turns that are enough.
constexpr std::size_t wanted = 9;
/// Number of turns of one launch. The memory that a launch has got may suit one side, so
/// the programs are started again and again.
constexpr std::size_t turns_of_launch = 8;
/// Longest time of all turns of a row. @units{seconds}
constexpr double longest_row = 120;

/// A process that computes until the end of this object.
class busy_process {
 public:
  busy_process() : id_(::fork()) {
    if (id_ == 0) {
      for (;;) {
        work(1'000'000);
      }
    }
  }
  ~busy_process() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
  }
  busy_process(const busy_process&) = delete;
  busy_process& operator=(const busy_process&) = delete;

 private:
  pid_t id_;
};

std::string line_of(const launch& one, const turns& given) {
  // The launcher needs no remote shell for ranks on this machine, and more ranks than
  // processors are no error.
  return std::string("WEIR_MPI_FOLDER=" WEIR_BENCH_PLUGINS " ") + turns::variable + "=" +
         given.path() +
         " timeout 900 " WEIR_BENCH_MPIRUN
         " --allow-run-as-root --oversubscribe --bind-to none --mca plm isolated" +
         (one.over_tcp ? " --mca btl tcp,self" : "") + " -n " +
         std::to_string(one.ranks) + " " WEIR_BENCH_RANKS "/" + one.program + " " +
         one.words + " 0 " + one.more + " </dev/null";
}

/// A program that runs. Its ranks are stopped except for its turns, since their threads
/// would take time from the others even when they wait.
class running_program {
 public:
  /// Starts the program and returns when all ranks are ready.
  explicit running_program(const launch& one)
      : ranks_(one.ranks),
        line_(line_of(one, given_)),
        pipe_(::popen(line_.c_str(), "r"), ::pclose) {
    while (processes_.size() < static_cast<std::size_t>(ranks_)) {
      int process = 0;
      if (std::sscanf(next_line().c_str(), "ready %*d %d", &process) == 1) {
        processes_.push_back(process);
      }
    }
    signal_all(SIGSTOP);
  }
  ~running_program() { let_end(); }
  running_program(const running_program&) = delete;
  running_program& operator=(const running_program&) = delete;

  struct sample {
    double seconds = 0;  ///< of the slowest rank
    double waited = 0;   ///< longest time that a rank waited for a processor; nanoseconds
  };
  /// Gives the program a turn and returns its sample.
  sample take() {
    signal_all(SIGCONT);
    given_.give();
    sample out;
    for (int seen = 0; seen < ranks_;) {
      double seconds = 0;
      double waited = 0;
      if (std::sscanf(next_line().c_str(), "sample %*d %*d %lf %lf", &seconds, &waited) ==
          2) {
        out.seconds = std::max(out.seconds, seconds);
        out.waited = std::max(out.waited, waited);
        ++seen;
      }
    }
    signal_all(SIGSTOP);
    return out;
  }
  /// Ends the program and returns the checksum of its state.
  std::string end() {
    let_end();
    for (;;) {
      const std::string line = next_line();
      if (line.rfind("checksum ", 0) == 0) {
        return line.substr(9);
      }
    }
  }

 private:
  void signal_all(int number) const {
    for (const pid_t one : processes_) {
      ::kill(one, number);
    }
  }
  void let_end() {
    given_.end();
    signal_all(SIGCONT);
  }
  std::string next_line() {
    std::array<char, 256> text{};
    if (pipe_ == nullptr ||
        std::fgets(text.data(), text.size(), pipe_.get()) == nullptr) {
      throw std::runtime_error("expected another line, found the end of: " + line_);
    }
    return text.data();
  }

  turns given_;
  int ranks_;
  std::string line_;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe_;
  std::vector<pid_t> processes_;  ///< of the ranks
};

/// Ends the programs and compares their states.
void compare_states(const std::vector<std::unique_ptr<running_program>>& all) {
  const std::string first = all.front()->end();
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::string other = all[i]->end();
    if (other != first) {
      throw std::runtime_error("expected the checksum " + first + ", found " + other +
                               " of program " + std::to_string(i));
    }
  }
}

/// The samples of the turns of a row.
struct taken_turns {
  std::vector<std::vector<double>> seconds;  ///< of each program
  std::vector<double> ratios;                ///< of each turn
  std::vector<double> quiet;                 ///< of each quiet turn
};

/// Takes one sample of each program, in reverse order in every second turn, so that a
/// steady change of the machine affects all sides alike.
void take_turn(const std::vector<std::unique_ptr<running_program>>& programs,
               bool beside_work, const ratio_of_samples& ratio, taken_turns& to) {
  const unsigned processors = beside_work ? 0 : 2;
  const bool reversed = to.ratios.size() % 2 == 1;
  std::vector<double> seconds(programs.size());
  double disturbance = look(processors).disturbance();
  bool on_time = true;
  for (std::size_t k = 0; k < programs.size(); ++k) {
    const std::size_t i = reversed ? programs.size() - 1 - k : k;
    const auto taken = programs[i]->take();
    disturbance = std::max(disturbance, look(processors).disturbance());
    on_time = on_time && taken.waited <= std::max(20e3, taken.seconds * 2e7);
    seconds[i] = taken.seconds;
    to.seconds[i].push_back(taken.seconds);
  }
  to.ratios.push_back(ratio(seconds));
  if (beside_work || (on_time && disturbance <= max_disturbance)) {
    to.quiet.push_back(to.ratios.back());
  }
}

void print_medians(const std::vector<launch>& programs, const taken_turns& of) {
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::fprintf(stderr, "%s %s %s, %d ranks: %.4g ms, least %.4g\n",
                 programs[i].program.c_str(), programs[i].words.c_str(),
                 programs[i].more.c_str(), programs[i].ranks, median(of.seconds[i]) * 1e3,
                 *std::min_element(of.seconds[i].begin(), of.seconds[i].end()) * 1e3);
  }
}

/// Starts the program that pretends to be a rank in the middle of many.
pretended_figures launch_pretended(int ranks) {
  const std::string line =
      "WEIR_PRETEND=" + std::to_string(ranks / 2) + "/" + std::to_string(ranks) +
      " timeout 300 " WEIR_BENCH_RANKS "/pretended_rank </dev/null 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  pretended_figures out;
  std::array<char, 256> text{};
  while (pipe != nullptr && std::fgets(text.data(), text.size(), pipe.get()) != nullptr) {
    std::sscanf(text.data(), "own_ns %lf", &out.own_ns);
    std::sscanf(text.data(), "foreign_ns %lf", &out.foreign_ns);
    std::sscanf(text.data(), "peak_kib %lf", &out.peak_kib);
  }
  if (out.own_ns == 0 || out.foreign_ns == 0 || out.peak_kib == 0) {
    throw std::runtime_error("no figures from: " + line);
  }
  return out;
}

std::map<int, pretended_figures> measure_pretended() {
  constexpr int launches = 7;
  std::map<int, std::vector<pretended_figures>> all;
  for (int i = 0; i < launches; ++i) {
    for (const int ranks : {16, 1024, 10'000}) {
      wait_until_clean(1);
      all[ranks].push_back(launch_pretended(ranks));
    }
  }
  std::map<int, pretended_figures> medians;
  for (const auto& [ranks, figures] : all) {
    const auto of_all = [&all = figures](double pretended_figures::*member) {
      std::vector<double> values;
      for (const pretended_figures& one : all) {
        values.push_back(one.*member);
      }
      return median(values);
    };
    medians[ranks] = {of_all(&pretended_figures::own_ns),
                      of_all(&pretended_figures::foreign_ns),
                      of_all(&pretended_figures::peak_kib)};
    std::fprintf(stderr, "rank %d of %d: %.1f ns, %.2f ns, %.0f KiB\n", ranks / 2, ranks,
                 medians[ranks].own_ns, medians[ranks].foreign_ns,
                 medians[ranks].peak_kib);
  }
  return medians;
}

}  // namespace

const pretended_figures& figures_of_pretended(int ranks) {
  static const std::map<int, pretended_figures> all = measure_pretended();
  return all.at(ranks);
}

measured ratio_in_turn(const std::vector<launch>& programs, bar limit,
                       const ratio_of_samples& ratio) {
  const bool beside_work = programs.front().beside_work;
  taken_turns taken{std::vector<std::vector<double>>(programs.size()), {}, {}};
  std::optional<interval> range;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
        .count();
  };
  while (taken.quiet.size() < wanted && !(range && range->decides(limit)) &&
         seconds() < longest_row) {
    std::vector<std::unique_ptr<running_program>> all;
    for (const launch& one : programs) {
      all.push_back(std::make_unique<running_program>(one));
    }
    const auto beside = beside_work ? std::make_unique<busy_process>() : nullptr;
    for (std::size_t i = 0; i < turns_of_launch; ++i) {
      take_turn(all, beside_work, ratio, taken);
    }
    compare_states(all);
    range = interval_of_median(taken.ratios);
  }
  print_medians(programs, taken);
  if (beside_work) {
    return {median(taken.ratios), 1.0};
  }
  const bool enough = taken.quiet.size() >= wanted;
  sampling_of_row().add_set(taken.quiet.size(), taken.ratios.size());
  measured out(median(enough ? taken.quiet : taken.ratios), 1.0);
  out.range = enough ? std::nullopt : range;
  return out;
}

}  // namespace weir::bench
