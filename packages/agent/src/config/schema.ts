/** The keys of the configuration file, each with its meaning, its form and its default. */

import { DEFAULT_OPTIONS as MANAGER } from '@livery/core'
import { FILE_DEFAULTS } from '@livery/core/file-secrets'
import { DEFAULT_RSA_KEYS, RSA_KEYS } from '@livery/native-keygen/defaults'
import { DEFAULT_NAMES, DEFAULT_OPTIONS as SERVER } from '@livery/sds-server/defaults'
import * as v from 'valibot'
import { formatDuration } from '../schema/duration.ts'
import { Fault } from '../schema/fault.ts'
import { DEFAULT_LEVEL } from '../schema/log-level.ts'
import { key, kindOf, list, object, record, section } from '../schema/schema-parts.ts'
import {
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
import { kubernetes, kubernetesSecrets } from './kubernetes-schema.ts'
import { output } from './output-schema.ts'
import { socket, socketOwner } from './socket-schema.ts'
import { trust } from './trust-schema.ts'

/** Where Istio and GKE mount the certificates of a workload. */
const WELL_KNOWN_FOLDERS = ['/etc/certs', '/var/run/secrets/workload-spiffe-credentials']

const rotation = section('when certificates are renewed, and how roots change', {
  ratio: key(
    'a certificate is renewed after this part of its remaining lifetime on arrival',
    numberBetween(0.01, 0.99, 'It is the part of the lifetime after which to renew: 0.5 is half'),
    { default: MANAGER.rotation.ratio },
  ),
  survive: v.optional(
    key(
      'in place of `ratio`: the outage of the CA that certificates outlive. They are renewed while this much time is left, and by `ratio` at the latest; `livery certs` shows how long each would last',
      duration({ min: '1s', max: '3650d' }),
    ),
  ),
  jitter: key(
    'the part of the lifetime by which renewals are spread to both sides',
    numberBetween(0, 0.5, 'It is the part of the lifetime by which renewals are spread: 0.1 is ±10 %'),
    { default: MANAGER.rotation.jitter },
  ),
  settle: v.optional(
    key(
      'the wait between trusting a new root and serving certificates under it; default: until every node can have learned it',
      duration({ min: '0s', max: '24h' }),
    ),
  ),
  ackWait: key('how long to wait for a client that does not answer', duration({ min: '0s', max: '24h' }), {
    default: formatDuration(MANAGER.rotation.ackWaitMs),
  }),
  overlap: v.optional(
    key(
      'how long a root stays after the CA stops listing it; default: 1 h, or `settle` plus half an hour',
      duration({ min: '0s', max: '365d' }),
    ),
  ),
})

const files = section(
  'secrets that streams name by their files',
  {
    allow: v.optional(
      key(
        'the folders whose files can be named; without it, `wellKnown` and the folders in the rules of sockets',
        list(path),
        { live: true },
      ),
    ),
    wellKnown: key(
      'folders with a certificate and key of an identity, which then replace those from the CA',
      list(path),
      {
        default: WELL_KNOWN_FOLDERS,
      },
    ),
    names: key(
      'aliases for secrets in files or in Kubernetes, or for tokens, such as `sds://gateway`',
      record(
        fileSecretName,
        input => new Fault(`is ${kindOf(input)}, not a mapping`, 'Write { "sds://NAME": "file-cert:CHAIN~KEY" }'),
      ),
      { default: {} },
    ),
    expired: key('what happens to a certificate in files at its end', oneOf(['withhold', 'serve']), {
      default: FILE_DEFAULTS.expired,
    }),
  },
  { module: 'files' },
)

const sds = section('connections and calls of all sockets', {
  takeover: key('the agent takes over from the one that runs, as with `livery run --takeover`', flag, {
    default: SERVER.takeover,
    module: 'takeover',
  }),
  refusedNames: key(
    'the response to a SotW stream that asks only for refused or unknown names: `omit` sends no resources, and Envoy keeps waiting; `invalidate` sends a secret whose time to live is 0 or that Envoy rejects, so that it continues without it, and from 1.37 on ends handshakes that wait for it',
    oneOf(['omit', 'invalidate']),
    { default: SERVER.refusedNames },
  ),
})

const admin = section('the admin endpoint', {
  address: key(
    'where the admin endpoint listens: by default at `admin.sock` in the folder of the first socket, or above it if pods mount it (`identify`). TCP has no login: loopback, for a browser',
    listenAddress,
    { default: 'unix:admin.sock' },
  ),
  mode: v.optional(key('the mode of a UNIX socket; without it `"0600"`', socketMode)),
  ...socketOwner,
  tokenFile: v.optional(
    key(
      'a file of mode 0600 with at least 16 characters. A caller that sends them as `Authorization: Bearer …` may renew, change roots, and set every log level',
      path,
    ),
  ),
})

const settings = {
  trustDomain: key("the trust domain of the agent's identities", trustDomain, { default: 'cluster.local' }),
  keyType: key('the type of new keys', keyType, { default: MANAGER.keyType }),
  ttl: key(
    "the lifetime to ask the CA for; the certificate's own dates decide",
    duration({ min: '1s', max: '3650d' }),
    { default: formatDuration(MANAGER.ttlSeconds * 1000) },
  ),
  rotation,
  trust,
  retry: section('the wait between attempts after an error of the CA, per identity', {
    min: key('after the first failure; it doubles with each', duration({ min: '10ms', max: '1h' }), {
      default: formatDuration(MANAGER.retry.minMs),
    }),
    max: key('the longest, also where the CA asks to wait', duration({ min: '10ms', max: '24h' }), {
      default: formatDuration(MANAGER.retry.maxMs),
    }),
  }),
  concurrency: key("the most calls to the CA at once; the number adapts to the CA's capacity", wholeNumber(1, 10_000), {
    default: MANAGER.concurrency,
  }),
  rsaKeys: key(
    "how RSA keys are made: `library` (aws-lc's generator), `search` (our search for primes), `simd` (the same with AVX-512 IFMA or AVX2, or `search` on a CPU without these)",
    oneOf(RSA_KEYS),
    { default: DEFAULT_RSA_KEYS },
  ),
  ca: v.optional(
    key(
      'the CA that signs; required. Its keys depend on its `plugin`',
      v.pipe(v.unknown(), v.metadata({ form: 'mapping' })),
    ),
  ),
  identities: key('the identities that are held', list(identity), { default: [], live: true }),
  removal: section('what happens to an identity that leaves the configuration', {
    grace: key('how long it is still held and served', duration({ min: '0s', max: '30d' }), {
      default: formatDuration(MANAGER.removalGraceMs),
    }),
  }),
  idle: section('what happens to an identity that nobody streams', {
    after: key('the time without a stream after which it is idle', duration({ min: '1s', max: '3650d' }), {
      default: formatDuration(MANAGER.idle.afterMs),
    }),
    action: key(
      'whether a listed identity is still renewed, or loses its key until a stream asks; an identity on demand is forgotten',
      oneOf(['renew', 'drop']),
      { default: MANAGER.idle.action },
    ),
  }),
  maxIdentities: key(
    'the most identities held, at about 12 KB each; listed identities always have a place',
    wholeNumber(1, 1_000_000),
    { default: MANAGER.maxIdentities },
  ),
  kubernetes: v.optional(key('the pods of this node get identities', kubernetes, { module: 'pods' })),
  kubernetesSecrets: v.optional(
    key('Secrets of Kubernetes that callers name', kubernetesSecrets, { module: 'kubernetesSecrets' }),
  ),
  store: v.optional(
    key(
      'certificates and keys on disk, for a warm restart; without it, no key is ever on disk',
      object({
        directory: key('the folder, made with mode 0700', path),
        keyFile: v.optional(
          key(
            'a file with 32 random bytes that seal everything in `directory`, such as a systemd credential; without it, keys lie there in plain text',
            path,
          ),
        ),
        bootstrap: v.optional(
          key('a folder with pairs that are served until the CA answers; it is never written', path),
        ),
      }),
      { module: 'store' },
    ),
  ),
  sharedFolders: key('folders that others may write to, and whose writers are trusted', list(path), { default: [] }),
  sockets: key('the shared sockets', list(socket), { default: [], live: true }),
  files,
  output: v.optional(
    key('certificates in files, for every identity without its own `output`', output, { live: true, module: 'output' }),
  ),
  names: section('names with a special meaning in requests', {
    default: key("the caller's own identity", nonEmpty, { default: DEFAULT_NAMES.default }),
    root: key("the roots of the agent's trust domain", nonEmpty, { default: DEFAULT_NAMES.root }),
    all: key('the roots of all trust domains', nonEmpty, { default: DEFAULT_NAMES.all }),
  }),
  sds,
  admin,
  health: v.optional(
    key(
      'a second listener, with `/healthz/*` and `/metrics` only',
      object({ address: key('where it listens', hostPort) }),
    ),
  ),
  drain: key('how long streams may continue when the agent ends', duration({ min: '0s', max: '1h' }), {
    default: formatDuration(SERVER.drainMs),
  }),
  log: section('the log, on standard error', {
    level: key('the least severe lines that each [scope](logs.md#scopes) writes', logLevels, {
      default: DEFAULT_LEVEL,
      live: true,
    }),
    format: key('`pretty` is the default on a terminal', oneOf(['json', 'pretty']), {
      default: ({ terminal }) => (terminal ? 'pretty' : 'json'),
    }),
  }),
  profile: v.optional(
    key('fills in what an unchanged istio-proxy needs, below what the file writes', oneOf(['istio'])),
  ),
}

/** The whole file except `ca`, whose keys depend on its plugin, with every default filled in and every path absolute. */
export const settingsSchema = object(settings, name =>
  /^log[_-]?level$/i.test(name) ? new Fault('unknown key', 'Write log: { level: info }') : undefined,
)

/** The validated settings: durations in milliseconds, addresses split, paths absolute. */
export type Settings = v.InferOutput<typeof settingsSchema>
