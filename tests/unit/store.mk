# tests of sql/ and of the recorder, on real files
STORE_TESTS = %D%/test_store_users %D%/test_store_people %D%/test_store_factor %D%/test_store_conversations %D%/test_store_search %D%/test_store_waits %D%/test_store_tree %D%/test_store_library %D%/test_store_prompts %D%/test_store_isolation \
	%D%/test_store_migrate %D%/test_store_responses %D%/test_store_openai %D%/test_store_attachments %D%/test_store_record %D%/test_store_crash %D%/test_recorder %D%/test_cache_follower %D%/test_title
check_PROGRAMS += $(STORE_TESTS)
TESTS += $(STORE_TESTS)
STORE_FIXTURE = %D%/store/store_fixture.c %D%/store/store_fixture.h
STORE_TEST_LIBS = $(SQL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
EXTRA_DIST += tests/store/v1.sql

%C%_test_store_users_SOURCES = %D%/store/test_store_users.c $(STORE_FIXTURE)
%C%_test_store_users_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_people_SOURCES = %D%/store/test_store_people.c $(STORE_FIXTURE)
%C%_test_store_people_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_factor_SOURCES = %D%/store/test_store_factor.c $(STORE_FIXTURE)
%C%_test_store_factor_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_conversations_SOURCES = %D%/store/test_store_conversations.c $(STORE_FIXTURE)
%C%_test_store_conversations_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_search_SOURCES = %D%/store/test_store_search.c $(STORE_FIXTURE)
%C%_test_store_search_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_waits_SOURCES = %D%/store/test_store_waits.c %D%/store/attachment_fixture.c %D%/store/attachment_fixture.h $(STORE_FIXTURE)
%C%_test_store_waits_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_tree_SOURCES = %D%/store/test_store_tree.c $(STORE_FIXTURE)
%C%_test_store_tree_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_library_SOURCES = %D%/store/test_store_library.c $(STORE_FIXTURE)
%C%_test_store_library_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_prompts_SOURCES = %D%/store/test_store_prompts.c $(STORE_FIXTURE)
%C%_test_store_prompts_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_isolation_SOURCES = %D%/store/test_store_isolation.c $(STORE_FIXTURE)
%C%_test_store_isolation_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_responses_SOURCES = %D%/store/test_store_responses.c $(STORE_FIXTURE)
%C%_test_store_responses_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_openai_SOURCES = %D%/store/test_store_openai.c $(STORE_FIXTURE)
%C%_test_store_openai_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_attachments_SOURCES = %D%/store/test_store_attachments.c %D%/store/attachment_fixture.c %D%/store/attachment_fixture.h $(STORE_FIXTURE)
%C%_test_store_attachments_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_migrate_SOURCES = %D%/store/test_store_migrate.c $(STORE_FIXTURE)
%C%_test_store_migrate_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_record_SOURCES = %D%/store/test_store_record.c $(STORE_FIXTURE)
%C%_test_store_record_LDADD = $(STORE_TEST_LIBS)
%C%_test_store_crash_SOURCES = %D%/store/test_store_crash.c $(STORE_FIXTURE)
%C%_test_store_crash_LDADD = $(STORE_TEST_LIBS)
%C%_test_recorder_SOURCES = %D%/store/test_recorder.c %D%/store/fake_engine.c %D%/store/fake_engine.h $(STORE_FIXTURE)
%C%_test_recorder_LDADD = $(FCGI_ROOM_LIBS) $(CMOCKA_LIBS)
# the engine's side of the feed is its own
%C%_test_cache_follower_SOURCES = %D%/store/test_cache_follower.c $(STORE_FIXTURE)
%C%_test_cache_follower_LDADD = $(FCGI_ROOM_LIBS) $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
%C%_test_title_SOURCES = %D%/store/test_title.c
%C%_test_title_LDADD = $(FCGI_ROOM_LIBS) $(CMOCKA_LIBS)

STORE_EXPORT_TEST = %D%/test_store_export
check_PROGRAMS += $(STORE_EXPORT_TEST)
TESTS += $(STORE_EXPORT_TEST)
%C%_test_store_export_SOURCES = %D%/store/test_store_export.c $(STORE_FIXTURE)
%C%_test_store_export_LDADD = $(STORE_TEST_LIBS)
