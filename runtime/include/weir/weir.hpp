// SPDX-License-Identifier: Apache-2.0
/// @file
/// The task engine for programs: make tensors, submit functions with what they read and
/// write, wait, read results. Nothing else of the framework is needed.
///
/// ```
/// weir::engine e(2);
/// auto x = e.make<double>(100);
/// e.submit("fill", [](auto v) { for (double& one : v) one = 1; }, weir::write(x));
/// std::printf("%g\n", *e.get(x, 7));
/// ```
/// Mistakes of the program and a lack of memory throw `std::runtime_error` with the whole
/// message. Failures of kernels are returned by `wait` and `get`.
/// @source{docs/tour.md}
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <utility>

#include "weir/base/dtype.hpp"
#include "weir/runtime/engine.hpp"
#include "weir/runtime/view.hpp"

namespace weir {

using runtime::task_id;

/// A strided view of memory that an engine owns: a value, cheap to copy. It does not keep
/// the memory, which lives until `engine::release` or the end of the engine.
/// @threads{const; safe to use concurrently}
template <class T, int Rank>
class tensor {
  static_assert(std::is_trivially_copyable_v<T> && Rank >= 0 &&
                Rank <= runtime::max_dims);

 public:
  /// Type of the elements.
  using element = T;
  /// Number of dimensions.
  static constexpr int rank = Rank;

  /// Makes a tensor over no storage, to be assigned to before it is used.
  tensor() = default;
  /// Gives a tensor of the layer below its type. It has `Rank` dimensions and elements of
  /// type `T`.
  explicit tensor(const runtime::tensor& bytes) : bytes_(bytes) {}

  /// Returns the number of elements along a dimension in [0, Rank).
  [[nodiscard]] std::int64_t extent(int dimension) const {
    return bytes_.shape()[static_cast<std::size_t>(dimension)];
  }
  /// Returns a view of the elements start, start + step, ... before `stop` of one
  /// dimension.
  /// @error{out_of_range; thrown: an index outside the dimension, or a step of 0}
  [[nodiscard]] tensor slice(int dimension, std::int64_t start, std::int64_t stop,
                             std::int64_t step = 1) const {
    return tensor(or_throw(bytes_.slice(dimension, start, stop, step)));
  }
  /// Returns the view of one index of one dimension, without that dimension.
  /// @error{out_of_range; thrown: an index outside the dimension}
  [[nodiscard]] tensor<T, Rank - 1> select(int dimension, std::int64_t index) const {
    return tensor<T, Rank - 1>(or_throw(bytes_.select(dimension, index)));
  }
  /// Returns the view with the dimensions in reverse order.
  [[nodiscard]] tensor transpose() const { return tensor(or_throw(bytes_.transpose())); }
  /// Returns the tensor of the layer below, which has no static type.
  [[nodiscard]] const runtime::tensor& bytes() const { return bytes_; }

  /// Returns the elements as a kernel sees them. The caller makes sure that no task
  /// writes them: a kernel may access the tensors that it has declared. `owner` is named
  /// in the message if an index is out of range.
  /// @shape{the extents of the tensor}
  template <class E>
  [[nodiscard]] view<E, Rank> elements(view_owner owner = {"no task", 0, true}) const {
    return elements_of<E, Rank>(bytes_, owner);
  }

 private:
  runtime::tensor bytes_;
};

/// One access of a task: a tensor, and whether the kernel reads or writes it. Made by
/// `read`, `write`, `update`, `commute` and `commute_any`.
template <class T, int Rank, runtime::access_mode Mode>
struct argument {
  /// True if the kernel gets a view of const elements.
  static constexpr bool reads_only = Mode == runtime::access_mode::read;
  /// Type of the elements that the kernel gets.
  using element = std::conditional_t<reads_only, const T, T>;

  tensor<T, Rank> operand;  ///< tensor that the kernel accesses

