// SPDX-License-Identifier: Apache-2.0
/// @file
/// The objects through which a stage sees its items: ports, the step of a stage, the
/// slots that a source fills, and the items that a sink takes.
///
/// A stage owns its state and sees one item at a time, in the order of the numbers. It
/// communicates with other stages through items alone. `weir/pipeline/faces.hpp` says
/// which members a stage has.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/philox.hpp"
#include "weir/pipeline/item.hpp"
#include "weir/runtime/calls/call_or_submit.hpp"

namespace weir {

namespace flow {
class stage_run;
class blank;
class ready;
class exchange;
}  // namespace flow

/// An inlet: a member of a stage, through which items arrive. `describe` names it.
/// @threads{a value}
template <class T, int Rank>
struct in {
  int index = -1;  ///< number among the inlets, set when the stage is made
};
/// An outlet: a member of a stage, through which items leave.
/// @threads{a value}
template <class T, int Rank>
struct out {
  int index = -1;  ///< number among the outlets, set when the stage is made
};
/// Memory of one item that only its stage sees, such as a result that `on_done` reads.
/// @threads{a value}
template <class T, int Rank>
struct scratch {
  int index = -1;  ///< number among the scratch memories, set when the stage is made
};
/// An inlet for tensors of any type, for stages that do not look at elements.
/// @threads{a value}
struct any_in {
  int index = -1;  ///< number among the inlets, set when the stage is made
};
/// An outlet that hands on the tensor of an `any_in`.
/// @threads{a value}
struct any_out {
  int index = -1;  ///< number among the outlets, set when the stage is made
};

/// One call of a stage. The object lives for the call.
/// @threads{thread-compatible; belongs to the thread of the call}
class step {
 public:
  /// Returns the number of the item: 0, 1, 2, ... without holes.
  [[nodiscard]] std::uint64_t seq() const noexcept;
  /// Returns the number of the call for this item: 0 in `on_item` and in `on_done`, and
  /// 1, 2, ... in `on_step`.
  [[nodiscard]] std::uint64_t round() const noexcept;
  /// Returns the attributes of the item, of the first inlet that has one.
  [[nodiscard]] const attributes& about() const noexcept;
  /// Returns the attributes of the item that will be emitted, which begin as a copy of
  /// `about`.
  [[nodiscard]] attributes& emitted();
  /// Returns random numbers of this stage and this item. They are a function of the seed
  /// of the run, the name of the stage and `seq`; all steps of an item get the same.
  [[nodiscard]] philox random() const noexcept;
  /// Returns the time at which the host began this turn of all stages, by the monotonic
  /// clock. It is meant for `report`: results that depend on it do not repeat.
  /// @units{nanoseconds}
  [[nodiscard]] std::int64_t turn_time() const noexcept;
  /// Returns the time at which the item, or the oldest one from which it was made, left
  /// its source. See `turn_time`. @units{nanoseconds}
  [[nodiscard]] std::int64_t source_time() const noexcept;
  /// Returns the number of items that the call has: 1, or for a stage that takes several
  /// items at once up to that number; fewer only at the end of the input.
  [[nodiscard]] std::size_t count() const noexcept;
  /// Returns whether the inlet has an item of this number. False only for stages that
  /// accept gaps.
  [[nodiscard]] bool has(int inlet) const noexcept;
  /// Returns whether the inlet has an item of this number, see `has(int)`.
  template <class Port>
  [[nodiscard]] bool has(const Port& port) const noexcept {
    return has(port.index);
  }

  /// Returns whether the bytes of the tensor are there, because no task writes them any
  /// more. They may then be read without a task. @pre `has(port)`
  template <class Port>
  [[nodiscard]] bool complete(const Port& port) const noexcept {
    return input_complete(port.index);
  }

  /// Returns the tensor of the item. Tasks that read it wait for its writers, so its
  /// bytes need not be there yet.
  /// @param nth  Number of the item in the call, below `count`.
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> input(const in<T, Rank>& port,
                                      std::size_t nth = 0) const {
    return tensor<T, Rank>(input_bytes(port.index, nth));
  }
  /// Returns the tensor of the first item of the call, see `input`.
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> operator[](const in<T, Rank>& port) const {
    return input(port);
  }
  /// Returns the tensor of an inlet without a static type, see `input` above.
  /// @param nth  Number of the item in the call, below `count`.
  [[nodiscard]] const runtime::tensor& input(const any_in& port,
                                             std::size_t nth = 0) const {
    return input_bytes(port.index, nth);
  }
  /// Returns the tensor of an inlet without a static type.
  [[nodiscard]] const runtime::tensor& operator[](const any_in& port) const {
    return input_bytes(port.index, 0);
  }

