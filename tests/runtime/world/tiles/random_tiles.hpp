// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random programs over world tensors in tiles of two dimensions: slices with steps,
/// transposed parts and parts over the edges. The same programs run in a world and by
/// plain loops, which find their elements without tensors and views.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "random_programs.hpp"
#include "random_views.hpp"
#include "weir/world.hpp"

namespace weir::test {

/// A part of a field: indices at equal distances in both dimensions.
struct slice_of_field {
  std::size_t field = 0;
  std::array<std::int64_t, 2> first{};
  std::array<std::int64_t, 2> step{};  ///< distance of two indices; may be negative
  std::array<std::int64_t, 2> count{};
  bool is_transposed = false;  ///< the kernel sees the dimensions in reverse order
  bool of_whole = false;       ///< cut out of the whole field, not out of its own box

  /// Returns true if there are indices between the selected ones in a dimension.
  [[nodiscard]] bool has_steps(std::size_t d) const {
    return count[d] > 1 && std::abs(step[d]) > 1;
  }
  /// Returns the smallest box with all elements.
  [[nodiscard]] tile<2> box(std::int64_t index) const {
    tile<2> out;
    out.index = index;
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t last = first[d] + (count[d] - 1) * step[d];
      out.lo[d] = std::min(first[d], last);
      out.hi[d] = std::max(first[d], last) + 1;
    }
    return out;
  }
};

/// A task: it writes one slice and reads one or two, of which the second may go over the
/// edges.
struct tiles_task {
  slice_of_field target;
  slice_of_field source;
  std::optional<slice_of_field> second;
  std::int64_t reach = -1;             ///< of the second one over the edges; -1: none
  std::int64_t tile = 0;               ///< tile that the target belongs to
  std::optional<tile_owner> executor;  ///< none: the owner of the tile
  bool updates = false;                ///< old elements count
  std::int64_t skipped = 0;            ///< elements of this class keep their values
  double factor = 0;
  int delay = 0;  ///< see `test::delay`
  bool waits = false;
};

/// Extents and layouts of the fields, and the tasks in the order of submission.
struct tiles_program {
  static constexpr std::size_t fields = 3;
  std::array<std::int64_t, 2> extents{};
  std::array<layout, fields> cuts;
  std::vector<tiles_task> tasks;
};

/// Slices that a program has.
enum class slice_kinds { any, with_steps };

/// Returns rows, columns or blocks of a random size.
inline layout random_layout(dice& d) {
  const std::int64_t n = d.in(1, 5);
  const std::int64_t m = d.in(1, 5);
  return d.one_in(3) ? rows(n) : d.one_in(2) ? columns(m) : blocks(n, m);
}

/// Returns a slice of the elements of a box of a field.
inline slice_of_field random_slice(dice& d, std::size_t field, const tile<2>& box,
                                   slice_kinds kinds) {
  slice_of_field s;
  s.field = field;
  for (std::size_t i = 0; i < 2; ++i) {
    s.first[i] = d.one_in(2) ? box.lo[i] : d.in(box.lo[i], box.hi[i] - 1);
    s.step[i] = kinds == slice_kinds::any && d.one_in(2) ? 1 : d.in(2, 3);
    const std::int64_t fit = (box.hi[i] - 1 - s.first[i]) / s.step[i] + 1;
    s.count[i] = d.one_in(2) ? fit : d.in(1, fit);
    if (d.one_in(4)) {  // from the last one to the first one
      s.first[i] += (s.count[i] - 1) * s.step[i];
      s.step[i] = -s.step[i];
    }
  }
  s.is_transposed = d.one_in(3);
  s.of_whole = d.one_in(2);
  return s;
}

/// Returns a program of random tasks. The fields have layouts of their own, so slices lie
/// across tiles.
inline tiles_program random_tiles_program(dice& d, slice_kinds kinds) {
  tiles_program p;
  p.extents = {d.in(8, 14), d.in(8, 12)};
  for (layout& one : p.cuts) {
    one = random_layout(d);
  }
  const tile<2> whole{0, {0, 0}, p.extents};
  const auto any_field = [&] {
    return static_cast<std::size_t>(d.in(0, tiles_program::fields - 1));
  };
  for (std::int64_t i = d.in(6, 36); i > 0; --i) {
    tiles_task t;
    const std::size_t to = any_field();
    const world_tensor<double, 2> cut(
        tensor<double, 2>(or_throw(runtime::tensor::over(
            {{1, 1}, nullptr, p.extents[0] * p.extents[1] * 8}, dtype::fp64, p.extents))),
        p.cuts[to]);
    t.tile = d.in(0, cut.tile_count() - 1);
    t.target =
        random_slice(d, to, d.one_in(2) ? cut.range().box_of(t.tile) : whole, kinds);
    t.source = random_slice(d, any_field(), whole, kinds);
    if (d.one_in(2)) {
      t.second = random_slice(d, any_field(), whole, kinds);
      t.reach = kinds == slice_kinds::any && d.one_in(2) ? d.in(0, 2) : -1;
    }
    if (d.one_in(3)) {
      t.executor = tile_owner{d.in(0, 6), 7};
    }
    t.updates = d.one_in(2);
    t.skipped = d.in(0, 11);
    t.factor = static_cast<double>(d.in(1, 9)) / 16;
    t.delay = d.one_in(4) ? static_cast<int>(d.in(1, d.one_in(8) ? 3 : 2)) : 0;
    t.waits = d.one_in(20);
    p.tasks.push_back(t);
  }
  return p;
}

