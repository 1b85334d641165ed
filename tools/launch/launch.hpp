// SPDX-License-Identifier: Apache-2.0
/// @file
/// How this process was started as one of several ranks, and whether its workers have
/// processors. Nothing of MPI is called: launchers say it by variables of the
/// environment, and the system says which processors a process may use.
#pragma once

#include <functional>
#include <string>

namespace weir::tools {

/// Programs that start ranks.
enum class launcher { none, openmpi, mpich, srun };

/// Returns the value of a variable of the environment; null if there is none.
using variable_reader = std::function<const char*(const char* name)>;

/// How the ranks of this run were started.
struct launch_facts {
  launcher by = launcher::none;
  int rank = 0;
  int ranks = 1;
  int ranks_here = 1;        ///< ranks on this machine; 0: the launcher does not say
  bool is_connected = true;  ///< false: srun has started the ranks without MPI
};

/// Processors of this machine, as this process sees them.
struct processor_facts {
  int allowed = 0;      ///< that this process may use; 0: the system does not say
  std::string numbers;  ///< their numbers, for instance "0-3,8"
  int reachable = 0;  ///< that it could use if nothing had bound it, not below `allowed`
};

/// What the report says of the processors of the ranks.
struct launch_verdict {
  bool binding_fits = true;  ///< a rank may use a processor for each of its workers
  std::string binding;       ///< a sentence; with the option to give if that is false
  bool is_oversubscribed = false;  ///< the ranks here have more workers than processors
  std::string oversubscription;  ///< a sentence; with the option to give if that is true
};

/// Returns the name of a launcher, for instance "mpirun of OpenMPI".
[[nodiscard]] const char* name_of(launcher by) noexcept;

/// Returns what the launcher says in the environment.
[[nodiscard]] launch_facts launch_of(const variable_reader& variable);

/// Returns the processors of this process. A container or a job system limits those that
/// it can reach, a launcher or `taskset` those that it may use.
[[nodiscard]] processor_facts processors_of_process();

/// Returns the workers of a rank that share the processors of this machine equally.
[[nodiscard]] int fair_workers(const launch_facts& run,
                               const processor_facts& processors) noexcept;

/// Judges whether the ranks have processors for a number of workers each.
[[nodiscard]] launch_verdict judge(const launch_facts& run,
                                   const processor_facts& processors, int workers);

}  // namespace weir::tools
