// SPDX-License-Identifier: Apache-2.0
/// @file
/// A child process that serves files and misbehaves when a test tells it to: server.py.
/// This header uses no library of Weir, so that the tests of the C interface can include
/// it.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/folders.hpp"
#include "support/temp_folder.hpp"

extern char** environ;

namespace weir::test {

/// Serves the files of a temporary folder on 127.0.0.1.
class test_server {
 public:
  test_server() { start(0); }
  test_server(const test_server&) = delete;
  test_server& operator=(const test_server&) = delete;
  ~test_server() { stop(SIGKILL); }

  /// Ends the server at once, whatever it is doing.
  void kill() { stop(SIGKILL); }
  /// Starts the server again on the same port.
  void start_again() { start(port_); }

  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] const std::string& folder() const { return folder_.path(); }
  [[nodiscard]] std::string url(const std::string& name) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + name;
  }
  /// Writes a file into the folder. A file with that name is replaced in one step.
  template <class Bytes>
  void put(const std::string& name, const Bytes& content) const {
    const std::string unfinished = folder_ / (name + ".unfinished");
    std::ofstream out(unfinished, std::ios::binary);
    out.write(reinterpret_cast<const char*>(content.data()),
              static_cast<std::streamsize>(content.size()));
    out.close();
    if (!out) {
      throw std::runtime_error("cannot write " + unfinished);
    }
    std::filesystem::rename(unfinished, folder_ / name);
  }
  /// Links a file from elsewhere into the folder.
  void put_link(const std::string& name, const std::string& file) const {
    std::filesystem::create_symlink(file, folder_ / name);
  }

  /// Sets the faults of the next requests for a file, one each, and the fault of all
  /// later ones.
  void faults(const std::string& name, const std::vector<std::string>& list,
              const std::string& then = "") {
    nlohmann::json command{{"do", "faults"}, {"name", name}, {"list", list}};
    if (!then.empty()) {
      command["then"] = then;
    }
    ask(command);
  }
  /// Sends a command to the server and returns its answer; server.py lists the commands.
  nlohmann::json ask(const nlohmann::json& command) {
    const std::string line = command.dump() + "\n";
    if (::write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw std::runtime_error("the server does not listen to commands");
    }
    return read_line();
  }
  /// Returns the requests since the last call.
  nlohmann::json log() { return ask({{"do", "log"}}); }
  /// Returns the number of requests that the server is answering now.
  std::size_t active() { return ask({{"do", "active"}}).get<std::size_t>(); }

 private:
  /// Starts the process and waits until it has printed its port.
  void start(int port) {
    // A proxy that the environment names must not get the requests for this server.
    ::setenv("no_proxy", "127.0.0.1,localhost", 1);
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
      throw std::runtime_error("no pipes");
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    const std::string script = source_folder() + "/tests/formats/remote/server.py";
    const std::string number = std::to_string(port);
    std::vector<const char*> words{WEIR_PYTHON,    "-B",
                                   script.c_str(), folder_.path().c_str(),
                                   number.c_str(), nullptr};
    const int failed = ::posix_spawn(&child_, WEIR_PYTHON, &actions, nullptr,
                                     const_cast<char**>(words.data()), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = ::fdopen(out[0], "r");
    if (failed != 0 || from_ == nullptr) {
      throw std::runtime_error("cannot start the server of the tests");
    }
    port_ = read_line()["port"].get<int>();
  }

  /// Ends the process with a signal and waits for it.
  void stop(int signal) {
    if (child_ > 0) {
      ::kill(child_, signal);
      ::waitpid(child_, nullptr, 0);
      child_ = 0;
      ::close(to_);
      std::fclose(from_);
    }
  }

  nlohmann::json read_line() {
    std::string line;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) {
      line += static_cast<char>(c);
    }
    return nlohmann::json::parse(line);
  }

  temp_folder folder_;
  pid_t child_ = 0;
  int to_ = -1;
  std::FILE* from_ = nullptr;
  int port_ = 0;
};

}  // namespace weir::test
