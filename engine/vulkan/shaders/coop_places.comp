#version 460
/* Which elements of a matrix of the units each of 32 threads has, and in which order: out[thread] = 8 of a left side, 4 of a right one,
 * 4 of sums, as row * 16 + column of each (ops/matrix_places.h)
 * Grid (1); one subgroup. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "coop.glsl"

#define PUSH_COOP_PLACES
#include "push.h"

shared uint numbers[128]; /* halves 0 .. 255 */
shared float floats[256];

void main()
{
    uint lane = gl_LocalInvocationIndex;
    for (uint i = lane; i < 128; i += 32) {
        numbers[i] = packHalf2x16(vec2(2.0 * float(i), 2.0 * float(i) + 1.0));
        floats[2 * i] = 2.0 * float(i);
        floats[2 * i + 1] = 2.0 * float(i) + 1.0;
    }
    barrier();
    MatrixA a;
    MatrixB b;
    MatrixC c;
    coopMatLoadNV(a, numbers, 0, 8, false);
    coopMatLoadNV(b, numbers, 0, 8, false);
    coopMatLoadNV(c, floats, 0, 16, false);
    uint at = lane * 16;
    p.outs.at[at] = uint(a[0]);
    p.outs.at[at + 1] = uint(a[1]);
    p.outs.at[at + 2] = uint(a[2]);
    p.outs.at[at + 3] = uint(a[3]);
    p.outs.at[at + 4] = uint(a[4]);
    p.outs.at[at + 5] = uint(a[5]);
    p.outs.at[at + 6] = uint(a[6]);
    p.outs.at[at + 7] = uint(a[7]);
    p.outs.at[at + 8] = uint(b[0]);
    p.outs.at[at + 9] = uint(b[1]);
    p.outs.at[at + 10] = uint(b[2]);
    p.outs.at[at + 11] = uint(b[3]);
    p.outs.at[at + 12] = uint(c[0]);
    p.outs.at[at + 13] = uint(c[1]);
    p.outs.at[at + 14] = uint(c[2]);
    p.outs.at[at + 15] = uint(c[3]);
}
