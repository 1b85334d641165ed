// SPDX-License-Identifier: Apache-2.0
/// @file
/// Measures llama.cpp, command by command: llama_peer FILE THREADS. `prepare.py` builds
/// this program.
///
/// A line of standard input is a command, and its answer is a line with seconds:
/// `prefill ROWS` computes ROWS tokens of an empty sequence and the logits of the last
/// one, `decode COUNT STEPS` takes the median of STEPS steps of COUNT sequences, each of
/// which begins with 16 tokens. Keys and values are fp32, as Weir's are.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "llama.h"

namespace {

double seconds_now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Returns a token of SmolLM2.
llama_token some_token(int i) {
  return 1000 + i * 37 % 20000;
}

double prefill(llama_context* context, int rows) {
  llama_memory_clear(llama_get_memory(context), true);
  std::vector<llama_token> tokens(static_cast<std::size_t>(rows));
  for (int i = 0; i < rows; ++i) {
    tokens[static_cast<std::size_t>(i)] = some_token(i);
  }
  const double start = seconds_now();
  llama_decode(context, llama_batch_get_one(tokens.data(), rows));
  llama_synchronize(context);
  return seconds_now() - start;
}

void add(llama_batch& batch, llama_token token, int position, int sequence, bool logits) {
  const int k = batch.n_tokens++;
  batch.token[k] = token;
  batch.pos[k] = position;
  batch.n_seq_id[k] = 1;
  batch.seq_id[k][0] = sequence;
  batch.logits[k] = logits ? 1 : 0;
}

double decode(llama_context* context, int count, int steps) {
  constexpr int begun = 16;
  llama_memory_clear(llama_get_memory(context), true);
  llama_batch batch = llama_batch_init(1024, 0, 8);
  for (int s = 0; s < count; ++s) {
    for (int i = 0; i < begun; ++i) {
      add(batch, some_token(i + s), i, s, i + 1 == begun);
    }
  }
  llama_decode(context, batch);
  llama_synchronize(context);
  std::vector<double> times;
  for (int step = 0; step < steps; ++step) {
    batch.n_tokens = 0;
    for (int s = 0; s < count; ++s) {
      add(batch, some_token(step + s), begun + step, s, true);
    }
    const double start = seconds_now();
    llama_decode(context, batch);
    llama_synchronize(context);
    times.push_back(seconds_now() - start);
  }
  llama_batch_free(batch);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: llama_peer FILE THREADS\n");
    return 2;
  }
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(words[1], llama_model_default_params());
  llama_context_params parameters = llama_context_default_params();
  parameters.n_ctx = 8 * 640;
  parameters.n_batch = 1024;
  parameters.n_ubatch = 512;
  parameters.n_seq_max = 8;
  parameters.n_threads = std::atoi(words[2]);
  parameters.n_threads_batch = parameters.n_threads;
  parameters.type_k = GGML_TYPE_F32;
  parameters.type_v = GGML_TYPE_F32;
  parameters.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context* context =
      model == nullptr ? nullptr : llama_init_from_model(model, parameters);
  if (context == nullptr) {
    std::fprintf(stderr, "llama_peer: llama.cpp cannot load %s\n", words[1]);
    return 1;
  }
  int first = 0;
  int second = 0;
  char line[100];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    if (std::sscanf(line, "prefill %d", &first) == 1) {
      std::printf("%.9g\n", prefill(context, first));
    } else if (std::sscanf(line, "decode %d %d", &first, &second) == 2) {
      std::printf("%.9g\n", decode(context, first, second));
    } else {
      std::printf("none\n");
    }
    std::fflush(stdout);
  }
  llama_free(context);
  llama_model_free(model);
  return 0;
}
