/* A folder of its own with a real database in it, for the tests of sql/. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "sql/chats/store_conversations.h"
#include "sql/chats/store_record.h"
#include "sql/core/store.h"
#include "sql/users/store_users.h"

struct fixture {
    char folder[256], path[300];
    struct store *store;
    struct arena *arena;
    int64_t user;  /* "ada", admin */
    int64_t other; /* "bob" */
};

/* Shown when an assertion on a bool fails. */
#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        if (!(call))                                                                               \
            fail_msg("%s: %s%s%s", #call, e.field, e.field[0] ? ": " : "", e.text);                \
    } while (0)
#define ASSERT_ERR(call, want)                                                                     \
    do {                                                                                           \
        e = (struct err){0};                                                                       \
        if (call)                                                                                  \
            fail_msg("%s did not fail", #call);                                                    \
        assert_string_equal(err_code_name(e.code), err_code_name(want));                           \
    } while (0)

int fixture_up(void **state);   /* cmocka set-up: a new database with two users */
int fixture_down(void **state); /* closes and removes all */

struct store *fixture_open(const struct fixture *f, bool checkpointer);
/* A password hash of the right shape that nobody can log in with: argon2id would cost 100 ms a
 * user. */
extern const char fixture_hash[];
/* A conversation; then a post into it under `parent`. */
int64_t fixture_conversation(struct fixture *f, int64_t user, const char *title);
struct store_posted fixture_post(struct fixture *f, int64_t user, int64_t conversation,
                                 int64_t parent, const char *content);
/* Ends a running answer as the recorder does. */
void fixture_finish(struct fixture *f, int64_t message, const char *content);
/* One number by SQL, straight from the file; INT64_MIN: no row. A statement that fails fails the
 * test. */
int64_t fixture_number(const char *path, const char *sql);
/* A statement that a constraint of the schema must refuse. */
void fixture_refused(const char *path, const char *sql);
/* quick_check, foreign keys, every tree whole. Aborts the test when not. */
void fixture_check_whole(const char *path);
