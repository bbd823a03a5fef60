#include "sim/cli/cli.h"

#include <stdio.h>

#include "sim/base/launcher.h"
#include "sim/base/progress.h"

int cli_fail(const struct err *err) {
  fprintf(stderr, "dcpsim: %s\n", err->msg);
  return err->usage ? 2 : 1;
}

void cli_fail_of_ranks(const struct err *err) {
  const int code = launcher_speaks() ? cli_fail(err) : err->usage ? 2 : 1;
  fflush(NULL);
  launcher_leave(code);
}

int cli_option(const char *command, int argc, char **argv, const char *letters, const struct option *options,
               struct err *err) {
  opterr = 0;
  const int code = getopt_long(argc, argv, letters, options, NULL);
  if (code != '?' && code != ':')
    return code;
  err_usage(err, "%s: %s '%s' (dcpsim %s --help)", command, code == ':' ? "a value is missing after" : "no such option",
            argv[optind - 1], command);
  return '?';
}

static void print_warning(void *to, const char *message) {
  (void)to;
  log_warn("%s", message);
}
const struct warning_sink cli_warnings = {print_warning, NULL};
