// SPDX-License-Identifier: Apache-2.0
/// @file
/// World tensors for the reference's package: `write FOLDER` leaves messages of tensors
/// on three ranks, whose elements count from -3 in steps of a half; `copy FILE OBJECT TO`
/// fills a tensor of 10 x 7 doubles from an object and writes it as another message.
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weir/runtime/in_process.hpp"
#include "weir/weir.hpp"
#include "weir/worlds/messages.hpp"

namespace {

using weir::view;
using weir::world;
using weir::world_tensor;

constexpr weir::runtime::rank_id ranks = 3;

void on_world(const std::function<void(world&)>& body) {
  weir::runtime::in_process_network net({.ranks = ranks});
  std::vector<std::thread> threads;
  for (weir::runtime::rank_id r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      weir::engine e(1);
      world w(e, net.transport_of(r));
      body(w);
    });
  }
  for (std::thread& one : threads) {
    one.join();
  }
}

/// Returns the element with a number in row-major order.
template <class T>
T element(std::int64_t number) {
  return static_cast<T>(static_cast<double>(number) / 2 - 3);
}

/// Fills a tensor whose tiles have whole rows. `width` is the number of elements of a
/// row.
template <class T, int Rank>
void count_elements(world& w, const world_tensor<T, Rank>& t, std::int64_t width) {
  for (const auto& box : t.tiles()) {
    const std::int64_t first = box.lo[0] * width;
    const auto count = [first, width](view<T, Rank> out) {
      for (std::int64_t i = 0; i < out.extent(0) * width; ++i) {
        if constexpr (Rank == 1) {
          out(i) = element<T>(first + i);
        } else {
          const std::int64_t depth = out.extent(2);
          out(i / width, i % width / depth, i % depth) = element<T>(first + i);
        }
      }
    };
    w.submit("count", count, weir::write(t.of_tile(box)));
  }
}

/// Fills a matrix that is cut into blocks.
void count_blocks(world& w, const world_tensor<double, 2>& t, std::int64_t width) {
  for (const auto& box : t.tiles()) {
    const auto count = [box, width](view<double, 2> out) {
      for (std::int64_t i = 0; i < out.extent(0); ++i) {
        for (std::int64_t k = 0; k < out.extent(1); ++k) {
          out(i, k) = element<double>((box.lo[0] + i) * width + box.lo[1] + k);
        }
      }
    };
    w.submit("count", count, weir::write(t.of_tile(box)));
  }
}

void write_messages(world& w, const std::string& folder) {
  const auto line = w.make<std::int32_t>(weir::rows(4), 11);
  const auto plate = w.make<double>(weir::blocks(4, 3), 10, 7);
  const auto box = w.make<float>(weir::rows(2), 5, 3, 4);
  count_elements(w, line, 1);
  count_blocks(w, plate, 7);
  count_elements(w, box, 12);
  weir::or_throw(weir::write_message(w, folder + "/line.tgm", line, "line"));
  weir::or_throw(weir::write_message(w, folder + "/plate.tgm", plate, "plate"));
  weir::or_throw(weir::write_message(w, folder + "/box.tgm", box));
}

void copy_message(world& w, const std::string& from, const std::string& object,
                  const std::string& to) {
  const auto plate = w.make<double>(weir::blocks(3, 2), 10, 7);
  weir::or_throw(weir::read_object(w, from, object, plate));
  weir::or_throw(weir::write_message(w, to, plate, "copy"));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "write") {
    on_world([&](world& w) { write_messages(w, words[1]); });
  } else if (words.size() == 4 && words[0] == "copy") {
    on_world([&](world& w) { copy_message(w, words[1], words[2], words[3]); });
  } else {
    std::fprintf(stderr, "usage: worlds_peer write FOLDER | copy FILE OBJECT TO\n");
    return 2;
  }
  return 0;
}
