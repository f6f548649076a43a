# sluice-worker: FastCGI processes that give HTTP its meaning. Everything but main is a library, for the tests.

noinst_LIBRARIES += libsluice-fcgi.a
libsluice_fcgi_a_SOURCES = \
	%D%/pool.c %D%/pool.h %D%/child.c %D%/child.h %D%/listen.c %D%/listen.h %D%/guard.c %D%/guard.h \
	%D%/shared.c %D%/shared.h %D%/state.h %D%/worker.h \
	%D%/route.c %D%/route.h %D%/http_method.c %D%/path_id.c %D%/path_id.h %D%/request.c %D%/request.h %D%/reply.c %D%/reply.h %D%/reply_head.h %D%/ignored.c %D%/ignored.h \
	%D%/sse.c %D%/sse.h %D%/auth.c %D%/auth.h %D%/watch.c %D%/watch.h \
	%D%/prompt.c %D%/prompt.h %D%/settings.c %D%/settings.h %D%/generation.c %D%/generation.h \
	%D%/inference.c %D%/inference.h %D%/openai.c %D%/openai.h %D%/usage.c %D%/usage.h \
	%D%/chat_request.c %D%/chat_request.h %D%/chat_check.c %D%/chat_thinking.c %D%/fields.c %D%/fields_foreign.c \
	%D%/constraint.c %D%/constraint_fields.c %D%/constraint.h \
	%D%/chat_build.c %D%/chat_build.h %D%/parts.c %D%/parts.h %D%/anthropic.c %D%/anthropic.h \
	%D%/messages.h %D%/messages_content.c %D%/messages_content.h %D%/messages_request.c %D%/messages_view.c %D%/api_messages.c \
	%D%/responses.h %D%/responses_items.c %D%/responses_request.c %D%/responses_chain.c %D%/responses_truncate.c %D%/responses_view.c \
	%D%/responses_stream.c %D%/api_responses.c \
	%D%/chat_job.c %D%/chat_job.h %D%/chat_reply.h %D%/chat_whole.c %D%/chat_stream.c \
	%D%/completions.h %D%/completions_request.c %D%/completions_view.c %D%/api_completions.c \
	%D%/facts.c %D%/facts.h %D%/users.h \
	%D%/api_chat.c %D%/model_name.c %D%/model_name.h %D%/api_models.c %D%/api_embeddings.c %D%/api_text.c %D%/api_tokenizer.c %D%/api_health.c \
	%D%/api_metrics.c %D%/api_auth.c %D%/api_keys.c %D%/api_users.c %D%/api_admin.c
libsluice_fcgi_a_SOURCES += \
	%D%/recorder.c %D%/recorder.h %D%/recorder_answer.c %D%/recorder_answer.h %D%/recorder_house.c %D%/recorder_house.h \
	%D%/answer.c %D%/answer.h %D%/title.c %D%/title.h %D%/conversation.h %D%/conversation_prompt.c %D%/conversation_settings.c %D%/conversation_continue.c %D%/conversation_results.c %D%/conversation_title.c %D%/api_library.c %D%/api_changes.c \
	%D%/api_conversations.c %D%/api_conversations_list.c %D%/api_conversations_tree.c %D%/api_conversations_defaults.c %D%/api_conversations_post.c %D%/api_conversations_stream.c
libsluice_fcgi_a_SOURCES += %D%/file_name.c %D%/file_name.h %D%/file_reading.c %D%/file_reading.h %D%/attachment.c %D%/attachment_send.c %D%/attachment_take.c %D%/attachment.h \
	%D%/chat_files.c %D%/chat_files.h %D%/upload.c %D%/upload.h %D%/api_attachments.c
libsluice_fcgi_a_SOURCES += %D%/limits.c %D%/limits.h %D%/shared_limit.c %D%/cors.c %D%/cors.h %D%/api_usage.c \
	%D%/openapi.c %D%/openapi.h %D%/api_openapi.c
libsluice_fcgi_a_SOURCES += %D%/server_settings.c %D%/server_settings.h %D%/server_defaults.c %D%/api_settings.c
libsluice_fcgi_a_SOURCES += %D%/api_shares.c %D%/api_conversations_sorting.c %D%/api_conversations_long.c
libsluice_fcgi_a_SOURCES += %D%/checks.c %D%/checks.h %D%/api_admin_checks.c %D%/api_admin_jobs.c
libsluice_fcgi_a_SOURCES += %D%/api_log.c
libsluice_fcgi_a_SOURCES += %D%/ollama.c %D%/ollama.h %D%/ollama_messages.c %D%/ollama_options.c %D%/ollama_request.c %D%/ollama_view.c \
	%D%/api_ollama.c %D%/ollama_facts.c %D%/api_ollama_models.c %D%/hub_pull.c %D%/hub_pull.h %D%/api_ollama_pull.c
