// SPDX-License-Identifier: Apache-2.0
/// @file
/// The processes, descriptors and shared memory of this process, as /proc shows them.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace weir::test {

/// Parent and state of a process. A process that does not exist has the parent 0.
struct process_status {
  int parent = 0;
  char state = 'X';
  /// Returns whether the process works. A process that has ended is shown until its
  /// parent has waited for it.
  [[nodiscard]] bool is_alive() const { return state != 'Z' && state != 'X'; }
};

/// Reads the status of a process.
inline process_status status_of(pid_t process) {
  process_status found;
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  std::FILE* const status = std::fopen(path.c_str(), "r");
  if (status == nullptr) {
    return found;
  }
  std::array<char, 512> text{};
  const std::size_t bytes = std::fread(text.data(), 1, text.size() - 1, status);
  std::fclose(status);
  const std::string_view all(text.data(), bytes);
  const std::size_t end = all.rfind(')');  // the name before it may have any bytes
  if (end != std::string_view::npos) {
    std::sscanf(text.data() + end + 1, " %c %d", &found.state, &found.parent);  // NOLINT
  }
  return found;
}

/// Returns the processes that this one has started and that were not waited for.
inline std::vector<pid_t> children() {
  std::vector<pid_t> all;
  for (const auto& one : std::filesystem::directory_iterator("/proc")) {
    const std::string name = one.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        status_of(std::stoi(name)).parent == ::getpid()) {
      all.push_back(std::stoi(name));
    }
  }
  return all;
}

/// Returns the number of open descriptors of this process.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += one.exists() ? 1 : 0;
  }
  return count;
}

/// Returns the mappings of shared memory of stages.
inline std::size_t shared_mappings() {
  std::ifstream in("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);) {
    count += line.find("memfd:weir") != std::string::npos ? 1 : 0;
  }
  return count;
}

/// Sets an environment variable while it is in scope.
class scoped_variable {
 public:
  scoped_variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);  // NOLINT: no other thread reads it now
  }
  scoped_variable(const scoped_variable&) = delete;
  scoped_variable& operator=(const scoped_variable&) = delete;
  ~scoped_variable() { ::unsetenv(name_); }  // NOLINT

 private:
  const char* name_;
};

}  // namespace weir::test
