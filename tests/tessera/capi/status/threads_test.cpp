// SPDX-License-Identifier: Apache-2.0
/// @file
/// Tests the properties of the runtime's threads that a program can see: their names and
/// the signals that they block.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "support.hpp"

namespace weir::test {
namespace {

/// Returns the signals that each of the runtime's threads blocks, as bits, by thread
/// name. For threads with the same name, returns the signals that all of them block.
std::map<std::string, std::uint64_t> blocked_by_thread() {
  std::map<std::string, std::uint64_t> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (!name.starts_with("weir-")) {
      continue;
    }
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word == "SigBlk:") {
        std::uint64_t mask = 0;
        status >> std::hex >> mask;
        const auto [entry, first] = out.emplace(name, mask);
        entry->second &= mask;
      }
    }
  }
  return out;
}

constexpr std::uint64_t bit_of(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

TEST(TesseraThreads, HaveNamesAndLeaveSignalsToTheProgram) {
  const environment limit({{"TESS_COLL_TIMEOUT_MS", "60000"}});
  session s(2);
  tessStream_t of_rank = nullptr;
  tessStreamDesc own{sizeof own, 0, 0, 0, 0, -1};
  ASSERT_TESS(tessStreamCreateEx(s.mesh, &own, &of_rank));
  // A separate thread watches the rank that waits.
  ASSERT_TESS(tessBarrier(s.mesh, nullptr, of_rank));
  std::map<std::string, std::uint64_t> found;
  const auto named = [&] {
    return found.count("weir-worker") != 0 && found.count("weir-deferred") != 0;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!named() && std::chrono::steady_clock::now() < deadline) {
    found = blocked_by_thread();  // each thread sets its own name after its start
  }
  ASSERT_TRUE(named());
  for (const auto& [name, mask] : found) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM}) {
      EXPECT_NE(mask & bit_of(signal), 0U) << name << " takes signal " << signal;
    }
    for (const int fault : {SIGSEGV, SIGFPE, SIGBUS, SIGABRT}) {
      EXPECT_EQ(mask & bit_of(fault), 0U) << name << " blocks signal " << fault;
    }
  }
  sigset_t here;
  pthread_sigmask(SIG_BLOCK, nullptr, &here);
  EXPECT_EQ(sigismember(&here, SIGINT), 0)
      << "a thread of the program must keep its signals";
}

}  // namespace
}  // namespace weir::test
