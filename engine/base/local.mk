noinst_LIBRARIES += libsluice-base.a
libsluice_base_a_SOURCES = \
	%D%/arena.c %D%/arena.h \
	%D%/buf.c %D%/buf.h \
	%D%/busy_poll.c %D%/busy_poll.h \
	%D%/clock.c %D%/clock.h \
	%D%/err.c %D%/err.h \
	%D%/file.c %D%/file.h \
	%D%/hash.c %D%/hash.h \
	%D%/json/json.c %D%/json/json.h \
	%D%/json/json_cursor.c %D%/json/json_cursor.h \
	%D%/json/json_literal.c \
	%D%/json/json_repair.c %D%/json/json_repair.h \
	%D%/json/json_scan.c %D%/json/json_scan.h \
	%D%/json/json_slice.c %D%/json/json_slice.h \
	%D%/log.c %D%/log.h \
	%D%/log_ring.c %D%/log_ring.h \
	%D%/mapped_file.c %D%/mapped_file.h \
	%D%/median.c %D%/median.h \
	%D%/option.c %D%/option.h \
	%D%/size_text.c %D%/size_text.h \
	%D%/json/text_span.h \
	%D%/thread_pool.c %D%/thread_pool.h \
	%D%/unicode_table.c \
	%D%/utf8.c %D%/utf8.h \
	%D%/zip_reader.c %D%/zip_reader.h \
	%D%/zip_writer.c %D%/zip_writer.h
BASE_LIBS = libsluice-base.a $(CJSON_LIBS) $(XXHASH_LIBS)
EXTRA_DIST += %D%/unicode_table.py
