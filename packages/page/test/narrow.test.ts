/** The page on a phone, 390 px wide: nothing is cut off, and whoever uses keys sees where he is. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { peerNode } from '../../sds-server/test/peer-node.ts'
import { SdsClient } from '../../sds-server/test/sds-client.ts'
import { BrowserPage, noChromium as skip } from './browser-page.ts'
import { buildPage } from './build-page.ts'
import { BAD, GOOD, RefusingNode } from './refusing-node.ts'

const WIDTH = 390
const PHONE = { viewport: { width: WIDTH, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }
const TABS = ['Identities', 'Streams', 'Sockets', 'Roots', 'CA', 'Keys and process']

before(() => {
  if (skip === false) buildPage()
})

test('on a phone the document is as wide as the screen in each view, and no text is cut off', { skip }, async () => {
  await using node = await RefusingNode.start()
  await node.refuse()
  using client = await rejectingClient(node)
  await using browser = await BrowserPage.open(node.admin, PHONE)
  const { page } = browser
  await page.getByText('client rejects what it was sent').first().waitFor()
  for (const tab of TABS) {
    await page.getByRole('tab', { name: tab }).tap()
    await page.getByRole('tabpanel', { name: tab }).waitFor()
    assert.deepEqual(await cutOff(page), [], tab)
  }
  assert.ok(client)

  await page.getByRole('tab', { name: 'Identities' }).tap()
  for (const name of [BAD, GOOD]) {
    await page.getByRole('row').filter({ hasText: name }).tap()
    const details = page.getByRole('complementary')
    await details.getByText(`livery explain ${name}`).waitFor()
    assert.deepEqual(await cutOff(page), [], name)
    const close = details.getByRole('button', { name: 'Close the details' })
    const box = await close.boundingBox()
    assert.ok(box && box.x >= 0 && box.x + box.width <= WIDTH, JSON.stringify(box))
    await close.tap()
    await details.waitFor({ state: 'detached' })
  }
  await node.agent[Symbol.asyncDispose]()
  await page.getByText('Not connected since').waitFor()
  assert.deepEqual(await cutOff(page), [], 'not connected')
})

test('on a phone the keyboard never leads to what cannot be seen, with the details open or not', { skip }, async () => {
  await using node = await RefusingNode.start()
  await node.refuse()
  await using browser = await BrowserPage.open(node.admin, PHONE)
  const { page } = browser
  await page.getByText('is not renewed').first().waitFor()
  const everywhere = await focusedByTab(page)
  assert.ok(everywhere.length > 15, everywhere.join('\n'))
  assert.deepEqual(everywhere.filter(isFaulty), [])

  await page.getByRole('grid').focus()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await page.getByRole('complementary').getByText(`livery explain ${BAD}`).waitFor()
  assert.deepEqual([await focusFault(page)].filter(isFaulty), [])
  const details = await focusedByTab(page)
  assert.ok(details.length > 1 && details.length < everywhere.length, details.join('\n'))
  assert.deepEqual(details.filter(isFaulty), [])
})

async function rejectingClient(node: RefusingNode): Promise<SdsClient> {
  const client = new SdsClient(join(node.folder, 'bad.sock'))
  const stream = client.sotw()
  stream.send({
    node: peerNode('sidecar~10.1.2.3~web-7c9d8b7f4-x2x5p.default~default.svc'),
    resourceNames: ['default'],
  })
  stream.nack(await stream.next(), 'the key cannot be loaded', 'default')
  return client
}

/** Elements beyond the edges of the screen, or cut off by a parent. Rows of a list have their whole text in the details. */
async function cutOff(page: Page): Promise<readonly string[]> {
  return await page.evaluate(width => {
    const found: string[] = []
    const { scrollWidth } = document.documentElement
    if (scrollWidth > width) found.push(`the document is ${scrollWidth} px wide`)
    for (const element of document.querySelectorAll<HTMLElement>('body *')) {
      if (element.closest('.hidden, [role=row], svg, select') || !element.checkVisibility({ visibilityProperty: true }))
        continue
      const { left, right } = element.getBoundingClientRect()
      const isHiding = getComputedStyle(element).overflow === 'hidden'
      const isCut =
        isHiding && (element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1)
      if (left < -0.5 || right > width + 0.5 || isCut)
        found.push(`${element.tagName} ${element.className}: ${element.textContent.slice(0, 60)}`)
    }
    return found
  }, WIDTH)
}

/** Presses Tab until the focus has been everywhere; what is wrong with each place, after its name. */
async function focusedByTab(page: Page): Promise<readonly string[]> {
  const places: string[] = []
  for (;;) {
    await page.keyboard.press('Tab')
    const place = await focusFault(page)
    if (place === 'BODY' || places.includes(place)) return places
    places.push(place)
  }
}

function isFaulty(place: string): boolean {
  return place.includes(' | ')
}

/** The element that has the focus, and behind a bar why that is not seen: out of sight, covered, or without its whole outline. */
async function focusFault(page: Page): Promise<string> {
  return await page.evaluate(width => {
    const element = document.activeElement
    if (!(element instanceof HTMLElement) || element === document.body) return 'BODY'
    const label = element.getAttribute('aria-label') ?? element.textContent.trim().slice(0, 40)
    const { left, right, top, bottom } = element.getBoundingClientRect()
    const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(element)
    const faults = outlineStyle === 'none' ? ['no outline'] : []
    const reach = Number.parseFloat(outlineWidth) + Number.parseFloat(outlineOffset)
    const isOutside = (box: { left: number; right: number; top: number; bottom: number }) =>
      left - reach < box.left || right + reach > box.right || top - reach < box.top || bottom + reach > box.bottom
    if (isOutside({ left: 0, right: width, top: 0, bottom: innerHeight })) faults.push('out of sight')
    for (let around = element.parentElement; around; around = around.parentElement)
      if (
        around !== document.body &&
        getComputedStyle(around).overflow !== 'visible' &&
        isOutside(around.getBoundingClientRect())
      )
        faults.push(`outline cut by ${around.className}`)
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2)
    if (!hit || !(element.contains(hit) || hit.contains(element))) faults.push(`covered by ${hit?.className}`)
    const name = `${element.tagName} ${element.id} ${label}`
    return faults.length === 0 ? name : `${name} | ${faults.join(', ')}`
  }, WIDTH)
}
