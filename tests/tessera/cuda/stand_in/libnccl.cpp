// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library that takes the place of libnccl.so.2. It exports functions of NCCL and
/// passes their calls to the test program that loads it.
#include "tessera/cuda/stand_in/stand_in.hpp"

#define WEIR_EXPORTED extern "C" __attribute__((visibility("default")))

namespace {
using Status = weir::tessera::cuda::nccl_status;
using Type = weir::tessera::cuda::nccl_type;
using Operation = weir::tessera::cuda::nccl_operation;
using Communicator = weir::tessera::cuda::nccl_communicator;
using Stream = weir::tessera::cuda::stream_handle;
using Id = weir::tessera::cuda::nccl_id;
using Config = weir::tessera::cuda::nccl_config;
}  // namespace

WEIR_EXPORTED Status ncclGetVersion(int* version) {
  return weir_stand_in_nccl()->get_version(version);
}
WEIR_EXPORTED Status ncclGetUniqueId(Id* id) {
  return weir_stand_in_nccl()->get_unique_id(id);
}
WEIR_EXPORTED Status ncclCommInitRankConfig(Communicator* made, int ranks, Id id,
                                            int rank, Config* config) {
  return weir_stand_in_nccl()->init_rank(made, ranks, id, rank, config);
}
WEIR_EXPORTED Status ncclCommFinalize(Communicator c) {
  return weir_stand_in_nccl()->finalize(c);
}
WEIR_EXPORTED Status ncclCommDestroy(Communicator c) {
  return weir_stand_in_nccl()->destroy(c);
}
WEIR_EXPORTED Status ncclCommAbort(Communicator c) {
  return weir_stand_in_nccl()->abort(c);
}
WEIR_EXPORTED Status ncclCommGetAsyncError(Communicator c, Status* state) {
  return weir_stand_in_nccl()->async_error(c, state);
}
WEIR_EXPORTED Status ncclGroupStart() {
  return weir_stand_in_nccl()->group_start();
}
WEIR_EXPORTED Status ncclGroupEnd() {
  return weir_stand_in_nccl()->group_end();
}
WEIR_EXPORTED Status ncclAllReduce(const void* from, void* to, std::size_t count, Type t,
                                   Operation op, Communicator c, Stream s) {
  return weir_stand_in_nccl()->all_reduce(from, to, count, t, op, c, s);
}
WEIR_EXPORTED Status ncclReduceScatter(const void* from, void* to, std::size_t count,
                                       Type t, Operation op, Communicator c, Stream s) {
  return weir_stand_in_nccl()->reduce_scatter(from, to, count, t, op, c, s);
}
WEIR_EXPORTED Status ncclAllGather(const void* from, void* to, std::size_t count, Type t,
                                   Communicator c, Stream s) {
  return weir_stand_in_nccl()->all_gather(from, to, count, t, c, s);
}
WEIR_EXPORTED Status ncclBroadcast(const void* from, void* to, std::size_t count, Type t,
                                   int root, Communicator c, Stream s) {
  return weir_stand_in_nccl()->broadcast(from, to, count, t, root, c, s);
}
WEIR_EXPORTED Status ncclReduce(const void* from, void* to, std::size_t count, Type t,
                                Operation op, int root, Communicator c, Stream s) {
  return weir_stand_in_nccl()->reduce(from, to, count, t, op, root, c, s);
}
WEIR_EXPORTED Status ncclSend(const void* from, std::size_t count, Type t, int peer,
                              Communicator c, Stream s) {
  return weir_stand_in_nccl()->send(from, count, t, peer, c, s);
}
WEIR_EXPORTED Status ncclRecv(void* to, std::size_t count, Type t, int peer,
                              Communicator c, Stream s) {
  return weir_stand_in_nccl()->receive(to, count, t, peer, c, s);
}
WEIR_EXPORTED const char* ncclGetErrorString(Status s) {
  return weir_stand_in_nccl()->error_string(s);
}
