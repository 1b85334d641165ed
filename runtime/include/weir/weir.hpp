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
/// What cannot go well but for a mistake of the program (no memory, a foreign tensor)
/// throws; what a kernel reports comes back from `wait` and `get`.
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

/// A strided view of memory that an engine owns, or of a part of it: a value.
/// @threads{const; safe to use concurrently}
template <class T, int Rank>
class tensor {
  static_assert(std::is_trivially_copyable_v<T> && Rank >= 0 &&
                Rank <= runtime::max_dims);

 public:
  using element = T;
  static constexpr int rank = Rank;

  explicit tensor(const runtime::tensor& bytes) : bytes_(bytes) {}

  [[nodiscard]] std::int64_t extent(int dimension) const {
    return bytes_.shape()[static_cast<std::size_t>(dimension)];
  }
  /// Elements start, start + step, ... before `stop` of one dimension.
  /// @error{throws, an index outside the dimension}
  [[nodiscard]] tensor slice(int dimension, std::int64_t start, std::int64_t stop,
                             std::int64_t step = 1) const {
    return tensor(or_throw(bytes_.slice(dimension, start, stop, step)));
  }
  /// One index of one dimension, which disappears.
  [[nodiscard]] tensor<T, Rank - 1> at(int dimension, std::int64_t index) const {
    return tensor<T, Rank - 1>(or_throw(bytes_.at(dimension, index)));
  }
  /// The dimensions in reverse.
  [[nodiscard]] tensor transpose() const { return tensor(or_throw(bytes_.transpose())); }
  [[nodiscard]] const runtime::tensor& bytes() const { return bytes_; }

  /// The elements as a kernel sees them. Who calls this must know that nobody writes
  /// them: a kernel may touch those that it has declared.
  template <class E>
  [[nodiscard]] view<E, Rank> elements(view_owner owner = {"no task", 0, true}) const {
    typename view<E, Rank>::extents shape{};
    typename view<E, Rank>::extents strides{};
    for (std::size_t i = 0; i < shape.size(); ++i) {
      shape[i] = bytes_.shape()[i];
      strides[i] = bytes_.strides()[i] / static_cast<std::int64_t>(sizeof(T));
    }
    return {bytes_.template as<E>(), shape, strides, owner};
  }

 private:
  runtime::tensor bytes_;
};

/// One access of a task: a tensor and what the kernel does to it.
template <class T, int Rank, runtime::access_mode Mode>
struct argument {
  static constexpr bool reads_only = Mode == runtime::access_mode::read;
  using element = std::conditional_t<reads_only, const T, T>;

  tensor<T, Rank> what;

  [[nodiscard]] runtime::access access() const { return {what.bytes().bytes(), Mode}; }
  [[nodiscard]] view<element, Rank> elements(view_owner owner) const {
    return what.template elements<element>(owner);
  }
};
/// The kernel reads the tensor: it gets a view of const elements.
template <class T, int Rank>
[[nodiscard]] auto read(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::read>{t};
}
/// The kernel writes it without reading what was there.
template <class T, int Rank>
[[nodiscard]] auto write(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::write>{t};
}
/// The kernel reads and writes it.
template <class T, int Rank>
[[nodiscard]] auto update(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::read_write>{t};
}

/// Like `update`, for kernels whose order does not matter, such as those that add: still
/// one at a time, in the order of their submission, so that sums keep their bits.
template <class T, int Rank>
[[nodiscard]] auto commute(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::commute>{t};
}
/// One at a time in whatever order they become ready, for one argument of a kernel; the
/// result may depend on it.
template <class T, int Rank>
[[nodiscard]] auto commute_any(const tensor<T, Rank>& t) {
  return argument<T, Rank, runtime::access_mode::commute_any>{t};
}

/// What `fresh` says of a tensor.
template <class T, int Rank>
struct next_version {
  tensor<T, Rank>* what;
};
/// The kernel writes a new version of the tensor: from here on `t` names fresh memory, so
/// that the kernel waits for nobody who reads or writes the version before. That one, if
/// it was fresh memory too, goes when its tasks have ended.
template <class T, int Rank>
[[nodiscard]] next_version<T, Rank> fresh(tensor<T, Rank>& t) {
  return {&t};
}

/// Runs functions in the order of their data, on as many threads as it is given. The
/// result is that of calling them one after another.
/// @threads{thread-compatible: one thread submits and waits; kernels run on any}
class engine {
 public:
  /// `workers` threads run tasks, this one among them while it waits.
  explicit engine(unsigned workers = 1) : engine(with_workers(workers)) {}
  explicit engine(const runtime::engine_options& options)
      : engine_(or_throw(runtime::engine::create(options))) {}

