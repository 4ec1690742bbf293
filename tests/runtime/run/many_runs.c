/* Many runs of one session with changing sizes, and what memory they leave taken. */
#include <minnow/minnow.h>
#include <stdio.h>
#include <unistd.h>

static long resident_kib(void) {
  long all = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &all, &resident) != 2) resident = -1;
  if (file != NULL) fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

typedef minnow_code (*run_function)(minnow_session*, const minnow_tensor*, size_t, minnow_tensor*, size_t);

/* The input has `shapes` sizes along its first axis, by turns. `kib`: resident memory after each tenth of the runs, and
 * before them. -1: a run has failed. */
long many_runs(run_function run, minnow_session* session, minnow_tensor* input, long runs, long shapes, long* kib) {
  kib[0] = resident_kib();
  for (long i = 0; i < runs; ++i) {
    minnow_tensor output = {0};
    input->shape[0] = 1 + i * 7 % shapes;
    if (run(session, input, 1, &output, 1) != MINNOW_OK) return -1;
    if ((i + 1) % (runs / 10) == 0) kib[(i + 1) / (runs / 10)] = resident_kib();
  }
  return runs;
}
