// The files of a ZIP, by its directory: {name: Buffer}. Every entry's length and checksum are compared.
import assert from 'node:assert/strict';
import { inflateRawSync } from 'node:zlib';
import { crc32 } from './crc32.mjs';

export function unzip(bytes) {
  const end = bytes.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  assert.ok(end >= 0, 'no directory at the end');
  const n = bytes.readUInt16LE(end + 10);
  const files = {};
  for (let i = 0, at = bytes.readUInt32LE(end + 16); i < n; i++) {
    assert.equal(bytes.readUInt32LE(at), 0x02014b50);
    const [method, sum, packed, size] = [bytes.readUInt16LE(at + 10), bytes.readUInt32LE(at + 16), bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 24)];
    const [nameLength, extra, comment, where] = [bytes.readUInt16LE(at + 28), bytes.readUInt16LE(at + 30), bytes.readUInt16LE(at + 32), bytes.readUInt32LE(at + 42)];
    const name = bytes.toString('utf8', at + 46, at + 46 + nameLength);
    const begin = where + 30 + bytes.readUInt16LE(where + 26) + bytes.readUInt16LE(where + 28);
    const raw = bytes.subarray(begin, begin + packed);
    const data = method === 8 ? inflateRawSync(raw) : Buffer.from(raw);
    assert.ok([0, 8].includes(method) && data.length === size && crc32(data) === sum, `${name} is damaged`);
    assert.ok(!(name in files), `${name} is there twice`);
    files[name] = data;
    at += 46 + nameLength + extra + comment;
  }
  return files;
}
