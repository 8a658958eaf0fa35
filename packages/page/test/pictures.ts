/** `npm run pictures --workspace packages/page`: takes the pictures of the papers, of a node whose CA refuses one identity. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { LiveryProcess } from '../../agent/test/livery-process.ts'
import { writePluginModule } from '../../agent/test/plugin-module.ts'
import { peerNode } from '../../sds-server/test/peer-node.ts'
import { SdsClient } from '../../sds-server/test/sds-client.ts'
import { BrowserPage, noChromium } from './browser-page.ts'
import { buildPage } from './build-page.ts'

const SERVICES = [
  ...[
    'ads',
    'cart',
    'catalog',
    'checkout',
    'currency',
    'email',
    'frontend',
    'invoices',
    'loyalty',
    'orders',
    'pricing',
  ],
  ...['recommendations', 'reviews', 'search', 'sessions', 'shipping', 'stock', 'tax', 'wishlist'],
]
const REFUSED = 'payments'
const REASON = 'policy "shop" admits no workload named payments'
const IMAGES = fileURLToPath(new URL('../../../docs/images/', import.meta.url))
const SIZE = { viewport: { width: 1_200, height: 600 } }

if (noChromium !== false) throw new Error(noChromium)
buildPage()
await using parts = new AsyncDisposableStack()
const admin = await startShop()
for (const colorScheme of ['light', 'dark'] as const) {
  await using browser = await BrowserPage.open(admin, { ...SIZE, colorScheme })
  const { page } = browser
  await page.getByRole('button', { name: `Available ${SERVICES.length}` }).waitFor()
  await page.getByRole('heading', { name: `${idOf(REFUSED)} has no certificate` }).waitFor()
  if (colorScheme === 'dark') {
    await page
      .getByRole('row')
      .filter({ hasText: idOf(REFUSED) })
      .click()
    const details = page.getByRole('complementary')
    await details.getByRole('button', { name: 'Renew now' }).waitFor()
    await details.getByText(REASON).first().waitFor()
    // The focus ring around the heading is for whoever uses keys.
    await details.getByRole('heading', { name: idOf(REFUSED) }).blur()
  }
  await page.screenshot({ path: join(IMAGES, `page-${colorScheme}.png`) })
}

/** Resolves when every service has its certificate, and a client that accepted it; returns the admin endpoint. */
async function startShop(): Promise<string> {
  const { path: folder } = parts.use(new TemporaryFolder())
  const onIssue = `if (request.identity.endsWith('/${REFUSED}')) throw new CAError('denied', ${JSON.stringify(REASON)})`
  await writePluginModule(folder, { onIssue })
  await writeFile(join(folder, 'admin.token'), 'a-token-of-the-operator', { mode: 0o600 })
  const admin = `127.0.0.1:${await freePort()}`
  const config = {
    ca: { plugin: './acme.mjs' },
    identities: [...SERVICES, REFUSED].map(name => ({ id: idOf(name), socket: `${name}.sock` })),
    admin: { address: admin, tokenFile: 'admin.token' },
  }
  await writeFile(join(folder, 'livery.yaml'), JSON.stringify(config))
  const agent = parts.use(new LiveryProcess(['run'], { cwd: folder }))
  await agent.lines(/"event":"issued"/, SERVICES.length)
  await Promise.all(SERVICES.map(name => acceptedBy(parts.use(new SdsClient(join(folder, `${name}.sock`))), name)))
  return admin
}

async function acceptedBy(client: SdsClient, name: string): Promise<void> {
  const stream = client.sotw()
  stream.send({ node: peerNode(`sidecar~10.1.2.3~${name}-7c9d8b7f4-x2x5p.shop~shop.svc`), resourceNames: ['default'] })
  stream.ack(await stream.next(), 'default')
}

function idOf(name: string): string {
  return `spiffe://cluster.local/ns/shop/sa/${name}`
}
