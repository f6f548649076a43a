/* The golden models that are here: each form of each family is a case. */
#pragma once
#include "tests/golden/golden_truth.h"

/* Of the families whose folders lie under root, in the order of their names; `only`: that form
 * alone, or NULL. Returns how many there are, at most max. */
int golden_cases_list(struct golden_case *cases, int max, const char *root, const char *only);
