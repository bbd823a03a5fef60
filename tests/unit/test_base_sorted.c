/* Order of doubles: ascending, nearest ranks, the middle of odd and even numbers of values. */
#include <criterion/criterion.h>

#include "sim/base/sorted.h"

Test(base_sorted, order_and_middle) {
  double v[] = {3, -7, 2, 10, -1}, even[] = {4, 1, 9, 2}, one[] = {-5};
  const double of_signs[] = {-9, 1, 2, -4};
  cr_expect_eq(median_abs(v, 5), 3); /* of 1 2 3 7 10 */
  cr_expect(v[0] == 3 && v[4] == -1);
  cr_expect_eq(median_abs(of_signs, 4), 4); /* the upper of 2 and 4 */
  cr_expect_eq(median_sort(v, 5), 2);
  for (int i = 1; i < 5; i++)
    cr_expect_lt(v[i - 1], v[i]);
  cr_expect_eq(median_sort(even, 4), 3);
  cr_expect_eq(median_sort(one, 1), -5);
  /* -7 -1 2 3 10 at ranks 0 to 4: 40 % is rank 1.6 */
  cr_expect_eq(sorted_quantile(v, 5, 0), -7);
  cr_expect_eq(sorted_quantile(v, 5, 40), 2);
  cr_expect_eq(sorted_quantile(v, 5, 90), 10);
  cr_expect_eq(sorted_quantile(v, 5, 100), 10);
  cr_expect_eq(sorted_quantile(one, 1, 50), -5);
}
