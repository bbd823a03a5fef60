/* watchdog.h: a thread that ends the process when its executor stands still: a peer died, or an exchange hangs. It says
 * where, in one line on stderr, and leaves with status 1, upon which mpirun ends the other ranks. */
#ifndef SIM_EXECUTE_WATCHDOG_H
#define SIM_EXECUTE_WATCHDOG_H
#include "sim/execute/execute.h"

struct watchdog;

/* `timeout_s` > 0: of one operation. */
struct watchdog *watchdog_start(const struct executor *x, int rank, double timeout_s);
void watchdog_stop(struct watchdog *w); /* NULL is fine */

#endif
