# The page: static files as they are, and what npm fetches at build time: libraries and a font (web/package-lock.json
# pins them; nothing of them is in git).

webdir = $(pkgdatadir)/web
dist_web_DATA = %D%/index.html %D%/manifest.webmanifest %D%/icon-maskable.svg %D%/icon-180.png %D%/admin.html %D%/icon.svg %D%/samples.html %D%/sw.js
webjsdir = $(webdir)/js
dist_webjs_DATA = %D%/js/ahead.js %D%/js/answer.js %D%/js/api.js %D%/js/attach.js %D%/js/blocks.js %D%/js/budget.js %D%/js/clean.js %D%/js/code.js %D%/js/composer.js %D%/js/dom.js %D%/js/files_view.js \
	%D%/js/format.js %D%/js/i18n.js %D%/js/look.js %D%/js/main.js %D%/js/markdown-rules.js %D%/js/markdown.js %D%/js/math.js %D%/js/sidebar.js %D%/js/state.js %D%/js/status.js %D%/js/theme.js \
	%D%/js/thread.js
webstringsdir = $(webdir)/strings
dist_webstrings_DATA = %D%/strings/en.json %D%/strings/de.json
webstringsadmindir = $(webstringsdir)/admin
dist_webstringsadmin_DATA = %D%/strings/admin/en.json %D%/strings/admin/de.json
webstringslaterdir = $(webstringsdir)/later
dist_webstringslater_DATA = %D%/strings/later/en.json %D%/strings/later/de.json
# Further languages: a whole catalogue each in languages/, which is split into the parts that the page loads.
web_languages = fr
nodist_webstrings_DATA = $(web_languages:%=%D%/strings/%.json)
nodist_webstringsadmin_DATA = $(web_languages:%=%D%/strings/admin/%.json)
nodist_webstringslater_DATA = $(web_languages:%=%D%/strings/later/%.json)
web_split = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(AWK) -f $(srcdir)/%D%/languages/split.awk
$(nodist_webstrings_DATA): %D%/strings/%.json: %D%/languages/%.json %D%/strings/en.json %D%/languages/split.awk
	$(web_split) $(srcdir)/%D%/strings/en.json $(srcdir)/%D%/languages/$*.json > $@.new && mv $@.new $@
$(nodist_webstringsadmin_DATA): %D%/strings/admin/%.json: %D%/languages/%.json %D%/strings/admin/en.json %D%/languages/split.awk
	$(web_split) $(srcdir)/%D%/strings/admin/en.json $(srcdir)/%D%/languages/$*.json > $@.new && mv $@.new $@
$(nodist_webstringslater_DATA): %D%/strings/later/%.json: %D%/languages/%.json %D%/strings/later/en.json %D%/languages/split.awk
	$(web_split) $(srcdir)/%D%/strings/later/en.json $(srcdir)/%D%/languages/$*.json > $@.new && mv $@.new $@
EXTRA_DIST += $(web_languages:%=%D%/languages/%.json) %D%/languages/split.awk
CLEANFILES += $(nodist_webstrings_DATA) $(nodist_webstringsadmin_DATA) $(nodist_webstringslater_DATA)
webadmindir = $(webdir)/js/admin
dist_webadmin_DATA = %D%/js/admin/main.js %D%/js/admin/view.js %D%/js/admin/status.js %D%/js/admin/jobs.js \
	%D%/js/admin/settings.js %D%/js/admin/checks.js %D%/js/admin/chart.js %D%/js/admin/load.js %D%/js/admin/logs.js %D%/js/admin/models.js %D%/js/admin/hub.js %D%/js/admin/upstreams.js %D%/js/admin/overview.js %D%/js/admin/size_field.js %D%/js/admin/server_words.js %D%/js/admin/spark.js
web_icons = %D%/icons/again.svg %D%/icons/bulb.svg %D%/icons/check.svg %D%/icons/clip.svg %D%/icons/close.svg %D%/icons/copy.svg %D%/icons/done.svg \
	%D%/icons/down.svg %D%/icons/edit.svg %D%/icons/file.svg %D%/icons/key.svg %D%/icons/keyboard.svg %D%/icons/left.svg \
	%D%/icons/language.svg %D%/icons/lock.svg %D%/icons/menu.svg %D%/icons/more.svg %D%/icons/out.svg %D%/icons/plus.svg \
	%D%/icons/right.svg %D%/icons/search.svg %D%/icons/stop.svg %D%/icons/theme.svg %D%/icons/trash.svg \
	%D%/icons/tune.svg %D%/icons/up.svg