  /// Takes memory for an outlet, with any content. Never waits, because the call begins
  /// only when memory is free.
  /// @shape{extents, the slowest dimension first} @units{extents: elements}
  /// @error{out_of_range, the item needs more bytes than the port's memory has; the
  /// message names the window to enlarge}
  template <class T, int Rank, class... Extent>
  [[nodiscard]] result<tensor<T, Rank>> make(const out<T, Rank>& port,
                                             Extent... extents) {
    static_assert(sizeof...(Extent) == Rank, "one extent for each dimension of the port");
    auto made =
        output_bytes(port.index, dtype_of<T>, {static_cast<std::int64_t>(extents)...});
    if (!made) {
      return std::move(made.error());
    }
    return {tl::in_place, **made};
  }
  /// Takes scratch memory of the item, with any content.
  /// @shape{extents, the slowest dimension first} @units{extents: elements}
  /// @error{out_of_range, the shape differs from the described one}
  template <class T, int Rank, class... Extent>
  [[nodiscard]] result<tensor<T, Rank>> make(const scratch<T, Rank>& memory,
                                             Extent... extents) {
    static_assert(sizeof...(Extent) == Rank, "one extent for each dimension");
    auto made =
        scratch_bytes(memory.index, dtype_of<T>, {static_cast<std::int64_t>(extents)...});
    if (!made) {
      return std::move(made.error());
    }
    return tensor<T, Rank>(*made);
  }
  /// Takes memory for an outlet whose type is known only at run time, see `make`.
  /// @param port  Number among the outlets.
  /// @error{out_of_range, see `make`}
  [[nodiscard]] result<runtime::tensor> make_bytes(int port, dtype type,
                                                   std::span<const std::int64_t> shape) {
    auto made = output_bytes(port, type, shape);
    if (!made) {
      return std::move(made.error());
    }
    return **made;
  }

  /// Submits a task of this item, as `engine::submit`. It may have run when the call
  /// returns. @error{not_found, thrown: the memory of a tensor was freed}
  template <class Kernel, class... Argument>
  void submit(const char* name, Kernel kernel, const Argument&... arguments) {
    note_task(call_or_submit(calls_, host_, name, std::move(kernel), arguments...));
  }
  /// Submits a task without typed views. A kernel without arguments may have run when the
  /// call returns. If a kernel fails, so does its item. @error{not_found, a stale id}
  template <class Kernel>
  [[nodiscard]] result<void> submit_bytes(const char* name,
                                          std::span<const runtime::access> accesses,
                                          const Kernel& kernel) {
    WEIR_TRY(const auto id, call_or_submit_bytes(calls_, host_, name, accesses, kernel));
    note_task(id);
    return {};
  }

  /// Declares that tasks which were submitted to the engine of the run in another way,
  /// during this call and one after another, belong to the item.
  /// @param first  Number of the first of them. @param last  Number of the last one.
  void adopt_tasks(task_id first, task_id last) noexcept {
    note_task(first);
    note_task(last);
  }

  /// Hands the item on with the tensors that were made or forwarded; an outlet without
  /// one gets a gap. Its tasks need not have run. A stage with a numbering of its own may
  /// emit several items in one call, all others exactly one for each item that they take,
  /// or call `skip`.
  /// @error{invalid_argument, more items than the stage has described; or `on_item` of a
  /// stage with `on_done`, which emits there}
  [[nodiscard]] result<void> emit();
  /// Hands the tensor of an inlet on through an outlet.
  template <class T, int Rank>
  void forward(const in<T, Rank>& from, const out<T, Rank>& to) {
    pass(from.index, to.index);
  }
  /// Hands the tensor of an inlet on through an outlet.
  void forward(const any_in& from, const any_out& to) { pass(from.index, to.index); }
  /// Declares that this number has no item behind the stage.
  void skip();

  /// Returns elements of scratch memory that tasks of this item have written. Only in
  /// `on_done` and `on_step`.
  template <class T, int Rank>
  [[nodiscard]] view<const T, Rank> value(const scratch<T, Rank>& memory) const {
    return elements_of<const T, Rank>(scratch_of_item(memory.index));
  }
  /// Returns the elements of the item. Only in `on_done` and `on_step`.
  template <class T, int Rank>
  [[nodiscard]] view<const T, Rank> value(const in<T, Rank>& port) const {
    return elements_of<const T, Rank>(input_bytes(port.index, 0));
  }

