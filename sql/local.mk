# files of sql
SQL_QUERIES = \
	%D%/queries/transaction.sql %D%/queries/maintenance.sql %D%/queries/users.sql \
	%D%/queries/conversations.sql %D%/queries/record.sql %D%/queries/responses.sql \
	%D%/queries/attachments.sql %D%/queries/search.sql %D%/queries/tree.sql %D%/queries/server.sql \
	%D%/queries/shares.sql %D%/queries/sorting.sql %D%/queries/library.sql %D%/queries/import.sql \
	%D%/queries/people.sql %D%/queries/export.sql %D%/queries/openai.sql
SQL_MIGRATIONS = \
	%D%/migrations/0001_first.sql %D%/migrations/0002_key_terms.sql %D%/migrations/0003_responses.sql \
	%D%/migrations/0004_history.sql %D%/migrations/0005_conversation_keys.sql \
	%D%/migrations/0006_attachments.sql %D%/migrations/0007_shares.sql %D%/migrations/0008_library.sql \
	%D%/migrations/0009_people.sql %D%/migrations/0010_tags.sql %D%/migrations/0011_attachment_search.sql \
	%D%/migrations/0012_shared_files.sql %D%/migrations/0013_kept_bytes.sql \
	%D%/migrations/0014_sealed_factors.sql %D%/migrations/0015_kept_responses.sql \
	%D%/migrations/0016_strict_keys.sql %D%/migrations/0017_openai_conversations.sql
SQL_TEXTS = $(SQL_QUERIES) %D%/connection.sql %D%/schema.sql $(SQL_MIGRATIONS)

noinst_LIBRARIES += libsluice-sql.a
libsluice_sql_a_SOURCES = \
	%D%/store.c %D%/store.h %D%/statement.c %D%/statement.h %D%/migrate.c %D%/migrate.h %D%/embedded.h \
	%D%/store_backup.c %D%/store_users.c %D%/store_users.h %D%/store_sessions.c %D%/store_keys.c \
	%D%/users_row.h %D%/store_conversations.c %D%/store_conversations.h %D%/store_messages.c \
	%D%/store_search.c %D%/search_row.h %D%/store_tree.c %D%/store_tree.h %D%/store_responses.c \
	%D%/store_responses.h %D%/store_attachments.c %D%/store_attachments.h %D%/attachment_files.c \
	%D%/attachment_row.h %D%/store_record.c %D%/store_record.h %D%/store_server.c %D%/server_row.h \
	%D%/secret.c %D%/secret.h %D%/digest.c %D%/digest.h %D%/base64.c %D%/base64.h %D%/store_changes.c \
	%D%/store_continue.c %D%/continue_row.h %D%/store_library.c %D%/store_library.h %D%/store_shares.c \
	%D%/store_shares.h %D%/fold.c %D%/fold.h %D%/store_sorting.c %D%/store_sorting.h %D%/tags_row.h \
	%D%/otp.c %D%/otp.h %D%/factor_key.c %D%/factor_key.h %D%/store_factor.c %D%/store_factor.h %D%/store_invites.c %D%/store_invites.h \
	%D%/store_limits.c %D%/store_limits.h %D%/store_people.c %D%/store_people.h %D%/store_import.c \
	%D%/store_import.h %D%/store_export.c %D%/store_export.h %D%/store_copy.c %D%/store_copy.h \
	%D%/store_openai.c %D%/store_openai.h
nodist_libsluice_sql_a_SOURCES = %D%/queries.gen.c %D%/queries.gen.h
SQL_LIBS = libsluice-sql.a libsluice-base.a $(SQLITE_LIBS) $(SODIUM_LIBS) $(OATH_LIBS) $(CJSON_LIBS) $(UTF8PROC_LIBS)

# $^ is the prerequisites where VPATH found them.
%D%/queries.gen.h: $(SQL_QUERIES) %D%/embed.awk
	$(AM_V_GEN)$(MKDIR_P) %D% && $(AWK) -v part=header -f $(srcdir)/%D%/embed.awk \
	  $(filter %.sql,$^) > $@.tmp && mv $@.tmp $@
%D%/queries.gen.c: $(SQL_TEXTS) %D%/embed.awk
	$(AM_V_GEN)$(MKDIR_P) %D% && $(AWK) -v part=source -f $(srcdir)/%D%/embed.awk \
	  $(filter %.sql,$^) > $@.tmp && mv $@.tmp $@

BUILT_SOURCES += %D%/queries.gen.h
CLEANFILES += %D%/queries.gen.h %D%/queries.gen.c
EXTRA_DIST += $(SQL_TEXTS) %D%/embed.awk
