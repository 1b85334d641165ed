// SPDX-License-Identifier: Apache-2.0
/// @file
/// A pipeline of stream actors on four ranks, in three stages. The first two stages are
/// one stream each, over all ranks. The third has a stream for each rank, and a
/// collective adds its results over the ranks. Each stream has a supervisor that starts
/// it again when it ends.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collective/collective.hpp"
#include "devices.hpp"
#include "stream/stream.hpp"
#include "supervisor/supervisor.hpp"

namespace weir::test {

constexpr int pipeline_ranks = 4;
constexpr int pipeline_streams = 2 + pipeline_ranks;
constexpr int pipeline_elements = 19;

/// Memory of one batch: the input, and the results of the three stages.
struct pipeline_batch {
  float* buffers[4];
};

/// Returns an element of the input.
inline float pipeline_input(std::size_t batch, int rank, int i) {
  return static_cast<float>(batch * 31 + static_cast<std::size_t>(rank * 7 + i)) / 8;
}
/// Returns the arguments of the kernel of a stage.
inline stage_arguments pipeline_stage(const pipeline_batch& b, int stage) {
  constexpr float factors[] = {0.3F, -1.7F, 2.1F};
  constexpr float addends[] = {1.1F, 0.7F, -3.3F};
  return {b.buffers[stage], b.buffers[stage + 1], factors[stage], addends[stage]};
}

/// Returns the expected element. Sums of four such numbers are exact in double, so this
/// is the correctly rounded sum.
inline float pipeline_expected(std::size_t batch, int i) {
  double sum = 0;
  for (int rank = 0; rank < pipeline_ranks; ++rank) {
    float value = pipeline_input(batch, rank, i);
    for (int stage = 0; stage < 3; ++stage) {
      const auto a = pipeline_stage({}, stage);
      value = value * a.factor + a.addend * static_cast<float>(rank + 1);
    }
    sum += static_cast<double>(value);
  }
  return static_cast<float>(sum);
}

/// The present actors of the streams. Each has a supervisor that starts it again when it
/// ends.
/// @threads{safe to call concurrently}
class kept_streams : public std::enable_shared_from_this<kept_streams> {
 public:
  using stream_maker = std::function<actors::stream_actor(actors::queue_spec)>;
  using supervisor_maker =
      std::function<actors::supervisor_actor(actors::supervisor_config)>;

  kept_streams(const std::shared_ptr<tessera::mesh>& mesh, stream_maker make_stream,
               const supervisor_maker& make_supervisor)
      : make_stream_(std::move(make_stream)), make_supervisor_(make_supervisor) {
    for (std::size_t i = 0; i < pipeline_streams; ++i) {
      stored_stream& k = stored_[i];
      k.spec.name = "stream " + std::to_string(i);
      k.spec.mesh = mesh;
      k.spec.options.rank = i < 2 ? -1 : static_cast<int>(i) - 2;
      k.spec.handover = std::make_shared<tessera::event>();
    }
  }
  /// Starts all streams and their supervisors.
  void open() {
    for (std::size_t i = 0; i < pipeline_streams; ++i) {
      actors::supervisor_config config;
      config.failed = [me = weak_from_this(), i](const error& e) {
        EXPECT_EQ(e.code(), errc::stopping) << e.message();
        if (const auto alive = me.lock()) {
          alive->begin_again(i);
        }
      };
      stored_[i].supervisor = make_supervisor_(std::move(config));
      start(i);
    }
  }
  /// Drops the streams. None of them is started again.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (stored_stream& k : stored_) {
      k.stream = nullptr;
      k.supervisor = nullptr;
    }
  }
  [[nodiscard]] actors::stream_actor get(std::size_t i) const {
    const std::lock_guard lock(mutex_);
    return stored_[i].stream;
  }
  [[nodiscard]] int restarts() const {
    const std::lock_guard lock(mutex_);
    return restarts_;
  }

 private:
  struct stored_stream {
    actors::queue_spec spec;
    actors::supervisor_actor supervisor;
    actors::stream_actor stream;
  };
  /// Starts a stream again after it has ended, unless the streams were closed.
  void begin_again(std::size_t i) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) {
        return;
      }
      ++restarts_;
    }
    start(i);
  }
  /// Starts a stream and lets its supervisor adopt it.
  void start(std::size_t i) {
    auto stream = make_stream_(stored_[i].spec);
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      caf::anon_send(stored_[i].supervisor, actors::adopt_atom_v,
                     actors::by_reference(actors::child_spec{
                         stored_[i].spec.name, actors::stop_group::sink,
                         caf::actor_cast<caf::actor>(stream)}));
      stored_[i].stream = std::move(stream);
    }
  }

  stream_maker make_stream_;
  supervisor_maker make_supervisor_;
  mutable std::mutex mutex_;
  stored_stream stored_[pipeline_streams];
  int restarts_ = 0;
  bool closed_ = false;
};

