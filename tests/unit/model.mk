# tests of engine/model and engine/format
MODEL_TESTS = %D%/test_weight %D%/test_safetensors %D%/test_model %D%/test_gguf
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)
MODEL_TEST_LIBS = $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm

%C%_test_weight_SOURCES = %D%/model/test_weight.c %D%/support/packed_file.c %D%/support/packed_file.h
%C%_test_weight_LDADD = $(MODEL_TEST_LIBS)
%C%_test_safetensors_SOURCES = %D%/model/test_safetensors.c
%C%_test_safetensors_LDADD = $(MODEL_TEST_LIBS)
%C%_test_model_SOURCES = %D%/model/test_model.c %D%/support/tiny_model.c %D%/support/tiny_model.h
%C%_test_model_LDADD = $(MODEL_TEST_LIBS)
%C%_test_gguf_SOURCES = %D%/model/test_gguf.c
%C%_test_gguf_LDADD = $(TEXT_LIBS) $(MODEL_TEST_LIBS)
