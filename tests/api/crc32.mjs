// The checksum of ZIP archives (zlib's own came with node 22).
const table = Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

export function crc32(bytes) {
  let c = ~0;
  for (const b of bytes) c = table[(c ^ b) & 255] ^ (c >>> 8);
  return ~c >>> 0;
}
