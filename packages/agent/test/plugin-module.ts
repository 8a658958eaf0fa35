/** Plugin modules for tests, written to a folder: they issue for real, and misbehave as configured. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PluginModule, PluginUser } from '../src/plugin/messages.ts'

export interface PluginModuleOptions {
  /** Statements before everything else in the module. */
  readonly onLoad?: string
  /** Statements at the start of `create(context, config)`. */
  readonly onCreate?: string
  /** Statements at the start of `issue(request)`. */
  readonly onIssue?: string
  /** Members of the client beside `issue` and its disposal. */
  readonly members?: string
  /** Fields of the plugin that replace or extend the defaults. */
  readonly fields?: string
  /** Runs it in a process of this user, which signs at `url` and cannot write: `once` prints a line instead. */
  readonly process?: { readonly user: PluginUser; readonly url: string }
}

/**
 * Writes `name` to `folder`: its own CA, kept in `folder`. Its statements may use `context`, `folder`, `CAError` and
 * `once(name)`, which is true the first time in the life of the folder.
 */
export async function writePluginModule(
  folder: string,
  options: PluginModuleOptions = {},
  name = 'acme.mjs',
): Promise<PluginModule> {
  const { process: own, onLoad = '', onCreate = '', onIssue = '', members = '', fields = '' } = options
  const text = `
import { existsSync, writeFileSync } from 'node:fs'
import { CAError } from '@livery/core'
${own ? '' : `import { CertificateAuthority } from ${JSON.stringify(import.meta.resolve('@livery/ca-plugins/embedded'))}`}
const folder = ${JSON.stringify(folder)}
const done = new Set()
const once = name => {
  const file = folder + '/' + name
  if (done.has(name) || existsSync(file)) return false
  done.add(name)
  ${own ? `process.stdout.write('once ' + name + '\\n')` : `writeFileSync(file, '')`}
  return true
}
${onLoad}
export const plugin = {
  apiVersion: 1,
  name: 'acme',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
  options: {},
  async create(context, config) {
    ${onCreate}
    const { clock, trustDomain } = context
    ${own ? remoteAuthority(own.url) : `const authority = await CertificateAuthority.open({ clock, trustDomain, directory: folder + '/ca' })`}
    return {
      async issue(request) {
        ${onIssue}
        const { der } = await request.csr()
        const { identity, ttlSeconds } = request
        const { chain, roots = authority.trustBundle() } = await authority.sign({ identity, csr: der, ttlSeconds })
        return { chain, roots }
      },
      ${members}
      async [Symbol.asyncDispose]() {},
    }
  },
  ${fields}
}
`
  await writeFile(join(folder, name), text)
  // Without a package.json, the files beside a module are closed to its process.
  if (own) await writeFile(join(folder, 'package.json'), '{}')
  return { kind: 'ca', specifier: `./${name}`, parent: join(folder, 'livery.yaml'), ...(own && { user: own.user }) }
}

function remoteAuthority(url: string): string {
  return `const authority = {
      async sign({ identity, csr, ttlSeconds }) {
        const body = JSON.stringify({ identity, csr: Buffer.from(csr).toString('base64'), ttlSeconds })
        return (await fetch(${JSON.stringify(url)}, { method: 'POST', body })).json()
      },
    }`
}
