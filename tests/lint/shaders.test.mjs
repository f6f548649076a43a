// The compiled shaders are valid SPIR-V: drivers take much that is not, until one of them does not.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const top = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const compiled = path.join(top, 'build/release/engine/vulkan/shaders.spv.h.d');
const skip = !existsSync(compiled) ? 'built without Vulkan' : spawnSync('spirv-val', ['--version']).error ? 'spirv-val is not installed' : false;

test('each shader is valid SPIR-V for Vulkan 1.2', { skip }, () => {
  const work = mkdtempSync(path.join(os.tmpdir(), 'sluice-spirv-')), wrong = [];
  const names = readdirSync(compiled).filter((name) => name.endsWith('.spv.h'));
  assert.ok(names.length > 50, `${names.length} shaders`);
  try {
    for (const name of names) {
      const words = Uint32Array.from(readFileSync(path.join(compiled, name), 'utf8').match(/\b0x[0-9a-f]{8}\b/g), Number);
      const module = path.join(work, 'module.spv');
      writeFileSync(module, words);
      const { status, stderr } = spawnSync('spirv-val', ['--target-env', 'vulkan1.2', module], { encoding: 'utf8' });
      if (status !== 0) wrong.push(`${name}: ${stderr.trim().split('\n')[0]}`);
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  assert.deepEqual(wrong, []);
});
