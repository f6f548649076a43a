/* Memory that ends where a page begins that nobody may touch: what a kernel reads or writes past
 * the end is a fault at once, in every build, also of vector instructions that no sanitizer sees.
 */
#pragma once
#include <stddef.h>

/* Zeroed. `align`: a power of two; what lies between the end and the page is less than that. */
void *guarded_alloc(size_t bytes, size_t align);
/* Fails the test if what lies before was written to. Accepts NULL. */
void guarded_free(void *at);
