// SPDX-License-Identifier: Apache-2.0
/// @file
/// The prose model on its engine, as the orchestrator drives it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <variant>

#include "orchestrator/pulse_model.hpp"

namespace weir::actors {

/// Names of checkpoint sections for the parts of the model's state.
[[nodiscard]] std::string section_name(const models::state_section& section);

/// Fills a model from a checkpoint. @error{not_found, a section is missing}
/// @error{config_mismatch, corrupt}
[[nodiscard]] result<void> restore_model(models::prose& model,
                                         const storage::checkpoint& from);

class prose_runner final : public pulse_model {
 public:
  /// Builds engine and model on the calling thread, which becomes the submitter.
  [[nodiscard]] static result<std::unique_ptr<prose_runner>> create(
      const model_spec& spec);

  [[nodiscard]] model_info info() const;
  [[nodiscard]] std::size_t depth() const override {
    return engine_->workers() == 1 ? 1 : 3;
  }
  [[nodiscard]] result<work_ticket> submit(const pulse_order& order) override;
  [[nodiscard]] result<work_ticket> snapshot(std::shared_ptr<state_snapshot> to) override;
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
  /// Takes a ticket that may still be finished.
  template <class Ticket>
  [[nodiscard]] result<Ticket> take(work_ticket ticket);

  // The model names memory of the engine, so it goes first. It owns what its tasks read
  // and write, destinations of snapshots included, and waits for them when it is destroyed:
  // no other order of destruction matters, here or in whoever hands a snapshot in.
  std::unique_ptr<runtime::engine> engine_;
  std::unique_ptr<models::prose> model_;
  std::map<work_ticket, work> works_;
  work_ticket next_ = 1;
};

}  // namespace weir::actors