# what is said and how: calls, menus of messages, settings, prompts, the count of tokens
dist_webjs_DATA += %D%/js/calls.js %D%/js/live.js %D%/js/message_menu.js %D%/js/settings.js %D%/js/slash.js %D%/js/prompts.js %D%/js/meter.js %D%/js/commands.js
web_icons += %D%/icons/fork.svg %D%/icons/tool.svg %D%/icons/prompt.svg
dist_webjs_DATA += %D%/js/add_menu.js %D%/js/compare.js %D%/js/edit_answer.js %D%/js/footnotes.js %D%/js/header.js %D%/js/model_menu.js %D%/js/own_message.js %D%/js/palette.js %D%/js/preview.js %D%/js/queue.js \
	%D%/js/samples.js %D%/js/speak.js %D%/js/temporary.js
# the settings window: all that a user can set, loaded when it is opened
websettingsdir = $(webdir)/js/settings
dist_websettings_DATA = %D%/js/settings/appearance.js %D%/js/settings/chat.js %D%/js/settings/data.js %D%/js/settings/general.js %D%/js/settings/keyboard.js \
	%D%/js/settings/keys.js %D%/js/settings/prompts.js %D%/js/settings/rows.js %D%/js/settings/sections.js %D%/js/settings/usage.js %D%/js/settings/window.js
dist_webjs_DATA += %D%/js/bars.js %D%/js/drawer.js %D%/js/skeleton.js
dist_webjs_DATA += %D%/js/offline.js %D%/js/suggestions.js %D%/js/tool_runs.js %D%/js/tool_sign_in.js %D%/js/tool_servers.js
dist_webjs_DATA += %D%/js/render.js %D%/js/oidc.js %D%/js/errors.js %D%/js/first_run.js %D%/js/trouble.js
# the list of chats, long threads, read-only links
dist_web_DATA += %D%/share.html
dist_webjs_DATA += %D%/js/actions.js %D%/js/block_window.js %D%/js/share_page.js %D%/js/share.js %D%/js/find.js %D%/js/found.js %D%/js/history.js \
	%D%/js/list_pages.js %D%/js/list_places.js %D%/js/list_filters.js %D%/js/list_query.js %D%/js/list_row.js %D%/js/list_selection.js %D%/js/shortcuts.js %D%/js/tags.js %D%/js/kept.js %D%/js/fold.js %D%/js/sending.js %D%/js/virtual_rows.js
web_icons += %D%/icons/archive.svg %D%/icons/filter.svg %D%/icons/pin.svg %D%/icons/restore.svg %D%/icons/select.svg \
	%D%/icons/share.svg %D%/icons/tag.svg
dist_webjs_DATA += %D%/js/project_doors.js %D%/js/project_style.js %D%/js/project_end.js %D%/js/project_sharing.js %D%/js/project_window.js %D%/js/projects.js %D%/js/sources.js
web_icons += %D%/icons/folder.svg
# accounts: signing in and up, one's own, users and the audit log for admins
dist_webjs_DATA += %D%/js/confirm.js %D%/js/passkeys.js %D%/js/login.js %D%/js/security.js
dist_webadmin_DATA += %D%/js/admin/attention.js %D%/js/admin/users.js %D%/js/admin/groups.js %D%/js/admin/people.js %D%/js/admin/limit_fields.js %D%/js/admin/person.js %D%/js/admin/audit.js
web_icons += %D%/icons/shield.svg %D%/icons/gear.svg

# answers that are seen, heard, compared; the message box's own
web_icons += %D%/icons/admin.svg %D%/icons/chat.svg %D%/icons/chevron.svg %D%/icons/columns.svg %D%/icons/compose.svg %D%/icons/download.svg %D%/icons/expand.svg \
	%D%/icons/ghost.svg %D%/icons/mic.svg %D%/icons/model.svg %D%/icons/monitor.svg %D%/icons/moon.svg %D%/icons/play.svg %D%/icons/source.svg \
	%D%/icons/speaker.svg %D%/icons/sun.svg %D%/icons/wrap.svg

# the export dialog
dist_webjs_DATA += %D%/js/export.js
web_icons += %D%/icons/export.svg

# the import dialog
dist_webjs_DATA += %D%/js/import.js
web_icons += %D%/icons/import.svg

# Styles: one file for the page, of one for each component without its comments, with a rule for each icon, so that it costs one request. admin.css
# is the admin's alone, settings.css comes with the settings window, compare.css with answers side by side, export.css and import.css with their dialogs, share.css is that of a page behind a link, tools.css comes with the first call of a tool, bars.css with both, samples.css is that of a page of samples.
web_css = %D%/css/tokens.css %D%/css/base.css %D%/css/button.css %D%/css/field.css %D%/css/menu.css %D%/css/dialog.css %D%/css/toast.css \
	%D%/css/layout.css %D%/css/sidebar.css %D%/css/composer.css %D%/css/message.css %D%/css/prose.css %D%/css/account.css
