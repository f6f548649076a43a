/* One user can never reach another's rows: each function that takes a user's id is tried with the
 * wrong one, and the SQL itself is read. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "sql/chats/store_tree.h"
#include "sql/core/embedded.h"
#include "tests/unit/store/store_fixture.h"

static bool never(void *context, const struct store_message *m)
{
    fail_msg("a row of another user: message %lld", (long long)m->id);
    return true;
}

static bool never_conversation(void *context, const struct store_conversation *c)
{
    fail_msg("a row of another user: conversation %lld", (long long)c->id);
    return true;
}

static bool never_key(void *context, const struct store_key *k)
{
    fail_msg("a key of another user: %lld", (long long)k->id);
    return true;
}

static bool never_usage(void *context, const struct store_usage *u)
{
    fail_msg("counts of another user: %lld", (long long)u->user_id);
    return true;
}

static void test_reads_of_another_user_find_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_conversation c;
    struct store_message m;
    int64_t id = fixture_conversation(f, f->user, "secret plans");
    struct store_posted p = fixture_post(f, f->user, id, 0, "secret text");
    ASSERT_OK(
        store_usage_add(f->store, &(struct store_usage){.user_id = f->user, .requests = 1}, &e));
    ASSERT_ERR(store_conversation_get(f->store, f->arena,
                                      &(struct store_ref){.user_id = f->other, .id = id}, &c, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_message_get(f->store, f->arena,
                                 &(struct store_ref){.user_id = f->other, .id = p.message_id}, &m,
                                 &e),
               ERR_NOTFOUND);
    ASSERT_OK(store_message_list(
        f->store, &(struct store_message_range){.user_id = f->other, .conversation_id = id}, never,
        NULL, &e));
    ASSERT_OK(store_message_branch(
        f->store,
        &(struct store_branch){.user_id = f->other, .conversation_id = id, .leaf_id = p.message_id},
        never, NULL, &e));
    ASSERT_OK(store_message_running(f->store, &(struct store_ref){.user_id = f->other, .id = id},
                                    never, NULL, &e));
    ASSERT_OK(store_conversation_list(f->store,
                                      &(struct store_page){.user_id = f->other, .limit = 50},
                                      never_conversation, NULL, &e));
    ASSERT_OK(store_conversation_list(
        f->store, &(struct store_page){.user_id = f->other, .limit = 50, .text = "secret"},
        never_conversation, NULL, &e));
    ASSERT_OK(store_usage_list(f->store, &(struct store_usage_filter){.user_id = f->other},
                               never_usage, NULL, &e));
}

static void test_writes_of_another_user_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_message m;
    struct store_posted out;
    int64_t id = fixture_conversation(f, f->user, "mine"),
            own = fixture_conversation(f, f->other, "own");
    struct store_posted p = fixture_post(f, f->user, id, 0, "text");
    struct store_posted q = fixture_post(f, f->other, own, 0, "own text");
    const struct store_conversation_change rename = {.title = "stolen"},
                                           move = {.leaf_id = p.message_id};
    ASSERT_ERR(store_conversation_change(f->store, f->other, id, &rename, &e), ERR_NOTFOUND);
    /* one's own conversation can't point at another's message, nor hang one below it */
    ASSERT_ERR(store_conversation_change(f->store, f->other, own, &move, &e), ERR_INPUT);
    ASSERT_ERR(store_message_post(f->store,
                                  &(struct store_post){.user_id = f->other,
                                                       .conversation_id = own,
                                                       .parent_id = p.message_id,
                                                       .content = "x",
                                                       .job_key = "k1"},
                                  &out, &e),
               ERR_INPUT);
    ASSERT_ERR(store_message_post(
                   f->store,
                   &(struct store_post){
                       .user_id = f->other, .conversation_id = id, .content = "x", .job_key = "k2"},
                   &out, &e),
               ERR_NOTFOUND);
    int64_t fork;
    fixture_finish(f, p.message_id, "done");
    ASSERT_ERR(store_conversation_fork(f->store,
                                       &(struct store_fork){.user_id = f->other,
                                                            .conversation_id = id,
                                                            .message_id = p.message_id},
                                       &fork, &e),
               ERR_NOTFOUND);
    ASSERT_ERR(store_conversation_fork(f->store,
                                       &(struct store_fork){.user_id = f->other,
                                                            .conversation_id = own,
                                                            .message_id = p.message_id},
                                       &fork, &e),
               ERR_INPUT);
    ASSERT_ERR(store_message_remove(f->store, f->other, p.message_id, &e), ERR_NOTFOUND);
    p = fixture_post(f, f->user, id, p.user_message_id, NULL);
    ASSERT_ERR(store_conversation_remove(f->store, f->other, id, &e), ERR_NOTFOUND);
    ASSERT_OK(store_message_fail(f->store, f->other, p.message_id,
                                 &(struct store_failure){.text = "stopped by a stranger"}, &e));
    ASSERT_OK(store_message_get(
        f->store, f->arena, &(struct store_ref){.user_id = f->user, .id = p.message_id}, &m, &e));
    assert_int_equal(m.status, MESSAGE_RUNNING);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM messages"), 5);
    assert_int_equal(fixture_number(f->path, "SELECT count(*) FROM conversations"), 2);
    (void)q;
    fixture_check_whole(f->path);
}