libsluice_fcgi_a_SOURCES += %D%/model_gate.c %D%/model_gate.h %D%/local_models.c %D%/local_models.h %D%/api_admin_models.c
libsluice_fcgi_a_SOURCES += %D%/history.c %D%/history.h %D%/history_sample.c %D%/history_sample.h %D%/api_history.c
libsluice_fcgi_a_SOURCES += %D%/throttle.c %D%/throttle.h %D%/credentials.c %D%/credentials.h %D%/qr.c %D%/qr.h \
	%D%/user_jobs.c %D%/user_jobs.h %D%/api_sign_up.c %D%/api_sessions.c %D%/api_factor.c %D%/api_account.c %D%/api_audit.c
libsluice_fcgi_a_SOURCES += \
	%D%/api_import.c %D%/multipart.c %D%/multipart.h \
	%D%/import/import.c %D%/import/import.h %D%/import/import_report.c %D%/import/run.h %D%/import/split.c %D%/import/split.h \
	%D%/import/zip_read.c %D%/import/zip_survey.c %D%/import/zip_survey.h \
	%D%/import/draft.c %D%/import/draft.h %D%/import/draft_tree.c %D%/import/draft_tree.h %D%/import/formats.c %D%/import/formats.h \
	%D%/import/format_sluice.c %D%/import/format_chatgpt.c %D%/import/format_claude.c %D%/import/format_openwebui.c \
	%D%/import/format_llamacpp.c %D%/import/format_openai.c
nodist_libsluice_fcgi_a_SOURCES = %D%/openapi_schemas.gen.c
OPENAPI_SCHEMAS = %D%/openapi/error.json %D%/openapi/chat.json %D%/openapi/completions.json %D%/openapi/library.json %D%/openapi/models.json \
	%D%/openapi/messages.json %D%/openapi/responses.json %D%/openapi/text.json %D%/openapi/state.json \
	%D%/openapi/account.json %D%/openapi/conversations.json %D%/openapi/attachments.json \
	%D%/openapi/admin.json %D%/openapi/shares.json
OPENAPI_SCHEMAS += %D%/openapi/people.json %D%/openapi/ollama.json
OPENAPI_SCHEMAS += %D%/openapi/export.json %D%/openapi/import.json
FCGI_ROOM_LIBS = libsluice-fcgi.a $(GRAMMAR_LIBS) $(SQL_LIBS) $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) $(FCGI_LIBS) $(QRENCODE_LIBS) $(ARCHIVE_LIBS) $(MD4C_LIBS) -lm

pkglibexec_PROGRAMS += sluice-worker
sluice_worker_SOURCES = %D%/worker_main.c
sluice_worker_LDADD = $(FCGI_ROOM_LIBS)

# $^ is the prerequisites where VPATH found them.
%D%/openapi_schemas.gen.c: $(OPENAPI_SCHEMAS) %D%/openapi/embed.awk
	$(AM_V_GEN)$(MKDIR_P) %D% && $(AWK) -f $(srcdir)/%D%/openapi/embed.awk $(filter %.json,$^) > $@.tmp && mv $@.tmp $@
CLEANFILES += %D%/openapi_schemas.gen.c
EXTRA_DIST += $(OPENAPI_SCHEMAS) %D%/openapi/embed.awk

# exports
libsluice_fcgi_a_SOURCES += %D%/reply_stream.c %D%/reply_stream.h %D%/api_export.c \
	%D%/export/export.c %D%/export/export.h %D%/export/format.h %D%/export/tree.c %D%/export/words.c %D%/export/json.c \
	%D%/export/jsonl.c %D%/export/plain.c %D%/export/plain.h %D%/export/markdown.c %D%/export/html.c %D%/export/html_text.c %D%/export/html_text.h %D%/export/html_markdown.c \
	%D%/export/markdown_source.c %D%/export/markdown_source.h %D%/export/text.c %D%/export/zip.c %D%/export/zip.h \
	%D%/export/run.h %D%/export/archive.c %D%/export/account.c %D%/export/account.h
