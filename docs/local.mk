# documents; the man pages are made out of the programs' own --help

EXTRA_DIST += %D%/ARCHITECTURE.md %D%/ADDING.md %D%/API.md %D%/API-fields.md %D%/API-pages.md %D%/COMPARISON.md %D%/MODELS.md %D%/OPERATIONS.md %D%/SCALING.md %D%/STYLE.md \
	%D%/CLIENTS.md %D%/examples/README.md %D%/examples/openai.md %D%/examples/others.md %D%/examples/chats.md %D%/examples/account.md %D%/examples/admin.md \
	%D%/coming-from/librechat.md %D%/coming-from/llama-cpp.md %D%/coming-from/ollama.md %D%/coming-from/open-webui.md %D%/clients/README.md %D%/clients/aider.md %D%/clients/claude-code.md %D%/clients/cline.md \
	%D%/clients/codex.md %D%/clients/gptme.md %D%/clients/litellm.md %D%/clients/lm-eval.md %D%/clients/ollama.md \
	%D%/clients/open-webui.md %D%/clients/opencode.md %D%/clients/pi.md %D%/clients/qwen-code.md \
	%D%/speed/README.md %D%/speed/cpu.md %D%/speed/page.md %D%/speed/prompt_cache.md %D%/speed/relay.md %D%/speed/speculation.md %D%/speed/streaming.md %D%/speed/vulkan.md \
	%D%/operations/backup.md %D%/operations/failures.md %D%/operations/install.md %D%/operations/memory.md %D%/operations/speculation.md %D%/operations/tools.md %D%/operations/users.md \
	%D%/security/builds.md %D%/security/fuzzing.md %D%/security/sbom.md %D%/security/siege.md %D%/security/threat-model.md %D%/grafana-dashboard.json %D%/make-man.sh %D%/audit.mjs %D%/sbom.mjs
# what an export looks like, for whoever reads one
dist_pkgdata_DATA += %D%/export.schema.json

nodist_man_MANS += %D%/sluice.1 %D%/sluice-engine.8 %D%/sluice-worker.8
CLEANFILES += $(nodist_man_MANS)

%D%/sluice.1: sluice %D%/make-man.sh
	$(AM_V_GEN)$(MKDIR_P) docs && sh $(srcdir)/docs/make-man.sh sluice ./sluice >$@.tmp && mv $@.tmp $@
%D%/sluice-engine.8: sluice-engine %D%/make-man.sh
	$(AM_V_GEN)$(MKDIR_P) docs && sh $(srcdir)/docs/make-man.sh sluice-engine ./sluice-engine >$@.tmp && mv $@.tmp $@
%D%/sluice-worker.8: sluice-worker %D%/make-man.sh
	$(AM_V_GEN)$(MKDIR_P) docs && sh $(srcdir)/docs/make-man.sh sluice-worker ./sluice-worker >$@.tmp && mv $@.tmp $@

# The site that nginx serves at /docs: every document, in the order of its list of pages.
SITE_PAGES = README.md docs/OPERATIONS.md docs/operations/install.md docs/coming-from/ollama.md docs/coming-from/llama-cpp.md \
	docs/coming-from/open-webui.md docs/coming-from/librechat.md docs/API.md docs/API-fields.md docs/API-pages.md docs/examples/README.md docs/examples/openai.md docs/examples/others.md \
	docs/examples/chats.md docs/examples/account.md docs/examples/admin.md docs/MODELS.md docs/clients/README.md \
	docs/clients/aider.md docs/clients/claude-code.md docs/clients/cline.md docs/clients/codex.md docs/clients/gptme.md \
	docs/clients/litellm.md docs/clients/lm-eval.md docs/clients/ollama.md docs/clients/open-webui.md docs/clients/opencode.md \
	docs/clients/pi.md docs/clients/qwen-code.md docs/CLIENTS.md docs/SCALING.md docs/operations/users.md docs/operations/backup.md \
	docs/operations/failures.md docs/operations/memory.md docs/operations/models.md docs/operations/speculation.md docs/operations/tools.md docs/security/threat-model.md docs/security/siege.md docs/security/builds.md \
	docs/security/sbom.md docs/security/fuzzing.md SECURITY.md docs/ARCHITECTURE.md docs/ADDING.md docs/STYLE.md CONTRIBUTING.md docs/COMPARISON.md \
	docs/speed/README.md docs/speed/cpu.md docs/speed/vulkan.md docs/speed/page.md docs/speed/prompt_cache.md \
	docs/speed/relay.md docs/speed/speculation.md docs/speed/streaming.md
EXTRA_DIST += README.md %D%/site/make-site.mjs %D%/site/site.css %D%/images/chat-light.png %D%/images/chat-dark.png \
	%D%/images/phone.png %D%/images/admin-overview.png
all-local: %D%/html/llms.txt
%D%/html/llms.txt: %D%/local.mk %D%/site/make-site.mjs %D%/site/site.css web/vendor/stamp $(addprefix $(top_srcdir)/,$(SITE_PAGES))
	$(AM_V_GEN)node $(srcdir)/docs/site/make-site.mjs $(srcdir) docs/html web/vendor/markdown-it.min.js $(SITE_PAGES)
install-data-local: install-site
install-site: %D%/html/llms.txt
	rm -rf "$(DESTDIR)$(webdir)/docs" && $(MKDIR_P) "$(DESTDIR)$(webdir)"
	cp -R docs/html "$(DESTDIR)$(webdir)/docs"
uninstall-local: uninstall-site
uninstall-site:
	rm -rf "$(DESTDIR)$(webdir)/docs"
clean-local: clean-site
clean-site:
	rm -rf docs/html
.PHONY: install-site uninstall-site clean-site
