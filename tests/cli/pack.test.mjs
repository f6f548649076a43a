// sluice pack: the sidecar, a kill in the middle, a full disk, and what info says of it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, realpathSync, statSync, truncateSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { once } from "node:events";
import test from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { demo, folder, sluice, start } from "./sluice.mjs";

const cpu = ["--backend", "cpu"];
async function ok(args) {
  const r = await sluice(args);
  assert.equal(r.code, 0, `${args.join(" ")}: ${r.err}`);
  return r.out;
}
const facts = async (model) => JSON.parse(await ok(["info", model, "--json", ...cpu])).routed_experts;

function copy(t) { // a model of its own, so that a sidecar may lie beside it
  const model = join(folder(t), "model");
  cpSync(demo, model, { recursive: true });
  return { model, sidecar: join(model, "model.safetensors.experts") };
}

test("pack writes beside the model and info says so", async (t) => {
  const { model, sidecar } = copy(t);
  const before = await facts(model);
  assert.equal(before.packed.state, "none");
  assert.equal(before.count, 192);
  assert.ok(before.reads_per_expert > 1);
  assert.ok(before.read_bytes > before.packed.read_bytes);
  await ok(["pack", model]);
  assert.equal(statSync(sidecar).size, before.packed.file_bytes);
  const after = await facts(model);
  assert.deepEqual({ ...after.packed, state: "none" }, before.packed);
  assert.equal(after.packed.state, "used");
  assert.match(await ok(["pack", model]), /is there already/);
  assert.deepEqual(JSON.parse(await ok(["pack", model, "--json"])), { path: sidecar, was_there: true });
  unlinkSync(sidecar);
  const said = JSON.parse(await ok(["pack", model, "--json"]));
  assert.deepEqual({ ...said, ms: 0 }, { path: sidecar, was_there: false, bytes: said.bytes, experts: before.count, experts_kept: 0, ms: 0 });
  assert.ok(said.bytes > 0 && said.bytes <= before.packed.file_bytes);
  assert.match(await ok(["info", model, ...cpu]), /used: .*model\.safetensors\.experts/);
  truncateSync(sidecar, 8192);
  const broken = await facts(model);
  assert.equal(broken.packed.state, "refused");
  assert.match(broken.packed.reason, /8192 bytes/);
  await ok(["pack", model]);
  assert.equal((await facts(model)).packed.state, "used");
});

test("a pack that is killed goes on where it was", async (t) => {
  const { model } = copy(t), whole = join(folder(t), "a"), cut = join(folder(t), "b");
  await ok(["pack", model, "--output", whole]);
  const part = join(cut, "model.safetensors.experts.part");
  const child = start(["pack", model, "--output", cut], { stdio: "ignore" });
  while (!existsSync(part) && child.exitCode === null) await wait(1);
  child.kill("SIGKILL");
  await once(child, "exit").catch(() => {});
  await ok(["pack", model, "--output", cut]);
  const name = "model.safetensors.experts";
  assert.ok(readFileSync(join(whole, name)).equals(readFileSync(join(cut, name))));
  assert.ok(!existsSync(part));
});

test("SIGINT leaves what the next run takes up", async (t) => {
  const { model } = copy(t), out = join(folder(t), "out");
  const child = start(["pack", model, "--output", out], { stdio: ["ignore", "ignore", "pipe"] });
  const part = join(out, "model.safetensors.experts.part");
  let err = "";
  child.stderr.on("data", (d) => (err += d));
  while (!existsSync(part) && child.exitCode === null) await wait(1);
  child.kill("SIGINT");
  const [code] = child.exitCode === null ? await once(child, "exit") : [child.exitCode];
  if (code !== 0) assert.match(err, /run it again to go on/); // or it was faster than the signal
  await ok(["pack", model, "--output", out]);
  assert.ok(existsSync(join(out, "model.safetensors.experts")));
});

test("a packed file elsewhere is found by its link beside the model", async (t) => {
  const { model, sidecar } = copy(t), out = join(folder(t), "fast");
  assert.match(await ok(["pack", model, "--output", out]), /leads to it/);
  assert.equal(readlinkSync(sidecar), join(realpathSync(out), "model.safetensors.experts"));
  assert.equal((await facts(model)).packed.state, "used");
  await ok(["pack", model, "--output", out]); // once more: the link is there
  unlinkSync(sidecar);
  await ok(["pack", model]); // a file of its own now, which a link does not replace
  assert.match(await ok(["pack", model, "--output", out]), /is there as well/);
  assert.ok(!lstatSync(sidecar).isSymbolicLink());
});

test("a full disk is told before anything is written", async (t) => {
  const disk = join(folder(t), "disk");
  mkdirSync(disk);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], { stdio: "ignore" });
  } catch {
    t.skip("mounting is not allowed here");
    return;
  }
  try {
    const r = await sluice(["pack", demo, "--output", disk]);
    assert.equal(r.code, 1);
    assert.match(r.err, /needs 0\.02 GB more, the disk has 0\.00 GB free/);
    assert.deepEqual(readdirSync(disk), []);
  } finally {
    execFileSync("umount", [disk]);
  }
});

test("wrong use", async (t) => {
  for (const args of [["pack"], ["pack", demo, demo], ["pack", demo, "--nope"]]) assert.equal((await sluice(args)).code, 2, args.join(" "));
  assert.equal((await sluice(["pack", join(folder(t), "none")])).code, 1);
});
