// SPDX-License-Identifier: Apache-2.0
/// @file
/// Worlds for programs: functions over tiles of tensors run on the ranks that own them.
/// The program names no rank and no message.
///
/// ```
/// weir::engine e;
/// weir::world w(e, launched_ranks());  // or w(e): one rank
/// auto a = w.make<double>(weir::rows(64), n, n), b = w.make<double>(...);
/// for (const auto& t : b.tiles_inside(1)) {
///   w.submit("sweep", sweep, weir::read(a.around(t, 1)), weir::write(b.of_tile(t)));
/// }
/// ```
/// Mistakes of the program and a lack of memory throw `std::runtime_error`. Failures of
/// kernels and of ranks are returned by `wait` and `get`.
/// @source{docs/ranks.md}
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "weir/base/system/memory.hpp"
#include "weir/each_tile.hpp"
#include "weir/runtime/state/world_state.hpp"
#include "weir/tiles.hpp"
#include "weir/world_arguments.hpp"

namespace weir {

using runtime::stop_at_signals;

/// A tensor of a state and its name in the files. Made by `named`.
template <class Tensor>
struct named_state {
  std::string name;  ///< name in the manifest
  Tensor* tensor;    ///< variable that holds the tensor
};
/// Gives a variable of a state a name. @pre the variable outlives the checkpoints
template <class Tensor>
[[nodiscard]] named_state<Tensor> named(std::string name, Tensor& variable) {
  return {std::move(name), &variable};
}

/// Promise about the steps of `world::repeat`: after a few steps, each step makes the
/// same calls as the one that lies a fixed number of steps before it, and does nothing
/// else. This number, the period, is at most four. After a period the variables that the
/// body changes are as they were before it, as they are if two tensors are swapped in
/// each step.
struct equal_steps {};

/// One program on several ranks, see `runtime::world`. Every rank makes the same calls
/// with the same arguments in the same order.
/// @threads{thread-compatible: one thread submits and waits; kernels run on any}
class world {
 public:
  /// Makes a world of one rank. @pre the engine outlives the world
  explicit world(engine& tasks) : ranks_(tasks.base()) {}
  /// Makes the part of one rank. @pre the engine and the transport outlive the world
  world(engine& tasks, runtime::transport& link) : ranks_(tasks.base(), link) {}
  /// Makes the part of one rank, or a world of one rank if there is no transport, as
  /// `launched_ranks` returns it. @pre the engine and the transport outlive the world
  world(engine& tasks, const std::unique_ptr<runtime::transport>& link)
      : ranks_(tasks.base(), link.get()) {}
  /// Makes the part of one rank and keeps its transport, or a world of one rank if there
  /// is none. The destructor ends the transport behind the world, which waits for the
  /// other ranks. @pre the engine outlives the world
  world(engine& tasks, std::unique_ptr<runtime::transport>&& link)
      : own_link_(std::move(link)), ranks_(tasks.base(), own_link_.get()) {}
  /// Makes the part of one rank from what a function that makes transports has returned,
  /// as in `world w(e, from_mpi(communicator))`, and keeps the transport.
  /// @pre the engine outlives the world @error{unsupported; thrown: the error of `link`}
  world(engine& tasks, result<std::unique_ptr<runtime::transport>>&& link)
      : world(tasks, or_throw(std::move(link))) {}
  /// Waits for the tasks of this rank that have been started. Others never run.
  ~world() = default;
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Returns a row-major tensor of zeros, which is cut into tiles.
  /// @shape{extents, the slowest dimension first} @units{extents: elements}
  /// @error{out_of_memory; thrown}
  template <class T, class... Extent>
  [[nodiscard]] auto make(const layout& cut, Extent... extents) {
    constexpr int rank = sizeof...(Extent);
    const world_tensor<T, rank> made(
        make_bytes<T, rank>({static_cast<std::int64_t>(extents)...}), cut);
    // A huge page is taken whole, so none may hold bytes that this rank never touches.
    const std::span<std::byte> own = made.bytes_of_rank(ranks_.rank(), ranks_.ranks());
    prefer_huge_pages(own.data(), static_cast<std::int64_t>(own.size()));
    return made;
  }
  /// Returns one number for each tile of a tensor, which has the owner of the tile.
  template <class U, class T, int Rank>
  [[nodiscard]] world_tensor<U, 1> per_tile(const world_tensor<T, Rank>& t) {
    return make<U>(rows(1), t.tile_count());
  }
  /// Returns a number that all ranks have. `reduce` and `submit_everywhere` set it.
  template <class T>
  [[nodiscard]] tensor<T, 0> everywhere() {
    return make_bytes<T, 0>({});
  }

