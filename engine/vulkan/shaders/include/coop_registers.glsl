/* A product of the units whose sides lie in registers: 16 rows of W times 8 rows of X, 16 columns of each. Thread 4 g + t of 32 has of
 * rows g and g + 8 of W, and of row g of X, two words of two halves each; which columns they are is the caller's affair, as long as
 * both sides have the same. Of the results it has c0, c1: row g of W with rows 2 t, 2 t + 1 of X; c2, c3: row g + 8 with the same.
 * That is no promise of the units' form but what coop_places.comp finds where this is used (ops/matrix_places.h). With EMULATED the same on plain
 * arithmetic, for tests: then barriers are inside. */
#ifdef EMULATED
shared uvec4 products_a[gl_WorkGroupSize.x];
shared uvec2 products_b[gl_WorkGroupSize.x];
#define MatrixSum vec4
#define PRODUCT_CLEAR(c) c = vec4(0.0);
#define PRODUCT_SET(c, first, second) c = vec4(first, second, 0.0, 0.0);
void product_add(inout vec4 c, uvec2 low, uvec2 high, uvec2 x)
{
    uint first = gl_LocalInvocationIndex / 32 * 32, lane = gl_LocalInvocationIndex % 32;
    barrier();
    products_a[gl_LocalInvocationIndex] = uvec4(low, high);
    products_b[gl_LocalInvocationIndex] = x;
    barrier();
    [[dont_unroll]] for (uint t = 0; t < 4; t++) {
        uvec4 a = products_a[first + lane / 4 * 4 + t];
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uvec2 b = products_b[first + (lane % 4 * 2 + i % 2) * 4 + t], w = i < 2 ? a.xy : a.zw;
            c[i] += dot(unpackHalf2x16(w.x), unpackHalf2x16(b.x)) + dot(unpackHalf2x16(w.y), unpackHalf2x16(b.y));
        }
    }
}
#define PRODUCT_ADD(c, low, high, x) product_add(c, low, high, x);
#define PRODUCT_VALUES(c) c
#define PRODUCT_SCALE(c, factor) c *= factor;
#else
#include "coop.glsl"
#define MatrixSum MatrixC
#define PRODUCT_CLEAR(c) c = MatrixC(0.0);
#define PRODUCT_SET(c, first, second) \
    {                                 \
        c = MatrixC(0.0);             \
        c[0] = first;                 \
        c[1] = second;                \
    }
#define PRODUCT_ADD(to, first, second, other)                                                      \
    {                                                                                      \
        MatrixA a_;                                                                        \
        MatrixB b_;                                                                        \
        f16vec2 l0_ = unpackFloat2x16(first.x), l1_ = unpackFloat2x16(first.y);                \
        f16vec2 h0_ = unpackFloat2x16(second.x), h1_ = unpackFloat2x16(second.y);              \
        f16vec2 x0_ = unpackFloat2x16(other.x), x1_ = unpackFloat2x16(other.y);                    \
        a_[0] = l0_.x;                                                                     \
        a_[1] = l0_.y;                                                                     \
        a_[2] = l1_.x;                                                                     \
        a_[3] = l1_.y;                                                                     \
        a_[4] = h0_.x;                                                                     \
        a_[5] = h0_.y;                                                                     \
        a_[6] = h1_.x;                                                                     \
        a_[7] = h1_.y;                                                                     \
        b_[0] = x0_.x;                                                                     \
        b_[1] = x0_.y;                                                                     \
        b_[2] = x1_.x;                                                                     \
        b_[3] = x1_.y;                                                                     \
        to = coopMatMulAddNV(a_, b_, to);                                                  \
    }
#define PRODUCT_VALUES(c) vec4(c[0], c[1], c[2], c[3])
#define PRODUCT_SCALE(c, factor) \
    {                            \
        c[0] *= factor;          \
        c[1] *= factor;          \
        c[2] *= factor;          \
        c[3] *= factor;          \
    }
#endif
