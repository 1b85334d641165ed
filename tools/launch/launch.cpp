// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reads what launchers say of a run, and judges the processors of its ranks.
#include "launch/launch.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <thread>

namespace weir::tools {

namespace {

/// Returns the number that a text begins with; `otherwise` if it begins with none.
int number_in(std::string_view text, int otherwise) {
  int number = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Returns the number in a variable; `otherwise` if there is none, and 0 for one below 0.
int number_in_variable(const variable_reader& variable, const char* name, int otherwise) {
  const char* const text = variable(name);
  return text == nullptr ? otherwise : std::max(0, number_in(text, otherwise));
}

/// Returns the number of tasks on a machine from Slurm's list for all machines of a step:
/// "2(x3),1" means 2, 2, 2 and 1. Returns 0 if the list does not have the machine.
int tasks_on(std::string_view list, int machine) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find(','));
    const std::size_t repeated = one.find("(x");
    machine -=
        repeated == one.npos ? 1 : std::max(1, number_in(one.substr(repeated + 2), 1));
    if (machine < 0) {
      return std::max(0, number_in(one, 0));
    }
    list.remove_prefix(std::min(one.size() + 1, list.size()));
  }
  return 0;
}

/// Returns what srun says. Unlike mpirun, it may have started ranks that do not know of
/// each other.
launch_facts launch_by_srun(const variable_reader& variable) {
  launch_facts run;
  run.by = launcher::srun;
  run.rank = number_in_variable(variable, "SLURM_PROCID", 0);
  run.ranks = number_in_variable(variable, "SLURM_NTASKS", 1);
  const char* list = variable("SLURM_STEP_TASKS_PER_NODE");
  list = list == nullptr ? variable("SLURM_TASKS_PER_NODE") : list;
  run.ranks_here = list == nullptr
                       ? 0
                       : tasks_on(list, number_in_variable(variable, "SLURM_NODEID", 0));
  run.is_connected = run.ranks == 1 || variable("PMIX_RANK") != nullptr ||
                     variable("PMI_SIZE") != nullptr;
  return run;
}

/// Returns the numbers of a set of processors, with ranges: "0-3,8".
std::string numbers_of(const cpu_set_t& set) {
  std::string out;
  for (std::size_t first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &set)) {
      continue;
    }
    std::size_t last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) {
      ++last;
    }
    out += fmt::format("{}{}", out.empty() ? "" : ",", first);
    out += last == first ? std::string() : fmt::format("-{}", last);
    first = last;
  }
  return out;
}

/// "1 rank", "2 ranks".
std::string counted(int number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

/// Returns how to start ranks that may use as many processors as they have workers.
std::string binding_option(const launch_facts& run, const processor_facts& processors,
                           int workers) {
  // Each rank can have processors of its own only if there are enough for all.
  const bool has_enough =
      run.ranks_here > 0 && run.ranks_here <= processors.reachable / workers;
  switch (run.by) {
    case launcher::openmpi:
      return "start with mpirun.openmpi --bind-to none" +
             (has_enough ? fmt::format(", or with --map-by slot:PE={}, which binds each "
                                       "rank to {}",
                                       workers, counted(workers, "core"))
                         : std::string());
    case launcher::mpich: return "start with mpirun.mpich -bind-to none";
    case launcher::srun:
      return (has_enough
                  ? fmt::format("start with srun --cpus-per-task={}, or with ", workers)
                  : std::string("start with srun ")) +
             "--cpu-bind=none";
    case launcher::none: break;
  }
  return fmt::format("start without taskset, or with {}",
                     counted(processors.allowed, "worker"));
}

/// Returns how to start ranks that do not share processors.
std::string load_option(const launch_facts& run, int processors, int workers) {
  if (run.ranks_here > processors) {
    return fmt::format(
        "start at most {} on this machine, with 1 worker each{}",
        counted(processors, "rank"),
        run.by == launcher::mpich
            ? "; a rank of MPICH keeps a processor busy while it waits, so "
              "start more of them with mpirun.openmpi --oversubscribe"
            : "");
  }
  std::string option = fmt::format("give each rank at most {}",
                                   counted(processors / run.ranks_here, "worker"));
  if (run.by == launcher::srun) {
    option += fmt::format(", or start with srun --cpus-per-task={}", workers);
  } else if (run.ranks > 1 && workers <= processors) {
    option += fmt::format(", or start at most {} on this machine",
                          counted(processors / workers, "rank"));
  }
  return option;
}

}  // namespace

