/* A model is data: what a family file reads out of a configuration, and what backends run.
 * Kernels know these switches, never a family's name. Plain structs, immutable once model_open
 * returned.
 *
 * Notation: d = d_model; T = rows (tokens) of a step. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/format/weight.h"

#define PLAN_MAX_EOS 16
#define PLAN_MAX_ROPE_PAIRS 256
#define PLAN_MAX_TAPS 16

struct vector { /* f32 copy of a small tensor (norm weights, biases, sinks); owned by the model */
    const float *at; /* NULL: absent */
    int32_t n;
};

/* (x - mean) / sqrt(variance + eps) * weight + bias, over a row of d values. */
struct layer_norm_plan {
    struct vector weight, bias; /* weight absent: there is no such norm */
};

struct rope_plan {
    int32_t n_dims; /* dimensions of a head that rotate (even; <= d_head); the rest pass through */
    bool interleaved; /* pairs (2i, 2i+1); else (i, i + n_dims/2) */
    float scale;      /* factor on cos and sin (YaRN's attention factor), usually 1 */
    float inv_freq[PLAN_MAX_ROPE_PAIRS]; /* angle = position * inv_freq[i], i < n_dims/2; scaling
                                            applied */
};

struct attention_plan {
    int32_t n_head, n_kv_head, d_head;
    int32_t window; /* 0: all; else a token sees itself and window - 1 before */
    float scale;    /* on q.k, usually 1/sqrt(d_head) */
    struct rope_plan rope;
    struct weight wq; /* [n_head * d_head * (output_gate ? 2 : 1), d]; gated: per head d_head rows
                         of q, then gate */
    struct weight wk; /* [n_kv_head * d_head, d] */
    struct weight wv; /* [n_kv_head * d_head, d] */
    struct weight wo; /* [d, n_head * d_head] */
    struct vector bq, bk, bv, bo; /* biases or absent */
    struct vector q_norm, k_norm; /* [d_head] RMS norm per head before rope, or absent */
    struct vector sinks;          /* [n_head] extra logit in the softmax's denominator, or absent */
    bool output_gate;             /* attention output times sigmoid(gate) before wo */
    /* A token sees all of its sequence, also what comes after it, so a step must have the sequence
     * whole. */
    bool bidirectional;
};

struct delta_net_plan {                           /* gated DeltaNet (Qwen3-Next / Qwen3.5) */
    int32_t n_k_head, n_v_head, d_k, d_v, n_conv; /* n_conv: kernel width (4) */
    bool tiled_heads;       /* value head j uses key head j % n_k_head (GGUF); else j / (n_v/n_k) */
    struct weight w_qkv;    /* [2 * n_k * d_k + n_v * d_v, d]: q, k, v */
    struct weight w_z;      /* [n_v * d_v, d] output gate */
    struct weight w_a, w_b; /* [n_v, d] decay and write strength */
    struct weight w_out;    /* [d, n_v * d_v] */
    struct vector conv;     /* [channels, n_conv] depthwise causal, channels = rows of w_qkv */
    struct vector a_log;    /* [n_v]: holds -exp(A_log) */
    struct vector dt_bias;  /* [n_v] */
    struct vector norm;     /* [d_v] gated RMS norm, weight as applied */
};

enum activation {
    ACT_SWIGLU,
    ACT_SWIGLU_CLAMP, /* gpt-oss: clamp 7, (up + 1) * gate * sigmoid(1.702 gate) */
    ACT_GELU          /* x * Phi(x), exact; no up matrix (BERT) */
};

struct mlp_plan { /* dense feed-forward or shared expert */
    int32_t d_ff;
    struct weight gate,
        up;             /* [d_ff, d]; up is absent where the activation takes no second factor */
    struct weight down; /* [d, d_ff] */
    struct vector b_gate, b_up, b_down;
};

enum router_score {
    ROUTER_SOFTMAX,      /* softmax over all, then the best k (Qwen3) */
    ROUTER_TOPK_SOFTMAX, /* the best k by logit, then softmax over them (gpt-oss) */
    ROUTER_SIGMOID, /* sigmoid; chosen by score + select_bias, within groups (bailing V2, DeepSeek
                       V3) */
};