static void test_keys_of_another_user_stay(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct store_key_found by_key;
    unsigned char hash[SECRET_HASH_BYTES] = {1};
    int64_t id;
    ASSERT_OK(store_key_add(f->store,
                            &(struct store_key){.user_id = f->user, .name = "k", .prefix = ""},
                            hash, &id, &e));
    ASSERT_OK(store_key_list(f->store, f->other, never_key, NULL, &e));
    ASSERT_ERR(store_key_remove(f->store, f->other, id, &e), ERR_NOTFOUND);
    ASSERT_OK(store_key_find(f->store, f->arena, hash, &by_key, &e));
}

/* The prompt cache's list: the recorder's and the operator's. */
static bool is_of_all_prompts(int q)
{
    switch (q) {
    case QUERY_PROMPT_REMOVAL_ADD: /* the recorder: records that the engine names */
    case QUERY_PROMPT_BLOCK_USE:
    case QUERY_PROMPT_BLOCK_GONE:
    case QUERY_PROMPT_PLACES:
    case QUERY_PROMPT_PLACES_BESIDE:
    case QUERY_PROMPT_REMOVALS_NEXT:
    case QUERY_PROMPT_MODELS_NEXT: /* sums by model, for the operator */
    case QUERY_PROMPT_CLEAR_MODELS:
    case QUERY_PROMPT_ANY_DELETED:
    case QUERY_PROMPT_CLEAR_CONVERSATIONS:
    case QUERY_PROMPT_CLEAR_OPENAI:
    case QUERY_PROMPT_CLEAR_USERS:
    case QUERY_PROMPT_FORGETS_ANY_OLD:
    case QUERY_PROMPT_FORGETS_REMOVE_OLD:
    case QUERY_PROMPT_FORGETS_NOTE_ALL: /* the operator */
    case QUERY_PROMPT_SEAL_REMOVE_ALL:
    case QUERY_PROMPT_EVICT_EXPIRED:
    case QUERY_PROMPT_FORGET_ALL:   /* the operator */
    case QUERY_PROMPT_FORGETS_LAST: /* a number that says nothing of anyone */
        return true;
    default:
        return false;
    }
}

/* The index of passages is one for all, like those of messages. */
static bool is_of_all_passages(int q)
{
    switch (q) {
    case QUERY_SEARCH_SIZES_CHUNKS:
    case QUERY_SEARCH_FILL_CHUNKS:
    case QUERY_CHUNK_ADD:       /* of a file whose text was read by a statement that compared */
    case QUERY_CHUNK_NEXT_FILE: /* the recorder */
    case QUERY_VECTOR_NEXT:
    case QUERY_VECTOR_LAST:
    case QUERY_VECTOR_PUT:
    case QUERY_CHUNK_WAITING:
    case QUERY_CHUNK_MARK:
    case QUERY_CHUNK_TEXT:
    case QUERY_CHUNK_SOME: /* after SEARCH_FILE_LOOSE, which compares */
    case QUERY_CHUNK_REMOVE:
        return true;
    default:
        return false;
    }
}

/* Sign-ins at tool servers: what belongs to a server that the caller has found as the user's or
 * everyone's, and flows, which a hash finds that only the browser knows. */
