/* Linked to libprefix only. */
#include <prefix.h>
#include <stdio.h>

int main(void) {
  prefix_error err = PREFIX_ERROR_INIT;
  prefix_engine* engine = NULL;
  const prefix_status status = prefix_engine_create("/absent", PREFIX_NUL, NULL, &engine, &err);
  printf("libprefix %s: %s\n", prefix_version_string(), prefix_status_name(status));
  return status == PREFIX_ERR_NOT_FOUND ? 0 : 1;
}
