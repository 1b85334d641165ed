// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies, fills, functions of the host, and operations that only fail.
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "weir/runtime/stream/work.hpp"

namespace weir::runtime {
namespace {

struct end_of_copy {
  memory_place place;  ///< if the table knows it
  bool known = false;
  std::byte* at = nullptr;

  [[nodiscard]] bool on_device() const noexcept {
    return known && place.device() != allocation::host_device;
  }
  [[nodiscard]] std::byte* on_rank(int rank) const noexcept {
    return known ? place.on_rank(rank) : at;
  }
  [[nodiscard]] bool everywhere() const noexcept {
    return known && place.memory->symmetric() && place.rank == 0;
  }
};

/// The lane that a single place belongs to; -1: the place stands for all instances.
int lane_of(const end_of_copy& end) noexcept {
  return end.everywhere() ? -1 : end.known ? end.place.rank : 0;
}

error refused(std::string_view what, std::string_view expected, std::string_view found) {
  return {errc::invalid_argument,
          fmt::format("{}: expected {}, found {}", what, expected, found)};
}

result<end_of_copy> find_end(const stream& on, const void* at, std::size_t bytes,
                             bool device, std::string_view what) {
  end_of_copy out;
  if (at == nullptr) {
    return refused(what, "an address", "null");
  }
  out.at = static_cast<std::byte*>(const_cast<void*>(at));
  if (auto place = on.of().memory().find(at)) {
    out.place = std::move(*place);
    out.known = true;
    if (bytes > out.place.bytes_left()) {
      return refused(what,
                     fmt::format("at most {} bytes to the end of the allocation",
                                 out.place.bytes_left()),
                     fmt::format("{}", bytes));
    }
  }
  if (out.known && out.place.memory->symmetric() && !on.fits(out.place)) {
    return refused(what, "memory of the stream's mesh", "another mesh's");
  }
  if (device && !out.on_device()) {
    return refused(what, "memory of a device", "memory of the host");
  }
  if (!device && out.on_device()) {
    return refused(what, "memory of the host", "memory of a device");
  }
  return out;
}

class copy_operation final : public lane_operation {
 public:
  copy_operation(std::shared_ptr<mesh> on, int bound, copy_kind direction, end_of_copy to,
                 end_of_copy from, std::size_t bytes, int only)
      : lane_operation(kind::copy),
        mesh_(std::move(on)),
        bound_(bound),
        direction_(direction),
        to_(std::move(to)),
        from_(std::move(from)),
        bytes_(bytes),
        only_(only) {
    host = direction == copy_kind::host_to_device   ? host_use::reads
           : direction == copy_kind::device_to_host ? host_use::writes
                                                    : host_use::none;
    if (bound < 0 && only_ < 0) {
      only_ = lane_of(direction == copy_kind::device_to_host ? from_ : to_);
    }
    // Reading a symmetric place means instance 0, which is the business of one lane.
    first_only = bound < 0 &&
                 (only_ == 0 || (only_ < 0 && direction == copy_kind::device_to_host));
  }

  [[nodiscard]] std::string_view name() const noexcept override {
    return direction_ == copy_kind::host_to_device   ? "copy host to device"
           : direction_ == copy_kind::device_to_host ? "copy device to host"
                                                     : "copy device to device";
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<copy_operation>(mesh_, bound_, direction_, to_, from_, bytes_, only_);
  }

 protected:
  result<void> run(unsigned lane) override {
    const int rank = bound_ >= 0 ? bound_ : static_cast<int>(lane);
    if (only_ >= 0 && bound_ < 0 && rank != only_) {
      return {};
    }
    const auto device = mesh_->devices[static_cast<std::size_t>(rank)];
    return mesh_->of->backend().copy(
        {direction_, to_.on_rank(rank), from_.on_rank(rank), bytes_, device, device});
  }

 private:
  std::shared_ptr<mesh> mesh_;
  int bound_;
  copy_kind direction_;
  end_of_copy to_;
  end_of_copy from_;
  std::size_t bytes_;
  int only_;
};

class fill_operation final : public lane_operation {
 public:
  fill_operation(std::shared_ptr<mesh> on, int bound, end_of_copy to,
                 const fill_request& what)
      : lane_operation(kind::fill),
        mesh_(std::move(on)),
        bound_(bound),
        to_(std::move(to)),
        what_(what) {
    only_ = bound < 0 ? lane_of(to_) : -1;
    first_only = only_ == 0;
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "fill"; }
  [[nodiscard]] std::uint64_t bytes() const noexcept override { return what_.bytes; }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<fill_operation>(mesh_, bound_, to_, what_);
  }

