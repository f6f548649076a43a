/* The planner's options, the same in every program that runs a model: rows for an option table, and
 * the struct that they fill. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/option.h"
#include "engine/memory/memory_plan.h"

struct memory_options {
    const char *device, *strategy, *hybrid_experts, *kv_type, *activations;
    int64_t ram_budget, gpu_budget, expert_cache;
    int64_t experts_per_token; /* 0: as trained; for model_limit_experts, before planning */
};

#define ACTIVATIONS_CHOICES "16|8"

/* Rows for `table` of `holder`, which has a struct memory_options `part`. */
#define MEMORY_OPTION_ROWS(holder, part)                                                           \
    {.name = "device",                                                                             \
     .type = OPTION_STRING,                                                                        \
     .offset = offsetof(holder, part.device),                                                      \
     .fallback = "auto",                                                                           \
     .value = "NAME",                                                                              \
     .help = "The GPU, by its number, its UUID or a part of its name, or cpu; auto: of several "   \
             "the one with the most free memory; auto:NAME: that one, if it can."},                \
        {.name = "strategy",                                                                       \
         .type = OPTION_CHOICE,                                                                    \
         .offset = offsetof(holder, part.strategy),                                                \
         .fallback = "auto",                                                                       \
         .choices = STRATEGY_CHOICES,                                                              \
         .help = "Where the model's bytes go; auto takes the fastest that fits."},                 \
        {.name = "ram-budget",                                                                     \
         .type = OPTION_BYTES,                                                                     \
         .offset = offsetof(holder, part.ram_budget),                                              \
         .max = 1e15,                                                                              \
         .value = "BYTES",                                                                         \
         .help = "RAM that may be taken, all in all; 0: what is free, less a reserve."},           \
        {.name = "gpu-budget",                                                                     \
         .type = OPTION_BYTES,                                                                     \
         .offset = offsetof(holder, part.gpu_budget),                                              \
         .max = 1e15,                                                                              \
         .value = "BYTES",                                                                         \
         .help = "GPU memory that may be taken; 0: what is free."},                                \
        {.name = "expert-cache",                                                                   \
         .type = OPTION_BYTES,                                                                     \
         .offset = offsetof(holder, part.expert_cache),                                            \
         .max = 1e15,                                                                              \
         .value = "BYTES",                                                                         \
         .help =                                                                                   \
             "Experts kept in RAM while the others stay on the disk; 0: what the budget leaves."}, \
        {.name = "hybrid-experts",                                                                 \
         .type = OPTION_CHOICE,                                                                    \
         .offset = offsetof(holder, part.hybrid_experts),                                          \
         .fallback = "auto",                                                                       \
         .choices = EXPERT_WAY_CHOICES,                                                            \
         .help = "hybrid: experts without a GPU slot are read over the bus or computed on the "    \
                 "cpu; auto: what is faster."},                                                    \
        {.name = "kv-type",                                                                        \
         .type = OPTION_CHOICE,                                                                    \
         .offset = offsetof(holder, part.kv_type),                                                 \
         .fallback = "auto",                                                                       \
         .choices = KV_TYPE_CHOICES,                                                               \
         .help = "How the KV cache is stored: q8 holds nearly twice the tokens of f16, k8v4 two "  \
                 "and a half times; auto: f16 if context and slots fit, else q8."},                \
        {.name = "activations",                                                                    \
         .type = OPTION_CHOICE,                                                                    \
         .offset = offsetof(holder, part.activations),                                             \
         .fallback = "16",                                                                         \
         .choices = ACTIVATIONS_CHOICES,                                                           \
         .help = "cpu: bits of the numbers that packed weights are multiplied with; 8: faster, "   \
                 "and as exact as other engines."},                                                \
    {                                                                                              \
        .name = "experts-per-token", .type = OPTION_INT,                                           \
        .offset = offsetof(holder, part.experts_per_token), .max = 1024, .value = "N",             \
        .help = "Experts of each layer that a token uses at most: fewer are faster and lossy; 0: " \
                "as the model says."                                                               \
    }

/* As in EXPERT_WAY_CHOICES, which option_parse has checked. */
static inline enum expert_way expert_way_from_name(const char *name)
{
    return !name || !strcmp(name, "auto") ? EXPERTS_AUTO
           : !strcmp(name, "bus")         ? EXPERTS_BUS
                                          : EXPERTS_CPU;
}

/* As in KV_TYPE_CHOICES. */
static inline enum kv_type kv_type_from_name(const char *name)
{
    enum kv_type t = KV_AUTO;
    while (name && t < KV_F32 && strcmp(name, kv_type_name(t)))
        t++;
    return t < KV_F32 ? t : KV_AUTO;
}

/* A device that was chosen by its name, not by what is free: auto, or auto:NAME. */
static inline bool memory_device_is_named(const char *device)
{
    return device && strcmp(device, "auto") != 0 && strncmp(device, "auto:", 5) != 0;
}

/* Copies the options into a request; option_parse has checked them. */
static inline void memory_options_request(const struct memory_options *o, struct memory_request *w)
{
    w->strategy = o->strategy ? strategy_from_name(o->strategy) : STRATEGY_AUTO;
    w->ram_budget = o->ram_budget;
    w->gpu_budget = o->gpu_budget;
    w->expert_cache = o->expert_cache;
    const bool named = memory_device_is_named(o->device);
    w->device = named ? o->device : NULL;
    w->prefers = !named && o->device && o->device[4] ? o->device + 5 : NULL;
    w->kv_type = kv_type_from_name(o->kv_type);
    w->expert_way = expert_way_from_name(o->hybrid_experts);
    w->one_byte = o->activations && !strcmp(o->activations, "8");
}