  /// Waits for the tasks of a tensor on this rank and frees its memory. No view of it may
  /// be used afterwards. @error{not_found; thrown: the memory was freed before}
  template <class T, int Rank>
  void release(const world_tensor<T, Rank>& t) {
    or_throw(ranks_.release(t.all().bytes().store().id));
  }

  /// Submits a task that calls `kernel(views...)` on the owner of the first part that it
  /// writes. The kernel may return `result<void>` to fail. Its captures live until it has
  /// run. `name` is a literal. Arguments
  /// are parts of world tensors, and numbers that all ranks have, for reading.
  /// @error{stopping; thrown: a rank has failed}
  template <class Kernel, class... Argument>
  void submit(const char* name, Kernel kernel, const Argument&... arguments) {
    tile_owner executor;
    static_cast<void>((take_owner(arguments, executor) || ...));
    submit(name, std::move(kernel), executor, arguments...);
  }
  /// Submits a task that runs on the owner of a tile, `owner_of(part)`, whatever it
  /// writes: on the rank that has a large part which it reads, for example. Otherwise as
  /// above. @error{stopping; thrown: a rank has failed}
  template <class Kernel, class... Argument>
  void submit(const char* name, Kernel kernel, const tile_owner& executor,
              const Argument&... arguments) {
    static_assert((world_argument<Argument>::writes || ...),
                  "the task of a world writes a part of a tensor");
    static_assert(
        ((world_argument<Argument>::is_part || !world_argument<Argument>::writes) && ...),
        "numbers that all ranks have are written by submit_everywhere");
    const auto rank = static_cast<runtime::rank_id>(executor.index * ranks_.ranks() /
                                                    executor.of_tiles);
    submit_call({rank, 0, false}, name, std::move(kernel), arguments...);
  }
  /// Submits a task for each tile of a range, in the order of their numbers: the effect
  /// is that of a loop that calls `submit` with the parts of each tile. The call costs
  /// little for the tiles of other ranks, unless they are neighbours, so use it in worlds
  /// of many ranks. Arguments are `read`, `write` or `update` of parts that
  /// `world_tensor::each` and `each_index` return, and numbers that all ranks have, for
  /// reading. The kernel gets the box of the tile before its views if it takes one.
  /// @error{out_of_range; thrown: a tensor is smaller than the one of the tiles}
  /// @error{stopping; thrown: a rank has failed}
  template <class Kernel, int Rank, class... Each>
  void submit_tiles(const char* name, Kernel kernel, const tile_range<Rank>& tiles,
                    const Each&... arguments) {
    or_throw(ranks_.submit_series(std::make_shared<tile_series<Kernel, Rank, Each...>>(
        ranks_, name, std::move(kernel), tiles, arguments...)));
  }
  /// Submits a task that every rank runs, with the same inputs. It writes numbers that
  /// all ranks have. @error{stopping; thrown: a rank has failed}
  template <class Kernel, class... Argument>
  void submit_everywhere(const char* name, Kernel kernel, const Argument&... arguments) {
    static_assert(
        (!(world_argument<Argument>::is_part && world_argument<Argument>::writes) && ...),
        "a part of a world tensor is written by its owner alone");
    submit_call({0, 0, true}, name, std::move(kernel), arguments...);
  }
  /// Combines the elements of `parts` by a tree over their numbers and sets `out` on all
  /// ranks. The bits do not depend on the number of ranks. @pre parts is not empty
  template <class Operation, class T>
  void reduce(Operation operation, const world_tensor<T, 1>& parts,
              const tensor<T, 0>& out) {
    submit_everywhere(
        "reduce",
        [&] {
          if constexpr (std::is_class_v<Operation>) {
            return reduction<Operation, T>{operation};
          } else {
            return [operation](view<const T, 1> all, view<T, 0> sum) {
              sum() = combine_elements(operation, all, 0, all.extent(0));
            };
          }
        }(),
        weir::read(parts.all()), weir::write(out));
  }

