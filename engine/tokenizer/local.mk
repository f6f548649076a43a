# text to token ids and back; the compiled vocabulary
noinst_LIBRARIES += libsluice-tokenizer.a
libsluice_tokenizer_a_SOURCES = \
	%D%/bpe.c %D%/bpe.h \
	%D%/detokenizer.c %D%/detokenizer.h \
	%D%/gguf_vocab.c %D%/gguf_vocab.h \
	%D%/gguf_words.c %D%/gguf_words.h \
	%D%/pretokenize.c %D%/pretokenize.h \
	%D%/pretokenize_pattern.c %D%/pretokenize_pattern.h \
	%D%/pretokenize_pcre.c %D%/pretokenize_pcre.h \
	%D%/tokenizer.c %D%/tokenizer.h \
	%D%/added_tokens.c %D%/added_tokens.h \
	%D%/normalizer.c %D%/normalizer.h \
	%D%/unigram.c %D%/unigram.h \
	%D%/vocab.c %D%/vocab.h \
	%D%/vocab_build.c \
	%D%/vocab_image.h \
	%D%/vocab_kind.h \
	%D%/vocab_json.c \
	%D%/vocab_json_words.c %D%/vocab_json_words.h \
	%D%/vocab_pre.c \
	%D%/vocab_source.h \
	%D%/wordpiece.c %D%/wordpiece.h
TOKENIZER_LIBS = libsluice-tokenizer.a $(FORMAT_LIBS) $(PCRE2_LIBS) $(UTF8PROC_LIBS)
