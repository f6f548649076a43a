# tests of fcgi/ without a web server; those with one are in tests/api
FCGI_TESTS = %D%/test_request %D%/test_generation %D%/test_settings %D%/test_shared %D%/test_stream_abort %D%/test_openapi %D%/test_limits \
	%D%/test_chat_build %D%/test_parts %D%/test_reader %D%/test_history %D%/test_html_markdown %D%/test_pool_master %D%/test_ollama_messages %D%/test_work_gate
check_PROGRAMS += $(FCGI_TESTS)
TESTS += $(FCGI_TESTS)
FCGI_TEST_LIBS = $(FCGI_ROOM_LIBS) $(CMOCKA_LIBS)

%C%_test_request_SOURCES = %D%/fcgi/test_request.c %D%/fcgi/fcgi_request.c %D%/fcgi/fcgi_request.h
%C%_test_request_LDADD = $(FCGI_TEST_LIBS)
%C%_test_generation_SOURCES = %D%/fcgi/test_generation.c
%C%_test_generation_LDADD = $(FCGI_TEST_LIBS)
%C%_test_settings_SOURCES = %D%/fcgi/test_settings.c
%C%_test_settings_LDADD = $(FCGI_TEST_LIBS)
%C%_test_shared_SOURCES = %D%/fcgi/test_shared.c
%C%_test_shared_LDADD = $(FCGI_TEST_LIBS)
%C%_test_work_gate_SOURCES = %D%/fcgi/test_work_gate.c
%C%_test_work_gate_LDADD = $(FCGI_TEST_LIBS)
%C%_test_stream_abort_SOURCES = %D%/fcgi/test_stream_abort.c
%C%_test_stream_abort_LDADD = $(FCGI_TEST_LIBS)
%C%_test_openapi_SOURCES = %D%/fcgi/test_openapi.c
%C%_test_openapi_LDADD = $(FCGI_TEST_LIBS)
%C%_test_limits_SOURCES = %D%/fcgi/test_limits.c
%C%_test_limits_LDADD = $(FCGI_TEST_LIBS)
%C%_test_chat_build_SOURCES = %D%/fcgi/test_chat_build.c
%C%_test_chat_build_LDADD = $(FCGI_TEST_LIBS)
%C%_test_ollama_messages_SOURCES = %D%/fcgi/test_ollama_messages.c
%C%_test_ollama_messages_LDADD = $(FCGI_TEST_LIBS)
%C%_test_html_markdown_SOURCES = %D%/fcgi/test_html_markdown.c
%C%_test_html_markdown_LDADD = $(FCGI_TEST_LIBS)
%C%_test_history_SOURCES = %D%/fcgi/test_history.c
%C%_test_history_LDADD = $(FCGI_TEST_LIBS)
%C%_test_parts_SOURCES = %D%/fcgi/test_parts.c
%C%_test_parts_LDADD = $(FCGI_TEST_LIBS)
%C%_test_reader_SOURCES = %D%/fcgi/test_reader.c
%C%_test_reader_LDADD = $(READER_LIBS) $(CMOCKA_LIBS)
%C%_test_pool_master_SOURCES = %D%/fcgi/test_pool_master.c %D%/support/process_cpu.c %D%/support/process_cpu.h
%C%_test_pool_master_LDADD = $(FCGI_TEST_LIBS)
