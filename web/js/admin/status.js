// Status: what runs, where the model's bytes lie, the processes, the database, versions.

import { el } from "../dom.js";
import { number, t } from "../i18n.js";
import { render } from "../render.js";
import { waitingRemovals } from "./attention.js";
import { named, noteOf } from "./server_words.js";
import { block, bytes, count, dateTime, facts, percent, poll, problem, short, span, stack, table } from "./view.js";

function engineBlock(s) {
  const e = s.engine;
  const unloaded = e.reason === "model_unloaded";
  const state = el("p", { class: `state state-${e.state}` }, t(unloaded ? "admin.phase_unloaded" : `admin.state_${e.state}`), e.error && !unloaded ? ` – ${e.error}` : "");
  if (e.state === "down") return block(t("admin.engine"), state); // what the last one was and had is gone with it
  const big = (n) => number(n, { notation: "compact", maximumSignificantDigits: 3 });
  return block(t("admin.engine"), state, facts([
    [t("admin.model"), e.model_name], [t("admin.modelPath"), e.model_path && el("code", {}, e.model_path)], [t("admin.family"), e.family],
    [t("admin.device"), e.device && `${e.backend}: ${e.device}`], [t("admin.strategy"), e.strategy && named(e.strategy)], [t("admin.backendNote"), noteOf(e.backend_note)],
    [t("admin.context"), e.n_ctx ? t("admin.contextValue", { tokens: count(e.n_ctx), slots: count(e.n_slots) }) : null],
    [t("admin.parameters"), e.parameters ? t("admin.parametersValue", { all: big(e.parameters), active: big(e.active_parameters) }) : null],
    [t("admin.running"), e.started ? span(Date.now() / 1000 - e.started) : null],
    [t("admin.process"), e.pid ? String(e.pid) : null]]));
}

function memoryBlock(s) {
  const m = s.memory;
  const device = m.device_bytes;
  const experts = s.experts;
  const disk = Math.max(0, m.weight_bytes - m.loaded_weight_bytes);
  return block(t("admin.memory"),
    el("h3", {}, t("admin.byPart")),
    stack(t("admin.byPart"), Object.entries(s.parts).map(([name, part]) => [named(name), part.bytes])),
    el("h3", {}, t("admin.byPlace")),
    stack(t("admin.byPlace"), [[t("admin.placeGpu"), device], [t("admin.placeRam"), m.host_bytes], [t("admin.placeDisk"), disk]]),
    el("h3", {}, t("admin.byUse")),
    stack(t("admin.byUse"), [[t("admin.useWeights"), m.loaded_weight_bytes], [t("admin.useKv"), m.kv_bytes], [t("admin.useState"), m.state_bytes], [t("admin.useWork"), m.work_bytes], [t("admin.useRecall"), m.recall_bytes]]),
    facts([
      [t("admin.resident"), bytes(m.resident_bytes)], [t("admin.locked"), bytes(m.locked_bytes)], [t("admin.residentWeights"), bytes(m.resident_weight_bytes)], [t("admin.available"), bytes(m.memory_available)],
      [t("admin.kvUsed"), s.engine.n_blocks ? t("admin.kvUsedValue", { used: count(s.load.blocks_used), cached: count(s.load.blocks_cached), all: count(s.engine.n_blocks) }) : null],
      [t("admin.kvType"), m.kv_type ? t("admin.kvTypeValue", { type: m.kv_type, size: bytes(m.kv_stored_bytes_per_token) }) : null],
      [t("admin.formats"), Object.entries(s.parts).map(([name, p]) => `${named(name)}: ${Object.keys(p.formats).join(", ")}`).join("; ")],
      [t("admin.planned"), s.plan ? t("admin.plannedValue", { size: bytes(s.plan.device_bytes + s.plan.host_bytes), rate: s.plan.estimated_tok_s ? short(s.plan.estimated_tok_s) : "?" }) : null],
      [t("admin.planReason"), noteOf(s.plan?.reason)],
      [t("admin.expertDisk"), experts.asked ? t("admin.expertDiskValue", { rate: percent(experts.hits, experts.asked), read: bytes(experts.read_bytes), wait: span(experts.wait_seconds), cache: bytes(experts.resident_bytes) }) : null],
      [t("admin.expertBus"), experts.device_hits + experts.device_misses ? t("admin.expertBusValue", { rate: percent(experts.device_hits, experts.device_hits + experts.device_misses), bus: bytes(experts.bus_bytes), copied: bytes(experts.copied_bytes), cpu: percent(experts.on_cpu, experts.device_hits + experts.device_misses) }) : null],
    ]));
}

function loadBlock(s) {
  const l = s.load;
  return block(t("admin.sinceStart"), facts([
    [t("admin.jobsNow"), t("admin.jobsNowValue", { running: count(l.jobs_running), waiting: count(l.jobs_waiting) })],
    [t("admin.jobsAll"), t("admin.jobsAllValue", { accepted: count(l.jobs_accepted), refused: count(l.jobs_refused), failed: count(l.jobs_failed) })],
    [t("admin.jobsLossy"), l.jobs_lossy ? count(l.jobs_lossy) : null],
    [t("admin.promptTokens"), count(l.prompt_tokens)], [t("admin.cachedTokens"), `${count(l.cached_tokens)} (${percent(l.cached_tokens, l.prompt_tokens)})`],
    [t("admin.completionTokens"), count(l.completion_tokens)],
    [t("admin.rates"), t("admin.ratesValue", { decode: short(l.decode_tokens_per_s), prefill: short(l.prefill_tokens_per_s) })],
    [t("admin.busy"), percent(l.step_seconds, l.step_seconds + l.idle_seconds)]]));
}

