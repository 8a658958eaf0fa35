/** Every way to write a wrong value, with the whole text of its refusal. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { inspect } from 'node:util'
import fc from 'fast-check'
import { directory, file, load, MINIMAL } from '../../test/config-file.ts'
import { ConfigError } from '../schema/config-error.ts'
import { loadConfig } from './load.ts'
import { configJson, printConfig } from './print.ts'

/** The message without the directory of the file. */
async function refusal(text: string): Promise<string> {
  try {
    await load(text)
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    return error.message.replaceAll(`${directory}/`, '').replaceAll(directory, 'DIRECTORY')
  }
  return assert.fail('it was accepted')
}

/** Text that is appended to the minimal file (or replaces a part of it), and the line that refuses it. */
const REFUSALS: readonly { readonly text: string; readonly replaces?: string; readonly says: string }[] = [
  {
    text: 'ttl: 24',
    says: 'livery.yaml:4: ttl: 24 is not a duration. Write a number with a unit: 500ms, 5s, 30m, 24h or 90d.',
  },
  { text: 'ttl: 10ms', says: 'livery.yaml:4: ttl: "10ms" is shorter than 1s. Write 1s or more.' },
  { text: 'drain: 2h', says: 'livery.yaml:4: drain: "2h" is longer than 1h. Write 1h or less.' },
  { text: 'ttl:', says: 'livery.yaml:4: ttl: has no value. Write one after the colon, or remove the line.' },
  {
    text: 'keyTyp: rsa-2048',
    says: 'livery.yaml:4: keyTyp: unknown key. Did you mean "keyType"? Known here: trustDomain, keyType, ttl, rotation, trust, retry, concurrency, rsaKeys, ca, identities, removal, idle, maxIdentities, kubernetes, store, sharedFolders, sockets, files, output, names, sds, admin, health, drain, log, profile.',
  },
  {
    text: 'keyType: rsa-1024',
    says: 'livery.yaml:4: keyType: "rsa-1024" is none of ecdsa-p256, ecdsa-p384, rsa-2048, rsa-3072, rsa-4096. Write one of these.',
  },
  {
    text: 'rotation: { ratoi: 0.5 }',
    says: 'livery.yaml:4: rotation.ratoi: unknown key. Did you mean "ratio"? Known here: ratio, jitter, settle, ackWait, overlap.',
  },
  {
    text: 'rotation: { ratio: "0.5" }',
    says: 'livery.yaml:4: rotation.ratio: "0.5" is not a number from 0.01 to 0.99. It is the part of the lifetime after which to renew: 0.5 is half.',
  },
  {
    text: 'rotation: { ratio: 0.9, jitter: 0.2 }',
    says: 'livery.yaml:4: rotation.ratio: 0.9 ± jitter 0.2 leaves the lifetime. Keep ratio - jitter over 0 and ratio + jitter under 1.',
  },
  {
    text: 'rotation: 0.5',
    says: 'livery.yaml:4: rotation: 0.5 is a number, not a mapping. Write ratio, jitter, settle, … under it.',
  },
  {
    text: 'trust: { anchors: roots.pem }',
    says: 'livery.yaml:4: trust.anchors: "roots.pem" is a string, not a list. Write "- " before each entry, or [ ] around them.',
  },
  {
    text: 'trust: { anchors: ["-----BEGIN CERTIFICATE-----"] }',
    says: 'livery.yaml:4: trust.anchors[0]: "-----BEGIN CERTIFICATE-----" has no certificate. Write the roots as PEM: -----BEGIN CERTIFICATE-----.',
  },
  { text: 'trust: { poll: 1s }', says: 'livery.yaml:4: trust.poll: "1s" is shorter than 10s. Write 10s or more.' },
  {
    text: 'trust: { federated: { other.example: {} } }',
    says: 'livery.yaml:4: trust.federated."other.example".url: is missing. Add the key "url".',
  },
  {
    text: 'trust: { federated: { other.example: { url: "http://other.example/bundle" } } }',
    says: 'livery.yaml:4: trust.federated."other.example".url: "http://other.example/bundle" is not an https URL. Write it like https://other.example/bundle.',
  },
  {
    text: 'trust: { federated: { other.example: { url: "https://me:secret@other.example/bundle" } } }',
    says: 'livery.yaml:4: trust.federated."other.example".url: "https://[secret]@other.example/bundle" has a user name or a password. Remove it: a bundle is public.',
  },
  {
    text: 'trust: { federated: { other.example: { file: a.pem, url: "https://other.example" } } }',
    says: 'livery.yaml:4: trust.federated."other.example".url: unknown key. Did you mean "crl"? Known here: file, crl.',
  },
  {
    text: 'trust: { federated: { Other: { file: a.pem } } }',
    says: 'livery.yaml:4: trust.federated.Other: is not a trust domain: it has a character other than lower-case letters, digits, ".", "_" and "-". Write a name such as other.example.',
  },
  {
    text: 'trust: { federated: { cluster.local: { file: a.pem } } }',
    says: 'livery.yaml:4: trust.federated."cluster.local": is the trust domain of this agent. List its roots under trust.anchors.',
  },
  {
    text: 'concurrency: 0',
    says: 'livery.yaml:4: concurrency: 0 is not a whole number from 1 to 10000. Write digits only, without quotes.',
  },
  {
    text: 'rsaKeys: openssl',
    says: 'livery.yaml:4: rsaKeys: "openssl" is none of library, search, simd. Write one of these.',
  },
  {
    text: 'removal: 5m',
    says: 'livery.yaml:4: removal: "5m" is a string, not a mapping. Write grace under it.',
  },
  {
    text: 'removal: { grace: 31d }',
    says: 'livery.yaml:4: removal.grace: "31d" is longer than 30d. Write 30d or less.',
  },
  {
    text: 'idle: { after: 0s }',
    says: 'livery.yaml:4: idle.after: "0s" is shorter than 1s. Write 1s or more.',
  },
  {
    text: 'idle: { action: forget }',
    says: 'livery.yaml:4: idle.action: "forget" is none of renew, drop. Write one of these.',
  },
  {
    text: 'maxIdentities: "20000"',
    says: 'livery.yaml:4: maxIdentities: "20000" is not a whole number from 1 to 1000000. Write digits only, without quotes.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{0..20000}" }]',
    says: 'livery.yaml: maxIdentities: 20000 is fewer than the 20001 under identities. Write 20001 or more, at about 12 KB of memory each.',
  },
  { text: 'retry: { min: 10m }', says: 'livery.yaml:4: retry.min: is longer than retry.max. Swap them.' },
  {
    text: 'trustDomain: Cluster.Local',
    says: 'livery.yaml:4: trustDomain: "Cluster.Local" is not a trust domain: it has a character other than lower-case letters, digits, ".", "_" and "-". Write one such as cluster.local.',
  },
  {
    text: 'trustDomain: example.org',
    says: 'livery.yaml:2: identities[0]: spiffe://cluster.local/ns/default/sa/web is not in the trust domain example.org of this agent. Change it, or trustDomain.',
  },
  {
    text: 'names: { root: default }',
    says: 'livery.yaml:4: names.root: is the same as names.default. Choose another.',
  },
  {
    text: 'files: { names: { "sds://a": "file-cert:/a" } }',
    says: 'livery.yaml:4: files.names."sds://a": "file-cert:/a" is not file-cert:CHAIN~KEY. Write such as file-cert:/a/cert.pem~/a/key.pem or file-root:/a/ca.pem.',
  },
  {
    text: 'files: { names: { ROOTCA: "file-root:/a/ca.pem" } }',
    says: 'livery.yaml:4: files.names.ROOTCA: has a meaning already. Choose one of another form, such as sds://NAME.',
  },
  {
    text: 'files: { allow: /etc/certs }',
    says: 'livery.yaml:4: files.allow: "/etc/certs" is a string, not a list. Write "- " before each entry, or [ ] around them.',
  },
  {
    text: 'output: { directory: out, reload: { command: [nginx, -s, reload] } }',
    says: 'livery.yaml:4: output.reload.command: ["nginx","-s","reload"] does not begin with an absolute path. Write such as [/usr/sbin/nginx, -s, reload].',
  },
  {
    text: 'output: { directory: out, reload: { signal: SIGKILL, pidFile: pid } }',
    says: 'livery.yaml:4: output.reload.signal: "SIGKILL" is none of SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGTERM. Write one of these.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{0..1}", output: { directory: out } }]',
    says: 'livery.yaml:2: identities[0].output: out is one path for 2 identities. Write {name} in it, which is the last segment of each SPIFFE ID.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[spiffe://cluster.local/a, spiffe://cluster.local/b]\noutput: { directory: out }',
    says: 'livery.yaml:3: output: out is the output directory of spiffe://cluster.local/a and of spiffe://cluster.local/b. Give each its own, or write {name}, the last segment of its SPIFFE ID, in output.directory.',
  },
  {
    text: 'files: { expired: drop }',
    says: 'livery.yaml:4: files.expired: "drop" is none of withhold, serve. Write one of these.',
  },
  {
    text: 'admin: { address: 15100 }',
    says: 'livery.yaml:4: admin.address: 15100 is a number, not a string. Write host:port.',
  },
  {
    text: 'admin: { address: "localhost:99999" }',
    says: 'livery.yaml:4: admin.address: "localhost:99999" is not an address. Write host:port, such as 127.0.0.1:15100 or "[::1]:15100".',
  },
  { text: 'health: {}', says: 'livery.yaml:4: health.address: is missing. Add the key "address".' },
  {
    text: 'log: { level: warning }',
    says: 'livery.yaml:4: log.level: "warning" is none of trace, debug, info, warn, error, fatal, silent. Write one of these.',
  },
  {
    text: 'log: { level: "info,sdss:debug" }',
    says: 'livery.yaml:4: log.level: "info,sdss:debug" has the scope "sdss", none of admin, agent, ca, config, files, kubernetes, output, plugin, scheduler, sds, store, takeover, trust. Did you mean sds?',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, rootCert: root.pem',
    says: 'livery.yaml:1: ca.address: is missing. Add the key "address".',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012"',
    says: 'livery.yaml:1: ca.rootCert: Cannot use citadel without rootCert. Name the file with the root of the CA, or "system" for a CA with a public certificate.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: ca, rootCert: system',
    says: 'livery.yaml:1: ca.address: "ca" is not of the form "host:port". Write it like "127.0.0.1:15012", or "[::1]:15012" for IPv6.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, tokenfile: x',
    says: 'livery.yaml:1: ca.tokenfile: unknown key. Did you mean "tokenFile"? Known here: plugin, rootCert, clientCertificate, tokenFile, credentials, address, serverName, clusterId, certSigner, headers, impersonate, timeout.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, impersonate: "true"',
    says: 'livery.yaml:1: ca.impersonate: "true" is a string, not true or false. Write true or false, without quotes.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, clientCertificate: { certFile: a }',
    says: 'livery.yaml:1: ca.clientCertificate.keyFile: is missing. Add the key "keyFile".',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: stss }',
    says: 'livery.yaml:1: ca.credentials.source: "stss" is none of the built-in token-file, gce-metadata, workload-token, sts, static, and is not found from DIRECTORY. Install it there, or name a file such as ./my-ca.mjs. Did you mean the built-in sts?',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: token-file, file: x }',
    says: 'livery.yaml:1: ca.credentials.file: unknown key. Write tokenFile under ca.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, credentials: {}',
    says: 'livery.yaml:1: ca.credentials.source: is missing. Add the key "source".',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: sts }',
    says: 'livery.yaml:1: ca.credentials.audience: is missing. Add the key "audience".',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, credentials: { source: static, token: "s3 cret" }',
    says: 'livery.yaml:1: ca.credentials.token: is empty or has other characters than a token. Write the token alone.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: citadel, address: "ca:15012", rootCert: system, credentials: s3cret',
    says: 'livery.yaml:1: ca.credentials: is a string, not a mapping. Write source under it.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: embedded, tokenFile: x',
    says: 'livery.yaml:1: ca.tokenFile: unknown key. The plugin embedded uses no credentials. Remove it.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: embedded, rootCert: system',
    says: 'livery.yaml:1: ca.rootCert: unknown key. The plugin embedded makes no TLS connection that uses it. Remove it.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: kubernetes-csr, signerName: example.com/workloads, rootCert: system',
    says: 'livery.yaml:1: ca.rootCert: unknown key. The plugin kubernetes-csr makes no TLS connection that uses it. Remove it.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: spiffe, address: "unix:///s", timeout: 1',
    says: 'livery.yaml:1: ca.timeout: 1 is not a duration. Write a number with a unit: 500ms, 5s, 30m, 24h or 90d.',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: google-ca, service: cass',
    says: 'livery.yaml:1: ca.service: "cass" is none of cas, mesh-ca. Did you mean cas?',
  },
  {
    replaces: 'plugin: embedded',
    text: 'plugin: embeded',
    says: 'livery.yaml:1: ca.plugin: "embeded" is none of the built-in citadel, embedded, failover, file-mount, google-ca, kubernetes-csr, spiffe, step-ca, vault, and is not found from DIRECTORY. Install it there, or name a file such as ./my-ca.mjs. Did you mean the built-in embedded?',
  },
  {
    replaces: '{ plugin: embedded }',
    text: '{}',
    says: 'livery.yaml:1: ca.plugin: is missing. Write citadel for a CA such as that of istiod, or embedded to try things out.',
  },
  {
    replaces: '{ plugin: embedded }',
    text: 'embedded',
    says: 'livery.yaml:1: ca: "embedded" is a string, not a mapping. Write plugin under it.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[web]',
    says: 'livery.yaml:2: identities[0]: "web" is not a SPIFFE ID: it does not start with "spiffe://". Write spiffe://<trust domain>/ns/<namespace>/sa/<service account>.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[]',
    says: 'livery.yaml:2: identities: nothing would be served: there is no identity. Add one.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: 'web',
    says: 'livery.yaml:2: identities: "web" is a string, not a list. Write "- " before each entry, or [ ] around them.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[spiffe://cluster.local/a, { id: spiffe://cluster.local/a }]',
    says: 'livery.yaml:2: identities[1]: spiffe://cluster.local/a is listed twice. Remove one of the entries.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/a" }]',
    says: 'livery.yaml:2: identities[0].range: "spiffe://cluster.local/a" has not exactly one range. Write one brace with two numbers, such as sa-{0..9999}.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{0..1}{0..1}" }]',
    says: 'livery.yaml:2: identities[0].range: "spiffe://cluster.local/{0..1}{0..1}" has not exactly one range. Write one brace with two numbers, such as sa-{0..9999}.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{00..10}" }]',
    says: 'livery.yaml:2: identities[0].range: "spiffe://cluster.local/{00..10}" pads its numbers. Write 0 instead of 00.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{9..1}" }]',
    says: 'livery.yaml:2: identities[0].range: "spiffe://cluster.local/{9..1}" counts down. Write the smaller number first.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{0..9999999999}" }]',
    says: 'livery.yaml:2: identities[0].range: "spiffe://cluster.local/{0..9999999999}" makes more than 100000 identities in all. Write a smaller range.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, mode: 0660',
    says: 'livery.yaml:3: sockets[0].mode: 660 is a bare number, which YAML does not read as octal. Write it in octal and in quotes: "0660".',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, mode: "0999"',
    says: 'livery.yaml:3: sockets[0].mode: "0999" is not a file mode. Write it in octal and in quotes: "0660".',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, group: no-such-group',
    says: 'livery.yaml:3: sockets[0].group: "no-such-group" is not in /etc/group. Write another name, or the number.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, allow: ["spiffe://cluster.local/**/x"]',
    says: 'livery.yaml:3: sockets[0].allow[0]: "spiffe://cluster.local/**/x" has ** before its last segment. Write such as spiffe://cluster.local/ns/*/sa/web-* (* is part of a path segment, ** the rest).',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, allow: ["spiffe://cluster.local/sa-**"]',
    says: 'livery.yaml:3: sockets[0].allow[0]: "spiffe://cluster.local/sa-**" has the path segment "sa-**", which matches nothing. Write such as spiffe://cluster.local/ns/*/sa/web-* (* is part of a path segment, ** the rest).',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, callers: [{ uid: root }]',
    says: 'livery.yaml:3: sockets[0].callers[0].uid: "root" is not a whole number from 0 to 4294967294. Write digits only, without quotes.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, callers: [{ allow: [] }]',
    says: 'livery.yaml:3: sockets[0].callers[0]: {"allow":[]} has no uid, gid or selectors, so it would let in everybody. Add one of them.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ id: spiffe://cluster.local/a, socket: { path: s, callers: [{ pid: 7 }] } }]',
    says: 'livery.yaml:2: identities[0].socket.callers[0].pid: unknown key. Did you mean "uid"? Known here: uid, gid, selectors.',
  },
  ...[
    'ns:',
    'ns:Default',
    'pod:x',
    'sa:a/b',
    'label:app',
    'label:a b=c',
    'label:=x',
    'ns:*',
    'ns:a ',
    'label:a=b=c',
  ].map(selector => ({
    replaces: 'path: run/sds.sock',
    text: `path: run/sds.sock, identify: kubernetes, callers: [{ selectors: ["${selector}"] }]`,
    says: `livery.yaml:3: sockets[0].callers[0].selectors[0]: "${selector}" is not a selector of pods. Write ns:NAMESPACE, sa:SERVICE-ACCOUNT or label:KEY=VALUE; a pattern is not possible.`,
  })),
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, identify: kubernetes, callers: [{ selectors: [] }]',
    says: 'livery.yaml:3: sockets[0].callers[0]: {"selectors":[]} has no uid, gid or selectors, so it would let in everybody. Add one of them.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, callers: [{ selectors: [ns:a] }]',
    says: 'livery.yaml:3: sockets[0].callers[0].selectors: is for a socket that identifies its callers. Write identify: kubernetes beside callers.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ id: spiffe://cluster.local/a, socket: { path: s, callers: [{ uid: 1, selectors: [sa:b] }] } }]',
    says: 'livery.yaml:2: identities[0].socket.callers[0].selectors: is for a socket that identifies its callers. Write identify: kubernetes beside callers.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, identify: kubernetes',
    says: 'livery.yaml:3: sockets[0].identify: needs the section kubernetes. Write kubernetes: { nodeName }.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, identify: docker',
    says: 'livery.yaml:3: sockets[0].identify: "docker" is none of kubernetes. Write one of these.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ id: spiffe://cluster.local/a, socket: { path: s, allow: [spiffe://cluster.local/b] } }]',
    says: 'livery.yaml:2: identities[0].socket.allow[0]: "spiffe://cluster.local/b" starts with neither "file-cert:" nor "file-root:". Write such as file-cert:/etc/certs/*, file-cert:/a/cert.pem~/a/key.pem or file-root:/a/ca.pem.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ id: spiffe://cluster.local/a, socket: { path: s, allow: ["file-cert:/etc/../certs/*"] } }]',
    says: 'livery.yaml:2: identities[0].socket.allow[0]: "file-cert:/etc/../certs/*" has a path with . or .. in it. Write such as file-cert:/etc/certs/*, file-cert:/a/cert.pem~/a/key.pem or file-root:/a/ca.pem.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ id: spiffe://cluster.local/a, socket: { mode: "0600" } }]',
    says: 'livery.yaml:2: identities[0].socket.path: is missing. Add the key "path".',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{1..3}", socket: run/s }]',
    says: 'livery.yaml:2: identities[0].socket: run/s is one path for 3 identities. Write {name} in it, which is the last segment of each SPIFFE ID.',
  },
  {
    replaces: '[spiffe://cluster.local/ns/default/sa/web]',
    text: '[{ range: "spiffe://cluster.local/{1..2}/x", socket: "run/{name}" }]',
    says: 'livery.yaml:2: identities[0].socket: run/x is the path of another socket too. Give each its own.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, onDemand: yes',
    says: 'livery.yaml:3: sockets[0].onDemand: "yes" is a string, not true or false. Write true or false, without quotes.',
  },
  {
    replaces: 'path: run/sds.sock',
    text: 'path: run/sds.sock, limits: { streams: 0 }',
    says: 'livery.yaml:3: sockets[0].limits.streams: 0 is not a whole number from 1 to 1000000. Write digits only, without quotes.',
  },
  {
    replaces: 'path: run/sds.sock }',
    text: 'path: run/a }, { path: ./run/a }',
    says: `livery.yaml:3: sockets[1].path: run/a is the path of another socket too. Give each its own.`,
  },
  {
    replaces: '[{ path: run/sds.sock }]',
    text: '[]',
    says: 'livery.yaml:3: sockets: nothing would be served: there is no socket. Add one under sockets, or give an identity its own.',
  },
]

