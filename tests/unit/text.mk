# tests of engine/tokenizer and engine/text
TEXT_TESTS = %D%/test_vocab %D%/test_tokenizer %D%/test_detokenizer %D%/test_pretokenize %D%/test_text_model
check_PROGRAMS += $(TEXT_TESTS)
TESTS += $(TEXT_TESTS)
TEXT_TEST_LIBS = $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
TEXT_CASES = %D%/text/text_cases.c %D%/text/text_cases.h %D%/support/packed_file.c %D%/support/packed_file.h
EXTRA_DIST += tests/data/tokenizers tests/data/unicode

%C%_test_vocab_SOURCES = %D%/text/test_vocab.c $(TEXT_CASES)
%C%_test_vocab_LDADD = $(TEXT_TEST_LIBS)
%C%_test_tokenizer_SOURCES = %D%/text/test_tokenizer.c $(TEXT_CASES)
%C%_test_tokenizer_LDADD = $(TEXT_TEST_LIBS)
%C%_test_detokenizer_SOURCES = %D%/text/test_detokenizer.c $(TEXT_CASES)
%C%_test_detokenizer_LDADD = $(TEXT_TEST_LIBS)
%C%_test_pretokenize_SOURCES = %D%/text/test_pretokenize.c $(TEXT_CASES)
%C%_test_pretokenize_LDADD = $(TEXT_TEST_LIBS)
%C%_test_text_model_SOURCES = %D%/text/test_text_model.c
%C%_test_text_model_LDADD = $(TEXT_TEST_LIBS)
