/* number_text.h: numbers for tables and pages. */
#ifndef SIM_BASE_NUMBER_TEXT_H
#define SIM_BASE_NUMBER_TEXT_H
#include <stdint.h>

struct number_text {
  char text[32];
};

/* 1234567 as "1,234,567" */
struct number_text grouped_text(int64_t v);
/* Four significant digits with k, M, G, T: 1234567 as "1.235 M" */
struct number_text si_text(double v);
/* Seconds with a unit that suits: "12.3 ms", "4.56 s", "2.34 h" */
struct number_text duration_text(double seconds);

#endif
