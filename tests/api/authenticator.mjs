// An authenticator in software, and the browser before it: what WebAuthn's two ceremonies send, right or wrong in any part.
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';

const sha256 = (data) => createHash('sha256').update(data).digest();
export const url64 = (data) => Buffer.from(data).toString('base64url');

/** CBOR of what a COSE key is made of: whole numbers, bytes, and a Map of them. */
function cbor(v) {
  const head = (major, n) => (n < 24 ? Buffer.from([major << 5 | n]) : n < 256 ? Buffer.from([major << 5 | 24, n])
    : Buffer.from([major << 5 | 25, n >> 8, n & 255]));
  if (typeof v === 'number') return v < 0 ? head(1, -1 - v) : head(0, v);
  if (Buffer.isBuffer(v)) return Buffer.concat([head(2, v.length), v]);
  return Buffer.concat([head(5, v.size), ...[...v].flatMap(([k, x]) => [cbor(k), cbor(x)])]);
}

const KINDS = {
  [-7]: {
    make: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    cose: (jwk) => new Map([[1, 2], [3, -7], [-1, 1], [-2, Buffer.from(jwk.x, 'base64url')], [-3, Buffer.from(jwk.y, 'base64url')]]),
    sign: (data, key) => sign('sha256', data, key),
  },
  [-8]: {
    make: () => generateKeyPairSync('ed25519'),
    cose: (jwk) => new Map([[1, 1], [3, -8], [-1, 6], [-2, Buffer.from(jwk.x, 'base64url')]]),
    sign: (data, key) => sign(null, data, key),
  },
  [-257]: {
    make: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
    cose: (jwk) => new Map([[1, 3], [3, -257], [-1, Buffer.from(jwk.n, 'base64url')], [-2, Buffer.from(jwk.e, 'base64url')]]),
    sign: (data, key) => sign('sha256', data, key),
  },
};

export const PRESENT = 1, VERIFIED = 4, CREDENTIAL = 0x40;

export class Authenticator {
  constructor(origin, { algorithm = -7, counts = true } = {}) {
    this.origin = origin;
    this.kind = KINDS[algorithm];
    const { privateKey, publicKey } = this.kind.make();
    this.key = privateKey;
    this.cose = cbor(this.kind.cose(publicKey.export({ format: 'jwk' })));
    this.id = randomBytes(32);
    this.counter = counts ? 1 : 0;
    this.counts = counts;
  }

  clientData(type, challenge, o = {}) {
    return Buffer.from(JSON.stringify({ type, challenge, origin: this.origin, crossOrigin: false, ...o.client }));
  }

  head(rpId, o = {}, flags = 0) {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(o.counter ?? this.counter);
    return Buffer.concat([sha256(o.rpId ?? rpId), Buffer.from([o.flags ?? (PRESENT | VERIFIED | flags)]), counter]);
  }

  /** Answers creation options. o: what is to be wrong. */
  create(options, o = {}) {
    this.handle = options.user.id;
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.id.length);
    const data = o.authData ?? Buffer.concat([this.head(options.rp.id, o, CREDENTIAL), Buffer.alloc(16), length, this.id, o.cose ?? this.cose]);
    return { id: url64(this.id), type: 'public-key', response: { clientDataJSON: url64(this.clientData('webauthn.create', options.challenge, o)),
      authenticatorData: url64(data), transports: ['internal', 'hybrid'] } };
  }

  /** Answers request options. */
  get(options, o = {}) {
    if (this.counts && o.counter === undefined) this.counter += 1;
    const client = this.clientData('webauthn.get', options.challenge, o);
    const data = o.authData ?? this.head(options.rpId, o);
    const signature = this.kind.sign(Buffer.concat([data, sha256(client)]), o.key ?? this.key);
    return { id: url64(o.id ?? this.id), type: 'public-key', response: { clientDataJSON: url64(client), authenticatorData: url64(data),
      signature: url64(o.signature ?? signature), userHandle: o.handle ?? this.handle } };
  }
}

