/* A packed sidecar against the model that it was made of. */
#pragma once
#include "engine/model/model.h"

/* Fails the test unless every record is one part of the one file, in order and without holes, and
 * holds the bytes of the model's mapping. */
void expert_pack_check(const struct model *m, const char *path);
