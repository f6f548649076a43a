/* Compares vocabularies, plans and opens a draft model. */
#include "engine/draft/draft_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MODULE "draft"
#include "engine/base/log.h"

static const char field[] = "draft-model";

static const char *field_of(const struct draft_load *l)
{
    return l->layer ? "speculate" : field;
}

bool draft_load_find(const char *model, char *path, size_t size)
{
    char config[PATH_MAX];
    const int n = snprintf(path, size, "%s/draft", model);
    if (n < 0 || (size_t)n >= size)
        return false;
    const int k = snprintf(config, sizeof config, "%s/config.json", path);
    return k > 0 && (size_t)k < sizeof config && access(config, R_OK) == 0;
}

const char *draft_load_path(const char *option, const char *model, char found[PATH_MAX])
{
    if (!strcmp(option, "off"))
        return NULL;
    if (strcmp(option, "auto") != 0)
        return option;
    return draft_load_find(model, found, PATH_MAX) ? found : NULL;
}

static bool same_token(const struct vocab *a, const struct vocab *b, int32_t id)
{
    size_t n, m;
    const char *x = vocab_bytes(a, id, &n), *y = vocab_bytes(b, id, &m);
    return n == m && (!n || !memcmp(x, y, n)) && vocab_flags(a, id) == vocab_flags(b, id);
}

static bool same_vocabulary(const struct vocab *own, const struct vocab *target, struct err *e)
{
    const int32_t n = vocab_size(own), wanted = vocab_size(target);
    if (n != wanted)
        return err_field(e, ERR_UNSUPPORTED, field,
                         "its vocabulary has %d tokens, that of the model %d: a draft model must "
                         "have the same one",
                         n, wanted);
    for (int32_t i = 0; i < n; i++)
        if (!same_token(own, target, i)) {
            size_t a, b;
            const char *x = vocab_bytes(own, i, &a), *y = vocab_bytes(target, i, &b);
            return err_field(e, ERR_UNSUPPORTED, field,
                             "its token %d is '%.*s', that of the model '%.*s': a draft model must "
                             "have the same vocabulary",
                             i, (int)(a < 24 ? a : 24), x ? x : "", (int)(b < 24 ? b : 24),
                             y ? y : "");
        }
    return true;
}

/* True if `path` is the folder `draft` of the model's. */
static bool belongs_to(const char *path, const char *target)
{
    char inside[PATH_MAX], a[PATH_MAX], b[PATH_MAX];
    return draft_load_find(target, inside, sizeof inside) && realpath(inside, a) &&
           realpath(path, b) && !strcmp(a, b);
}

static bool is_block(const struct draft_load *l)
{
    return l->model && model_plan(l->model)->context.n_taps > 0;
}

static bool check_vocabulary(const struct draft_load *l, const struct draft_load_params *p,
                             struct err *e)
{
    struct err none = {0};
    const int32_t n = model_plan(l->model)->n_vocab;
    struct vocab *own = vocab_load(p->path, p->cache_dir, &none);
    bool same = own && same_vocabulary(own, p->vocab, e);
    if (!own && !is_block(l) && !belongs_to(p->path, p->target))
        err_field(e, ERR_UNSUPPORTED, field,
                  "whether its vocabulary is the same can't be told: %.150s", none.text);
    else if (!own)
        same = n == p->n_vocab ||
               err_field(e, ERR_UNSUPPORTED, field,
                         "its vocabulary has %d tokens, that of the model %d", n, p->n_vocab);
    vocab_close(&own);
    return same;
}

/* A DFlash drafter has no tokenizer of its own; the shape of the model that it was made for tells
 * whether it is this one. */
static bool check_block(const struct draft_load *l, const struct draft_load_params *p,
                        struct err *e)
{
    if (!is_block(l))
        return true;
    const struct model_plan *own = model_plan(l->model), *target = model_plan(p->target_model);
    if (own->n_vocab != target->n_vocab) /* it uses the model's head, row by row */
        return err_field(e, ERR_UNSUPPORTED, field,
                         "its vocabulary has %d tokens, that of the model %d", own->n_vocab,
                         target->n_vocab);
    if (own->d_model == target->d_model && own->context.model_layers == target->n_layer)
        return true;
    return err_field(e, ERR_UNSUPPORTED, field,
                     "it was made for a model of %d layers and %d dimensions, this one has %d and "
                     "%d",
                     own->context.model_layers, own->d_model, target->n_layer, target->d_model);
}