/// Sends each batch through the stages, and tries again if a stage has ended. Its
/// messages to itself hold batch and stream.
using pipeline_driver_actor =
    caf::typed_actor<caf::reacts_to<actors::work_atom, std::uint64_t, std::uint64_t>>;
struct pipeline_driver_config {
  std::shared_ptr<const kept_streams> streams;
  actors::collective_actor group;
  std::vector<pipeline_batch> batches;
  std::function<void(std::size_t batch)> done;  ///< called when all ranks were answered
  std::function<void(error)> failed;
};
struct pipeline_driver_shell {
  static constexpr const char* name = "weir.driver";
  /// By batch: points behind its stages, one for the first, one for the second, and one
  /// for each rank of the third.
  std::vector<std::vector<actors::event_ptr>> points;
  std::vector<std::size_t> joined = std::vector<std::size_t>(pipeline_ranks);
  std::vector<int> answered;
};

/// The steps of the driver. Each answer starts the next step.
class pipeline_driver_steps {
 public:
  using self_pointer = pipeline_driver_actor::stateful_pointer<pipeline_driver_shell>;
  pipeline_driver_steps(self_pointer self,
                        std::shared_ptr<const pipeline_driver_config> config)
      : self_(self), config_(std::move(config)) {}

  /// Lets a stream wait for the stage before, launch its kernel, and record a point.
  void run(std::size_t batch, std::size_t stream) const {
    const auto to = config_->streams->get(stream);
    const int stage = std::min(static_cast<int>(stream), 2);
    const actors::event_ptr before =
        stage == 0 ? std::make_shared<tessera::event>()
                   : self_->state.points[batch][static_cast<std::size_t>(stage - 1)];
    const auto again = [me = *this, batch, stream](const caf::error& e) {
      me.retry(batch, stream, actors::from_caf(e, "a stage"));
    };
    auto order = actors::by_reference(launch_of(
        "stage", pipeline_stage(config_->batches[batch], stage), pipeline_elements));
    self_->request(to, timeout, actors::await_atom_v, actors::local(before))
        .then([me = *this, batch, stream, to, order,
               again](std::uint64_t) { me.launch(batch, stream, to, order, again); },
              again);
  }

 private:
  static constexpr std::chrono::seconds timeout{60};

