/* Selects and sorts the largest logits with a heap, and computes exponential weights in a form
 * that compilers vectorize. */
#include "engine/sched/sampling/topk.h"

#include <stdbool.h>
#include <string.h>

/* Loops over this many at a time have a fixed length, which is what compilers turn into vector code
 * at -O2. */
#define LANES 16

static bool before(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Restores the heap, which has the worst candidate at its root. */
static void sift_down(struct candidate *heap, int32_t n, int32_t at)
{
    struct candidate c = heap[at];
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && before(heap[child], heap[child + 1]))
            child++;
        if (!before(c, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = c;
}

static void make_heap(struct candidate *list, int32_t n)
{
    for (int32_t i = n / 2 - 1; i >= 0; i--)
        sift_down(list, n, i);
}

/* Heap sort: moves the worst candidate to the end repeatedly, which leaves the list best first. */
static void unmake_heap(struct candidate *heap, int32_t n)
{
    while (n > 1) {
        struct candidate worst = heap[0];
        heap[0] = heap[--n];
        sift_down(heap, n, 0);
        heap[n] = worst;
    }
}

void topk_select(const float *logits, int32_t n, int32_t k, struct candidate *out)
{
    for (int32_t i = 0; i < k; i++)
        out[i] = (struct candidate){logits[i], i};
    make_heap(out, k);
    for (int32_t i = k; i < n; i++) {
        /* most candidates end here, and so does an equal logit, since its id is higher */
        if (!(logits[i] > out[0].logit))
            continue;
        out[0] = (struct candidate){logits[i], i};
        sift_down(out, k, 0);
    }
    unmake_heap(out, k);
}

void topk_sort(struct candidate *list, int32_t n)
{
    make_heap(list, n);
    unmake_heap(list, n);
}

static inline void raise_all(float *restrict most, const float *restrict x)
{
    for (int i = 0; i < LANES; i++)
        most[i] = x[i] > most[i] ? x[i] : most[i];
}

/* The highest first, then where it is: both loops run without waiting for what they just found. */
int32_t topk_argmax(const float *logits, int32_t n)
{
    float most[LANES], top = logits[0];
    int32_t i = 0, best = 0;
    for (int lane = 0; lane < LANES; lane++)
        most[lane] = top;
    for (; i + LANES <= n; i += LANES)
        raise_all(most, logits + i);
    for (; i < n; i++)
        top = logits[i] > top ? logits[i] : top;
    for (int lane = 0; lane < LANES; lane++)
        top = most[lane] > top ? most[lane] : top;
    while (best < n - 1 && logits[best] != top)
        best++;
    return best;
}

/* 2^t = 2^n * 2^f with n the nearest integer: f by its Taylor polynomial (|f| <= 1/2: error under
 * 2e-8 of it), n put straight into the exponent. No branch, no call: loops over it become vector
 * code. */
static inline float power(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    const float t = x * 1.44269504f;
    const float rounded = t + magic;
    const float f = t - (rounded - magic);
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    uint32_t bits, exponent;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&exponent, &rounded, sizeof exponent);
    bits += exponent << 23; /* the low bits of `rounded` are n */
    memcpy(&p, &bits, sizeof p);
    return p;
}

#define LEAST -87.0f /* below it a weight is zero */

float topk_weight(float logit, float max, float sharpness)
{
    const float x = (logit - max) * sharpness;
    return x > LEAST ? power(x) : 0.0f;
}

/* The same for LANES logits. One loop would become a branch around the power, which no compiler
 * makes vectors of. */
static inline void weigh(const float *restrict logits, float max, float sharpness,
                         float *restrict out)
{
    float x[LANES], safe[LANES], p[LANES];
    for (int i = 0; i < LANES; i++)
        x[i] = (logits[i] - max) * sharpness;
    for (int i = 0; i < LANES; i++)
        safe[i] = x[i] > LEAST ? x[i] : LEAST;
    for (int i = 0; i < LANES; i++)
        p[i] = power(safe[i]);
    for (int i = 0; i < LANES; i++)
        out[i] = x[i] > LEAST ? p[i] : 0.0f;
}

double topk_weights(const float *logits, int32_t n, float max, float sharpness, float *out)
{
    double sums[LANES] = {0}, sum = 0;
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        weigh(logits + i, max, sharpness, out + i);
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (double)out[i + lane];
    }
    for (; i < n; i++)
        sum += (double)(out[i] = topk_weight(logits[i], max, sharpness));
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}