webcssdir = $(webdir)/css
dist_webcss_DATA = %D%/css/admin.css %D%/css/bars.css %D%/css/compare.css %D%/css/export.css %D%/css/import.css %D%/css/projects.css %D%/css/samples.css %D%/css/settings.css %D%/css/share.css %D%/css/tools.css
nodist_webcss_DATA = %D%/css/page.css
EXTRA_DIST += $(web_css) $(web_icons) %D%/css/icons.sed
CLEANFILES += %D%/css/page.css
%D%/css/page.css: $(web_css) $(web_icons) %D%/css/icons.sed
	$(AM_V_GEN)$(MKDIR_P) %D%/css && { for f in $(web_css); do sed "/^ *\/\*.*\*\/ *$$/d; s/^ *//" "$(srcdir)/$$f" || exit 1; done; \
	for f in $(web_icons); do n=$${f##*/}; n=$${n%.svg}; d=$$(sed -f "$(srcdir)/%D%/css/icons.sed" "$(srcdir)/$$f") || exit 1; \
	printf ':root { --icon-%s: url("data:image/svg+xml,%s"); } .i-%s { --i: var(--icon-%s); }\n' "$$n" "$$d" "$$n" "$$n"; done; } > $@.new && mv $@.new $@

webvendordir = $(webdir)/vendor
web_vendor = %D%/vendor/markdown-it.min.js %D%/vendor/purify.min.js %D%/vendor/highlight.min.js %D%/vendor/inter.woff2
nodist_webvendor_DATA = $(web_vendor)
webkatexdir = $(webvendordir)/katex
web_katex = %D%/vendor/katex/katex.min.js %D%/vendor/katex/katex.min.css
nodist_webkatex_DATA = $(web_katex)
# what runs in a frame of its own, behind walls that nginx sets (/frame/)
webframedir = $(webdir)/frame
dist_webframe_DATA = %D%/frame/preview.html %D%/frame/diagram.html %D%/frame/diagram.js
web_frame_vendor = %D%/vendor/mermaid.tiny.js
nodist_webframe_DATA = $(web_frame_vendor)
EXTRA_DIST += %D%/package.json %D%/package-lock.json %D%/.npmrc
CLEANFILES += $(web_vendor) $(web_katex) $(web_frame_vendor) %D%/vendor/katex/fonts/* %D%/vendor/stamp

$(web_vendor) $(web_katex) $(web_frame_vendor): %D%/vendor/stamp
%D%/vendor/stamp: %D%/package-lock.json
	$(AM_V_GEN)rm -rf web/npm web/vendor && $(MKDIR_P) web/npm web/vendor/katex/fonts && \
	cp $(srcdir)/web/package.json $(srcdir)/web/package-lock.json $(srcdir)/web/.npmrc web/npm/ && \
	(cd web/npm && npm ci --silent --no-progress) && cd web/npm/node_modules && \
	cp markdown-it/dist/browser/markdown-it.umd.min.js ../../vendor/markdown-it.min.js && \
	cp dompurify/dist/purify.min.js @highlightjs/cdn-assets/es/highlight.min.js ../../vendor/ && \
	cp @fontsource-variable/inter/files/inter-latin-wght-normal.woff2 ../../vendor/inter.woff2 && \
	cp @mermaid-js/tiny/dist/mermaid.tiny.js ../../vendor/ && \
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

# last: it reads all that was installed
EXTRA_DIST += %D%/version.sh
install-data-hook:
	$(SHELL) "$(srcdir)/%D%/version.sh" "$(DESTDIR)$(webdir)"
uninstall-local: uninstall-web-version
uninstall-web-version:
	rm -rf "$(DESTDIR)$(webdir)/v"
.PHONY: uninstall-web-version

# the demo model is the default of `sluice up`
demodir = $(pkgdatadir)/demo-model
dist_demo_DATA = engine/demo-model/config.json engine/demo-model/generation_config.json \
	engine/demo-model/tokenizer.json engine/demo-model/tokenizer_config.json \
	engine/demo-model/chat_template.jinja engine/demo-model/model.safetensors engine/demo-model/mtp.safetensors \
	engine/demo-model/README.md
demodraftdir = $(demodir)/draft
dist_demodraft_DATA = engine/demo-model/draft/config.json engine/demo-model/draft/model.safetensors \
	engine/demo-model/draft/README.md
demodflashdir = $(demodir)/dflash
dist_demodflash_DATA = engine/demo-model/dflash/config.json engine/demo-model/dflash/model.safetensors \
	engine/demo-model/dflash/README.md