const char* name_of(launcher by) noexcept {
  switch (by) {
    case launcher::openmpi: return "mpirun of OpenMPI";
    case launcher::mpich: return "mpirun of MPICH";
    case launcher::srun: return "srun";
    case launcher::none: break;
  }
  return "none";
}

/// Both launchers named mpirun may themselves use srun, so they are looked for first.
/// srun sets PMI_SIZE with `--mpi=pmi2`, so MPICH's own variable tells them apart.
launch_facts launch_of(const variable_reader& variable) {
  launch_facts run;
  if (variable("OMPI_COMM_WORLD_SIZE") != nullptr) {
    run.by = launcher::openmpi;
    run.rank = number_in_variable(variable, "OMPI_COMM_WORLD_RANK", 0);
    run.ranks = number_in_variable(variable, "OMPI_COMM_WORLD_SIZE", 1);
    run.ranks_here = number_in_variable(variable, "OMPI_COMM_WORLD_LOCAL_SIZE", 0);
  } else if (variable("SLURM_STEP_ID") != nullptr &&
             variable("MPI_LOCALNRANKS") == nullptr) {
    return launch_by_srun(variable);
  } else if (variable("PMI_SIZE") != nullptr) {
    run.by = launcher::mpich;
    run.rank = number_in_variable(variable, "PMI_RANK", 0);
    run.ranks = number_in_variable(variable, "PMI_SIZE", 1);
    run.ranks_here = number_in_variable(variable, "MPI_LOCALNRANKS", 0);
  }
  return run;
}

processor_facts processors_of_process() {
  processor_facts found;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return found;
  }
  found.allowed = CPU_COUNT(&allowed);
  found.numbers = numbers_of(allowed);
  found.reachable = found.allowed;
  // A thread that asks for all processors gets those that its container or job has. It
  // ends at once, so that nothing else of this process changes.
  std::thread([&found] {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
      CPU_SET(i, &all);
    }
    if (sched_setaffinity(0, sizeof all, &all) == 0 &&
        sched_getaffinity(0, sizeof all, &all) == 0) {
      found.reachable = std::max(found.allowed, CPU_COUNT(&all));
    }
  }).join();
  return found;
}

int fair_workers(const launch_facts& run, const processor_facts& processors) noexcept {
  // A process that no launcher has started has the processors that it was given.
  const bool shares = run.by != launcher::none && run.ranks_here > 0;
  return std::max(1, shares ? processors.reachable / run.ranks_here : processors.allowed);
}

launch_verdict judge(const launch_facts& run, const processor_facts& processors,
                     int workers) {
  launch_verdict out;
  if (processors.allowed == 0) {
    out.binding = out.oversubscription = "unknown: the system does not say";
    return out;
  }
  const bool is_bound = processors.allowed < processors.reachable;
  out.binding_fits = !is_bound || workers <= processors.allowed;
  if (!is_bound) {
    out.binding = fmt::format("none: this process may use {}",
                              counted(processors.allowed, "processor"));
  } else {
    out.binding = fmt::format("to {} of {}", processors.allowed,
                              counted(processors.reachable, "processor"));
    out.binding += out.binding_fits
                       ? fmt::format(", enough for {}", counted(workers, "worker"))
                       : fmt::format(", too few for {}: {}", counted(workers, "worker"),
                                     binding_option(run, processors, workers));
  }
  if (run.ranks_here == 0) {
    out.oversubscription =
        "unknown: the launcher does not say how many ranks this machine has";
    return out;
  }
  out.is_oversubscribed = workers > processors.reachable / run.ranks_here;
  const std::string load =
      fmt::format("{} x {} on {}", counted(run.ranks_here, "rank"),
                  counted(workers, "worker"), counted(processors.reachable, "processor"));
  out.oversubscription =
      out.is_oversubscribed
          ? load + ": " + load_option(run, processors.reachable, workers)
          : "none: " + load;
  return out;
}

}  // namespace weir::tools
