/* libraries.h: what libraries do when memory is exhausted: what xmalloc does (units.h). */
#ifndef SIM_BASE_LIBRARIES_H
#define SIM_BASE_LIBRARIES_H

/* Called once by a program, before anything else of this project. Jansson allocates with xmalloc from then on. GSL's
 * errors of other kinds are the return values of its functions, and end nothing. */
void libraries_begin(void);

#endif