  /// Launches the kernel and records a point behind it.
  template <class Again>
  void launch(std::size_t batch, std::size_t stream, const actors::stream_actor& to,
              const actors::local<actors::launch_order>& order,
              const Again& again) const {
    self_->request(to, timeout, actors::launch_atom_v, order)
        .then(
            [me = *this, batch, stream, to, again](std::uint64_t) {
              me.self_->request(to, timeout, actors::record_atom_v)
                  .then(
                      [me, batch, stream](const actors::local<tessera::event>& point) {
                        me.next(batch, stream, point.share());
                      },
                      again);
            },
            again);
  }
  /// Keeps the point of a stage and starts the stage behind it.
  void next(std::size_t batch, std::size_t stream, actors::event_ptr point) const {
    auto& s = self_->state;
    s.points[batch][stream] = std::move(point);
    if (stream == 0) {
      run(batch, 1);
    } else if (stream == 1) {
      for (std::size_t rank = 0; rank < pipeline_ranks; ++rank) {
        run(batch, 2 + rank);
      }
    } else {
      join(stream - 2);
    }
  }
  /// Joins for a rank with its next batch. All ranks join with the batches in order.
  void join(std::size_t rank) const {
    auto& s = self_->state;
    std::size_t& batch = s.joined[rank];
    for (; batch < s.points.size() && s.points[batch][2 + rank]; ++batch) {
      actors::join_order order;
      order.rank = static_cast<int>(rank);
      order.request.call.count = pipeline_elements;
      order.request.input = order.request.output = config_->batches[batch].buffers[3];
      order.wait_points.push_back(s.points[batch][2 + rank]);
      self_
          ->request(config_->group, timeout, actors::join_atom_v,
                    actors::by_reference(std::move(order)))
          .then(
              [me = *this, batch](std::uint64_t number) {
                EXPECT_EQ(number, batch);
                if (++me.self_->state.answered[batch] == pipeline_ranks) {
                  me.config_->done(batch);
                }
              },
              [me = *this](const caf::error& e) {
                me.config_->failed(actors::from_caf(e, "joining"));
              });
    }
  }
  /// Runs a stage again if its stream has ended; reports any other failure.
  void retry(std::size_t batch, std::size_t stream, error why) const {
    if (why.code() == errc::stopping || why.code() == errc::abandoned) {
      self_->send(self_, actors::work_atom_v, std::uint64_t{batch},
                  std::uint64_t{stream});
    } else {
      config_->failed(std::move(why));
    }
  }

  self_pointer self_;
  std::shared_ptr<const pipeline_driver_config> config_;
};

/// The behaviour of the driver.
inline pipeline_driver_actor::behavior_type pipeline_driver(
    pipeline_driver_steps::self_pointer self, pipeline_driver_config config) {
  self->state.points.resize(config.batches.size(),
                            std::vector<actors::event_ptr>(pipeline_streams));
  self->state.answered.resize(config.batches.size());
  const pipeline_driver_steps steps(
      self, std::make_shared<const pipeline_driver_config>(std::move(config)));
  return {[steps](actors::work_atom, std::uint64_t batch, std::uint64_t stream) {
    steps.run(batch, stream);
  }};
}

/// The context and the memory of a pipeline, with checks of its results.
class pipeline_memory {
 public:
  pipeline_memory(const device_mesh& devices, std::size_t batches) : devices_(&devices) {
    for (std::size_t b = 0; b < batches; ++b) {
      batches_.emplace_back();
      for (float*& buffer : batches_.back().buffers) {
        buffer = devices.memory(pipeline_elements);
      }
      for (int rank = 0; rank < pipeline_ranks; ++rank) {
        for (int i = 0; i < pipeline_elements; ++i) {
          devices.instance(batches_.back().buffers[0], rank)[i] =
              pipeline_input(b, rank, i);
        }
      }
    }
  }
  [[nodiscard]] const std::vector<pipeline_batch>& batches() const { return batches_; }
  /// Expects the sums of all batches on every rank.
  void expect_serial_results() const {
    for (std::size_t b = 0; b < batches_.size(); ++b) {
      for (int rank = 0; rank < pipeline_ranks; ++rank) {
        for (int i = 0; i < pipeline_elements; ++i) {
          ASSERT_EQ(devices_->instance(batches_[b].buffers[3], rank)[i],
                    pipeline_expected(b, i))
              << "batch " << b << " rank " << rank << " element " << i;
        }
      }
    }
  }

 private:
  const device_mesh* devices_;
  std::vector<pipeline_batch> batches_;
};

}  // namespace weir::test
