# tests of engine/jinja and engine/chat
CHAT_TESTS = %D%/test_jinja %D%/test_chat_template %D%/test_chat_messages %D%/test_chat_parser %D%/test_content_gate
check_PROGRAMS += $(CHAT_TESTS)
TESTS += $(CHAT_TESTS)
CHAT_CASES = %D%/chat/chat_cases.c %D%/chat/chat_cases.h %D%/support/packed_file.c %D%/support/packed_file.h
CHAT_TEST_LIBS = $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
EXTRA_DIST += tests/data/templates tests/data/jinja tests/data/parsing

%C%_test_jinja_SOURCES = %D%/chat/test_jinja.c $(CHAT_CASES)
%C%_test_jinja_LDADD = $(CHAT_TEST_LIBS)
%C%_test_chat_template_SOURCES = %D%/chat/test_chat_template.c $(CHAT_CASES)
%C%_test_chat_template_LDADD = $(CHAT_TEST_LIBS)
%C%_test_chat_messages_SOURCES = %D%/chat/test_chat_messages.c
%C%_test_chat_messages_LDADD = $(CHAT_TEST_LIBS)
%C%_test_chat_parser_SOURCES = %D%/chat/test_chat_parser.c %D%/chat/chat_samples.c %D%/chat/chat_samples.h $(CHAT_CASES)
%C%_test_chat_parser_LDADD = $(CHAT_TEST_LIBS)
%C%_test_content_gate_SOURCES = %D%/chat/test_content_gate.c
%C%_test_content_gate_LDADD = $(CHAT_TEST_LIBS)