  /// A row-major tensor of zeros.
  template <class T, class... Extent>
  [[nodiscard]] auto make(Extent... extents) {
    constexpr int rank = sizeof...(Extent);
    const std::array<std::int64_t, sizeof...(Extent)> shape{
        static_cast<std::int64_t>(extents)...};
    return tensor<T, rank>(make_bytes(dtype_of<T>, shape));
  }
  /// A row-major tensor of any content in fresh memory, which lives until the innermost
  /// open scope ends or it is given up. @error{throws, what open scopes hold leaves no
  /// room}
  template <class T, class... Extent>
  [[nodiscard]] auto make_fresh(Extent... extents) {
    constexpr int rank = sizeof...(Extent);
    const std::array<std::int64_t, sizeof...(Extent)> shape{
        static_cast<std::int64_t>(extents)...};
    const auto memory = or_throw(engine_->fresh(bytes_for(dtype_of<T>, shape)));
    return tensor<T, rank>(or_throw(runtime::tensor::over(memory, dtype_of<T>, shape)));
  }
  /// Fresh memory that is made from here on goes when the result does, or before if it is
  /// given up. The result goes before the engine.
  [[nodiscard]] runtime::scope open_scope(std::string_view name) {
    return or_throw(engine_->open_scope(name));
  }
  /// No later task uses the tensor, which is fresh memory.
  template <class T, int Rank>
  void give_up(const tensor<T, Rank>& t) {
    or_throw(engine_->give_up(t.bytes().store().id));
  }
  /// Gives the memory of a tensor back once its tasks have ended. No view of it may be
  /// used afterwards.
  template <class T, int Rank>
  void release(const tensor<T, Rank>& t) {
    or_throw(engine_->release(t.bytes().store().id));
  }

  /// Calls `kernel(views...)`, one view per argument, when all that it reads has been
  /// written. It may return `result<void>` to fail. What it captures lives until it has
  /// run.
  template <class Kernel, class... Argument>
  task_id submit(const char* name, Kernel kernel, const Argument&... arguments) {
    return submit_versions(name, std::move(kernel),
                           std::index_sequence_for<Argument...>(), arguments...);
  }

  /// Waits for everything. The first failure of a kernel since the last call, if any.
  [[nodiscard]] result<void> wait() { return engine_->wait_all(); }
  [[nodiscard]] result<void> wait(task_id id) { return engine_->wait(id); }
  /// Waits for who writes the tensor.
  template <class T, int Rank>
  [[nodiscard]] result<void> wait(const tensor<T, Rank>& t) {
    return engine_->wait(t.bytes());
  }
  /// One element, once it has been written.
  template <class T, int Rank, class... Index>
  [[nodiscard]] result<T> get(const tensor<T, Rank>& t, Index... index) {
    WEIR_CHECK(wait(element_of(t, index...)));
    return t.template elements<const T>(view_owner{})(index...);
  }
  /// Sets one element, after all tasks that were submitted before and use it.
  template <class T, int Rank, class... Index>
  task_id set(const tensor<T, Rank>& t, std::type_identity_t<T> value, Index... index) {
    return submit(
        "set", [value](view<T, 0> one) { one() = value; },
        write(element_of(t, index...)));
  }
  /// The elements, once all have been written; valid until somebody writes them again.
  template <class T, int Rank>
  [[nodiscard]] result<view<const T, Rank>> elements(const tensor<T, Rank>& t) {
    WEIR_CHECK(wait(t));
    return t.template elements<const T>(asked_for());
  }

  /// A row-major copy in memory of its own, made by a task.
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> clone(const tensor<T, Rank>& from) {
    tensor<T, Rank> to(make_bytes(dtype_of<T>, from.bytes().shape()));
    submit(
        "clone", [](auto in, auto out) { copy_elements(in, out); }, read(from),
        write(to));
    return to;
  }
  /// The tensor itself if it is row-major, else a clone.
  template <class T, int Rank>
  [[nodiscard]] tensor<T, Rank> contiguous(const tensor<T, Rank>& from) {
    return from.bytes().row_major() ? from : clone(from);
  }

  /// The engine underneath: captures, counters, traces.
  [[nodiscard]] runtime::engine& base() { return *engine_; }

 private:
  /// A kernel that is too large for the engine's own record, or owns something.
  struct held_kernel {
    virtual ~held_kernel() = default;
    virtual result<void> run() = 0;
  };
  template <class Call>
  struct held_call final : held_kernel {
    explicit held_call(Call c) : call(std::move(c)) {}
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
    const tensor<T, Rank> now(or_throw(engine_->fresh_like(a.what->bytes())));
    before = a.what->bytes().store().id;
    *a.what = now;
    return write(now);
  }
  template <class T, int Rank>
  static tensor<T, 0> element_of(const tensor<T, Rank>& t) requires(Rank == 0) {
    return t;
  }
  template <class T, int Rank, class... Index>
  static tensor<T, 0> element_of(const tensor<T, Rank>& t, std::int64_t first,
                                 Index... rest) {
    return element_of(t.at(0, first), static_cast<std::int64_t>(rest)...);
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
      auto kept = std::make_unique<held_call<call_type>>(std::move(call));
      held_kernel* kernel_of_task = kept.get();
      const task_id id = or_throw(
          engine_->submit(name, accesses, [kernel_of_task](const runtime::task_context&) {
            return kernel_of_task->run();
          }));
      drop_ended();
      held_.emplace_back(id, std::move(kept));
      return id;
    }
  }
  void drop_ended() {
    while (!held_.empty() && engine_->ended(held_.front().first)) {
      held_.pop_front();
    }
  }

  std::deque<std::pair<task_id, std::unique_ptr<held_kernel>>> held_;
  std::unique_ptr<runtime::engine> engine_;  // last: its threads end first
};

}  // namespace weir
