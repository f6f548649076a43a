/* The middle of measured values: one disturbed run does not move it. */
#pragma once
#include <stddef.h>

/* Sorts values[n], n >= 1, ascending. Of an even count, the mean of the two in the middle. */
double median_of(double *values, size_t n);