/* Sizes: as many seats as may have drafts at once, each with a window of the text's end. */
static bool choose_sizes(struct draft_load *l, const struct draft_load_params *p, struct err *e)
{
    const struct model_plan *plan = model_plan(l->model);
    int32_t window = plan->n_ctx < DRAFT_WINDOW ? plan->n_ctx : DRAFT_WINDOW;
    window -= window % BACKEND_BLOCK_TOKENS;
    if (window < 2 * DRAFT_FRESH)
        return err_field(e, ERR_UNSUPPORTED, field_of(l), "it has %d positions, %d are needed",
                         plan->n_ctx, 2 * DRAFT_FRESH);
    l->sizes =
        (struct draft_model_params){.n_vocab = plan->n_vocab,
                                    .target_vocab = p->n_vocab,
                                    .n_recurrent = plan->n_recurrent,
                                    .n_seats = p->slots < DRAFT_SEATS ? p->slots : DRAFT_SEATS,
                                    .window = window,
                                    .d_hidden = l->layer ? plan->d_model : plan->context.fc.cols,
                                    .block = plan->context.block,
                                    .mask_token = plan->context.mask_token};
    return true;
}

static bool plan_memory(struct draft_load *l, const struct draft_load_params *p, struct err *e)
{
    struct memory_request w = {.strategy = p->memory.strategy,
                               .ram_budget = p->memory.ram_budget,
                               .gpu_budget = p->memory.gpu_budget,
                               .n_threads = p->memory.n_threads,
                               .exact = p->memory.exact,
                               .one_byte = p->memory.one_byte};
    const struct draft_model_params *n = &l->sizes;
    if (!draft_load_shares(l)) {
        w.device = p->memory.device;
        w.prefers = p->memory.prefers;
    }
    if (w.strategy == STRATEGY_HYBRID || w.strategy == STRATEGY_SSD_STREAMING)
        w.strategy = STRATEGY_AUTO;
    w.size.slots = n->n_seats;
    w.fixed = (struct sizing){.n_ctx = n->window,
                              .n_slots = n->n_seats,
                              .n_blocks = n->n_seats * (n->window / BACKEND_BLOCK_TOKENS),
                              .prefill_chunk = DRAFT_STEP_ROWS,
                              .max_rows = DRAFT_STEP_ROWS,
                              .n_states = n->n_recurrent ? n->n_seats * DRAFT_SEAT_STATES : 0};
    struct err why = {0};
    if (!memory_load_plan(&l->memory, l->model, draft_load_shares(l) ? "cpu" : p->backend, &w,
                          &why))
        return err_field(e, why.code, field_of(l), "%.220s", why.text);
    if (l->memory.plan.strategy != STRATEGY_FULL_GPU &&
        l->memory.plan.strategy != STRATEGY_CPU_ONLY)
        return err_field(e, ERR_LIMIT, field_of(l),
                         "there is no memory to keep all of it resident (%s)",
                         strategy_name(l->memory.plan.strategy));
    return true;
}

bool draft_load_plan(struct draft_load *l, const struct draft_load_params *p, struct err *e)
{
    struct err why = {0};
    const char *slash = strrchr(p->path, '/');
    *l = (struct draft_load){.cache_dir = p->cache_dir};
    snprintf(l->name, sizeof l->name, "%s", slash && slash[1] ? slash + 1 : p->path);
    l->model = model_open_drafter(p->path, &why);
    if (!l->model)
        return err_field(e, why.code, field, "%.220s", why.text);
    return check_vocabulary(l, p, e) && check_block(l, p, e) && choose_sizes(l, p, e) &&
           plan_memory(l, p, e);
}

bool draft_load_plan_layer(struct draft_load *l, const struct draft_load_params *p, struct err *e)
{
    struct err why = {0};
    *l = (struct draft_load){.cache_dir = p->cache_dir, .layer = true};
    l->model = model_next(p->target_model, &why);
    if (!l->model)
        return err_field(e, why.code, field_of(l), "mtp: %.200s", why.text);
    return choose_sizes(l, p, e) && plan_memory(l, p, e);
}

bool draft_load_shares(const struct draft_load *l)
{
    return l->model && model_plan(l->model)->shares_ends;
}

enum engine_speculate draft_load_by(const struct draft_load *l)
{
    return !l->model     ? ENGINE_SPECULATE_SERVER
           : l->layer    ? ENGINE_SPECULATE_MTP
           : is_block(l) ? ENGINE_SPECULATE_DFLASH
                         : ENGINE_SPECULATE_DRAFT;
}

