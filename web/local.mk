# The page: static files as they are, and four libraries that npm fetches at build time (web/package-lock.json
# pins them; nothing of them is in git).

webdir = $(pkgdatadir)/web
dist_web_DATA = %D%/index.html %D%/manifest.webmanifest %D%/icon-maskable.svg %D%/icon-180.png %D%/admin.html %D%/icon.svg
webjsdir = $(webdir)/js
dist_webjs_DATA = %D%/js/answer.js %D%/js/api.js %D%/js/attach.js %D%/js/blocks.js %D%/js/budget.js %D%/js/clean.js %D%/js/code.js %D%/js/composer.js %D%/js/dialogs.js %D%/js/dom.js %D%/js/files_view.js \
	%D%/js/format.js %D%/js/i18n.js %D%/js/main.js %D%/js/markdown-rules.js %D%/js/markdown.js %D%/js/math.js %D%/js/sidebar.js %D%/js/state.js %D%/js/status.js %D%/js/theme.js \
	%D%/js/thread.js
webstringsdir = $(webdir)/strings
dist_webstrings_DATA = %D%/strings/en.json %D%/strings/de.json
webadmindir = $(webdir)/js/admin
dist_webadmin_DATA = %D%/js/admin/main.js %D%/js/admin/view.js %D%/js/admin/status.js %D%/js/admin/jobs.js \
	%D%/js/admin/settings.js %D%/js/admin/checks.js %D%/js/admin/chart.js %D%/js/admin/load.js %D%/js/admin/logs.js %D%/js/admin/models.js
webcssdir = $(webdir)/css
dist_webcss_DATA = %D%/css/theme.css %D%/css/attach.css %D%/css/layout.css %D%/css/thread.css %D%/css/forms.css %D%/css/admin.css
webiconsdir = $(webdir)/icons
dist_webicons_DATA = %D%/icons/again.svg %D%/icons/bulb.svg %D%/icons/check.svg %D%/icons/clip.svg %D%/icons/close.svg %D%/icons/copy.svg %D%/icons/done.svg \
	%D%/icons/down.svg %D%/icons/edit.svg %D%/icons/file.svg %D%/icons/key.svg %D%/icons/keyboard.svg %D%/icons/left.svg \
	%D%/icons/language.svg %D%/icons/lock.svg %D%/icons/menu.svg %D%/icons/more.svg %D%/icons/out.svg %D%/icons/plus.svg \
	%D%/icons/right.svg %D%/icons/search.svg %D%/icons/stop.svg %D%/icons/theme.svg %D%/icons/trash.svg \
	%D%/icons/tune.svg %D%/icons/up.svg
# what is said and how: calls, menus of messages, settings, prompts, the count of tokens
dist_webjs_DATA += %D%/js/calls.js %D%/js/live.js %D%/js/message_menu.js %D%/js/settings.js %D%/js/slash.js %D%/js/prompts.js %D%/js/meter.js %D%/js/commands.js
dist_webcss_DATA += %D%/css/chat.css
dist_webicons_DATA += %D%/icons/fork.svg %D%/icons/tool.svg %D%/icons/prompt.svg
dist_webjs_DATA += %D%/js/render.js %D%/js/oidc.js %D%/js/errors.js %D%/js/first_run.js %D%/js/trouble.js
# the list of chats, long threads, read-only links
dist_web_DATA += %D%/share.html
dist_webjs_DATA += %D%/js/actions.js %D%/js/block_window.js %D%/js/share_page.js %D%/js/share.js %D%/js/find.js %D%/js/found.js %D%/js/history.js \
	%D%/js/list_pages.js %D%/js/list_filters.js %D%/js/list_query.js %D%/js/list_row.js %D%/js/list_selection.js %D%/js/shortcuts.js %D%/js/tags.js %D%/js/kept.js %D%/js/fold.js %D%/js/sending.js %D%/js/virtual_rows.js
dist_webcss_DATA += %D%/css/share.css %D%/css/sidebar.css
dist_webicons_DATA += %D%/icons/archive.svg %D%/icons/filter.svg %D%/icons/pin.svg %D%/icons/restore.svg %D%/icons/select.svg \
	%D%/icons/share.svg %D%/icons/tag.svg
# accounts: signing in and up, one's own, users and the audit log for admins
dist_webjs_DATA += %D%/js/confirm.js %D%/js/passkeys.js %D%/js/login.js %D%/js/security.js
dist_webadmin_DATA += %D%/js/admin/attention.js %D%/js/admin/users.js %D%/js/admin/person.js %D%/js/admin/audit.js
dist_webcss_DATA += %D%/css/account.css
dist_webicons_DATA += %D%/icons/shield.svg

# the export dialog
dist_webjs_DATA += %D%/js/export.js
dist_webcss_DATA += %D%/css/export.css
dist_webicons_DATA += %D%/icons/export.svg

# the import dialog
dist_webjs_DATA += %D%/js/import.js
dist_webcss_DATA += %D%/css/import.css
dist_webicons_DATA += %D%/icons/import.svg

webvendordir = $(webdir)/vendor
web_vendor = %D%/vendor/markdown-it.min.js %D%/vendor/purify.min.js %D%/vendor/highlight.min.js
nodist_webvendor_DATA = $(web_vendor)
webkatexdir = $(webvendordir)/katex
web_katex = %D%/vendor/katex/katex.min.js %D%/vendor/katex/katex.min.css
nodist_webkatex_DATA = $(web_katex)
EXTRA_DIST += %D%/package.json %D%/package-lock.json %D%/.npmrc
CLEANFILES += $(web_vendor) $(web_katex) %D%/vendor/katex/fonts/* %D%/vendor/stamp

$(web_vendor) $(web_katex): %D%/vendor/stamp
%D%/vendor/stamp: %D%/package-lock.json
	$(AM_V_GEN)rm -rf web/npm web/vendor && $(MKDIR_P) web/npm web/vendor/katex/fonts && \
	cp $(srcdir)/web/package.json $(srcdir)/web/package-lock.json $(srcdir)/web/.npmrc web/npm/ && \
	(cd web/npm && npm ci --silent --no-progress) && cd web/npm/node_modules && \
	cp markdown-it/dist/browser/markdown-it.umd.min.js ../../vendor/markdown-it.min.js && \
	cp dompurify/dist/purify.min.js @highlightjs/cdn-assets/es/highlight.min.js ../../vendor/ && \
	cp katex/dist/katex.min.js katex/dist/katex.min.css ../../vendor/katex/ && \
	cp katex/dist/fonts/*.woff2 ../../vendor/katex/fonts/ && cd ../../.. && \
	rm -rf web/npm && touch $@

# the fonts' names are the package's own
install-data-local: install-katex-fonts
install-katex-fonts: %D%/vendor/stamp
	$(MKDIR_P) "$(DESTDIR)$(webkatexdir)/fonts"
	$(INSTALL_DATA) web/vendor/katex/fonts/*.woff2 "$(DESTDIR)$(webkatexdir)/fonts"
uninstall-local: uninstall-katex-fonts
uninstall-katex-fonts:
	rm -rf "$(DESTDIR)$(webkatexdir)/fonts"
.PHONY: install-katex-fonts uninstall-katex-fonts

# the demo model is the default of `sluice up`
demodir = $(pkgdatadir)/demo-model
dist_demo_DATA = engine/demo-model/config.json engine/demo-model/generation_config.json \
	engine/demo-model/tokenizer.json engine/demo-model/tokenizer_config.json \
	engine/demo-model/chat_template.jinja engine/demo-model/model.safetensors engine/demo-model/README.md