for (const { text, replaces, says } of REFUSALS) {
  const USERINFO =
    'has an "@". Leave a user name, password or token out of an address, and write an "@" of its path as %40.'

  test('a password in an address is refused, wherever it is written, and in no text', async () => {
    const texts = await Promise.all(
      [
        'plugin: citadel, rootCert: system, address: "https://user:hunter2@ca.example:15012"',
        'plugin: citadel, rootCert: system, address: "https://hunter2@ca.example:15012"',
        'plugin: citadel, rootCert: system, address: "user:hunter2@ca.example:15012"',
        'plugin: google-ca, service: mesh-ca, endpoint: "user:hunter2@meshca.example:443"',
        'plugin: vault, mount: pki, role: web, address: "https://user:hunter/2@vault.example"',
        'plugin: step-ca, address: "https://user:hunter2@ca.example", fingerprint: "00"',
        'plugin: spiffe, address: "tcp://user:hunter2@127.0.0.1:8081"',
        'plugin: citadel, rootCert: system, address: "ca:1", credentials: { source: sts, endpoint: "https://user:hunter2@sts.example" }',
        'plugin: citadel, rootCert: system, address: "ca:1", credentials: { source: gce-metadata, address: "http://user:hunter2@metadata" }',
        'plugin: failover, cas: [{ plugin: citadel, rootCert: system, address: "https://user:hunter2@ca.example:15012" }]',
      ].map(async (ca, index) => {
        const path = join(directory, `userinfo-${index}.yaml`)
        writeFileSync(path, MINIMAL.replace('{ plugin: embedded }', `{ ${ca} }`))
        const refused = loadConfig({ file: path, environment: {}, workingDirectory: '/elsewhere', terminal: false })
        const error: unknown = await refused.catch(reason => reason)
        assert.ok(error instanceof ConfigError, ca)
        assert.match(error.message, /address|endpoint/, ca)
        return inspect(error, { depth: 9 })
      }),
    )
    assert.ok(texts.filter(text => text.includes(USERINFO)).length >= 7, texts.join('\n'))
    for (const text of texts) assert.doesNotMatch(text, /hunter/)
  })

  test('a password in an address of a variable is refused and in no text, and in none that shows the configuration', async () => {
    const sources = { file, workingDirectory: '/elsewhere', terminal: false }
    writeFileSync(file, MINIMAL.replace('ca: { plugin: embedded }\n', ''))
    const environment = { CA_ADDR: 'https://user:hunter2@ca.example:15012', CA_PROVIDER: 'https://user:hunter2@ca' }
    const error: unknown = await loadConfig({ ...sources, environment }).catch(reason => reason)
    assert.ok(error instanceof ConfigError)
    assert.doesNotMatch(error.message, /hunter/)
    // Whatever a plugin does with its text.
    const ca =
      '{ plugin: step-ca, address: "https://ca.example", rootCert: system, provisioner: "https://user:hunter2@idp", jwkFile: key.json }'
    writeFileSync(file, MINIMAL.replace('{ plugin: embedded }', ca))
    const loaded = await loadConfig({ ...sources, environment: {} })
    const shown = printConfig(loaded) + JSON.stringify(configJson(loaded))
    assert.match(shown, /https:\/\/\[secret\]@idp/)
    assert.doesNotMatch(shown, /hunter/)
  })

  test(`refused: ${replaces === undefined ? text : `${text} for ${replaces}`}`, async () => {
    const written = replaces === undefined ? `${MINIMAL}${text}\n` : MINIMAL.replace(replaces, text)
    assert.equal(await refusal(written), says)
  })
}

