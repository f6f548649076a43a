// Runs the installed command.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

export const top = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const prefix = process.env.SLUICE_PREFIX || join(top, "build/root");
export const command = join(prefix, "bin/sluice");
export const demo = join(top, "engine/demo-model");
export const tiny = join(top, "tests/data/golden/qwen3moe/mlx-q4"); // random; what a software GPU computes of it is soon done

// {code, out, err}; never throws for an exit status. input: a string or bytes for standard input.
export function sluice(args, { input, timeout = 300000, ...options } = {}) {
  return new Promise((done) => {
    const child = execFile(command, args, { timeout, maxBuffer: 1 << 28, ...options }, (error, out, err) =>
      done({ code: error ? (typeof error.code === "number" ? error.code : -1) : 0, out, err, signal: error?.signal }));
    child.stdin.on("error", () => {});
    child.stdin.end(input ?? "");
  });
}
export const start = (args, options) => spawn(command, args, options);

export function folder(t) {
  const dir = mkdtempSync(join(tmpdir(), "sluice-cli-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
/** What a packed file of tests/data holds. */
export const unpacked = (path) => gunzipSync(readFileSync(join(top, "tests/data", `${path}.gz`))).toString();
export const lines = (text) => text.split("\n").filter(Boolean).map((l) => JSON.parse(l));
