// The sections of the settings window, in their order, and every setting in them by the keys of its words, so that the search finds it
// in whatever language the page is shown. A section's module is loaded when it is opened: `draw(panel, ui)` puts its content
// there; ui is {close(), open(section)}. `at` selects the setting in the panel.

const entry = (label, at, ...more) => ({ label, at, more });

export const SECTIONS = [
  { id: "general", icon: "gear", title: "settingsWindow.general", load: () => import("./general.js"), entries: [
    entry("account.language", "[name=language]"), entry("offline.menu", "[data-pref=offline]", "offlineChats.text"), entry("settingsWindow.firstRun", "[data-pref=first-run]")] },
  { id: "appearance", icon: "theme", title: "settingsWindow.appearance", load: () => import("./appearance.js"), entries: [
    entry("theme.title", "[name=theme]:checked", "theme.light", "theme.dark", "theme.system"), entry("settingsWindow.textSize", "[name=text]:checked"), entry("settingsWindow.width", "[name=width]:checked", "settingsWindow.wide")] },
  { id: "chat", icon: "chat", title: "settingsWindow.chat", load: () => import("./chat.js"), entries: [
    entry("settings.system", "[name=system]", "composer.instructions"), entry("presets.label", "#settings-preset"), entry("settings.thinking", "[name=thinking]"), entry("settings.effort", "[name=reasoning_effort]"),
    entry("settings.maxTokens", "[name=max_tokens]"), entry("settings.titles", "[name=titles]"), entry("settings.temperature", "[name=temperature]"), entry("settings.topP", "[name=top_p]"), entry("settings.topK", "[name=top_k]"),
    entry("settings.minP", "[name=min_p]"), entry("settings.repetition", "[name=repetition_penalty]"), entry("settings.presence", "[name=presence_penalty]"), entry("settings.frequency", "[name=frequency_penalty]"),
    entry("settings.seed", "[name=seed]"), entry("settings.stop", "[name=stop]"), entry("settings.schema", "[name=json_schema]"), entry("settings.tools", "[name=tools]")] },
  { id: "prompts", icon: "prompt", title: "prompts.title", load: () => import("./prompts.js"), entries: [entry("composer.managePrompts", "#prompts-form input", "prompts.intro")] },
  { id: "tools", icon: "tool", title: "settingsWindow.tools", load: () => import("../tool_servers.js"), entries: [entry("toolServers.addTitle", "#tools-form input", "toolServers.intro")] },
  { id: "usage", icon: "columns", title: "settingsWindow.usage", load: () => import("./usage.js"), entries: [
    entry("security.tokensToday", "[data-pref=limits]", "settingsWindow.limits"), entry("settingsWindow.days30", "[data-pref=days]"), entry("security.stored", "[data-pref=limits]"), entry("list.kept", "[data-pref=kept]", "settingsWindow.keptText")] },
  { id: "keys", icon: "key", title: "keys.title", load: () => import("./keys.js"), entries: [entry("keys.make", "#keys-name", "keys.intro")] },
  { id: "security", icon: "shield", title: "account.security", load: () => import("../security.js"), entries: [
    entry("password.title", "[data-part=password]"), entry("security.sessions", "[data-part=sessions]", "security.endOthers"), entry("security.factor", "[data-part=factor]", "security.factorText"),
    entry("passkeys.title", "[data-part=passkeys]", "passkeys.text"), entry("oidc.title", "[data-part=oidc]"), entry("security.deleteTitle", "[data-part=delete]", "security.deleteText")] },
  { id: "data", icon: "download", title: "settingsWindow.data", load: () => import("./data.js"), entries: [
    entry("import.title", "[data-pref=import]", "import.intro"), entry("export.title", "[data-pref=export]", "export.jsonHint"), entry("export.account", "[data-pref=account]"), entry("list.emptyTrash", "[data-pref=trash]", "list.placeTrash")] },
  { id: "keyboard", icon: "keyboard", title: "help.title", load: () => import("./keyboard.js"), entries: [entry("help.single", "#help-single"), entry("settingsWindow.allKeys", "#help-list", "keyboard.intro")] },
];
