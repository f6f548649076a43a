# files of sql
SQL_QUERIES = \
	%D%/queries/transaction.sql %D%/queries/maintenance.sql %D%/queries/users.sql \
	%D%/queries/conversations.sql %D%/queries/record.sql %D%/queries/responses.sql \
	%D%/queries/attachments.sql %D%/queries/search.sql %D%/queries/tree.sql %D%/queries/server.sql \
	%D%/queries/shares.sql %D%/queries/sorting.sql %D%/queries/library.sql %D%/queries/import.sql \
	%D%/queries/people.sql %D%/queries/export.sql %D%/queries/openai.sql %D%/queries/oidc.sql %D%/queries/passkeys.sql \
	%D%/queries/prompts.sql %D%/queries/models.sql %D%/queries/tools.sql %D%/queries/projects.sql %D%/queries/groups.sql
SQL_MIGRATIONS = \
	%D%/migrations/0001_first.sql %D%/migrations/0002_key_terms.sql %D%/migrations/0003_responses.sql \
	%D%/migrations/0004_history.sql %D%/migrations/0005_conversation_keys.sql \
	%D%/migrations/0006_attachments.sql %D%/migrations/0007_shares.sql %D%/migrations/0008_library.sql \
	%D%/migrations/0009_people.sql %D%/migrations/0010_tags.sql %D%/migrations/0011_attachment_search.sql \
	%D%/migrations/0012_shared_files.sql %D%/migrations/0013_kept_bytes.sql \
	%D%/migrations/0014_sealed_factors.sql %D%/migrations/0015_kept_responses.sql \
	%D%/migrations/0016_strict_keys.sql %D%/migrations/0017_openai_conversations.sql \
	%D%/migrations/0018_search_parts.sql %D%/migrations/0019_audit_age.sql \
	%D%/migrations/0020_oidc.sql %D%/migrations/0021_passkeys.sql %D%/migrations/0022_metrics_scope.sql \
	%D%/migrations/0023_prompt_blocks.sql %D%/migrations/0024_deleted_items.sql \
	%D%/migrations/0025_prompt_places.sql %D%/migrations/0026_error_detail.sql \
	%D%/migrations/0027_prompt_forgets.sql %D%/migrations/0028_forget_numbers.sql \
	%D%/migrations/0029_models.sql %D%/migrations/0030_tool_servers.sql \
	%D%/migrations/0031_local_models.sql %D%/migrations/0032_projects.sql \
	%D%/migrations/0033_prompt_models.sql %D%/migrations/0034_groups.sql \
	%D%/migrations/0035_sign_ins_and_vectors.sql %D%/migrations/0036_preferences.sql \
	%D%/migrations/0037_access_stamp.sql %D%/migrations/0038_model_devices.sql
SQL_TEXTS = $(SQL_QUERIES) %D%/connection.sql %D%/schema.sql $(SQL_MIGRATIONS)

noinst_LIBRARIES += libsluice-sql.a
libsluice_sql_a_SOURCES = \
	%D%/backup/store_backup.c \
	%D%/backup/store_copy.c %D%/backup/store_copy.h \
	%D%/chats/building.c %D%/chats/building_internal.h \
	%D%/chats/continue_internal.h \
	%D%/chats/conversations_internal.h \
	%D%/chats/messages_internal.h \
	%D%/chats/store_changes.c \
	%D%/chats/store_continue.c \
	%D%/chats/store_conversations.c %D%/chats/store_conversations.h \
	%D%/chats/store_export.c %D%/chats/store_export.h \
	%D%/chats/store_import.c %D%/chats/store_import.h \
	%D%/chats/store_library.c %D%/chats/store_library.h \
	%D%/chats/store_messages.c \
	%D%/chats/store_openai.c %D%/chats/store_openai.h \
	%D%/chats/store_record.c %D%/chats/store_record.h \
	%D%/chats/store_responses.c %D%/chats/store_responses.h \
	%D%/chats/store_shares.c %D%/chats/store_shares.h \
	%D%/chats/store_sorting.c %D%/chats/store_sorting.h \
	%D%/chats/store_tree.c %D%/chats/store_tree.h \
	%D%/chats/tags_internal.h \
	%D%/core/access_cache.c %D%/core/access_cache.h \
	%D%/core/base64.c %D%/core/base64.h \
	%D%/core/digest.c %D%/core/digest.h \
	%D%/core/embedded.h \
	%D%/core/factor_key.c %D%/core/factor_key.h \
	%D%/core/fold.c %D%/core/fold.h \
	%D%/core/migrate.c %D%/core/migrate.h \
	%D%/core/otp.c %D%/core/otp.h \
	%D%/core/search_chunks.c %D%/core/search_chunks_internal.h \
	%D%/core/search_internal.h \
	%D%/core/secret.c %D%/core/secret.h \
	%D%/core/server_internal.h \
	%D%/core/statement.c %D%/core/statement.h \
	%D%/core/store.c %D%/core/store.h \
	%D%/core/store_search.c \
	%D%/core/store_server.c \
	%D%/core/write_watch.c %D%/core/write_watch.h \
	%D%/files/attachment_files.c \
	%D%/files/attachments_internal.h \
	%D%/files/store_attachments.c %D%/files/store_attachments.h \
	%D%/models/models_internal.h \
	%D%/models/store_local_models.c %D%/models/store_local_models.h \
	%D%/models/store_models.c %D%/models/store_models.h \
	%D%/models/store_upstreams.c %D%/models/store_upstreams.h \
	%D%/projects/chunking.c %D%/projects/chunking.h \
	%D%/projects/ranking.c %D%/projects/ranking.h \
	%D%/projects/store_project_files.c %D%/projects/store_project_files.h \
	%D%/projects/store_project_shares.c %D%/projects/store_project_shares.h \
	%D%/projects/store_projects.c %D%/projects/store_projects.h \
	%D%/projects/store_vectors.c %D%/projects/store_vectors.h \
	%D%/prompts/store_prompt_blocks.c %D%/prompts/store_prompt_blocks.h \
	%D%/prompts/store_prompt_seal.c %D%/prompts/store_prompt_seal.h \
	%D%/prompts/store_prompt_cache.c %D%/prompts/store_prompt_cache.h \
	%D%/tools/store_tool_runs.c %D%/tools/store_tool_runs.h \
	%D%/tools/store_tool_servers.c %D%/tools/store_tool_servers.h \
	%D%/tools/store_tool_sign_ins.c %D%/tools/store_tool_sign_ins.h \
	%D%/tools/tools_internal.h \
	%D%/users/store_factor.c %D%/users/store_factor.h \
	%D%/users/store_groups.c %D%/users/store_groups.h \
	%D%/users/store_invites.c %D%/users/store_invites.h \
	%D%/users/store_keys.c \
	%D%/users/store_limits.c %D%/users/store_limits.h \
	%D%/users/store_oidc.c %D%/users/store_oidc.h \
	%D%/users/store_passkeys.c %D%/users/store_passkeys.h \
	%D%/users/store_sessions.c \
	%D%/users/store_users.c %D%/users/store_users.h \
	%D%/users/users_internal.h
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