function promptCacheBlock(s) {
  const c = s.prompt_cache;
  return block(t("admin.promptCache"), c.on ? null : el("p", { class: "muted" }, noteOf(c.note) || t("admin.promptCacheOff")), facts([
    [t("admin.promptCacheUsed"), c.budget_bytes ? t("admin.promptCacheUsedValue", { used: bytes(c.bytes), budget: bytes(c.budget_bytes), share: percent(c.bytes, c.budget_bytes) }) : null],
    [t("admin.promptCacheKept"), c.rows ? t("admin.promptCacheKeptValue", { n: c.users, tokens: count(c.row_tokens) }) : null],
    [t("admin.promptCacheSaved"), c.on ? t("admin.promptCacheSavedValue", { tokens: count(c.loaded_tokens), share: percent(c.loaded_tokens, s.load.prompt_tokens) }) : null],
    [t("admin.promptCacheTraffic"), c.on ? t("admin.promptCacheTrafficValue", { read: bytes(c.read_bytes), written: bytes(c.written_bytes) }) : null],
    [t("admin.promptCacheTrouble"), c.refused + c.damaged ? t("admin.promptCacheTroubleValue", { refused: count(c.refused), damaged: count(c.damaged) }) : null],
    [t("admin.promptCacheLeaving"), c.removals ? count(c.removals) : null]]),
  waitingRemovals(s) ? el("p", { class: "muted" }, t("admin.promptCacheWaits")) : null);
}

function processBlock(s) {
  const supervised = s.processes ? table(t("admin.processes"), [t("admin.program"), t("admin.pid"), t("admin.restarts")],
    s.processes.map((p) => [p.name, p.pid ? String(p.pid) : t("admin.notRunning"), count(p.restarts)])) : el("p", { class: "muted" }, t("admin.noSupervisor"));
  const pools = table(t("admin.pools"), [t("admin.pool"), t("admin.master"), t("admin.idle"), t("admin.busyWorkers"), t("admin.started"), t("admin.crashed")],
    s.pools.map((p) => [p.pool, p.master_pid ? String(p.master_pid) : "–", count(p.idle), count(p.busy), count(p.started), count(p.crashed)]));
  const children = s.pools.flatMap((p) => p.children.map((c) => [p.pool, String(c.pid), t(`admin.child_${c.state}`), count(c.requests), span((Date.now() - c.since) / 1000)]));
  return block(t("admin.processes"), supervised, el("h3", {}, t("admin.pools")), pools,
    el("details", {}, el("summary", {}, t("admin.eachWorker", { n: children.length })), table(t("admin.eachWorker", { n: children.length }), [t("admin.pool"), t("admin.pid"), t("admin.stateHead"), t("admin.requests"), t("admin.since")], children)));
}

function databaseBlock(s) {
  const d = s.database;
  if (d.error) return block(t("admin.database"), el("p", { class: "form-error" }, d.error));
  return block(t("admin.database"), facts([
    [t("admin.databaseSize"), bytes(d.database_bytes)], [t("admin.walSize"), bytes(d.wal_bytes)], [t("admin.freeSize"), bytes(d.free_bytes)],
    [t("admin.checkpoint"), dateTime(d.checkpoint_at)], [t("admin.backup"), dateTime(d.backup_at)],
    [t("admin.rows"), t("admin.rowsValue", { users: count(d.users), conversations: count(d.conversations), messages: count(d.messages) })],
    [t("admin.runningAnswers"), count(d.running)]]));
}

function versionBlock(s) {
  const v = s.versions;
  return block(t("admin.versions"), facts([
    ["Sluice", v.sluice], [t("admin.schema"), String(s.database.schema_version ?? "–")], [t("admin.fingerprint"), v.model_fingerprint && el("code", {}, v.model_fingerprint)],
    ["SQLite", v.sqlite], ["libsodium", v.libsodium], ["cJSON", v.cjson], [t("admin.webServer"), v.server], [t("admin.kernel"), v.kernel]]),
  s.database.sqlite_warning ? el("p", { class: "note" }, t("admin.knownBad"), " ", t(s.database.sqlite_warning.includes("WAL-reset") ? "checks.sqlite_wal_reset" : "checks.sqlite_withdrawn", { text: `SQLite ${v.sqlite}` })) : null);
}

function open(view, signal) {
  const body = el("div", { class: "admin-grid" });
  view.append(body);
  const draw = (s) => {
    const processes = processBlock(s);
    processes.querySelector("details").open = body.querySelector("details")?.open;
    render(body, engineBlock(s), loadBlock(s), memoryBlock(s), promptCacheBlock(s), processes, databaseBlock(s), versionBlock(s));
  };
  return poll(signal, 3000, "/api/admin/status", draw, (error) => { if (!body.childElementCount) render(body, problem(error)); }).first;
}

export const statusSection = { id: "status", get title() { return t("admin.status"); }, open };
