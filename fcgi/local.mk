# sluice-worker: FastCGI processes that give HTTP its meaning. Everything but main is a library, for the tests; each room lists
# its own files.

noinst_LIBRARIES += libsluice-fcgi.a
libsluice_fcgi_a_SOURCES = %D%/routes.c
include %D%/account/local.mk
include %D%/admin/local.mk
include %D%/anthropic/local.mk
include %D%/attachments/local.mk
include %D%/auth/local.mk
include %D%/config/local.mk
include %D%/conversations/local.mk
include %D%/export/local.mk
include %D%/http/local.mk
include %D%/import/local.mk
include %D%/inference/local.mk
include %D%/llamacpp/local.mk
include %D%/oidc/local.mk
include %D%/oauth/local.mk
include %D%/ollama/local.mk
include %D%/openai/local.mk
include %D%/openapi/local.mk
include %D%/process/local.mk
include %D%/projects/local.mk
include %D%/recorder/local.mk
include %D%/relay/local.mk
include %D%/responses/local.mk
include %D%/status/local.mk
include %D%/tools/local.mk
include %D%/upstreams/local.mk
include %D%/webauthn/local.mk

FCGI_ROOM_LIBS = libsluice-fcgi.a $(CONFINE_LIBS) $(GRAMMAR_LIBS) $(SQL_LIBS) $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) $(FCGI_LIBS) $(QRENCODE_LIBS) $(FIDO2_LIBS) $(CURL_LIBS) $(CRYPTO_LIBS) $(ARCHIVE_LIBS) $(MD4C_LIBS) -lm

pkglibexec_PROGRAMS += sluice-worker
sluice_worker_SOURCES = %D%/worker_main.c
sluice_worker_LDADD = $(FCGI_ROOM_LIBS)
