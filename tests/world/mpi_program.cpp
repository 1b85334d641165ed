// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs that call MPI themselves, built once for each MPI library: mpi_program NAME.
/// Rank 0 prints the result, and each rank whose transport is refused prints the error.
/// It ends with 0 behind its own MPI_Finalize, since launchers end the other ranks if
/// not.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "weir/mpi/ranks.hpp"

namespace {

using weir::result;
using weir::runtime::rank_id;
using weir::runtime::transport;

/// Tag of messages of the program. Messages of the transport have other tags.
constexpr int own_tag = 3;

/// Sends a number to the next rank through the transport, and returns the number that the
/// rank before this one has sent.
result<int> pass_on(transport& link, int number) {
  const std::uint32_t channel = link.open_channel();
  int found = -1;
  const rank_id next = (link.rank() + 1) % link.ranks();
  const rank_id previous = (link.rank() + link.ranks() - 1) % link.ranks();
  WEIR_CHECK(
      link.receive(previous, {channel, 0}, std::as_writable_bytes(std::span(&found, 1))));
  WEIR_CHECK(link.send(next, {channel, 0}, std::as_bytes(std::span(&number, 1))));
  std::vector<weir::runtime::transfer_end> ended;
  while (ended.size() < 2) {
    link.poll(channel, ended);
    usleep(100);
  }
  for (const auto& one : ended) {
    WEIR_CHECK(one.outcome);
  }
  return found;
}

/// Sends numbers through two transports, one after another. Returns the sum of those that
/// have come.
result<int> pass_on_twice(MPI_Comm all, int rank) {
  int level = 0;
  int passed = 0;
  MPI_Query_thread(&level);
  for (const int factor : {10, 100}) {
    WEIR_TRY(const auto link, weir::from_mpi(all));
    if (const auto second = weir::from_mpi(all);
        second || second.error().code() != weir::errc::already_exists) {
      return weir::error(weir::errc::internal, "expected one transport at a time");
    }
    if (level == MPI_THREAD_MULTIPLE) {
      MPI_Barrier(all);  // the program may call MPI while the transport lives
    }
    WEIR_TRY(const int found, pass_on(*link, factor * rank));
    passed += found;
  }
  return passed;
}

/// Uses transports while the program waits for any message of any rank in the
/// communicator that they are made from. Returns the sum of all numbers that have come.
result<int> ring(MPI_Comm all) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &ranks);
  int own = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&own, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, all, &request);
  const result<int> passed = pass_on_twice(all, rank);
  if (!passed) {
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return passed;
  }
  // The transports have ended. The program's communicator is as before.
  int still = -1;
  MPI_Comm_rank(all, &still);
  MPI_Send(&rank, 1, MPI_INT, (rank + 1) % ranks, own_tag, all);
  MPI_Status status;
  MPI_Wait(&request, &status);
  const int previous = (rank + ranks - 1) % ranks;
  if (own != previous || status.MPI_TAG != own_tag || still != rank ||
      *passed != 110 * previous) {
    return weir::error(weir::errc::internal,
                       "the program and the transport have mixed their messages");
  }
  int sum = 0;
  MPI_Allreduce(&*passed, &sum, 1, MPI_INT, MPI_SUM, all);
  return sum;
}

/// Makes a transport of all ranks but the last one, which has no communicator.
result<int> all_but_one(MPI_Comm all) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &ranks);
  MPI_Comm some = MPI_COMM_NULL;
  MPI_Comm_split(all, rank + 1 < ranks ? 0 : MPI_UNDEFINED, rank, &some);
  WEIR_TRY(const auto link, weir::from_mpi(some));
  WEIR_TRY(const int found, pass_on(*link, 1));
  return found * static_cast<int>(link->ranks());
}

/// Makes a transport of all ranks. Rank 1 never does, and ends with the others.
int without_rank_1(MPI_Comm all) {
  int rank = 0;
  MPI_Comm_rank(all, &rank);
  while (rank == 1) {
    pause();
  }
  const auto made = weir::from_mpi(all, {.start_deadline_ns = 1'000'000'000});
  std::fprintf(stderr, "rank %d: %s\n", rank,
               made ? "made" : made.error().message().c_str());
  // The end of one rank ends all, so ranks 0 and 2 end when both have said so.
  const int other = 2 - rank;
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, other, 0, nullptr, 0, MPI_BYTE, other, 0, all,
               MPI_STATUS_IGNORE);
  return MPI_Abort(all, 6);
}

/// Prints the result or the error of a rank.
void report(const result<int>& outcome, std::string_view name) {
  if (outcome) {
    std::printf("%s %d\n", name.data(), *outcome);
  } else {
    std::fprintf(stderr, "%s\n", outcome.error().message().c_str());
  }
}

/// Returns the level of threads that a program asks for.
int level_of(std::string_view name) {
  return name == "single"     ? MPI_THREAD_SINGLE
         : name == "funneled" ? MPI_THREAD_FUNNELED
         : name == "multiple" ? MPI_THREAD_MULTIPLE
                              : MPI_THREAD_SERIALIZED;
}

/// Returns the outcome of making a transport, without its value.
result<int> refusal_of(const result<std::unique_ptr<transport>>& made) {
  if (!made) {
    return made.error();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "ring";
  if (name == "launched") {
    // The transport begins MPI, if it is not refused before.
    report(refusal_of(weir::launched_ranks()), name);
    return 0;
  }
  if (name == "early") {
    report(refusal_of(weir::from_mpi(MPI_COMM_WORLD)), name);
  }
  if (name == "plain") {
    MPI_Init(&argc, &argv);
  } else {
    int level = 0;
    MPI_Init_thread(&argc, &argv, level_of(name), &level);
  }
  if (name == "absent") {
    return without_rank_1(MPI_COMM_WORLD);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const result<int> outcome =
      name == "some" ? all_but_one(MPI_COMM_WORLD) : ring(MPI_COMM_WORLD);
  if (rank == 0 || !outcome) {
    report(outcome, name);
  }
  // MPI was not ended for the program, whether the transport was refused or not.
  int ended = 1;
  MPI_Finalized(&ended);
  if (ended != 0) {
    std::fprintf(stderr, "expected that the program ends MPI itself\n");
    return 1;
  }
  MPI_Finalize();
  if (name == "late") {
    report(refusal_of(weir::from_mpi(MPI_COMM_WORLD)), name);
  }
  return 0;
}