  /// Returns the bytes and the mode for the engine.
  [[nodiscard]] runtime::access access() const { return {operand.bytes().bytes(), Mode}; }
  /// Returns the view that the kernel gets. `owner` names the task in messages.
  [[nodiscard]] view<element, Rank> elements(view_owner owner) const {
    return operand.template elements<element>(owner);
  }
};
/// Declares that a kernel reads the tensor: it gets a view of const elements.
template <class T, int Rank>
[[nodiscard]] auto read(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::read>{t};
}
/// Declares that a kernel writes the tensor and does not read the old content.
template <class T, int Rank>
[[nodiscard]] auto write(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::write>{t};
}
/// Declares that a kernel reads and writes the tensor.
template <class T, int Rank>
[[nodiscard]] auto update(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::read_write>{t};
}

/// Declares an update by kernels whose order does not matter, such as additions. They run
/// one at a time in the order of their submission, so that sums keep their bits.
template <class T, int Rank>
[[nodiscard]] auto commute(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::commute>{t};
}
/// Declares an update by kernels that run one at a time in the order in which they become
/// ready. Results may depend on that order. At most one argument of a kernel may have it.
template <class T, int Rank>
[[nodiscard]] auto commute_any(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::commute_any>{t};
}

/// An argument that gives a tensor fresh memory. Made by `fresh`.
template <class T, int Rank>
struct next_version {
  tensor<T, Rank>* target;  ///< tensor that names the new version after the submission
};
/// Declares that a kernel writes a new version of the tensor. After the submission `t`
/// names fresh memory, so the kernel does not wait for tasks that use the version before.
/// If that version was fresh memory too, it ends when its tasks have ended.
template <class T, int Rank>
[[nodiscard]] next_version<T, Rank> fresh(tensor<T, Rank>& t) {
  return {&t};
}

/// Runs functions in the order of their data on several threads. The results are those of
/// calling the functions one after another in the order of their submission.
/// @threads{thread-compatible: one thread submits and waits; kernels run on any}
class engine {
 public:
  /// Starts an engine whose tasks run on `workers` threads. The calling thread is one of
  /// them while it waits.
  /// @error{invalid_argument; thrown: no workers} @error{out_of_memory; thrown}
  explicit engine(unsigned workers = 1) : engine(with_workers(workers)) {}
  /// Starts an engine with all options of the layer below.
  /// @error{invalid_argument; thrown: see `runtime::engine::create`}
  explicit engine(const runtime::engine_options& options)
      : engine_(or_throw(runtime::engine::create(options))) {}

  /// Returns a row-major tensor of zeros.
  /// @shape{extents, the slowest dimension first} @units{extents: elements}
  /// @error{out_of_memory; thrown}
  template <class T, class... Extent>
  [[nodiscard]] auto make(Extent... extents) {
    constexpr int rank = sizeof...(Extent);
    const std::array<std::int64_t, sizeof...(Extent)> shape{
        static_cast<std::int64_t>(extents)...};
    return tensor<T, rank>(make_bytes(dtype_of<T>, shape));
  }
  /// Returns a row-major tensor in fresh memory, with undefined content. The memory lives
  /// until the innermost open scope ends or `give_up`.
  /// @shape{extents, the slowest dimension first} @units{extents: elements}
  /// @error{out_of_memory; thrown: open scopes hold too much of the heap}
  template <class T, class... Extent>
  [[nodiscard]] auto make_fresh(Extent... extents) {
    constexpr int rank = sizeof...(Extent);
    const std::array<std::int64_t, sizeof...(Extent)> shape{
        static_cast<std::int64_t>(extents)...};
    const auto memory = or_throw(engine_->fresh(bytes_for(dtype_of<T>, shape)));
    return tensor<T, rank>(or_throw(runtime::tensor::over(memory, dtype_of<T>, shape)));
  }
  /// Opens a scope. Fresh memory that is made from now on ends with the scope at the
  /// latest. The scope ends before the engine. `name` appears in messages.
  [[nodiscard]] runtime::scope open_scope(std::string_view name) {
    return or_throw(engine_->open_scope(name));
  }
  /// Ends the life of fresh memory: tasks that were submitted before may use it, later
  /// ones may not. @error{invalid_argument; thrown: the tensor is no fresh memory}
  template <class T, int Rank>
  void give_up(const tensor<T, Rank>& t) {
    or_throw(engine_->give_up(t.bytes().store().id));
  }
  /// Waits for the tasks of a tensor and frees its memory. No view of it may be used
  /// afterwards. @error{not_found; thrown: the memory was freed before}
  template <class T, int Rank>
  void release(const tensor<T, Rank>& t) {
    or_throw(engine_->release(t.bytes().store().id));
  }

