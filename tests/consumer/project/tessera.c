/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  A program of somebody else against the installed library. */
#include <stdio.h>
#include <tessera.h>
#include <tessera_ext.h>

int main(void) {
  int major = 0;
  int minor = 0;
  int devices = 0;
  tessContext_t context;
  if (tessInit(&context) != TESS_OK) {
    fprintf(stderr, "%s\n", tessGetLastErrorMessage());
    return 1;
  }
  tessGetVersion(&major, &minor, NULL);
  tessDeviceGetCount(context, &devices);
  printf("tessera %d.%d on %d devices\n", major, minor, devices);
  return tessShutdown(context) == TESS_OK ? 0 : 1;
}
