// SPDX-License-Identifier: Apache-2.0
/// @file
/// The prose model with its engine, behind the interface that the orchestrator uses.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <variant>

#include "orchestrator/pulse_model.hpp"

namespace weir::actors {

/// Returns the name of the checkpoint section for a section of the model's state.
[[nodiscard]] std::string section_name(const models::state_section& section);

/// Restores the state of a model from a checkpoint.
/// @error{not_found, a section is missing}
/// @error{config_mismatch, a section has another length}
/// @error{corrupt, a section is damaged}
[[nodiscard]] result<void> restore_model(models::prose& model,
                                         const storage::checkpoint& from);

/// A prose model and the engine on which it runs.
/// @threads{thread-compatible: belongs to the engine's submitter}
class prose_runner final : public pulse_model {
 public:
  /// Builds engine and model. The calling thread becomes the submitter of the engine.
  [[nodiscard]] static result<std::unique_ptr<prose_runner>> create(
      const model_spec& spec);

  /// Returns information about the model.
  [[nodiscard]] model_info info() const;
  [[nodiscard]] std::size_t depth() const override {
    return engine_->workers() == 1 ? 1 : 3;
  }
  [[nodiscard]] result<work_ticket> submit(const pulse_order& order) override;
  [[nodiscard]] result<work_ticket> snapshot(
      std::shared_ptr<state_snapshot> snapshot) override;
  [[nodiscard]] bool ended(work_ticket ticket) override;
  [[nodiscard]] result<models::pulse_result> finish(work_ticket ticket) override;
  [[nodiscard]] result<void> finish_snapshot(work_ticket ticket) override;
  bool run_one() override { return engine_->run_one(); }
  void idle(std::int64_t timeout_ns) override { engine_->idle(timeout_ns); }
  [[nodiscard]] std::int64_t kernel_ns() const override {
    return engine_->counters().kernel_ns;
  }
  [[nodiscard]] std::uint64_t state_bytes() const override {
    return model_->state_bytes();
  }
  void span(const char* line, const char* name, std::int64_t start_ns,
            std::int64_t end_ns) override;
  [[nodiscard]] result<engine_report> report(const trace_order& order) override;

  [[nodiscard]] models::prose& model() noexcept { return *model_; }

 private:
  using work = std::variant<models::pulse_ticket, models::snapshot_ticket>;
  /// Takes the model's ticket of work in flight, which can then be finished.
  template <class Ticket>
  [[nodiscard]] result<Ticket> take(work_ticket ticket);

  // The model uses memory of the engine, so it is destroyed first. It owns everything
  // that its tasks use, including the memory of snapshots, and waits for the tasks when
  // it is destroyed, so no other order matters.
  std::unique_ptr<runtime::engine> engine_;
  std::unique_ptr<models::prose> model_;
  std::map<work_ticket, work> works_;  ///< work in flight
  work_ticket next_ = 1;
};

}  // namespace weir::actors
