/** The page of an agent with 10,000 identities: only the rows in sight are in the document, wherever it is scrolled to. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from '../../agent/test/livery-process.ts'
import { BrowserPage, noChromium as skip } from './browser-page.ts'
import { buildPage } from './build-page.ts'

const COUNT = 10_000
/** Sorted by name, as text. */
const LAST = 'spiffe://cluster.local/ns/load/sa/sa-9999'
/** Limit for the whole document: a few hundred for the frame, and a dozen for each of thirty rows. */
const MAX_ELEMENTS = 1_500

before(() => {
  if (skip === false) buildPage()
})

test('10,000 rows are scrolled, searched and sorted with a few hundred elements, while their certificates come', {
  skip,
  timeout: 300_000,
}, async t => {
  const directory = temporaryFolder(t)
  const config = {
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ range: `spiffe://cluster.local/ns/load/sa/sa-{0..${COUNT - 1}}` }],
    sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/*'] }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(directory, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd: directory })
  await using browser = await BrowserPage.open(await agent.admin())
  const { page } = browser
  const grid = page.getByRole('grid', { name: 'Identities' })
  const isBounded = async (): Promise<void> => {
    const elements = await page.evaluate<number>('document.querySelectorAll("*").length')
    assert.ok(elements < MAX_ELEMENTS, `${elements} elements`)
  }
  assert.equal(await grid.getAttribute('aria-rowcount'), `${COUNT + 1}`)

  await page.getByRole('button', { name: 'Identity', exact: true }).click()
  await grid.evaluate(element => {
    element.scrollTop = element.scrollHeight
  })
  const last = page.getByRole('row').filter({ hasText: LAST })
  await last.waitFor()
  assert.equal(await last.getAttribute('aria-rowindex'), `${COUNT + 1}`)
  await isBounded()
  for (let step = 0; step <= 20; step++) {
    await grid.evaluate((element, part) => {
      element.scrollTop = element.scrollHeight * part
    }, step / 20)
    await isBounded()
  }
  // The page scrolls on a phone, and the list in it still keeps its height.
  await page.setViewportSize({ width: 390, height: 844 })
  assert.ok((await grid.evaluate(element => element.clientHeight)) < 844)
  await isBounded()
  await page.setViewportSize({ width: 1_280, height: 800 })
  await grid.focus()
  await page.keyboard.press('Home')
  await page.locator('[aria-rowindex="2"]').waitFor()
  await page.keyboard.press('End')
  await last.waitFor()
  assert.equal(await grid.getAttribute('aria-activedescendant'), await last.getAttribute('id'))

  await page.keyboard.press('/')
  await page.keyboard.type('sa-4242')
  await page.locator('[aria-rowcount="2"]').waitFor()
  await page.getByRole('row').filter({ hasText: 'sa-4242' }).getByText('Available').waitFor()
  await page.getByRole('button', { name: `Available ${COUNT.toLocaleString('en')}` }).waitFor({ timeout: 240_000 })
  assert.deepEqual(browser.faults, [])
})
