/* The median of measured values, by sorting them. */
#include "engine/base/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, size_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}