test('a socket path that the kernel would cut is refused with its length', async () => {
  const path = `/${'x'.repeat(120)}`
  assert.equal(
    await refusal(MINIMAL.replace('run/sds.sock', path)),
    `livery.yaml:3: sockets[0].path: ${path} is 121 bytes long, and the kernel allows 107. Choose a shorter path.`,
  )
})

test('a wrong section kubernetes is refused by its keys, with the remedy', async () => {
  const cases = [
    ['', 'kubernetes.nodeName: is missing. Add the key "nodeName".'],
    ['nodeName: Node_1', 'nodeName: "Node_1" is not a name (RFC 1123). Write lower-case letters, digits, "-" and ".".'],
    [
      'nodeName: n, selector: "a in b"',
      'selector: "a in b" is not a label selector. Write it as for kubectl -l: app=web,tier!=test.',
    ],
    [
      'nodeName: n, identity: "spiffe://x/{pod}"',
      'is not in the trust domain cluster.local of this agent. Write such as spiffe://{trustDomain}',
    ],
    [
      'nodeName: n, identity: "spiffe://{trustDomain}/{who}"',
      'names {who}, which is none of trustDomain, namespace, serviceAccount, pod, uid, label:KEY and annotation:KEY',
    ],
    ['nodeName: n, csi: {}', 'kubernetes.csi: unknown key'],
    [
      'nodeName: n',
      'there is no socket. Add one for the pods: sockets: [{ path: /run/livery/pods/socket, mode: "0666", identify: kubernetes }].',
    ],
    ['nodeName: n, namespaces: { only: [A_b] }', 'namespaces.only[0]: "A_b" is not a name (RFC 1123)'],
  ] as const
  for (const [keys, says] of cases) {
    const text = await refusal(`ca: { plugin: embedded }\nkubernetes: { ${keys} }\n`)
    assert.ok(text.includes(says), `${keys}\n${text}`)
  }
})

