/* The audit log, for admins: who did what from where, page by page. */
#include "engine/base/json/json.h"
#include "fcgi/http/json_put.h"
#include "fcgi/http/reply.h"
#include "fcgi/http/request.h"
#include "sql/core/store.h"

#define PAGE_DEFAULT 50
#define PAGE_MAX 500
#define MS_MAX (INT64_C(1) << 52)

static bool read_filter(struct request *r, struct store_audit_filter *f, struct err *e)
{
    f->user = request_query(r, "user");
    f->action = request_query(r, "action");
    return request_query_int(r, "before", 1, MS_MAX, &f->before, e) &&
           request_query_int(r, "since", 0, MS_MAX, &f->since, e) &&
           request_query_int(r, "until", 0, MS_MAX, &f->until, e);
}

struct page {
    cJSON *items;
    int64_t last; /* id */
    int n;
};

static cJSON *row_of(const struct store_audit *a)
{
    cJSON *o = cJSON_CreateObject();
    json_put_id(o, "id", a->id);
    cJSON_AddNumberToObject(o, "at", (double)a->at);
    json_put_id(o, "user_id", a->user_id);
    cJSON_AddStringToObject(o, "user", a->user);
    cJSON_AddStringToObject(o, "action", a->action);
    cJSON_AddStringToObject(o, "target", a->target);
    cJSON_AddStringToObject(o, "address", a->address);
    return o;
}

static bool put_row(void *context, const struct store_audit *a)
{
    struct page *p = context;
    p->last = a->id;
    p->n++;
    return cJSON_AddItemToArray(p->items, row_of(a));
}

static bool list(struct request *r, struct err *e)
{
    struct store_audit_filter f = {0};
    int64_t limit = PAGE_DEFAULT;
    if (!read_filter(r, &f, e) || !request_query_int(r, "limit", 1, PAGE_MAX, &limit, e))
        return false;
    cJSON *o = cJSON_CreateObject();
    struct page p = {.items = cJSON_AddArrayToObject(o, "items")};
    f.limit = (int)limit;
    bool ok = store_audit_search(r->store, &f, put_row, &p, e);
    if (ok && p.n == limit)
        json_put_id(o, "next", p.last);
    else
        cJSON_AddNullToObject(o, "next");
    if (ok)
        reply_json(r, 200, o);
    cJSON_Delete(o);
    return ok;
}

const struct route api_audit_routes[] = {
    {.method = HTTP_GET,
     .path = "/api/admin/audit",
     .auth = ROUTE_ADMIN,
     .pool = POOL_SHORT,
     .handler = list,
     .scope = SCOPE_ADMIN,
     .doc = {.summary = "Who did what, newest first",
             .query = "AuditQuery",
             .reply = "AuditList",
             .statuses = "200"}},
    {0},
};
