noinst_LIBRARIES += libsluice-text.a
libsluice_text_a_SOURCES = \
	%D%/text_gguf.c %D%/text_gguf.h \
	%D%/text_model.c %D%/text_model.h
TEXT_LIBS = libsluice-text.a $(CHAT_LIBS) $(TOKENIZER_LIBS)