  /// Submits a task that calls `kernel(views...)`, with one view per argument, once all
  /// tensors that it reads are written. The kernel may return `result<void>` to fail. Its
  /// captures live until it has run. `name` is a literal; it appears in messages and
  /// traces. Returns the number of the task.
  /// @error{not_found; thrown: the memory of a tensor was freed}
  template <class Kernel, class... Argument>
  task_id submit(const char* name, Kernel kernel, const Argument&... arguments) {
    return submit_versions(name, std::move(kernel),
                           std::index_sequence_for<Argument...>(), arguments...);
  }

  /// Waits for all tasks and returns the first failure since the last call.
  /// @error{kernel_failed; a kernel failed}
  [[nodiscard]] result<void> wait() { return engine_->wait_all(); }
  /// Waits for one task.
  /// @error{kernel_failed; its kernel failed} @error{upstream_failed; it was not run,
  /// because a task before it failed}
  [[nodiscard]] result<void> wait(task_id id) { return engine_->wait(id); }
  /// Waits for all tasks that write the tensor.
  /// @error{kernel_failed; one of them failed} @error{upstream_failed; one was not run}
  template <class T, int Rank>
  [[nodiscard]] result<void> wait(const tensor<T, Rank>& t) {
    return engine_->wait(t.bytes());
  }
  /// Waits for the tasks that write one element, and returns it.
  /// @error{kernel_failed; one of them failed} @error{upstream_failed; one was not run}
  template <class T, int Rank, class... Index>
  [[nodiscard]] result<T> get(const tensor<T, Rank>& t, Index... index) {
    WEIR_CHECK(wait(element_of(t, index...)));
    return t.template elements<const T>(view_owner{})(index...);
  }
  /// Submits a task that sets one element. Returns the number of the task.
  template <class T, int Rank, class... Index>
  task_id set(const tensor<T, Rank>& t, std::type_identity_t<T> value, Index... index) {
    return submit(
        "set", [value](view<T, 0> one) { one() = value; },
        write(element_of(t, index...)));
  }
  /// Waits for all tasks that write the tensor, and returns its elements. The view is
  /// valid until a task that writes them is submitted.
  /// @error{kernel_failed; one of them failed} @error{upstream_failed; one was not run}
  template <class T, int Rank>
  [[nodiscard]] result<view<const T, Rank>> elements(const tensor<T, Rank>& t) {
    WEIR_CHECK(wait(t));
    return t.template elements<const T>(asked_for());
  }

  /// Returns a row-major copy in new memory, which a task fills.
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> clone(const tensor<T, Rank>& from) {
    tensor<T, Rank> to(make_bytes(dtype_of<T>, from.bytes().shape()));
    submit(
        "clone", [](auto in, auto out) { copy_elements(in, out); }, read(from),
        write(to));
    return to;
  }
  /// Returns the tensor itself if it is row-major, and a clone otherwise.
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> contiguous(const tensor<T, Rank>& from) {
    return from.bytes().row_major() ? from : clone(from);
  }

  /// Returns the engine of the layer below, for captures, counters and traces.
  [[nodiscard]] runtime::engine& base() { return *engine_; }

 private:
  /// A kernel that is too large for the engine's own record, or owns something.
  struct stored_kernel {
    virtual ~stored_kernel() = default;
    virtual result<void> run() = 0;
  };
  template <class Call>
  struct stored_call final : stored_kernel {
    explicit stored_call(Call c) : call(std::move(c)) {}
    result<void> run() override { return call(); }
    Call call;
  };