/// Returns the first value of an element.
inline double first_value(std::size_t field, std::int64_t i, std::int64_t j) {
  return field == 1 ? 0 : static_cast<double>(i * 37 + j * 11 + 1);
}

/// Reads the element that belongs to element (i, j) of the target. The slice may be
/// smaller.
template <class View>
double element_for(const View& in, std::int64_t i, std::int64_t j) {
  return in(i % in.extent(0), j % in.extent(1));
}
/// Reads two elements of a part over the edges, whose first element is (0, 0).
template <class View>
double elements_around(const View& in, const tiles_task& t, std::int64_t i,
                       std::int64_t j) {
  const std::int64_t row = i % t.second->count[0];
  const std::int64_t column = j % t.second->count[1];
  return in(row - t.reach, column + t.reach) - in(row + t.reach, column);
}

/// The kernel of a task. Each element of the target depends on its indices and on others
/// of the sources, so that elements in another order give another result.
template <class Out, class In, class More>
void run_tiles_task(const tiles_task& t, const Out& out, const In& in, const More& more) {
  delay(t.delay);
  for (std::int64_t i = 0; i < out.extent(0); ++i) {
    for (std::int64_t j = 0; j < out.extent(1); ++j) {
      if ((5 * i + j) % 8 == t.skipped) {
        continue;
      }
      const double weight = 1 + static_cast<double>((3 * i + 5 * j) % 8) / 8;
      const double sum = element_for(in, i, j) * weight - more(i, j);
      out(i, j) = (t.updates ? out(i, j) / 2 : 0) + t.factor * sum +
                  static_cast<double>(i - 2 * j) / 64;
    }
  }
}

/// Elements of a slice in an array of rows.
class plain_slice {
 public:
  plain_slice(const tiles_program& p, std::vector<double>& field, const slice_of_field& s)
      : values_(&field), row_(p.extents[1]), s_(s) {}
  [[nodiscard]] std::int64_t extent(int dimension) const {
    return s_.count.at(
        static_cast<std::size_t>(s_.is_transposed ? 1 - dimension : dimension));
  }
  double& operator()(std::int64_t i, std::int64_t j) const {
    if (s_.is_transposed) {
      std::swap(i, j);
    }
    return values_->at(static_cast<std::size_t>((s_.first[0] + i * s_.step[0]) * row_ +
                                                s_.first[1] + j * s_.step[1]));
  }

 private:
  std::vector<double>* values_;
  std::int64_t row_;
  slice_of_field s_;
};

/// Runs a program by loops over arrays. Returns the elements of all fields.
inline std::vector<double> run_plainly(const tiles_program& p) {
  const std::int64_t n = p.extents[0];
  const std::int64_t m = p.extents[1];
  std::array<std::vector<double>, tiles_program::fields> fields;
  for (std::size_t k = 0; k < fields.size(); ++k) {
    for (std::int64_t at = 0; at < n * m; ++at) {
      fields[k].push_back(first_value(k, at / m, at % m));
    }
  }
  for (const tiles_task& t : p.tasks) {
    const auto slice = [&](const slice_of_field& s) {
      return plain_slice(p, fields[s.field], s);
    };
    run_tiles_task(
        t, slice(t.target), slice(t.source), [&](std::int64_t i, std::int64_t j) {
          if (!t.second) {
            return 0.0;
          }
          if (t.reach < 0) {
            return element_for(slice(*t.second), i, j);
          }
          const tile<2> box = t.second->box(0);
          const auto around = [&](std::int64_t row, std::int64_t column) {
            const std::int64_t r = ((box.lo[0] + row) % n + n) % n;
            const std::int64_t c = ((box.lo[1] + column) % m + m) % m;
            return fields[t.second->field][static_cast<std::size_t>(r * m + c)];
          };
          return elements_around(around, t, i, j);
        });
  }
  std::vector<double> all;
  for (const auto& field : fields) {
    all.insert(all.end(), field.begin(), field.end());
  }
  return all;
}

/// Faults of the parts of a program, which a test plants.
enum class part_fault { none, no_steps, no_transposes };

/// Numbers of pieces that were sent for tasks all of whose parts are of a kind.
struct sent_pieces {
  std::uint64_t with_row_steps = 0;
  std::uint64_t with_column_steps = 0;
  std::uint64_t transposed = 0;
  std::uint64_t steps_and_transposed = 0;  ///< steps in both dimensions
};

