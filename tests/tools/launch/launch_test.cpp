// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests what is said of the binding and the load of ranks, on machines of any size.
#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <string>

#include "launch/launch.hpp"
#include "weir/base/system/processors.hpp"

namespace weir::tools {
namespace {

using variables = std::map<std::string, std::string>;

launch_facts launched(const variables& all) {
  return launch_of([&all](const char* name) {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  });
}

/// Returns the facts of a launcher with a number of ranks here, for `judge`.
launch_facts run_of(launcher by, int ranks_here) {
  launch_facts run;
  run.by = by;
  run.ranks = run.ranks_here = ranks_here;
  return run;
}

void expect_run(const launch_facts& found, launcher by, int rank, int ranks,
                int ranks_here) {
  EXPECT_EQ(found.by, by);
  EXPECT_EQ(found.rank, rank);
  EXPECT_EQ(found.ranks, ranks);
  EXPECT_EQ(found.ranks_here, ranks_here);
}

TEST(Launch, EachLauncherSaysRanksAndThoseOfTheMachine) {
  expect_run(launched({}), launcher::none, 0, 1, 1);
  // An OpenMPI that Slurm has started has the variables of both.
  expect_run(launched({{"OMPI_COMM_WORLD_SIZE", "8"},
                       {"OMPI_COMM_WORLD_RANK", "5"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_NTASKS", "2"}}),
             launcher::openmpi, 5, 8, 4);
  expect_run(launched({{"PMI_SIZE", "6"},
                       {"PMI_RANK", "4"},
                       {"MPI_LOCALNRANKS", "3"},
                       {"SLURM_STEP_ID", "0"}}),
             launcher::mpich, 4, 6, 3);
  const variables step{{"SLURM_STEP_ID", "0"},
                       {"SLURM_PROCID", "6"},
                       {"SLURM_NTASKS", "7"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                       {"SLURM_NODEID", "3"}};
  expect_run(launched(step), launcher::srun, 6, 7, 1);
  EXPECT_FALSE(launched(step).is_connected);
  for (const char* const by : {"PMIX_RANK", "PMI_SIZE"}) {
    variables connected = step;
    connected[by] = "7";
    connected["SLURM_NODEID"] = "2";
    expect_run(launched(connected), launcher::srun, 6, 7, 2);
    EXPECT_TRUE(launched(connected).is_connected);
  }
}

TEST(Launch, WhatALauncherDoesNotSayIsUnknown) {
  launch_facts run = launched({{"PMI_SIZE", "6"}});
  expect_run(run, launcher::mpich, 0, 6, 0);
  const auto found = judge(run, {4, "0-3", 4}, 9);
  EXPECT_FALSE(found.is_oversubscribed);
  EXPECT_EQ(found.oversubscription.substr(0, 8), "unknown:");
  for (const char* const list :
       {"", ",", "x", "2(", "2(x", "(x3)", "2(x-2147483648)", "-2(x99)"}) {
    run = launched({{"SLURM_STEP_ID", "0"},
                    {"SLURM_STEP_TASKS_PER_NODE", list},
                    {"SLURM_NODEID", "9"}});
    EXPECT_EQ(run.ranks_here, 0) << list;
  }
  EXPECT_EQ(judge({}, {}, 1).binding, "unknown: the system does not say");
}

TEST(Launch, RanksThatAreBoundToFewerProcessorsThanWorkersGetTheOption) {
  // OpenMPI binds each of two ranks to a core.
  const processor_facts core{1, "0", 64};
  const launch_facts two = run_of(launcher::openmpi, 2);
  EXPECT_EQ(fair_workers(two, core), 32);
  launch_verdict found = judge(two, core, 32);
  EXPECT_FALSE(found.binding_fits);
  EXPECT_EQ(found.binding,
            "to 1 of 64 processors, too few for 32 workers: start with mpirun.openmpi "
            "--bind-to none, or with --map-by slot:PE=32, which binds each rank to 32 "
            "cores");
  EXPECT_EQ(found.oversubscription, "none: 2 ranks x 32 workers on 64 processors");
  // Not enough for all: no rank can have its own.
  found = judge(two, core, 33);
  EXPECT_EQ(found.binding,
            "to 1 of 64 processors, too few for 33 workers: start with mpirun.openmpi "
            "--bind-to none");
  EXPECT_EQ(judge(run_of(launcher::mpich, 2), core, 8).binding,
            "to 1 of 64 processors, too few for 8 workers: start with mpirun.mpich "
            "-bind-to none");
  EXPECT_EQ(judge(run_of(launcher::srun, 2), core, 8).binding,
            "to 1 of 64 processors, too few for 8 workers: start with srun "
            "--cpus-per-task=8, or with --cpu-bind=none");
  EXPECT_EQ(judge({}, core, 8).binding,
            "to 1 of 64 processors, too few for 8 workers: start without taskset, or "
            "with 1 worker");
  // A binding that has room is no mistake.
  found = judge(two, {32, "0-31", 64}, 32);
  EXPECT_TRUE(found.binding_fits);
  EXPECT_EQ(found.binding, "to 32 of 64 processors, enough for 32 workers");
  EXPECT_EQ(judge(two, {64, "0-63", 64}, 32).binding,
            "none: this process may use 64 processors");
}

TEST(Launch, MoreWorkersThanProcessorsAreOversubscription) {
  const processor_facts four{4, "0-3", 4};
  EXPECT_FALSE(judge(run_of(launcher::openmpi, 2), four, 2).is_oversubscribed);
  const auto words = [&](launcher by, int ranks, int workers) {
    const launch_verdict found = judge(run_of(by, ranks), four, workers);
    EXPECT_TRUE(found.is_oversubscribed);
    EXPECT_TRUE(found.binding_fits);
    return found.oversubscription;
  };
  EXPECT_EQ(words(launcher::openmpi, 2, 3),
            "2 ranks x 3 workers on 4 processors: give each rank at most 2 workers, or "
            "start at most 1 rank on this machine");
  EXPECT_EQ(words(launcher::openmpi, 2, 5),
            "2 ranks x 5 workers on 4 processors: give each rank at most 2 workers");
  EXPECT_EQ(words(launcher::srun, 2, 4),
            "2 ranks x 4 workers on 4 processors: give each rank at most 2 workers, or "
            "start with srun --cpus-per-task=4");
  EXPECT_EQ(words(launcher::none, 1, 5),
            "1 rank x 5 workers on 4 processors: give each rank at most 4 workers");
  EXPECT_EQ(words(launcher::openmpi, 5, 1),
            "5 ranks x 1 worker on 4 processors: start at most 4 ranks on this machine, "
            "with 1 worker each");
  EXPECT_EQ(words(launcher::mpich, 5, 1),
            "5 ranks x 1 worker on 4 processors: start at most 4 ranks on this machine, "
            "with 1 worker each; a rank of MPICH keeps a processor busy while it waits, "
            "so start more of them with mpirun.openmpi --oversubscribe");
}

TEST(Launch, TheProcessorsOfABoundThreadAreCountedWithoutChangingThem) {
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const processor_facts whole = processors_of_process();
  EXPECT_EQ(whole.allowed, CPU_COUNT(&before));
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) {
    ++first;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const processor_facts bound = processors_of_process();
  EXPECT_EQ(allowed_processors(), 1U);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(bound.allowed, 1);
  EXPECT_EQ(bound.numbers, std::to_string(first));
  EXPECT_EQ(bound.reachable, whole.reachable);
  EXPECT_GE(bound.reachable, CPU_COUNT(&before));
}

}  // namespace
}  // namespace weir::tools