test('all errors are reported together, each with its own line', async () => {
  const text = await refusal(`${MINIMAL}ttl: 1\nretry: { min: x }\nlog: { levle: info }\n`)
  const lines = text.split('\n')
  assert.deepEqual(
    lines.map(line => line.split(': ', 2).join(': ')),
    ['livery.yaml:4: ttl', 'livery.yaml:5: retry.min', 'livery.yaml:6: log.levle'],
  )
})

test('every unknown key of a mapping is reported, those beside a wrong value too', async () => {
  const wrong = ['tt', 'drian', 'lgo', 'xyz', 'rotaton', 'concurency']
  const text = await refusal(`${MINIMAL}${wrong.map(key => `${key}: 1\n`).join('')}ttl: 1\n`)
  assert.deepEqual(
    text.split('\n').map(line => line.split(': ', 2)[1]),
    ['ttl', ...wrong],
  )
})

test('a file without ca is named', async () => {
  assert.equal(
    await refusal(MINIMAL.replace('ca: { plugin: embedded }\n', '')),
    'livery.yaml: ca: is missing. Write { plugin: citadel } for a CA such as that of istiod, or { plugin: embedded } to try things out.',
  )
})

test('a value of a header is never shown', async () => {
  const message = await refusal(
    MINIMAL.replace('plugin: embedded', 'plugin: citadel, address: "a:1", rootCert: r, headers: { X-Key: [s3cret] }'),
  )
  assert.match(message, /livery\.yaml:1: ca\.headers\.X-Key: /)
  assert.doesNotMatch(message, /s3cret/)
})

test('whatever the values, a configuration is accepted or refused with a ConfigError that names a path', async () => {
  const value = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.double(),
    fc.boolean(),
    fc.constant(null),
    fc.array(fc.string()),
    fc.dictionary(fc.string(), fc.string()),
  )
  const key = fc.constantFrom(
    'trustDomain',
    'keyType',
    'ttl',
    'rotation',
    'retry',
    'concurrency',
    'rsaKeys',
    'removal',
    'idle',
    'maxIdentities',
    'sharedFolders',
    'ca',
    'identities',
    'sockets',
    'names',
    'admin',
    'health',
    'drain',
    'log',
  )
  await fc.assert(
    fc.asyncProperty(fc.dictionary(key, value), async settings => {
      try {
        await load(JSON.stringify(settings))
      } catch (error) {
        assert.ok(error instanceof ConfigError, `${JSON.stringify(settings)}: ${error}`)
      }
    }),
    { numRuns: process.env['LIVERY_SLOW'] ? 5_000 : 300 },
  )
})