 private:
  friend class flow::stage_run;
  explicit step(flow::stage_run& stage);

  [[nodiscard]] const runtime::tensor& input_bytes(int inlet, std::size_t nth) const;
  [[nodiscard]] bool input_complete(int inlet) const noexcept;
  [[nodiscard]] const runtime::tensor& scratch_of_item(int index) const;
  /// Returns a tensor that belongs to the item.
  [[nodiscard]] result<const runtime::tensor*> output_bytes(
      int outlet, dtype type, std::span<const std::int64_t> shape);
  [[nodiscard]] result<const runtime::tensor*> output_bytes(
      int outlet, dtype type, std::initializer_list<std::int64_t> shape) {
    return output_bytes(outlet, type, std::span(shape.begin(), shape.size()));
  }
  [[nodiscard]] result<const runtime::tensor*> output_of_new_form(
      std::size_t outlet, dtype type, std::span<const std::int64_t> shape);
  [[nodiscard]] result<runtime::tensor> scratch_bytes(
      int index, dtype type, std::initializer_list<std::int64_t> shape);
  void pass(int inlet, int outlet);
  void note_task(task_id id) noexcept;

  flow::stage_run& stage_;
  engine& host_;                  ///< engine of the run, or of the stage itself
  runtime::direct_calls& calls_;  ///< calls in place of tasks
};

/// An empty item in the hands of a source or of a blocking stage, which fills it.
/// @threads{thread-compatible; belongs to the thread of the stage}
class pull {
 public:
  /// Makes the call object of one item. For hosts.
  explicit pull(flow::blank& item) : blank_(item) {}
  /// Returns the number that the item will have.
  [[nodiscard]] std::uint64_t seq() const noexcept;
  /// Returns the attributes of the item. Those of a source begin empty, those of a
  /// blocking stage as a copy of the attributes of the item that it has taken.
  [[nodiscard]] attributes& emitted() noexcept;
  /// Declares that this number has no item behind the stage. Only in `on_ready`.
  void skip() noexcept;
  /// Declares that the source has no item at the moment. `next` then returns true, and is
  /// called again later. A source that waits for data calls it after at most 100 ms, so
  /// that the run can make a checkpoint or stop.
  void nothing_yet() noexcept;
  /// Returns whether `nothing_yet` was called for the item.
  [[nodiscard]] bool has_nothing() const noexcept;
  /// Takes memory for an outlet and returns it, so that the bytes of the item are written
  /// where the tasks of later stages read them.
  /// @shape{extents, the slowest dimension first} @units{extents: elements}
  /// @error{out_of_range, the item needs more bytes than the port's memory has}
  /// @error{corrupt, a source fills a shape that differs from the type of the port;
  /// invalid_argument: another stage does}
  /// @error{out_of_memory, the allocation fails}
  template <class T, int Rank, class... Extent>
  [[nodiscard]] result<view<T, Rank>> fill(const out<T, Rank>& port, Extent... extents) {
    static_assert(sizeof...(Extent) == Rank, "one extent for each dimension of the port");
    const std::array<std::int64_t, static_cast<std::size_t>(Rank)> shape{
        static_cast<std::int64_t>(extents)...};
    WEIR_TRY(const auto bytes, fill_slot(port.index, dtype_of<T>, shape));
    return elements_of<T, Rank>(*bytes);
  }
  /// Takes memory for an outlet whose type is known only at run time, see `fill`.
  /// @param port  Number among the outlets.
  /// @error{out_of_range, out_of_memory, corrupt; see `fill`}
  [[nodiscard]] result<runtime::tensor> fill_bytes(int port, dtype type,
                                                   std::span<const std::int64_t> shape);