static bool is_of_sign_ins(int q)
{
    return q == QUERY_TOOL_OAUTH_GET || q == QUERY_TOOL_OAUTH_PUT || q == QUERY_TOOL_OAUTH_REMOVE ||
           q == QUERY_TOOL_OAUTH_BIND || q == QUERY_TOOL_FLOW_TRIM ||
           q == QUERY_TOOL_SIGN_INS_FORGET || q == QUERY_TOOL_FLOWS_FORGET ||
           q == QUERY_TOOL_FLOW_EXPIRE || q == QUERY_TOOL_FLOW_ADD || q == QUERY_TOOL_FLOW_TAKE ||
           q == QUERY_USER_REMOVE_TOOL_SIGN_INS ||
           q == QUERY_TOOL_SIGN_INS_UNSEEN; /* compares with each row's own user */
}

/* Over groups, and the admins' tool servers that are limited to them: an admin's alone. */
static bool is_of_all_groups(int q)
{
    return q == QUERY_GROUP_LIST || q == QUERY_GROUP_GET || q == QUERY_TOOL_GROUP_CLEAR ||
           q == QUERY_TOOL_GROUP_CLEAR_OF || q == QUERY_TOOL_GROUP_ADD ||
           q == QUERY_TOOL_SERVER_OPEN;
}

/* Statements that may see conversations and messages of all users, and why. */
static bool serves_everyone(int q)
{
    switch (q) {
    case QUERY_RUNNING_LIST: /* the recorder */
    case QUERY_RECORD_WRITE:
    case QUERY_UNFINISHED_KEEP: /* with RECORD_WRITE */
    case QUERY_UNFINISHED_DROP:
    case QUERY_CLEAR_LAST_MESSAGE:
    case QUERY_CLEAR_MESSAGE:
    case QUERY_CLEAR_NEXT_CONVERSATION:
    case QUERY_CLEAR_CONVERSATION:
    case QUERY_CLEAR_NEXT_TRASHED:
    case QUERY_CLEAR_TRASHED:
    case QUERY_SEARCH_REMOVE:      /* with CLEAR_MESSAGE */
    case QUERY_SEARCH_REMOVE_FILE: /* after SEARCH_FILE_LOOSE, which compares */
    case QUERY_SEARCH_ADD: /* a row just written in the same transaction, by a statement that
                              compared */
    case QUERY_SEARCH_ADD_FILE:
    case QUERY_SEARCH_MESSAGE_BYTES: /* before SEARCH_ADD or PART_ADD */
    case QUERY_SEARCH_FILE_BYTES:
    case QUERY_PART_ADD: /* like SEARCH_ADD */
    case QUERY_PART_ADD_FILE:
    case QUERY_SEARCH_FILL: /* the recorder: what the index of all users held, no more */
    case QUERY_SEARCH_FILL_FILES:
    case QUERY_SEARCH_SIZES:
    case QUERY_SEARCH_SIZES_FILES:
    case QUERY_USER_REMOVE_PROJECTS: /* the user is its :id */
    case QUERY_USER_END_SHARES:
    case QUERY_CLEAR_NEXT_OWNER: /* the recorder: of removed users */
    case QUERY_CLEAR_NEXT_USER:
    case QUERY_CLEAR_USER_RESPONSE: /* of a removed user */
    case QUERY_CLEAR_USER_ITEM:
    case QUERY_CLEAR_NEXT_OPENAI: /* the recorder: of deleted ones */
    case QUERY_CLEAR_OPENAI_ITEM:
    case QUERY_CLEAR_OPENAI:
    case QUERY_ATTACHMENT_NEXT_LOOSE: /* the recorder */
    case QUERY_ATTACHMENT_CLEAR:
    case QUERY_ATTACHMENT_KNOWN: /* is this file anyone's? before it is deleted */
    case QUERY_COPY_FILES:       /* the backup */
    case QUERY_HAS_ATTACHMENTS:
    case QUERY_SHARE_ANY_EXPIRED: /* the recorder */
    case QUERY_SHARE_REMOVE_EXPIRED:
    case QUERY_RESPONSE_ANY_EXPIRED:
    case QUERY_RESPONSE_REMOVE_EXPIRED:
    case QUERY_RESPONSE_ADD: /* a row of :user_id */
    case QUERY_OPENAI_CONVERSATION_ADD:
    case QUERY_RECOVERY_ADD:
    case QUERY_USER_OVERVIEW:             /* for admins */
    case QUERY_FACTOR_ALL:                /* counts those that no key opens: for the operator */
    case QUERY_SHARE_FIND:                /* by the hash of a token that the owner gave away */
    case QUERY_TOOL_RUNS_CLEAR:           /* with MESSAGE_ADD_RESULT */
    case QUERY_TOOL_PERMISSIONS_KEEP:     /* with TOOL_SERVER_CHANGE */
    case QUERY_FACTS:                     /* counts only */
    case QUERY_USER_REMOVE_CONVERSATIONS: /* the user is its :id */
    case QUERY_USER_RELEASE_PROJECTS:
    case QUERY_PROMPT_BLOCKS_FROM: /* its caller compares each row's user, from an index */
        return true;
    default:
        return is_of_all_prompts(q) || is_of_all_passages(q) || is_of_all_groups(q) ||
               is_of_sign_ins(q);
    }
}

