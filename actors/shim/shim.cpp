// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conversion of errors to CAF and back, and the configuration of the actor system.
#include "shim/shim.hpp"

#include <fmt/core.h>

#include <stdexcept>

namespace weir::actors {

namespace {

const caf::atom_value weir_category = caf::atom("weir");

/// Returns our code for an error of CAF itself.
errc status_code_of(const caf::error& e) {
  if (e.category() == caf::atom("system")) {
    switch (static_cast<caf::sec>(e.code())) {
      case caf::sec::request_timeout: return errc::timeout;
      case caf::sec::request_receiver_down: return errc::stopping;
      default: return errc::internal;
    }
  }
  return e.category() == caf::atom("exit") ? errc::stopping : errc::internal;
}

}  // namespace

caf::error to_caf(const error& e) {
  return caf::error(static_cast<std::uint8_t>(e.code()), weir_category,
                    caf::make_message(by_reference(e)));
}

/// Translates an error of CAF. An error that an actor of this library sent is carried
/// inside and comes out unchanged. The others are made by CAF: a timeout, or a receiver
/// that has ended.
error from_caf(const caf::error& e, const std::string& action) {
  if (e.category() == weir_category && e.context().size() == 1 &&
      e.context().match_element<local<error>>(0)) {
    return *e.context().get_as<local<error>>(0);
  }
  switch (status_code_of(e)) {
    case errc::timeout:
      return error(errc::timeout,
                   fmt::format("{}: no answer within the deadline", action));
    case errc::stopping:
      return error(errc::stopping, fmt::format("{}: the receiver has ended", action));
    default:
      return error(errc::internal,
                   fmt::format("{}: the actor system reported code {} of {}", action,
                               e.code(), caf::to_string(e.category())));
  }
}

/// Turns the exception that is being handled into an error. Must be called inside a
/// `catch` block.
error error_of_exception(const std::string& where) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return error(errc::out_of_memory, "memory ran out").located(where);
  } catch (const std::exception& e) {
    return error(errc::internal, fmt::format("unexpected exception: {}", e.what()))
        .located(where);
  } catch (...) {
    return error(errc::internal, "unexpected exception of unknown type").located(where);
  }
}

/// Makes the configuration of an actor system. One thread runs all actors that do not
/// block; those that read, write or compute for long have threads of their own.
result<std::unique_ptr<system_config>> system_config::make(const system_options& o) {
  auto config = std::make_unique<system_config>();
  config->add_message_types<caf::id_block::weir_actors>();
  const auto policy = o.testing ? caf::atom("testing") : caf::atom("sharing");
  config->set("scheduler.policy", policy);
  config->set("scheduler.max-threads", std::size_t{1});
  config->set("scheduler.max-throughput", std::size_t{300});
  // If a setting has a wrong type, CAF prints a line and continues without it. Reading
  // the settings back is the only way to find out.
  const auto& content = caf::content(*config);
  const auto accepted = caf::get_if<caf::atom_value>(&content, "scheduler.policy");
  const auto threads = caf::get_if<std::size_t>(&content, "scheduler.max-threads");
  if (!accepted || *accepted != policy || !threads || *threads != 1) {
    return error(errc::internal,
                 "configuring the actor system failed: CAF did not accept a setting");
  }
  return config;
}

}  // namespace weir::actors
