/* A look at a ZIP archive's list of entries before anything is unpacked, by reading that list
 * alone: what is refused as a whole is refused here. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"

/* fd: a regular file of `size` bytes. ERR_INPUT names the entry: encrypted, a link, a name that
 * points outside, more than max_entries, a list that is damaged or not where it should be. */
bool zip_survey(int fd, int64_t size, int64_t max_entries, struct err *e);
