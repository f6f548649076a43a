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

int32_t topk_argmax(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* 2^t = 2^n * 2^f with n the nearest integer: f by its Taylor polynomial (|f| <= 1/2: error under
 * 2e-8 of it), n put straight into the exponent. No branch, no call: the loop below becomes vector
 * code. */
static inline float weight(float logit, float max, float sharpness)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float x = (logit - max) * sharpness;
    float safe = x > -87.0f ? x : -87.0f;
    float t = safe * 1.44269504f;
    float rounded = t + magic;
    float f = t - (rounded - magic);
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
    return x > -87.0f ? p : 0.0f;
}

float topk_weight(float logit, float max, float sharpness)
{
    return weight(logit, max, sharpness);
}

double topk_weights(const float *logits, int32_t n, float max, float sharpness, float *out)
{
    double sums[LANES] = {0}, sum = 0;
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int lane = 0; lane < LANES; lane++)
            out[i + lane] = weight(logits[i + lane], max, sharpness);
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] += (double)out[i + lane];
    }
    for (; i < n; i++)
        sum += (double)(out[i] = weight(logits[i], max, sharpness));
    for (int lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}
