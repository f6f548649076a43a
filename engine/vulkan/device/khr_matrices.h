/* Shaders for matrix units are written in the notation of GL_NV_cooperative_matrix, because the
 * compiler of Debian 12 knows no other, and run as VK_KHR_cooperative_matrix, which more than one
 * vendor has and which is faster. Between the two lie five instructions of other numbers, an order
 * of operands, and the use of a matrix (left, right, sum), which NV's types do not have.
 *
 * The use is told by the type's two dimensions: shaders give them as the specialization constants
 * SPEC_MATRIX_M, SPEC_MATRIX_N and SPEC_MATRIX_K (coop.glsl). Pure functions; any thread. */
#pragma once
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/vulkan/device/shader.h"

/* What the shaders' SPEC_MATRIX_*, MATRIX_SIDE and MATRIX_FEW are; dispatch.h compares. */
enum {
    KHR_MATRIX_SIDE = 16,
    KHR_MATRIX_FEW = 8,
    KHR_MATRIX_M = 24,
    KHR_MATRIX_N = 25,
    KHR_MATRIX_K = 26
};

/* Whether the module uses matrix units at all. */
bool khr_matrices_used(const struct shader *s);
/* Appends the module in KHR's form. ERR_INTERNAL: it holds something that has none, such as the
 * length of a matrix; ERR_NOMEM. */
bool khr_matrices_of(const struct shader *s, struct buf *out, struct err *e);
