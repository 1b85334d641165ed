// SPDX-License-Identifier: Apache-2.0
/// @file
/// The log of a run, written with spdlog.
///
/// The logger belongs to the object and is not registered with spdlog, so that two runs
/// of one process have separate logs. Every line is flushed at once.
#include "run_log.hpp"

#include <fmt/core.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include "weir/base/file.hpp"

namespace weir::tools {

struct run_log::state {
  spdlog::logger logger;
};

// spdlog reports errors as exceptions, which become errors here. A line is
// "2026-01-31T12:00:00.000+01:00 info TEXT".
result<run_log> run_log::open(const std::string& folder) {
  const std::string path = join_path(folder, "log");
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_st>(path);
    auto s = std::make_unique<state>(state{spdlog::logger("run", std::move(sink))});
    s->logger.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    s->logger.flush_on(spdlog::level::info);
    return run_log(std::move(s));
  } catch (const spdlog::spdlog_ex& e) {
    return error(
        errc::io,
        fmt::format("cannot open log \"{}\": expected a file to append to, found "
                    "\"{}\"",
                    path, e.what()));
  }
}

run_log::run_log(std::unique_ptr<state> s) : state_(std::move(s)) {}
run_log::run_log(run_log&&) noexcept = default;
run_log& run_log::operator=(run_log&&) noexcept = default;
run_log::~run_log() = default;

void run_log::info(const std::string& text) {
  state_->logger.info(text);
}
void run_log::warning(const std::string& text) {
  state_->logger.warn(text);
}
void run_log::failure(const std::string& text) {
  state_->logger.error(text);
}

}  // namespace weir::tools
