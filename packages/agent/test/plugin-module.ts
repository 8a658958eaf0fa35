/** Plugin modules for tests, written to a folder: they issue for real, and misbehave as configured. */
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { CertificateAuthority } from '@livery/ca-plugins/embedded'
import { SystemClock } from '@livery/core/plugin'
import { listening, portOf } from '@livery/test-support'
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
  readonly user?: PluginUser
}

/**
 * Writes `name` to `folder`: its CA, kept in `folder`/ca, is served by this process, since a plugin writes no file. Its
 * statements may use `context`, `folder`, `CAError` and `once(name)`, which prints a line and is true the first time, and
 * in no later process if there is a file of that name then.
 */
export async function writePluginModule(
  folder: string,
  { user, onLoad = '', onCreate = '', onIssue = '', members = '', fields = '' }: PluginModuleOptions = {},
  name = 'acme.mjs',
): Promise<PluginModule> {
  const text = `
import { existsSync } from 'node:fs'
import { CAError } from '@livery/core/plugin'
const folder = ${JSON.stringify(folder)}
const done = new Set()
const once = name => {
  if (done.has(name) || existsSync(folder + '/' + name)) return false
  done.add(name)
  process.stdout.write('once ' + name + '\\n')
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
    return {
      async issue(request) {
        ${onIssue}
        const { der } = await request.csr()
        const { identity, ttlSeconds } = request
        const body = JSON.stringify({ identity, csr: Buffer.from(der).toString('base64'), ttlSeconds })
        return (await fetch('${await serveCA(folder)}', { method: 'POST', body })).json()
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
  await writeFile(join(folder, 'package.json'), '{}')
  return { kind: 'ca', specifier: `./${name}`, parent: join(folder, 'livery.yaml'), ...(user && { user }) }
}

/** Until this process ends; returns the URL. */
async function serveCA(folder: string): Promise<string> {
  const clock = new SystemClock()
  const authority = await CertificateAuthority.open({
    clock,
    trustDomain: 'cluster.local',
    directory: join(folder, 'ca'),
  })
  const server = createServer(async (request, response) => {
    const { identity, csr, ttlSeconds } = JSON.parse(Buffer.concat(await request.toArray()).toString())
    const { chain } = await authority.sign({ identity, csr: Buffer.from(csr, 'base64'), ttlSeconds })
    response.end(JSON.stringify({ chain, roots: authority.trustBundle() }))
  })
  server.unref()
  return `http://127.0.0.1:${portOf(await listening(server))}`
}
