/* sha256.h: SHA-256 (FIPS 180-4), to name parameter files by content in results. */
#ifndef SIM_BASE_SHA256_H
#define SIM_BASE_SHA256_H
#include <stddef.h>

/* Lower-case hex digest of n bytes, NUL-terminated. */
void sha256_hex(const void *data, size_t n, char out[65]);

#endif
