// SPDX-License-Identifier: Apache-2.0
/// @file
/// Launches of programs of several ranks.
#include "launches.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>

#include "clean.hpp"

namespace weir::bench {
namespace {

/// Samples of one launch.
constexpr int samples_of_launch = 3;
/// Number of quiet samples that a side has at the end, if the machine allows.
constexpr std::size_t wanted = 9;
constexpr int max_turns = 10;

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

std::string line_of(const launch& one) {
  // The launcher needs no remote shell for ranks on this machine, and more ranks than
  // processors are no error.
  return std::string("WEIR_MPI_FOLDER=" WEIR_BENCH_PLUGINS
                     " timeout 300 " WEIR_BENCH_MPIRUN
                     " --allow-run-as-root --oversubscribe --bind-to none --mca plm "
                     "isolated") +
         (one.over_tcp ? " --mca btl tcp,self" : "") + " -n " +
         std::to_string(one.ranks) + " " WEIR_BENCH_RANKS "/" + one.program + " " +
         one.words + " " + std::to_string(samples_of_launch) + " " + one.more +
         " </dev/null";
}

/// The lines that a launch has printed.
struct printed {
  std::map<int, double> seconds;  ///< of each sample, the longest of all ranks
  std::map<int, double> waited;   ///< longest time that a rank waited for a processor
  std::string checksum;
};

printed read_lines(const std::string& line) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  printed out;
  std::array<char, 256> text{};
  while (pipe != nullptr && std::fgets(text.data(), text.size(), pipe.get()) != nullptr) {
    int rank = 0;
    int sample = 0;
    double seconds = 0;
    double waited = 0;
    std::array<char, 64> sum{};
    if (std::sscanf(text.data(), "sample %d %d %lf %lf", &rank, &sample, &seconds,
                    &waited) == 4) {
      out.seconds[sample] = std::max(out.seconds[sample], seconds);
      out.waited[sample] = std::max(out.waited[sample], waited);
    } else if (std::sscanf(text.data(), "checksum %63s", sum.data()) == 1) {
      out.checksum = sum.data();
    }
  }
  if (out.seconds.size() != samples_of_launch || out.checksum.empty()) {
    throw std::runtime_error("no samples from: " + line);
  }
  return out;
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

void add_launch(const launch& one, launch_samples& to) {
  const std::unique_ptr<busy_process> beside =
      one.beside_work ? std::make_unique<busy_process>() : nullptr;
  const unsigned processors = one.beside_work ? 0 : 2;
  const double before = wait_until_clean(processors);
  const printed lines = read_lines(line_of(one));
  const double disturbance = std::max(before, look(processors).disturbance());
  if (!to.checksum.empty() && to.checksum != lines.checksum) {
    throw std::runtime_error("expected the checksum " + to.checksum + ", found " +
                             lines.checksum + " from: " + line_of(one));
  }
  to.checksum = lines.checksum;
  for (const auto& [sample, seconds] : lines.seconds) {
    to.all.push_back(seconds);
    const bool on_time = lines.waited.at(sample) <= std::max(20e3, seconds * 2e7);
    if (on_time && disturbance <= max_disturbance) {
      to.quiet.push_back(seconds);
    }
  }
}

std::vector<launch_samples> launch_in_turn(const std::vector<launch>& programs) {
  std::vector<launch_samples> out(programs.size());
  const bool beside_work = programs.front().beside_work;
  for (int turn = 0; turn < max_turns; ++turn) {
    bool enough = turn > 0;
    for (std::size_t i = 0; i < programs.size(); ++i) {
      out[i].checksum = out.front().checksum;
      add_launch(programs[i], out[i]);
      enough = enough && (beside_work ? out[i].all : out[i].quiet).size() >= wanted;
    }
    if (enough) {
      break;
    }
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (!beside_work) {
      sampling_of_row().add_set(out[i].quiet.size(), out[i].all.size());
    }
    std::fprintf(stderr, "%s %s %s, %d ranks: %.4g ms, %zu quiet of %zu samples\n",
                 programs[i].program.c_str(), programs[i].words.c_str(),
                 programs[i].more.c_str(), programs[i].ranks, out[i].seconds() * 1e3,
                 out[i].quiet.size(), out[i].all.size());
  }
  return out;
}

}  // namespace weir::bench
