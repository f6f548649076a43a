noinst_LIBRARIES += libsluice-text.a
libsluice_text_a_SOURCES = \
	%D%/utf8.c %D%/utf8.h %D%/unicode_table.c \
	%D%/vocab.c %D%/vocab.h %D%/vocab_image.h %D%/vocab_source.h \
	%D%/vocab_build.c %D%/vocab_json.c \
	%D%/tokenizer.c %D%/tokenizer.h %D%/tokenizer_added.c %D%/tokenizer_added.h \
	%D%/tokenizer_normal.c %D%/tokenizer_normal.h \
	%D%/pretokenize.c %D%/pretokenize.h %D%/pretokenize_pcre.c %D%/pretokenize_pcre.h \
	%D%/pretokenize_pattern.c %D%/pretokenize_pattern.h %D%/vocab_pre.c \
	%D%/bpe.c %D%/bpe.h %D%/detokenizer.c %D%/detokenizer.h \
	%D%/text_model.c %D%/text_model.h
TEXT_LIBS = libsluice-text.a $(PCRE2_LIBS) $(UTF8PROC_LIBS)
EXTRA_DIST += %D%/unicode_table.py
