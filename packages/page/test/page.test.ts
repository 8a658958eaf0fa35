/** The page in a real browser, of a real agent: what fails is seen at once, with its reason and its remedy; live, by keys, in both themes. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import type { Locator } from 'playwright-core'
import { LiveryProcess } from '../../agent/test/livery-process.ts'
import { peerNode } from '../../sds-server/test/peer-node.ts'
import { SdsClient } from '../../sds-server/test/sds-client.ts'
import { BrowserPage, noChromium as skip } from './browser-page.ts'
import { buildPage } from './build-page.ts'
import { BAD, GOOD, RefusingNode, TEXT, TOKEN } from './refusing-node.ts'

before(() => {
  if (skip === false) buildPage()
})

test('a renewal that fails is on top within a second, with its reason and its remedy, and goes when it succeeds', {
  skip,
}, async () => {
  await using node = await RefusingNode.start()
  await using browser = await BrowserPage.open(node.admin)
  const { page } = browser
  await page.getByRole('heading', { name: 'Nothing is about to break' }).waitFor()
  const refused = new RegExp(`"event":"ca-error","resource":"${BAD}"`)
  const delays: number[] = []
  const inTime = () => delays.filter(ms => ms < 1_000).length
  // Another process can have the machine for some of them.
  while (inTime() < 2 && delays.length < 6) {
    if (delays.length > 0) {
      await node.accept()
      await page.getByRole('heading', { name: 'Nothing is about to break' }).waitFor()
    }
    const before = (await node.agent.lines(refused, 0)).length
    const seen = seenAt(browser, 'is not renewed')
    await node.refuse()
    const lines = await node.agent.lines(refused, before + 1)
    delays.push((await seen) - Date.parse(JSON.parse(lines[before] ?? '').time))
  }
  assert.equal(inTime(), 2, `${delays} ms`)

  const verdict = page.getByRole('region', { name: 'What is about to break' })
  await verdict.getByRole('heading', { name: `${BAD} is not renewed (denied): its certificate ends in ` }).waitFor()
  await verdict.getByText(TEXT).waitFor()
  await verdict.getByText('Allow it at the CA, or take the identity out of the configuration.').waitFor()
  await verdict.getByText(`livery explain ${BAD}`).waitFor()
  assert.equal(await runbookLink(verdict), RUNBOOK)
  // The row is in sight, first of all.
  const row = page.getByRole('row').nth(1)
  await row.getByText('Failing').waitFor()
  await row.getByText(TEXT).waitFor()
  assert.equal(await page.locator('img').count(), 0)
  assert.match(await page.title(), /^\(1\) Livery/)
  assert.deepEqual([browser.faults, [...browser.origins]], [[], [`http://${node.admin}`]])
})

/** As the alerts have it. */
const RUNBOOK = 'https://github.com/livery/livery/blob/main/docs/run/runbook/identities-failing.md'

/** Where the link to the runbook leads; it opens beside the page, which has the operator's token. */
async function runbookLink(place: Locator): Promise<string | null> {
  const link = place.getByRole('link', { name: 'docs/run/runbook/identities-failing.md' })
  assert.deepEqual([await link.getAttribute('target'), await link.getAttribute('rel')], ['_blank', 'noreferrer'])
  return await link.getAttribute('href')
}

/** When the heading of the verdict had this text, by the clock of this machine. */
async function seenAt({ page }: BrowserPage, text: string): Promise<number> {
  return await page.evaluate<number, string>(
    wanted =>
      new Promise(resolve => {
        const look = () => {
          if (!document.querySelector('.verdict h1')?.textContent?.includes(wanted)) return false
          resolve(Date.now())
          return true
        }
        const observer = new MutationObserver(() => {
          if (look()) observer.disconnect()
        })
        if (!look()) observer.observe(document.body, { subtree: true, childList: true, characterData: true })
      }),
    text,
  )
}

for (const theme of ['light', 'dark'] as const)
  test(`by keys alone: search, the list, the details of a name and back; axe finds no fault anywhere, ${theme}`, {
    skip,
  }, async () => {
    await using node = await RefusingNode.start()
    await node.refuse()
    await using browser = await BrowserPage.open(node.admin, { colorScheme: theme })
    const { page } = browser
    await page.getByText('is not renewed').first().waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('BAD')
    await page.getByRole('row').nth(2).waitFor({ state: 'detached' })
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    assert.deepEqual(await browser.accessibilityFaults(), [], `${theme}: the list`)
    await page.keyboard.press('Enter')
    const details = page.getByRole('complementary')
    await details.getByText('asked the CA for a certificate (an operator asked)').first().waitFor()
    await details.getByText('Failing since').waitFor()
    assert.equal(await runbookLink(details), RUNBOOK)
    assert.equal(await page.evaluate('document.activeElement.id'), 'drawer-heading')
    assert.deepEqual(await browser.accessibilityFaults(), [], `${theme}: the details`)
    assert.equal(new URL(page.url()).hash, `#q=BAD&name=${encodeURIComponent(BAD)}`)
    await page.keyboard.press('Escape')
    await details.waitFor({ state: 'detached' })
    assert.equal(await page.evaluate('document.activeElement.getAttribute("role")'), 'grid')
    await page.locator('#tab-identities').focus()
    for (const [tab, text] of TABS) {
      await page.keyboard.press('ArrowRight')
      await page.getByRole('tabpanel', { name: tab }).getByText(text).first().waitFor()
      assert.deepEqual(await browser.accessibilityFaults(), [], `${theme}: ${tab}`)
    }
    assert.deepEqual(browser.faults, [])
  })