static void test_every_statement_on_user_data_compares_the_user(void **state)
{
    static const char *const of_users[] = {
        "conversations",  "messages",       "attachments",    "shares",        "library",
        "second_factors", "recovery_codes", "user_limits",    "responses",     "openai_",
        "prompt_blocks",  "prompt_forgets", "prompt_seals",   "tool_",         "projects",
        "project_files",  "file_chunks",    "project_shares", "project_leaves"};
    int checked = 0;
    for (int q = 0; q < QUERY__N; q++) {
        const char *text = query_text[q];
        bool named = false;
        for (size_t i = 0; i < sizeof of_users / sizeof of_users[0]; i++)
            named |= strstr(text, of_users[i]) != NULL;
        if (!named || serves_everyone(q))
            continue;
        if (!strstr(text, "user_id = :user_id") && !strstr(text, "id = :user_id") &&
            !strstr(text, "user_id IS :user_id"))
            fail_msg("this statement does not compare user_id:\n%s", text);
        checked++;
    }
    assert_true(checked > 10);
}

/* STORE_GROUPS_MAX rows, STORE_PROJECT_SHARES, a page of one group for admins, or the sign-ins that
 * are under way at tool servers, STORE_TOOL_FLOWS_MAX. */
static bool is_few_rows(int q)
{
    return q == QUERY_GROUP_LIST || q == QUERY_GROUP_ADD || q == QUERY_GROUP_CLAIM_ADD ||
           q == QUERY_TOOL_SIGN_INS_UNSEEN || q == QUERY_LOCAL_MODEL_COUNT ||
           q == QUERY_GROUP_CLAIMS_END || /* when a setting changes */
           q == QUERY_GROUPS_OF_USER || q == QUERY_LIMITS_OF_GROUPS || q == QUERY_GROUP_MEMBERS ||
           q == QUERY_PROJECT_SHARE_LIST || q == QUERY_TOOL_FLOW_ADD || q == QUERY_TOOL_FLOW_TRIM;
}

/* Tables that stay small, or lists of all there is by their nature. */
static bool may_scan(int q)
{
    switch (q) {
    case QUERY_FACTS:
    case QUERY_OBJECT_COUNT:
    case QUERY_HAS_ATTACHMENTS: /* the schema, and all files: by the backup */
    case QUERY_COPY_FILES:
    case QUERY_FACTOR_ALL:           /* a row for each user at most: by the checks */
    case QUERY_EXPORT_MESSAGES:      /* f is what was found by an index */
    case QUERY_EXPORT_CONVERSATIONS: /* f is the files of one project */
    case QUERY_EXPORT_FILES:         /* the files of one export, each once */
    case QUERY_IMPORT_FILE:          /* a user's uploads of one content */
    case QUERY_USER_COUNT:
    case QUERY_USER_LIST:
    case QUERY_SETTING_LIST:
    case QUERY_USER_OTHER_ADMINS:
    case QUERY_CLEAR_NEXT_OWNER:
    case QUERY_CLEAR_NEXT_USER:
    case QUERY_USAGE_LIST_ALL:
    case QUERY_USAGE_DAYS_ALL:
    case QUERY_CONVERSATION_LIST_ABOVE: /* turns a page round */
    case QUERY_TAG_LIST:                /* the names of one user's tags */
    case QUERY_MESSAGE_BRANCH:          /* its own branch */
    case QUERY_TOOL_SERVER_LIST:        /* a user's and everyone's, fifty of each */
    case QUERY_PROMPT_FORGETS_LAST:     /* a row for each table that numbers its rows */
    case QUERY_SHARE_FILE:
    case QUERY_BRANCH_IDS:
    case QUERY_SUBTREE_IDS:
    case QUERY_LEAF_LEAVE:
    case QUERY_SEARCH_SIZES: /* no further than the caller's bound, where the index has few pages */
    case QUERY_SEARCH_SIZES_FILES:
    case QUERY_SEARCH_SIZES_PARTS:
    case QUERY_SEARCH_SMALL: /* as far as its limit */
    case QUERY_SEARCH_SMALL_FILES:
    case QUERY_SEARCH_FILL: /* of a small index, after a removal */
    case QUERY_SEARCH_FILL_FILES:
    case QUERY_SEARCH_SMALL_PARTS:
    case QUERY_SEARCH_FILL_PARTS:
    case QUERY_SEARCH_SIZES_CHUNKS:
    case QUERY_SEARCH_SMALL_CHUNKS:
    case QUERY_SEARCH_FILL_CHUNKS:
    case QUERY_CHUNK_NEXT_FILE: /* the first of the partial index */
    case QUERY_PROJECT_LIST:    /* STORE_PROJECTS_MAX */
    case QUERY_PROJECT_FILES:   /* STORE_PROJECT_FILES */
    case QUERY_PART_ADD:        /* the places in one text */
    case QUERY_PART_ADD_FILE:
    case QUERY_PROMPT_TOTALS:      /* a row for each user */
    case QUERY_PROMPT_FACTS:       /* and what is removed in a moment */
    case QUERY_PROMPT_ANY_DELETED: /* users, like CLEAR_NEXT_USER */
    case QUERY_PROMPT_CLEAR_USERS:
    case QUERY_PROMPT_EVICT:            /* as far as its limit */
    case QUERY_PROMPT_FORGET_ALL:       /* likewise */
    case QUERY_PROMPT_FORGETS_NOTE_ALL: /* a row for each user */
    case QUERY_UPSTREAM_LIST:           /* STORE_UPSTREAMS_MAX rows */
    case QUERY_MODEL_ROUTE_LIST:
    case QUERY_MODEL_LIST: /* STORE_MODELS_MAX */
    case QUERY_MODEL_FIND: /* the aliases of one */
        return true;
    }
    return is_few_rows(q);
}

