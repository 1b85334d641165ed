/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  A program of somebody else against the installed library. */
#include <stdio.h>
#include <tessera.h>
#include <tessera_ext.h>
#include <tessera_kernel.h>

int main(void) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  int devices = 0;
  tessContext_t context;
  if (tessInit(&context) != TESS_OK) {
    fprintf(stderr, "%s\n", tessGetLastErrorMessage());
    return 1;
  }
  tessGetVersion(&major, &minor, &patch);
  tessDeviceGetCount(context, &devices);
  printf("tessera %d.%d.%d on %d devices\n", major, minor, patch, devices);
  return tessShutdown(context) == TESS_OK ? 0 : 1;
}