struct moe_plan {
    int32_t n_expert, n_used, d_ff;
    enum router_score score;
    bool normalize; /* chosen weights divided by their sum */
    float scale;    /* then times this (routed_scaling_factor), usually 1 */
    int32_t n_group,
        n_group_used; /* group-limited routing; 0 or 1: none. Group score: sum of its two best */
    struct weight router;       /* [n_expert, d] */
    struct vector router_bias;  /* [n_expert] added to the logits (gpt-oss) or absent */
    struct vector select_bias;  /* [n_expert] added for the choice only (bailing) or absent */
    struct weight gate, up;     /* [n_expert, d_ff, d] */
    struct weight down;         /* [n_expert, d, d_ff] */
    struct vector b_gate, b_up; /* [n_expert * d_ff] or absent */
    struct vector b_down;       /* [n_expert * d] or absent */
    bool has_shared;
    struct mlp_plan shared;
    struct weight shared_gate; /* [1, d]: shared expert times sigmoid of it; type NONE: plain */
};

enum mixer_type { MIXER_ATTENTION, MIXER_DELTA_NET };
enum ffn_type { FFN_DENSE, FFN_MOE };

struct layer_plan {
    struct vector mixer_norm; /* [d], weight as applied (1 + w where the family stores w); absent:
                                 the mixer reads the residual stream as it is */
    /* Norms of the residual stream itself, after the mixer's and the feed-forward's results were
     * added to it (post-norm, as in BERT). */
    struct layer_norm_plan after_mixer, after_ffn;
    enum mixer_type mixer;
    struct attention_plan attention;
    struct delta_net_plan delta_net;
    int32_t kv_index;       /* attention layers count 0.. ; -1 for others: index into KV storage */
    int32_t state_index;    /* recurrent layers count 0.. ; -1 for others */
    struct vector ffn_norm; /* [d]; absent: as mixer_norm */
    enum ffn_type ffn;
    enum activation activation;
    struct mlp_plan dense;
    struct moe_plan moe;
};

/* What an encoder adds to a token's row before the first layer (BERT, RoBERTa). */
struct embed_plan {
    struct weight positions; /* [n_ctx + first_position, d], or absent */
    int32_t first_position;  /* row of position 0: RoBERTa's tables begin behind the padding's id */
    struct weight types; /* [segments, d]: the row of a text's first or second part, or absent */
    struct layer_norm_plan norm;
};

/* How the rows of a text become its vector. */
enum pooling { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST };

/* From a vector to a score: out . tanh(dense x + bias) + bias (BERT's and RoBERTa's heads for one
 * label). */
struct scorer_plan {
    struct weight dense; /* [d, d] */
    struct vector dense_bias;
    struct weight out; /* [1, d]; absent: the model has no scorer */
    struct vector out_bias;
};

/* How a next-token layer begins (multi-token prediction, as in DeepSeek V3, GLM-4.5, Qwen3-Next):
 * x = fc . [norm(embedding of a token), norm(hidden state of the position before it)]. The hidden
 * state is what a final norm left: the model's, and behind it the layer's own. */
struct joint_plan {
    struct vector embed_norm, hidden_norm; /* [d] */
    struct weight fc;                      /* [d, 2 d]; absent: rows begin as embeddings */
};

/* What a block-diffusion drafter goes on from (DFlash, arXiv 2602.06036): c = fc . [the model's
 * residual stream behind some of its layers] of each token of the text, of which its layers keep
 * keys and values, k = wk norm(c), v = wv norm(c), as of a row of their own. A draft is one step:
 * the text's last token and mask tokens behind it, each of which sees all of them. */
struct context_plan {
    struct weight fc;                    /* [d, n_taps * d]; absent: the plan is no such drafter */
    struct vector norm;                  /* [d] */
    int32_t taps[PLAN_MAX_TAPS], n_taps; /* the model's layers, from 0 */
    int32_t mask_token, block;           /* tokens of a block, the text's last one included */
    int32_t model_layers;                /* of the model that it was made for */
};

struct model_plan {
    const char *family; /* "qwen3_moe" */
    int32_t n_layer, d_model, n_vocab, n_ctx;
    int32_t n_attention, n_recurrent; /* layers of each kind */
    float norm_eps;
    struct weight embed; /* [n_vocab, d] */
    struct weight head;  /* [n_vocab, d]; the same view as embed where tied; encoders have none */
    struct vector final_norm; /* absent: rows are what the last layer left */
    struct embed_plan embedding;
    struct joint_plan joint;
    struct context_plan context;
    bool shares_ends;     /* embed and head are those of another plan, which counts them */
    bool encoder;         /* its layers are bidirectional and it has no head: it writes no text */
    enum pooling pooling; /* as the files say; NONE: nobody trained it to embed */
    struct scorer_plan scorer;
    struct layer_plan *layers; /* [n_layer] */
    int32_t eos[PLAN_MAX_EOS];
    int n_eos;
    uint64_t fingerprint; /* of configuration and tensor table: part of cache keys */
};