const TABS = [
  ['Streams', 'No client has a stream.'],
  ['Sockets', 'bad.sock'],
  ['Roots', 'No rotation is under way.'],
  ['CA', 'Newest failure'],
  ['Keys and process', 'Memory'],
] as const

test("a renewal by hand asks for the operator's token, says why it is not taken, and is seen when it is done", {
  skip,
}, async () => {
  await using node = await RefusingNode.start()
  await using browser = await BrowserPage.open(node.admin)
  const { page } = browser
  await page.getByRole('row').filter({ hasText: GOOD }).click()
  await page.getByRole('button', { name: 'Renew now' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Token').fill('wrong')
  await page.keyboard.press('Enter')
  await dialog.getByRole('alert').waitFor()
  assert.deepEqual(await browser.accessibilityFaults(), [])
  await dialog.getByLabel('Token').fill(TOKEN)
  await page.keyboard.press('Enter')
  await page.getByText(`Asking the CA for ${GOOD} now.`).waitFor()
  await node.agent.lines(new RegExp(`"event":"issued","resource":"${GOOD}"`), 2)
  assert.equal(
    await page.evaluate(`JSON.stringify([localStorage, sessionStorage, document.cookie]).includes('${TOKEN}')`),
    false,
  )
  // A browser reports each answer that refuses.
  assert.deepEqual(
    browser.faults.filter(fault => !fault.includes('403 (Forbidden)')),
    [],
  )

  await page.getByLabel('Log').selectOption('debug')
  await node.agent.line(/"event":"log-level-changed"/)
})

test('where nobody is allowed to renew by hand, the page offers neither button nor command, and says what to configure', {
  skip,
}, async t => {
  const directory = temporaryFolder(t)
  const config = {
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id: GOOD, socket: 'good.sock' }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(directory, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd: directory })
  await using browser = await BrowserPage.open(await agent.admin())
  await browser.page.getByRole('row').filter({ hasText: GOOD }).click()
  const drawer = browser.page.getByRole('complementary')
  await drawer.getByText('Make admin.address a UNIX socket and ask as root').waitFor()
  await drawer.getByText(`livery explain ${GOOD}`).waitFor()
  assert.equal(await drawer.getByText('livery renew').count(), 0)
  assert.ok((await drawer.textContent())?.startsWith(`${GOOD}Certificate`))
  assert.equal(await browser.page.getByRole('button', { name: 'Renew now' }).count(), 0)
  assert.deepEqual(browser.faults, [])
})

test('the details of a name begin with its certificate, whether or not it fails', { skip }, async () => {
  await using node = await RefusingNode.start()
  await node.refuse()
  await using browser = await BrowserPage.open(node.admin)
  const drawer = browser.page.getByRole('complementary')
  for (const name of [GOOD, BAD]) {
    await browser.page.getByRole('row').filter({ hasText: name }).click()
    await drawer.getByRole('heading', { name }).waitFor()
    await drawer.getByRole('button', { name: 'Renew now' }).waitFor()
    assert.ok((await drawer.textContent())?.startsWith(`${name}Certificate`))
  }
  assert.deepEqual(browser.faults, [])
})

test('the line of a life has the colour that the diagnosis gives, and the renewal where it is planned', {
  skip,
}, async () => {
  await using node = await RefusingNode.start()
  await node.refuse()
  await using browser = await BrowserPage.open(node.admin)
  const lineOf = (name: string) => browser.page.getByRole('row').filter({ hasText: name }).locator('.life')
  await browser.page.getByRole('heading', { name: `${BAD} is not renewed` }).waitFor()
  assert.equal(await lineOf(GOOD).getAttribute('class'), 'life life-good')
  assert.equal(await lineOf(BAD).getAttribute('class'), 'life life-warning')
  const planned = await lineOf(GOOD).locator('.life-renewal').getAttribute('style')
  assert.match(planned ?? '', /^left: ?(?:39\.9|[45]\d|60)\b/)
})

test('what is shown without a connection is marked as old, and is current again after a restart of the agent', {
  skip,
}, async () => {
  await using node = await RefusingNode.start()
  await using browser = await BrowserPage.open(node.admin)
  const { page } = browser
  await node.agent[Symbol.asyncDispose]()
  await page.getByText(/^Not connected since \d\d:\d\d:\d\d UTC\.$/).waitFor()
  await page.getByText('The agent does not answer.').waitFor()
  assert.match(await page.title(), /^\(not connected\)/)
  await page.getByRole('row').filter({ hasText: GOOD }).waitFor()
  await node.restart()
  await page.getByText('Live', { exact: true }).waitFor()
  assert.equal(await page.getByText('Not connected since').count(), 0)
  // It is live, not only drawn.
  await node.refuse()
  await page.getByRole('heading', { name: `${BAD} is not renewed` }).waitFor()
})

test('a client that rejects its certificate is listed first, with its node id as text', { skip }, async () => {
  await using node = await RefusingNode.start()
  await using browser = await BrowserPage.open(node.admin)
  const { page } = browser
  using client = new SdsClient(join(node.folder, 'bad.sock'))
  const stream = client.sotw()
  stream.send({ node: peerNode('envoy~<b>bold</b>'), resourceNames: ['default'] })
  stream.nack(await stream.next(), 'the key cannot be loaded', 'default')
  await page.getByRole('heading', { name: '1 client rejects what it was sent' }).waitFor()
  await page.getByRole('tab', { name: 'Streams' }).click()
  const row = page.getByRole('row').nth(1)
  await row.getByText('Rejected').waitFor()
  await row.getByText('envoy~<b>bold</b>').waitFor()
  await row.click()
  await page.getByRole('complementary').getByText('the key cannot be loaded').waitFor()
  assert.deepEqual(browser.faults, [])
})
