/** The page of an agent in a real, headless Chromium, driven by the DevTools protocol; records what a page must not do. */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AxeResults } from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

const PROGRAM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** Why tests with a browser are skipped; `false` if they are not. */
export const noChromium = existsSync(PROGRAM)
  ? false
  : `there is no Chromium at ${PROGRAM}: install Debian's package chromium, or name another one by CHROMIUM`

/** A failing wait names its subject before the runner ends the test, after two minutes: a busy machine needs more than Playwright's 30 s. */
const WAIT_MS = 100_000

/** A separate browser, with one page. */
export class BrowserPage implements AsyncDisposable {
  readonly page: Page
  /** Errors and warnings of the console, violations of the policy included, and exceptions that nobody caught. */
  readonly faults: string[] = []
  /** The origins of all requests. */
  readonly origins = new Set<string>()
  readonly #browser: Browser

  private constructor(browser: Browser, page: Page) {
    this.#browser = browser
    this.page = page
    page.on('console', message => {
      if (message.type() === 'error' || message.type() === 'warning') this.faults.push(message.text())
    })
    page.on('pageerror', error => this.faults.push(error.message))
    page.on('request', request => {
      if (!request.url().startsWith('data:')) this.origins.add(new URL(request.url()).origin)
    })
  }

  /** Opens the page of the admin endpoint at `admin`, and waits until it shows the agent's state. */
  static async open(admin: string, options: BrowserContextOptions = {}): Promise<BrowserPage> {
    // As root, Chromium has no sandbox.
    const args = process.getuid?.() === 0 ? ['--no-sandbox'] : []
    const browser = await chromium.launch({ executablePath: PROGRAM, args, timeout: WAIT_MS })
    const page = await browser.newPage({ colorScheme: 'light', viewport: { width: 1_280, height: 800 }, ...options })
    page.setDefaultTimeout(WAIT_MS)
    const opened = new BrowserPage(browser, page)
    await page.goto(`http://${admin}/`)
    await page.getByText('Live', { exact: true }).waitFor()
    return opened
  }

  /** The rules of axe-core that what is shown breaks, with the elements. */
  async accessibilityFaults(): Promise<readonly string[]> {
    // Injected by the protocol, since the page's policy admits no script.
    await this.page.evaluate(AXE)
    const { violations } = await this.page.evaluate<AxeResults>('axe.run()')
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 200)).join(' ')}`)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#browser.close()
  }
}