  static runtime::engine_options with_workers(unsigned workers) {
    runtime::engine_options options;
    options.workers = workers;
    return options;
  }
  [[nodiscard]] static std::int64_t bytes_for(dtype type,
                                              std::span<const std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
      WEIR_EXPECT(extent >= 0 && checked_mul(count, extent, count));
    }
    return or_throw(byte_size(type, count));
  }
  [[nodiscard]] runtime::tensor make_bytes(dtype type,
                                           std::span<const std::int64_t> shape) {
    return or_throw(runtime::tensor::over(
        or_throw(engine_->allocate(bytes_for(type, shape), "tensors")), type, shape));
  }
  template <class Argument>
  static const Argument& settle(const Argument& a, runtime::storage_id&) {
    return a;
  }
  /// Gives the name to the new version; `before` gets the old one.
  template <class T, int Rank>
  auto settle(const next_version<T, Rank>& a, runtime::storage_id& before) {
    const tensor<T, Rank> now(or_throw(engine_->fresh_like(a.target->bytes())));
    before = a.target->bytes().store().id;
    *a.target = now;
    return write(now);
  }
  template <class T, int Rank>
  static tensor<T, 0> element_of(const tensor<T, Rank>& t) requires(Rank == 0) {
    return t;
  }
  template <class T, int Rank, class... Index>
  static tensor<T, 0> element_of(const tensor<T, Rank>& t, std::int64_t first,
                                 Index... rest) {
    return element_of(t.select(0, first), static_cast<std::int64_t>(rest)...);
  }
  template <class In, class Out>
  static void copy_elements(const In& in, const Out& out) {
    if constexpr (requires { in[0][0]; }) {
      for (std::int64_t i = 0; i < in.extent(0); ++i) {
        copy_elements(in[i], out[i]);
      }
    } else if constexpr (requires { in[0]; }) {
      std::copy(in.begin(), in.end(), out.begin());
    } else {
      out() = in();
    }
  }

  template <class Kernel, std::size_t... I, class... Argument>
  task_id submit_versions(const char* name, Kernel kernel,
                          std::index_sequence<I...> places,
                          const Argument&... arguments) {
    std::array<runtime::storage_id, sizeof...(I) + 1> before{};
    const task_id id =
        submit_with(name, std::move(kernel), places, settle(arguments, before[I])...);
    for (const runtime::storage_id old : before) {
      if (old.generation != 0) {  // an allocation stays until it is released
        static_cast<void>(engine_->give_up(old));
      }
    }
    return id;
  }
  template <class Kernel, std::size_t... I, class... Argument>
  task_id submit_with(const char* name, Kernel kernel, std::index_sequence<I...>,
                      const Argument&... arguments) {
    const std::array<runtime::access, sizeof...(Argument)> accesses{
        arguments.access()...};
    auto call = with_accesses(
        name,
        [kernel = std::move(kernel), ... views = arguments.elements(view_owner{
                                         name, static_cast<int>(I)})]() -> result<void> {
          if constexpr (std::is_void_v<decltype(kernel(views...))>) {
            kernel(views...);
            return {};
          } else {
            return kernel(views...);
          }
        },
        arguments...);
    using call_type = decltype(call);
    if constexpr (std::is_trivially_copyable_v<call_type> &&
                  sizeof(call_type) <= runtime::engine::max_capture) {
      return or_throw(engine_->submit(
          name, accesses, [call](const runtime::task_context&) { return call(); }));
    } else {
      auto stored = std::make_unique<stored_call<call_type>>(std::move(call));
      stored_kernel* kernel_of_task = stored.get();
      const task_id id = or_throw(
          engine_->submit(name, accesses, [kernel_of_task](const runtime::task_context&) {
            return kernel_of_task->run();
          }));
      drop_ended();
      stored_.emplace_back(id, std::move(stored));
      return id;
    }
  }
  void drop_ended() {
    while (!stored_.empty() && engine_->ended(stored_.front().first)) {
      stored_.pop_front();
    }
  }

  std::deque<std::pair<task_id, std::unique_ptr<stored_kernel>>> stored_;
  std::unique_ptr<runtime::engine> engine_;  // last: its threads end first
};

}  // namespace weir
