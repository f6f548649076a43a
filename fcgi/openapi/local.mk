# the description of the API

libsluice_fcgi_a_SOURCES += \
	%D%/api_openapi.c \
	%D%/openapi.c %D%/openapi.h \
	%D%/openapi_nulls.c

nodist_libsluice_fcgi_a_SOURCES = %D%/openapi_schemas.gen.c
OPENAPI_SCHEMAS = \
	%D%/account.json \
	%D%/admin.json \
	%D%/attachments.json \
	%D%/chat.json \
	%D%/completions.json \
	%D%/conversations.json \
	%D%/embeddings.json \
	%D%/error.json \
	%D%/export.json \
	%D%/groups.json \
	%D%/import.json \
	%D%/library.json \
	%D%/llamacpp.json \
	%D%/messages.json \
	%D%/models.json \
	%D%/oidc.json \
	%D%/ollama.json \
	%D%/passkeys.json \
	%D%/people.json \
	%D%/projects.json \
	%D%/prompt_cache.json \
	%D%/responses.json \
	%D%/shares.json \
	%D%/state.json \
	%D%/text.json \
	%D%/upstreams.json \
	%D%/tools.json

# $^ is the prerequisites where VPATH found them.
%D%/openapi_schemas.gen.c: $(OPENAPI_SCHEMAS) %D%/embed.awk
	$(AM_V_GEN)$(MKDIR_P) %D% && $(AWK) -f $(srcdir)/%D%/embed.awk $(filter %.json,$^) > $@.tmp && mv $@.tmp $@
CLEANFILES += %D%/openapi_schemas.gen.c
EXTRA_DIST += $(OPENAPI_SCHEMAS) %D%/embed.awk