uint64_t draft_load_host_bytes(const struct draft_load *l)
{
    /* whole logits of all rows of a step of blocks, where grammars want them */
    const uint64_t logits =
        l->sizes.block ? DRAFT_STEP_ROWS * (uint64_t)l->sizes.n_vocab * sizeof(float) : 0;
    return l->model ? l->memory.plan.host + draft_model_seat_bytes(&l->sizes) + logits : 0;
}

void draft_load_reserve(const struct draft_load *l, struct memory_request *other)
{
    other->beside_host += draft_load_host_bytes(l);
    other->beside_device += l->memory.plan.device;
}

static bool begin_layer(struct draft_load *l, bool asked, const struct draft_load_params *p,
                        struct memory_request *other, struct err *e)
{
    struct err why = {0};
    const bool planned = draft_load_plan_layer(l, p, &why);
    l->found = !asked;
    if (!planned && !asked && why.code == ERR_NOTFOUND) {
        draft_load_close(l);
        return true;
    }
    if (!planned)
        return draft_load_leave_out(l, &why, e);
    draft_load_reserve(l, other);
    return true;
}

bool draft_load_begin(struct draft_load *l, enum engine_speculate speculate, const char *option,
                      struct draft_load_params p, struct memory_request *other, struct err *e)
{
    char found[PATH_MAX];
    struct err why = {0};
    const bool asked = speculate == ENGINE_SPECULATE_DRAFT || speculate == ENGINE_SPECULATE_DFLASH;
    const bool used = speculate == ENGINE_SPECULATE_AUTO || asked;
    *l = (struct draft_load){0};
    p.path = used ? draft_load_path(option, p.target, found) : NULL;
    if (used && !p.path && strcmp(option, "off") != 0)
        log_info("the model has no folder 'draft': there is no draft model");
    if (!p.path && (speculate == ENGINE_SPECULATE_AUTO || speculate == ENGINE_SPECULATE_MTP))
        return begin_layer(l, speculate == ENGINE_SPECULATE_MTP, &p, other, e);
    if (!p.path)
        return !asked || err_field(e, ERR_INPUT, "speculate",
                                   "%s needs a draft model: --draft-model says where it lies",
                                   engine_speculate_name(speculate));
    bool planned = draft_load_plan(l, &p, &why);
    l->found = p.path == found && !asked;
    if (planned && asked && is_block(l) != (speculate == ENGINE_SPECULATE_DFLASH))
        planned = err_field(&why, ERR_INPUT, "speculate",
                            is_block(l) ? "draft: %s is a DFlash drafter, which dflash or auto runs"
                                        : "dflash: %s is no DFlash drafter",
                            l->name);
    if (!planned)
        return draft_load_leave_out(l, &why, e);
    draft_load_reserve(l, other);
    return true;
}

bool draft_load_leave_out(struct draft_load *l, const struct err *why, struct err *e)
{
    const bool found = l->found;
    const char *what = l->layer ? "the model's next-token layer" : "the draft model found";
    draft_load_close(l);
    if (!found) {
        *e = *why;
        return false;
    }
    snprintf(l->left_out, sizeof l->left_out, "%s is left out: %.80s", what, why->text);
    log_warn("%s is left out: %s", what, why->text);
    return true;
}

static bool open_model(struct draft_load *l, struct thread_pool *team, struct err *e)
{
    const struct backend_params more = {.cache_dir = l->cache_dir, .team = team};
    struct err why = {0};
    if (!memory_load_open(&l->memory, &more, &why))
        return err_field(e, why.code, field_of(l), "%.220s", why.text);
    l->sizes.ops = l->memory.ops;
    l->sizes.backend = l->memory.opened;
    l->draft = draft_model_create(&l->sizes, e);
    return l->draft != NULL;
}

bool draft_load_open(struct draft_load *l, struct thread_pool *team, struct err *e)
{
    const unsigned long long bytes = draft_load_host_bytes(l) + l->memory.plan.device;
    struct err why = {0};
    if (open_model(l, team, &why)) {
        log_info("draft model=%s backend=%s seats=%d window=%d bytes=%llu",
                 l->layer ? "mtp" : l->name, l->memory.ops->name, l->sizes.n_seats, l->sizes.window,
                 bytes);
        return true;
    }
    if (!draft_load_leave_out(l, &why, e))
        return false;
    log_warn("what was planned for it stays unused until the next start bytes=%llu", bytes);
    return true;
}

void draft_load_close(struct draft_load *l)
{
    draft_model_destroy(&l->draft);
    memory_load_close(&l->memory);
    if (!l->layer)
        model_close(&l->model);
    *l = (struct draft_load){0};
}
