# documents; the man pages are made out of the programs' own --help

EXTRA_DIST += %D%/ARCHITECTURE.md %D%/ADDING.md %D%/API.md %D%/API-fields.md %D%/API-pages.md %D%/COMPARISON.md %D%/MODELS.md %D%/OPERATIONS.md %D%/STYLE.md \
	%D%/CLIENTS.md %D%/clients/README.md %D%/clients/aider.md %D%/clients/claude-code.md %D%/clients/cline.md \
	%D%/clients/codex.md %D%/clients/gptme.md %D%/clients/litellm.md %D%/clients/lm-eval.md %D%/clients/ollama.md \
	%D%/clients/open-webui.md %D%/clients/opencode.md %D%/clients/pi.md %D%/clients/qwen-code.md \
	%D%/speed/README.md %D%/speed/cpu.md %D%/speed/page.md %D%/speed/streaming.md %D%/speed/vulkan.md \
	%D%/operations/backup.md %D%/operations/failures.md %D%/operations/install.md %D%/operations/memory.md %D%/operations/users.md \
	%D%/security/builds.md %D%/security/fuzzing.md %D%/security/sbom.md %D%/security/siege.md %D%/security/threat-model.md %D%/grafana-dashboard.json %D%/make-man.sh %D%/audit.mjs %D%/sbom.mjs
# what an export looks like, for whoever reads one
dist_pkgdata_DATA = %D%/export.schema.json

nodist_man_MANS += %D%/sluice.1 %D%/sluice-engine.8 %D%/sluice-worker.8
CLEANFILES += $(nodist_man_MANS)

%D%/sluice.1: sluice %D%/make-man.sh
	$(AM_V_GEN)$(MKDIR_P) docs && sh $(srcdir)/docs/make-man.sh sluice ./sluice >$@.tmp && mv $@.tmp $@
%D%/sluice-engine.8: sluice-engine %D%/make-man.sh
	$(AM_V_GEN)$(MKDIR_P) docs && sh $(srcdir)/docs/make-man.sh sluice-engine ./sluice-engine >$@.tmp && mv $@.tmp $@
%D%/sluice-worker.8: sluice-worker %D%/make-man.sh
	$(AM_V_GEN)$(MKDIR_P) docs && sh $(srcdir)/docs/make-man.sh sluice-worker ./sluice-worker >$@.tmp && mv $@.tmp $@
