# sluice-reader: the text in uploaded files, in a sandbox of its own. Everything but main is a library, for the tests.

noinst_LIBRARIES += libsluice-reader.a
libsluice_reader_a_SOURCES = %D%/reader.h %D%/content.h %D%/detect.c %D%/plain_text.c %D%/zip_document.c %D%/document.c %D%/sandbox.c \
	%D%/sandbox.h %D%/unzip.c %D%/unzip.h
READER_LIBS = libsluice-reader.a libsluice-confine.a libsluice-base.a $(MAGIC_LIBS) $(ARCHIVE_LIBS) $(EXPAT_LIBS) \
	$(SECCOMP_LIBS) $(CJSON_LIBS) -lm

pkglibexec_PROGRAMS += sluice-reader
sluice_reader_SOURCES = %D%/main.c
sluice_reader_LDADD = $(READER_LIBS)