  /// Waits for all tasks of all ranks. The failure of a kernel keeps its code, see
  /// `runtime::world::wait`.
  /// @error{kernel_failed; a kernel threw an exception}
  /// @error{diverged; the ranks have submitted different tasks}
  /// @error{rank_lost; a rank shows no sign of life}
  [[nodiscard]] result<void> wait() { return ranks_.wait(); }
  /// Waits, and returns a number that all ranks have. @error{kernel_failed; see `wait`}
  template <class T>
  [[nodiscard]] result<T> get(const tensor<T, 0>& number) {
    WEIR_CHECK(wait());
    return *number.bytes().template as<T>();
  }
  /// Brings all elements to all ranks and waits. The view is valid until a task that
  /// writes them is submitted. @error{kernel_failed; see `wait`}
  template <class T, int Rank>
  [[nodiscard]] result<view<const T, Rank>> elements(const world_tensor<T, Rank>& t) {
    WEIR_CHECK(ranks_.bring_everywhere(t.all().bytes()));
    WEIR_CHECK(wait());
    return t.all().template elements<const T>(asked_for());
  }

  /// Opens a folder for checkpoints of the state: variables that hold world tensors or
  /// numbers that all ranks have, each as it is or with a name by `named`. A checkpoint
  /// saves what the variables hold at that time, so programs may swap them. Waits.
  /// @pre the variables outlive the world's checkpoints
  /// @error{locked; thrown: another run has the folder open}
  /// @error{io; thrown: see `runtime::world_state::open`}
  template <class... State>
  void checkpoint(std::string folder, runtime::state_options options, State&&... state) {
    static_assert(sizeof...(State) > 0, "a state has a tensor");
    std::vector<runtime::state_item> items;
    (items.push_back(item_of(items.size(), std::forward<State>(state))), ...);
    every_ = options.every;
    files_ = or_throw(runtime::world_state::open(ranks_, std::move(folder),
                                                 std::move(options), std::move(items)));
  }
  /// Fills the state from a generation, on any number of ranks. Returns the step at which
  /// `repeat` goes on, 0 if there is no generation. @pre `checkpoint` was called
  /// @error{config_mismatch; the generation has other names or tiles}
  /// @error{not_found; see `runtime::world_state::resume`}
  [[nodiscard]] result<std::int64_t> resume(
      std::uint64_t generation = runtime::world_state::newest) {
    WEIR_EXPECT(files_);
    WEIR_TRY(first_step_, files_->resume(generation));
    return first_step_;
  }
  /// Calls `body(step)` for each step below `steps`, from 0 or from the step that
  /// `resume` returned. Saves the state after every `state_options::every` steps and
  /// after the last one. A program that resumes repeats once. Steps that submit the same
  /// tasks as earlier ones, with captures of the same bytes, are recorded and replayed;
  /// the results are those of submitting them, see `docs/ranks.md`.
  ///
  /// If a rank is asked to stop (`stop_at_signals`, `ask_to_stop`), all ranks agree on a
  /// step before which they stop: they save the state unless that was done, wait for all
  /// tasks, and `repeat` returns early. `stopped` tells so, and the program should end.
  /// @error{stopping; thrown: see `submit`} @error{kernel_failed; thrown: a kernel failed
  /// before the stop}
  template <class Body>
  void repeat(std::int64_t steps, Body&& body) {
    repeat_steps(steps, body, false);
  }
  /// Calls `body(step)` as above, for a program that promises `equal_steps`: steps that
  /// are replayed do not call the body. On one rank all steps call it.
  /// @error{stopping; thrown: see `submit`} @error{kernel_failed; thrown: see above}
  template <class Body>
  void repeat(std::int64_t steps, equal_steps, Body&& body) {
    repeat_steps(steps, body, true);
  }
  /// Returns true if `repeat` has ended early, as a rank was asked to stop.
  [[nodiscard]] bool stopped() const noexcept { return stopped_at_ >= 0; }
  /// Returns the step before which it has ended.
  [[nodiscard]] std::int64_t stopped_at() const noexcept { return stopped_at_; }
  /// Asks all ranks to stop, see `repeat`. @threads{safe from any thread}
  void ask_to_stop() noexcept { ranks_.ask_to_stop(); }

  /// Returns the world of the layer below, for counters.
  [[nodiscard]] runtime::world& base() { return ranks_; }

