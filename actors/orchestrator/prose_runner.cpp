// SPDX-License-Identifier: Apache-2.0
/// @file
/// The adapter between orders of pulses and the prose model, and the sections of a
/// checkpoint that hold a model.
#include "orchestrator/prose_runner.hpp"

#include <fmt/core.h>

#include "weir/base/file.hpp"

namespace weir::actors {

std::string section_name(const models::state_section& section) {
  switch (section.kind) {
    case models::region_kind::parameter: return "PARAM";
    case models::region_kind::moment: return "MOMENT";
    case models::region_kind::error_buffer: return "ERRBUF";
    case models::region_kind::counter: return "LEVEL_STEPS";
    case models::region_kind::context: return fmt::format("CTX/lane/{}", section.lane);
  }
  return "UNKNOWN";
}

/// Restores every section of the model's state. A section of another size means that the
/// checkpoint belongs to a model of another shape.
result<void> restore_model(models::prose& model, const storage::checkpoint& from) {
  for (const models::state_section& section : model.sections()) {
    WEIR_TRY(const auto* stored, from.find(section_name(section)));
    if (stored->data.size() != section.bytes) {
      return error(errc::config_mismatch,
                   fmt::format("restoring section {} failed: expected {} bytes, found {}",
                               stored->name, section.bytes, stored->data.size()))
          .located(from.path());
    }
    WEIR_CHECK(model.restore(section.kind, section.lane, stored->data));
  }
  return {};
}

result<std::unique_ptr<prose_runner>> prose_runner::create(const model_spec& spec) {
  auto runner = std::make_unique<prose_runner>();
  WEIR_TRY(runner->engine_, runtime::engine::create(spec.engine));
  WEIR_TRY(runner->model_,
           models::prose::create(*runner->engine_, spec.model, "auto", spec.devices));
  if (spec.checkpoint) {
    WEIR_CHECK(restore_model(*runner->model_, *spec.checkpoint));
  }
  return runner;
}

model_info prose_runner::info() const {
  return {model_->kernel_set(), model_->parameter_count(), model_->layout_hash(),
          model_->sections()};
}

/// Begins a pulse: empties contexts first, because the pulse must see them empty. Every
/// hundredth pulse is kept in a long trace.
result<work_ticket> prose_runner::submit(const pulse_order& order) {
  constexpr std::uint64_t kept_in_trace = 100;
  engine_->tracer().begin_pulse(order.pulse.id, order.pulse.id % kept_in_trace == 0);
  for (const std::uint32_t lane : order.resets) {
    WEIR_CHECK(model_->reset_context(lane));
  }
  std::vector<models::prose::lane_input> inputs(order.lanes.size());
  for (std::uint32_t lane = 0; lane < inputs.size(); ++lane) {
    models::prose::lane_input& input = inputs[lane];
    input.position = model_->position(lane);
    if (order.lanes[lane]) {
      input.tokens = order.lanes[lane]->tokens;
      input.lookahead = order.lanes[lane]->lookahead;
      input.position = order.lanes[lane]->lane_position;
    }
  }
  WEIR_TRY(const auto ticket, model_->submit(order.pulse, inputs));
  works_[next_] = ticket;
  return next_++;
}

result<work_ticket> prose_runner::snapshot(std::shared_ptr<state_snapshot> snapshot) {
  // The model gets a pointer to the bytes that keeps the whole snapshot alive.
  byte_vector* const bytes = &snapshot->bytes;
  WEIR_TRY(const auto ticket, model_->submit_snapshot(std::shared_ptr<byte_vector>(
                                  std::move(snapshot), bytes)));
  works_[next_] = ticket;
  return next_++;
}

bool prose_runner::ended(work_ticket ticket) {
  const auto found = works_.find(ticket);
  return found == works_.end() ||
         std::visit([&](auto in_model) { return model_->ended(in_model); },
                    found->second);
}

/// Removes the ticket of work in flight and returns the model's own ticket.
template <class Ticket>
result<Ticket> prose_runner::take(work_ticket ticket) {
  const auto found = works_.find(ticket);
  const Ticket* const in_model =
      found == works_.end() ? nullptr : std::get_if<Ticket>(&found->second);
  if (in_model == nullptr) {
    return error(errc::not_found,
                 fmt::format("finishing work {} failed: expected a ticket in flight, "
                             "found none",
                             ticket));
  }
  const Ticket taken = *in_model;
  works_.erase(found);
  return taken;
}

result<models::pulse_result> prose_runner::finish(work_ticket ticket) {
  WEIR_TRY(const auto pulse, take<models::pulse_ticket>(ticket));
  return model_->finish(pulse);
}

result<void> prose_runner::finish_snapshot(work_ticket ticket) {
  WEIR_TRY(const auto snapshot, take<models::snapshot_ticket>(ticket));
  return model_->finish(snapshot);
}

void prose_runner::span(const char* line, const char* name, std::int64_t start_ns,
                        std::int64_t end_ns) {
  engine_->tracer().span(line, name, start_ns, end_ns);
}

/// Collects the report after all tasks have ended. Replicas must agree before their hash
/// counts.
result<engine_report> prose_runner::report(const trace_order& order) {
  WEIR_CHECK(engine_->wait_all());
  WEIR_CHECK(model_->check_replicas());
  engine_report r;
  WEIR_TRY(r.parameter_hash, model_->parameter_hash());
  WEIR_TRY(r.context_hash, model_->context_hash());
  WEIR_TRY(r.largest_memory, model_->largest_memory());
  r.counters = engine_->counters();
  r.memory = engine_->memory();
  for (const auto& s : order.spans) {
    engine_->tracer().span(s.line, s.name, s.start_ns, s.end_ns);
  }
  if (!order.path.empty()) {
    // A full disk must not discard the results of the run.
    if (const auto written = engine_->tracer().write(posix_file_system(), order.path);
        !written) {
      r.trace_failure = written.error().message();
    }
  }
  return r;
}

}  // namespace weir::actors