 protected:
  result<void> run(unsigned lane) override {
    const int rank = bound_ >= 0 ? bound_ : static_cast<int>(lane);
    if (only_ >= 0 && rank != only_) {
      return {};
    }
    return mesh_->of->backend().fill({to_.on_rank(rank), what_.bytes,
                                      mesh_->devices[static_cast<std::size_t>(rank)],
                                      what_.pattern_bytes, what_.pattern});
  }

 private:
  std::shared_ptr<mesh> mesh_;
  int bound_;
  end_of_copy to_;
  fill_request what_;
  int only_ = -1;
};

class host_function final : public joining_operation {
 public:
  explicit host_function(std::function<void()> call)
      : joining_operation(kind::host_function), call_(std::move(call)) {}
  [[nodiscard]] std::string_view name() const noexcept override {
    return "host function";
  }
  [[nodiscard]] ref<operation> clone() const override {
    return make_ref<host_function>(call_);
  }

 protected:
  void run(lane_set& lanes) override {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (lanes.at(i).poison) {
        return;
      }
    }
    auto outcome = guarded([&]() -> result<void> {
      call_();
      return {};
    });
    if (!outcome) {
      fail(lanes.of(0), std::move(outcome).error());
    }
  }

 private:
  std::function<void()> call_;
};

class failing final : public lane_operation {
 public:
  explicit failing(error why) : lane_operation(kind::other), why_(std::move(why)) {}
  [[nodiscard]] ref<operation> clone() const override { return make_ref<failing>(why_); }

 protected:
  result<void> run(unsigned) override { return why_; }

 private:
  error why_;
};

bool overlap_partly(const std::byte* a, const std::byte* b, std::size_t bytes) {
  return a != b && a < b + bytes && b < a + bytes;
}

}  // namespace

result<ref<operation>> make_copy(stream& on, const copy_request& what) {
  if (what.bytes == 0) {
    return ref<operation>();
  }
  if (what.rank < -1 || what.rank >= static_cast<int>(on.on()->ranks())) {
    return refused("copy to a rank", fmt::format("one in [0, {})", on.on()->ranks()),
                   fmt::format("{}", what.rank));
  }
  if (what.rank >= 0 && on.options().rank >= 0 && what.rank != on.options().rank) {
    return refused("copy to a rank",
                   fmt::format("{}, whose stream this is", on.options().rank),
                   fmt::format("{}", what.rank));
  }
  WEIR_TRY(end_of_copy to,
           find_end(on, what.to, what.bytes, what.kind != copy_kind::device_to_host,
                    "copy to its target"));
  WEIR_TRY(end_of_copy from,
           find_end(on, what.from, what.bytes, what.kind != copy_kind::host_to_device,
                    "copy from its source"));
  if (to.at == from.at) {
    return ref<operation>();
  }
  if (overlap_partly(to.at, from.at, what.bytes)) {
    return refused(
        "copy within an allocation", "ranges that do not overlap",
        fmt::format("{} bytes at a distance of {}", what.bytes, to.at - from.at));
  }
  return ref<operation>(make_ref<copy_operation>(on.on(), on.options().rank, what.kind,
                                                 std::move(to), std::move(from),
                                                 what.bytes, what.rank));
}

result<ref<operation>> make_fill(stream& on, const fill_request& what) {
  if (what.bytes == 0) {
    return ref<operation>();
  }
  if (what.pattern_bytes == 0 || what.bytes % what.pattern_bytes != 0) {
    return refused(
        "fill", "a multiple of the pattern's size",
        fmt::format("{} bytes of patterns of {}", what.bytes, what.pattern_bytes));
  }
  WEIR_TRY(end_of_copy to, find_end(on, what.to, what.bytes, true, "fill"));
  return ref<operation>(
      make_ref<fill_operation>(on.on(), on.options().rank, std::move(to), what));
}

ref<operation> make_host_function(std::function<void()> function) {
  return make_ref<host_function>(std::move(function));
}

ref<operation> make_failing(error why) {
  return make_ref<failing>(std::move(why));
}

}  // namespace weir::runtime