 private:
  /// As `fill_bytes`. The tensor belongs to the item.
  [[nodiscard]] result<const runtime::tensor*> fill_slot(
      int port, dtype type, std::span<const std::int64_t> shape);
  flow::blank& blank_;
};

/// A whole item in the hands of a sink or of a blocking stage. Its bytes are complete.
/// @threads{thread-compatible; belongs to the thread of the stage}
class taken {
 public:
  /// Makes the call object of one item. For hosts.
  explicit taken(const flow::ready& item) : ready_(item) {}
  /// Returns the number of the item.
  [[nodiscard]] std::uint64_t seq() const noexcept;
  /// Returns the attributes of the item.
  [[nodiscard]] const attributes& about() const noexcept;
  /// Returns whether the inlet has an item of this number.
  template <class Port>
  [[nodiscard]] bool has(const Port& port) const noexcept {
    return has_bytes(port.index);
  }
  /// Returns the elements of the item at an inlet.
  template <class T, int Rank>
  [[nodiscard]] view<const T, Rank> operator[](const in<T, Rank>& port) const {
    return elements_of<const T, Rank>(bytes(port.index));
  }
  /// Returns the tensor of an inlet without a static type.
  [[nodiscard]] const runtime::tensor& operator[](const any_in& port) const {
    return bytes(port.index);
  }

 private:
  [[nodiscard]] bool has_bytes(int inlet) const noexcept;
  [[nodiscard]] const runtime::tensor& bytes(int inlet) const;
  const flow::ready& ready_;
};

/// A tensor that a stage reads and never writes, such as weights.
/// @threads{a value}
struct constant_info {
  std::string file;    ///< path of the file that holds it
  std::string tensor;  ///< name in the file
  std::string digest;  ///< type, shape and XXH3-64 of the bytes, which checkpoints hold
};

/// The objects that a stage gets before its first item.
/// @threads{thread-compatible}
class opening {
 public:
  /// Loads a tensor of a file into memory of an engine. When it returns, the bytes are
  /// there.
  using loader = std::function<result<runtime::tensor>(
      weir::engine&, const std::string& path, const std::string& name)>;
  /// Facts of the run that every stage may ask for.
  struct facts {
    weir::engine* engine = nullptr;  ///< engine of the run
    std::string folder;              ///< folder of the pipeline's file; may be empty
    bool resuming = false;           ///< true if state comes from a checkpoint
    std::uint64_t seed = 1;          ///< seed of the run
    loader load;                     ///< loads constants; empty if the host has none
    std::string kernels = "auto";    ///< instruction set of the kernels of models
  };
  /// Makes the object. For hosts.
  explicit opening(facts run) : run_(std::move(run)) {}
  /// Returns the engine of the run, to make the tensors of the state.
  [[nodiscard]] weir::engine& host() const noexcept { return *run_.engine; }
  /// Returns a path of the settings as the process finds it: relative paths lie beside
  /// the pipeline's file.
  [[nodiscard]] std::string path(std::string_view relative) const;
  /// Returns whether the state will be replaced by that of a checkpoint after `open`.
  [[nodiscard]] bool resuming() const noexcept { return run_.resuming; }
  /// Returns the seed of the run.
  [[nodiscard]] std::uint64_t seed() const noexcept { return run_.seed; }
  /// Returns the instruction set that the kernels of models are to have: "auto", or a
  /// name of `models::instruction_sets`.
  [[nodiscard]] const std::string& kernels() const noexcept { return run_.kernels; }
  /// Loads a tensor of a volume, which the stage must not write. Checkpoints hold only
  /// its digest, and a run is resumed only with the same contents.
  /// @param file  Path as the process finds it, see `path`.
  /// @error{invalid_argument, the tensor has another type or number of dimensions}
  /// @error{unsupported, the host cannot load tensors}
  /// @error{not_found, the file or the tensor is missing; other errors of files, too}
  template <class T, int Rank>
  [[nodiscard]] result<tensor<T, Rank>> constant(const std::string& file,
                                                 const std::string& name) {
    WEIR_TRY(const auto bytes, constant_bytes(file, name, dtype_of<T>, Rank));
    return tensor<T, Rank>(bytes);
  }
  /// Returns the constants that the stage has loaded so far. For hosts.
  [[nodiscard]] const std::vector<constant_info>& constants() const noexcept {
    return constants_;
  }
  /// Returns the facts of the run. For hosts.
  [[nodiscard]] const facts& run() const noexcept { return run_; }
  /// Takes the constants that the stage has loaded on another engine. For hosts.
  void set_constants(std::vector<constant_info> loaded) {
    constants_ = std::move(loaded);
  }

 private:
  [[nodiscard]] result<runtime::tensor> constant_bytes(const std::string& file,
                                                       const std::string& name,
                                                       dtype type, std::size_t rank);
  facts run_;
  std::vector<constant_info> constants_;
};

}  // namespace weir