 private:
  template <class Body>
  void repeat_steps(std::int64_t steps, Body& body, bool are_equal) {
    const std::int64_t first = std::exchange(first_step_, 0);
    for (std::int64_t step = first; step < steps; ++step) {
      const bool saves = files_ && every_ > 0 && step % every_ == 0;
      if (saves && step != first) {
        run_passed(step, body);
        or_throw(files_->save(step));
      }
      if (or_throw(ranks_.stops_here())) {
        run_passed(step, body);
        stop(step, !saves && step != first);
        return;
      }
      ranks_.begin_step();
      if (!are_equal || !or_throw(ranks_.pass_step())) {
        body(step);
      }
      or_throw(ranks_.end_step());
    }
    run_passed(steps, body);
    or_throw(ranks_.end_steps());
    if (files_ && every_ > 0 && steps > first) {
      or_throw(files_->save(steps));
    }
  }
  /// Calls the body for the steps before `next` that were passed and not replayed.
  template <class Body>
  void run_passed(std::int64_t next, Body& body) {
    for (std::int64_t step = next - ranks_.take_back_steps(); step < next; ++step) {
      ranks_.begin_step();
      body(step);
      or_throw(ranks_.end_step());
    }
  }
  /// Ends `repeat` before a step.
  void stop(std::int64_t step, bool saves) {
    or_throw(ranks_.end_steps());
    if (files_ && saves) {
      or_throw(files_->save(step));
    }
    or_throw(ranks_.wait());
    stopped_at_ = step;
  }
  /// Kernel of `reduce`. An operation without captures is a base class, so that it adds
  /// no byte of undefined value, by which equal kernels would differ.
  template <class Operation, class T>
  struct reduction : Operation {
    void operator()(view<const T, 1> all, view<T, 0> sum) const {
      sum() =
          combine_elements(static_cast<const Operation&>(*this), all, 0, all.extent(0));
    }
  };
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> make_bytes(
      const std::array<std::int64_t, static_cast<std::size_t>(Rank)>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
      WEIR_EXPECT(extent >= 0 && checked_mul(count, extent, count));
    }
    const auto memory =
        or_throw(ranks_.allocate(or_throw(byte_size(dtype_of<T>, count)), "tensors"));
    return tensor<T, Rank>(or_throw(runtime::tensor::over(memory, dtype_of<T>, shape)));
  }
  /// Returns the item of a state for a variable.
  template <class T, int Rank>
  static runtime::state_item item_of(std::string name, world_tensor<T, Rank>* variable) {
    return {std::move(name), [variable]() -> runtime::state_tensor {
              const auto& tile = variable->tile_shape();
              return {variable->all().bytes(), {tile.begin(), tile.end()}};
            }};
  }
  template <class T>
  static runtime::state_item item_of(std::string name, tensor<T, 0>* variable) {
    return {std::move(name), [variable]() -> runtime::state_tensor {
              return {variable->bytes(), {}};
            }};
  }
  template <class Tensor>
  static runtime::state_item item_of(std::size_t, named_state<Tensor> state) {
    return item_of(std::move(state.name), state.tensor);
  }
  template <class Tensor>
  static runtime::state_item item_of(std::size_t number, Tensor& variable) {
    return item_of("tensor " + std::to_string(number), &variable);
  }
  /// Sets the executor and returns true if the argument is a part for writing.
  template <class Argument>
  static bool take_owner([[maybe_unused]] const Argument& a,
                         [[maybe_unused]] tile_owner& executor) {
    constexpr bool owns =
        world_argument<Argument>::writes && world_argument<Argument>::is_part;
    if constexpr (owns) {
      executor = {a.index, a.of_tiles};
    }
    return owns;
  }
  template <class Kernel, class... Argument>
  void submit_call(const runtime::world_submission& with, const char* name, Kernel kernel,
                   const Argument&... arguments) {
    const auto accesses = world_arguments::accesses_of(arguments...);
    // One rank records nothing, so it needs no identity.
    const std::uint64_t identity =
        ranks_.ranks() == 1 ? 0 : world_arguments::identity_of(kernel, arguments...);
    world_arguments::submit_call(
        world_arguments::call_of(name, std::move(kernel), arguments...),
        [&](const auto& task, const runtime::world::kept_object& keep) {
          or_throw(ranks_.submit(with, name, accesses, task, keep, identity));
        });
  }

  std::unique_ptr<runtime::transport> own_link_;  ///< null if the program keeps it
  runtime::world ranks_;
  std::unique_ptr<runtime::world_state> files_;  ///< null without `checkpoint`
  std::int64_t every_ = 0;                       ///< steps between two saves; 0: none
  std::int64_t first_step_ = 0;                  ///< at which `repeat` goes on
  std::int64_t stopped_at_ = -1;                 ///< step before which it has ended early
};

}  // namespace weir