/// A run of a program on one rank of a world.
class tiles_run {
 public:
  tiles_run(world& w, const tiles_program& p, part_fault fault)
      : w_(w), p_(p), fault_(fault) {
    for (std::size_t k = 0; k < fields_.size(); ++k) {
      fields_[k] = w.make<double>(p.cuts[k], p.extents[0], p.extents[1]);
      for (const auto& box : fields_[k].tiles()) {
        w.submit(
            "first values",
            [box, k](view<double, 2> out) {
              for (std::int64_t i = 0; i < out.extent(0); ++i) {
                for (std::int64_t j = 0; j < out.extent(1); ++j) {
                  out(i, j) = first_value(k, box.lo[0] + i, box.lo[1] + j);
                }
              }
            },
            write(fields_[k].of_tile(box)));
      }
    }
  }
  /// Runs all tasks. Returns the elements of all fields.
  std::vector<double> run() {
    for (const tiles_task& t : p_.tasks) {
      const std::uint64_t before = w_.base().counters().pieces_sent;
      t.updates ? submit(t, update(part_of(t.target, t.tile)))
                : submit(t, write(part_of(t.target, t.tile)));
      count(t, w_.base().counters().pieces_sent - before);
      if (t.waits) {
        or_throw(w_.wait());
      }
    }
    std::vector<double> all;
    for (const auto& field : fields_) {
      or_throw(w_.elements(field));
      const auto* first = field.all().bytes().as<double>();
      all.insert(all.end(), first, first + field.all().bytes().count());
    }
    return all;
  }
  /// Returns the numbers of pieces that this rank has sent.
  [[nodiscard]] const sent_pieces& sent() const { return sent_; }

 private:
  /// Returns a slice as a part of a tile.
  [[nodiscard]] tile_part<double, 2> part_of(const slice_of_field& s,
                                             std::int64_t index) const {
    const tile<2> own = s.box(index);
    const tile<2> from = s.of_whole ? tile<2>{index, {0, 0}, p_.extents} : own;
    tile_part<double, 2> part = fields_[s.field].of_tile(from);
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t lo = own.lo[d] - from.lo[d];
      const std::int64_t hi = own.hi[d] - from.lo[d];
      const auto dimension = static_cast<int>(d);
      if (fault_ == part_fault::no_steps) {
        part = part.slice(dimension, lo, lo + s.count[d]);
      } else if (s.step[d] < 0) {
        part = part.slice(dimension, hi - 1, lo - 1, s.step[d]);
      } else {
        part = part.slice(dimension, lo, hi, s.step[d]);
      }
    }
    return s.is_transposed && fault_ != part_fault::no_transposes ? part.transpose()
                                                                  : part;
  }
  template <class Target>
  void submit(const tiles_task& t, const Target& to) {
    const auto from = read(part_of(t.source, 0));
    const tiles_task* const task = &t;
    if (!t.second) {
      submit_on(
          t,
          [task](view<double, 2> out, view<const double, 2> in) {
            run_tiles_task(*task, out, in, [](auto...) { return 0.0; });
          },
          to, from);
    } else if (t.reach < 0) {
      submit_on(
          t,
          [task](view<double, 2> out, view<const double, 2> in,
                 view<const double, 2> more) {
            run_tiles_task(*task, out, in, [&](std::int64_t i, std::int64_t j) {
              return element_for(more, i, j);
            });
          },
          to, from, read(part_of(*t.second, 0)));
    } else {
      submit_on(
          t,
          [task](view<double, 2> out, view<const double, 2> in,
                 wrapped_view<double, 2> more) {
            run_tiles_task(*task, out, in, [&](std::int64_t i, std::int64_t j) {
              return elements_around(more, *task, i, j);
            });
          },
          to, from, read(fields_[t.second->field].wrapped(reached_box(t), t.reach)));
    }
  }
  /// Returns the box whose indices the kernel counts from its first element.
  static tile<2> reached_box(const tiles_task& t) {
    tile<2> box = t.second->box(0);
    for (std::size_t d = 0; d < 2; ++d) {
      box.hi[d] = box.lo[d] + t.second->count[d];
    }
    return box;
  }
  template <class Kernel, class... Argument>
  void submit_on(const tiles_task& t, const Kernel& kernel,
                 const Argument&... arguments) {
    if (t.executor) {
      w_.submit("task", kernel, *t.executor, arguments...);
    } else {
      w_.submit("task", kernel, arguments...);
    }
  }
  /// Counts the pieces of a task for each kind that all of its parts have.
  void count(const tiles_task& t, std::uint64_t pieces) {
    if (t.reach >= 0) {
      return;
    }
    const auto all = [&](const auto& has) {
      return has(t.target) && has(t.source) && (!t.second || has(*t.second));
    };
    const bool row_steps = all([](const auto& s) { return s.has_steps(0); });
    const bool column_steps = all([](const auto& s) { return s.has_steps(1); });
    const bool transposed = all([](const auto& s) { return s.is_transposed; });
    sent_.with_row_steps += row_steps ? pieces : 0;
    sent_.with_column_steps += column_steps ? pieces : 0;
    sent_.transposed += transposed ? pieces : 0;
    sent_.steps_and_transposed += row_steps && column_steps && transposed ? pieces : 0;
  }

  world& w_;
  const tiles_program& p_;
  part_fault fault_;
  std::array<world_tensor<double, 2>, tiles_program::fields> fields_;
  sent_pieces sent_;
};

}  // namespace weir::test