static void stub(sqlite3_context *context, int n, sqlite3_value **args)
{
    sqlite3_result_int(context, n && sqlite3_value_bytes(args[0]));
}

/* Statements run per request or per tick: each must find its rows by an index, however many there
 * are. */
static void test_no_statement_reads_a_whole_table(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_create_function(db, "text_has", 1, SQLITE_UTF8, NULL, stub, NULL,
                            NULL); /* the store's connections have them */
    sqlite3_create_function(db, "text_has_within", 1, SQLITE_UTF8, NULL, stub, NULL, NULL);
    sqlite3_create_function(db, "text_folded", 1, SQLITE_UTF8, NULL, stub, NULL, NULL);
    sqlite3_create_function(db, "chunk_counts", 1, SQLITE_UTF8, NULL, stub, NULL, NULL);
    for (int q = 0; q < QUERY__N; q++) {
        char sql[8192];
        sqlite3_stmt *plan = NULL;
        if (strstr(query_text[q], "PRAGMA") || strstr(query_text[q], "VACUUM"))
            continue;
        snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", query_text[q]);
        assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &plan, NULL), SQLITE_OK);
        while (sqlite3_step(plan) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(plan, 3);
            bool whole = !strncmp(step, "SCAN", 4) || strstr(step, "TEMP B-TREE");
            if (q == QUERY_RUNNING_LIST) /* the partial index of what runs, then sorted: few rows */
                whole = whole && !strstr(step, "messages_running") && !strstr(step, "ORDER BY");
            if (strstr(step, "VIRTUAL TABLE INDEX") &&
                strstr(step, ":M")) /* what the search index has for MATCH */
                whole = false;
            if (strstr(step, "CONSTANT ROW")) /* no table */
                whole = false;
            if (strstr(step, "SCAN json_each")) /* the ids that the caller gave */
                whole = false;
            if (!strcmp(step, "SCAN mine")) /* what the view has found by indexes for the user */
                whole = false;
            if (!strcmp(step, "SCAN above") || q == QUERY_TOOL_ROUNDS) /* a branch, up by its ids */
                whole = false;
            if (whole && !may_scan(q))
                fail_msg("%s: %s", step, query_text[q]);
        }
        sqlite3_finalize(plan);
    }
    sqlite3_close(db);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_reads_of_another_user_find_nothing),
        T(test_writes_of_another_user_change_nothing),
        T(test_keys_of_another_user_stay),
        cmocka_unit_test(test_every_statement_on_user_data_compares_the_user),
        T(test_no_statement_reads_a_whole_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
