/** The keys of the configuration file: names, forms and bounds. A new knob is one line here and one in `defaults.ts`. */

import { RSA_KEYS } from '@livery/native-keygen/defaults'
import * as v from 'valibot'
import { Fault } from '../schema/fault.ts'
import { key, kindOf, list, object, record } from '../schema/schema-parts.ts'
import {
  account,
  duration,
  fileSecretName,
  flag,
  hostPort,
  keyType,
  listenAddress,
  logLevels,
  nonEmpty,
  numberBetween,
  oneOf,
  path,
  socketMode,
  trustDomain,
  wholeNumber,
} from '../schema/values.ts'
import { identity } from './identity-schema.ts'
import { kubernetes } from './kubernetes-schema.ts'
import { output } from './output-schema.ts'
import { socket } from './socket-schema.ts'
import { trust } from './trust-schema.ts'

const rotation = object({
  ratio: key(
    'a certificate is renewed after this part of the lifetime that is left when it arrives',
    numberBetween(0.01, 0.99, 'It is the part of the lifetime after which to renew: 0.5 is half'),
  ),
  jitter: key(
    'the part of the lifetime by which renewals are spread to both sides',
    numberBetween(0, 0.5, 'It is the part of the lifetime by which renewals are spread: 0.1 is ±10 %'),
  ),
  settle: v.optional(
    key(
      'how long a new root is only trusted before certificates under it are served; without it, until every node knows it',
      duration({ min: '0s', max: '24h' }),
    ),
  ),
  ackWait: key('how long a client that does not answer is waited for', duration({ min: '0s', max: '24h' })),
  overlap: v.optional(
    key(
      'how long a root stays that the CA names no longer; without it 1 h, or half an hour more than `settle`',
      duration({ min: '0s', max: '365d' }),
    ),
  ),
})

const files = object({
  allow: v.optional(
    key(
      'the folders in which files can be; without it, `wellKnown` and those that the rules of sockets name',
      list(path),
    ),
  ),
  wellKnown: key('folders with the pair of an identity, which is then served in place of one of the CA', list(path)),
  names: key(
    'other names of secrets in files, such as `sds://gateway`',
    record(
      fileSecretName,
      input => new Fault(`is ${kindOf(input)}, not a mapping`, 'Write { "sds://NAME": "file-cert:CHAIN~KEY" }'),
    ),
  ),
  expired: key('what happens to a certificate in files at its end', oneOf(['withhold', 'serve'])),
  poll: key('how often files are looked at where no event comes', duration({ min: '1s', max: '1h' })),
})

const sds = object({
  takeover: key('the agent takes over from the one that runs, as with `livery run --takeover`', flag),
  refusedNames: key(
    'what a SotW stream gets that asks for refused or unknown names alone: `omit`, a response without resources, for which Envoy waits on; `invalidate`, a secret that Envoy rejects, so that it continues without',
    oneOf(['omit', 'invalidate']),
  ),
})

const admin = object({
  address: key(
    'where the admin endpoint listens: by default at `admin.sock` in the folder of the first socket. TCP has no login: loopback, for a browser',
    listenAddress,
  ),
  mode: v.optional(key('of a UNIX socket; without it `"0600"`', socketMode)),
  owner: v.optional(key("of a UNIX socket; without it, the agent's user", account('/etc/passwd'))),
  group: v.optional(key("of a UNIX socket; without it, that of the agent's user", account('/etc/group'))),
  tokenFile: v.optional(
    key(
      'a file of mode 0600 with at least 16 characters. A caller that sends them as `Authorization: Bearer …` may renew, change roots, and set every log level',
      path,
    ),
  ),
})

const settings = {
  trustDomain: key("the trust domain of the agent's identities", trustDomain),
  keyType: key('the type of new keys', keyType),
  ttl: key(
    "the lifetime that the CA is asked for: the certificate's own dates decide",
    duration({ min: '1s', max: '3650d' }),
  ),
  rotation: key('when certificates are renewed, and how roots change', rotation),
  trust: key('roots beside those that the CA sends, and revocation lists', trust),
  retry: key(
    'between attempts after an error of the CA, for each identity',
    object({
      min: key('after the first failure; it doubles with each', duration({ min: '10ms', max: '1h' })),
      max: key('the longest, also where the CA asks to wait', duration({ min: '10ms', max: '24h' })),
    }),
  ),
  concurrency: key(
    'the most calls to the CA at once; how many there are adapts to what it takes',
    wholeNumber(1, 10_000),
  ),
  rsaKeys: key(
    "how RSA keys are made: `library` (aws-lc's generator), `search` (our search for primes), `simd` (the same with AVX-512 IFMA or AVX2, or `search` on a CPU without these)",
    oneOf(RSA_KEYS),
  ),
  ca: v.optional(
    key(
      'who signs; required. Its keys are those of its `plugin`',
      v.pipe(v.unknown(), v.metadata({ form: 'mapping' })),
    ),
  ),
  identities: key('the identities that are held', list(identity)),
  removal: key(
    'what happens to an identity that leaves the configuration',
    object({ grace: key('how long it is still held and served', duration({ min: '0s', max: '30d' })) }),
  ),
  idle: key(
    'what happens to an identity that nobody streams',
    object({
      after: key('after how long it is idle', duration({ min: '1s', max: '3650d' })),
      action: key(
        'whether a listed one is renewed all the same, or loses its key until a stream asks; what came on demand is forgotten',
        oneOf(['renew', 'drop']),
      ),
    }),
  ),
  maxIdentities: key(
    'the most identities held, at about 12 KB each; the listed ones always have their place',
    wholeNumber(1, 1_000_000),
  ),
  kubernetes: v.optional(key('the pods of this node get identities', kubernetes)),
  store: v.optional(
    key(
      'certificates and keys on disk, for a warm restart; without it, no key is ever on disk',
      object({
        directory: key('the folder, made with mode 0700', path),
        bootstrap: v.optional(
          key('a folder with pairs that are served until the CA answers; it is never written', path),
        ),
      }),
    ),
  ),
  sharedFolders: key('folders that others may write to, and whose writers are trusted', list(path)),
  sockets: key('the shared sockets', list(socket)),
  files: key('secrets that streams name by their files', files),
  output: v.optional(key('certificates in files, for every identity without its own `output`', output)),
  names: key(
    'names with a meaning of their own, in requests of clients',
    object({
      default: key("the caller's own identity", nonEmpty),
      root: key("the roots of the agent's trust domain", nonEmpty),
      all: key('the roots of all trust domains', nonEmpty),
    }),
  ),
  sds: key('connections and calls of all sockets', sds),
  admin: key('the admin endpoint', admin),
  health: v.optional(
    key(
      'a second listener, with `/healthz/*` and `/metrics` only',
      object({ address: key('where it listens', hostPort) }),
    ),
  ),
  drain: key('how long streams may continue when the agent ends', duration({ min: '0s', max: '1h' })),
  log: key(
    'the log, on standard error',
    object({
      level: key('the least severe lines that each [scope](logs.md#scopes) writes', logLevels),
      format: key('`pretty` is the default on a terminal', oneOf(['json', 'pretty'])),
    }),
  ),
  profile: v.optional(
    key('fills in what an unchanged istio-proxy needs, below what the file writes', oneOf(['istio'])),
  ),
}

/** The whole file but `ca`, whose keys depend on its plugin, with every default filled in and every path absolute. */
export const settingsSchema = object(settings)

/** The validated settings: durations in milliseconds, addresses split, paths absolute. */
export type Settings = v.InferOutput<typeof settingsSchema>
