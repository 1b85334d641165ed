// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs peers as processes and compares their seconds with ours.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "models/rows.hpp"

namespace weir::bench {

namespace {

/// Returns the folder of the peers: `$WEIR_MODEL_PEERS`, or `build/peers`.
std::string peers_folder() {
  const char* given = std::getenv("WEIR_MODEL_PEERS");
  return given != nullptr ? given : WEIR_SOURCE_DIR "/build/peers";
}

}  // namespace

const nlohmann::json& prepared() {
  static const nlohmann::json content = [] {
    const std::string path = peers_folder() + "/prepared.json";
    std::ifstream file(path);
    if (!file) {
      throw std::runtime_error("expected " + path +
                               ", found no such file; bench/models/prepare.py makes it");
    }
    return nlohmann::json::parse(file);
  }();
  return content;
}

peer_process::peer_process(const std::vector<std::string>& words) {
  int in[2];
  int out[2];
  if (::pipe(in) != 0 || ::pipe(out) != 0) {
    throw std::runtime_error("cannot make pipes to a peer");
  }
  process_ = ::fork();
  if (process_ < 0) {
    for (const int descriptor : {in[0], in[1], out[0], out[1]}) {
      ::close(descriptor);
    }
    throw std::runtime_error("cannot start a peer: fork has failed");
  }
  if (process_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    for (const int descriptor : {in[0], in[1], out[0], out[1]}) {
      ::close(descriptor);
    }
    std::vector<char*> arguments;
    for (const std::string& word : words) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::signal(SIGPIPE, SIG_IGN);
  to_ = ::fdopen(in[1], "w");
  from_ = ::fdopen(out[0], "r");
}

peer_process::~peer_process() {
  std::fclose(to_);
  std::fclose(from_);
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
}

std::optional<double> peer_process::ask(const std::string& command) {
  std::fprintf(to_, "%s\n", command.c_str());
  std::fflush(to_);
  char line[100];
  if (std::fgets(line, sizeof line, from_) == nullptr) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double seconds = std::strtod(line, &end);
  return end == line || !(seconds > 0) ? std::nullopt : std::optional(seconds);
}

std::unique_ptr<peer_process> start_peer(const std::string& name,
                                         const std::vector<std::string>& further) {
  const nlohmann::json& peers = prepared()["peers"];
  if (!peers.contains(name)) {
    std::fprintf(stderr, "no peer %s: %s\n", name.c_str(),
                 prepared()["missing"].value(name, std::string("unknown")).c_str());
    return nullptr;
  }
  std::vector<std::string> words = peers[name];
  words.insert(words.end(), further.begin(), further.end());
  return std::make_unique<peer_process>(words);
}

measured rate_ratio(const std::vector<double>& own, const std::vector<double>& theirs,
                    double items, bar limit) {
  if (theirs.size() != own.size()) {
    return {std::numeric_limits<double>::quiet_NaN(), std::nullopt};
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < own.size(); ++i) {
    ratios.push_back(theirs[i] / own[i]);
  }
  return {median(ratios), items / median(theirs), limit};
}

busy_process::busy_process() : process_(::fork()) {
  if (process_ < 0) {
    throw std::runtime_error("cannot start a busy process: fork has failed");
  }
  if (process_ == 0) {
    // It ends with the bench program, also if that is killed.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      asm volatile("" : : : "memory");
    }
  }
}

busy_process::~busy_process() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace weir::bench
