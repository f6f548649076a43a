/* attachment_fixture.h: attachments of a fixture's users. */
#include "tests/unit/store/attachment_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sql/chats/store_tree.h"

int64_t attachment_add(struct fixture *f, int64_t user, const char *name, const char *bytes)
{
    struct err e = {0};
    struct store_upload u;
    int64_t id = 0;
    ASSERT_OK(store_upload_begin(f->store, &u, &e));
    ASSERT_OK(store_upload_write(&u, bytes, strlen(bytes), &e));
    const struct store_attachment a = {.user_id = user,
                                       .name = name,
                                       .type = "text/plain",
                                       .tokens = 3,
                                       .model = "m",
                                       .text = bytes};
    ASSERT_OK(store_attachment_add(f->store, &u, &a, &id, &e));
    assert_false(u.open);
    return id;
}

struct store_attachment attachment_get(struct fixture *f, int64_t user, int64_t id)
{
    struct err e = {0};
    struct store_attachment a;
    ASSERT_OK(store_attachment_get(f->store, f->arena,
                                   &(struct store_ref){.user_id = user, .id = id}, &a, &e));
    return a;
}

bool attachment_has_file(struct fixture *f, const char *sha256)
{
    struct err e = {0};
    char path[STORE_PATH_SIZE];
    ASSERT_OK(store_attachment_path(f->store, sha256, path, &e));
    return access(path, F_OK) == 0;
}

int64_t attachment_post(struct fixture *f, int64_t conversation, const int64_t *ids, int n)
{
    struct err e = {0};
    char key[40];
    static int serial;
    struct store_posted p;
    snprintf(key, sizeof key, "with-%d", serial++);
    ASSERT_OK(store_message_post(f->store,
                                 &(struct store_post){.user_id = f->user,
                                                      .conversation_id = conversation,
                                                      .content = "see",
                                                      .job_key = key,
                                                      .model = "m",
                                                      .attachments = ids,
                                                      .n_attachments = n},
                                 &p, &e));
    fixture_finish(f, p.message_id, "seen");
    return p.user_message_id;
}

void attachment_clear(struct fixture *f)
{
    struct err e = {0};
    bool more = true;
    while (more)
        ASSERT_OK(store_clear(f->store, &more, &e));
}
