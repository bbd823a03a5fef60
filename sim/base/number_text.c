#include "sim/base/number_text.h"

#include <math.h>
#include <stdio.h>

struct number_text grouped_text(int64_t v) {
  struct number_text t;
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%lld", (long long)v), at = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
      t.text[at++] = ',';
    t.text[at++] = digits[i];
  }
  t.text[at] = '\0';
  return t;
}

/* Four significant digits: 1.234, 12.34, 123.4 */
static int decimals(double v) { return v >= 999.95 ? 0 : v >= 99.995 ? 1 : v >= 9.9995 ? 2 : 3; }

struct number_text si_text(double v) {
  static const char *const prefixes[] = {"", " k", " M", " G", " T", " P"};
  struct number_text t;
  int k = 0;
  while (v >= 999.95 && k < 5) {
    v /= 1000;
    k++;
  }
  snprintf(t.text, sizeof t.text, "%.*f%s", v == floor(v) && k == 0 ? 0 : decimals(v), v, prefixes[k]);
  return t;
}

struct number_text duration_text(double s) {
  struct number_text t;
  double v = s < 1 ? s * 1e3 : s < 7200 ? s : s / 3600;
  if (v >= 1e9) /* no figure that means anything, but text for an error that names it */
    snprintf(t.text, sizeof t.text, "%.3g h", v);
  else
    snprintf(t.text, sizeof t.text, "%.*f %s", decimals(v), v, s < 1 ? "ms" : s < 7200 ? "s" : "h");
  return t;
}
