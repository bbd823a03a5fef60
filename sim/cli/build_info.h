/* build_info.h: what the program was built from and with, for --version. */
#ifndef SIM_CLI_BUILD_INFO_H
#define SIM_CLI_BUILD_INFO_H

/* "key: value" lines: commit, compiler, build, mpi, cuda, sanitizers; "unknown" or "none" where there is none. */
extern const char build_info[];

#endif
