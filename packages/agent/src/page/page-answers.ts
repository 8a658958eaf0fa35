/** The answers that make up the page in the browser. The page can load only itself, and nothing else can frame it. */
import type { IncomingHttpHeaders } from 'node:http'
import type { AdminSource } from '../admin/admin-source.ts'
import { type Answer, BUSY, json, text } from '../admin/answer.ts'
import { authorityOf, type Caller } from '../admin/operator.ts'
import type { AddedRoutes } from '../admin/routes.ts'
import { PageFeed } from './page-feed.ts'
import { type PageFileName, PageFiles } from './page-files.ts'
import type { PageToken } from './state.ts'

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
const PAGE_HEADERS = {
  'content-security-policy': POLICY,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

/** The routes of the page, for one listener. */
export function pageRoutes(source: AdminSource, pageToken: string): AddedRoutes {
  const page = new PageAnswers(source, pageToken)
  return {
    front: ({ headers }) => (prefersHtml(headers.accept) ? page.file('index.html', headers) : undefined),
    routes: {
      '/page/state': { about: 'what the page in a browser shows, as JSON', GET: () => page.state() },
      '/page/events': {
        about: 'the same, then each change as it comes (text/event-stream)',
        GET: () => page.events(),
      },
      '/page/token': { about: 'for the page alone', GET: ({ headers, caller }) => page.token(headers, caller) },
      '/page/app.js': { about: 'the page itself, as /', GET: ({ headers }) => page.file('app.js', headers) },
      '/page/app.css': { about: 'its style', GET: ({ headers }) => page.file('app.css', headers) },
    },
  }
}

/** The page of one listener. */
class PageAnswers {
  readonly #source: AdminSource
  readonly #token: string
  readonly #files = new PageFiles()
  readonly #feed: PageFeed

  constructor(source: AdminSource, token: string) {
    this.#source = source
    this.#token = token
    this.#feed = new PageFeed(source)
  }

  async file(name: PageFileName, headers: IncomingHttpHeaders): Promise<Answer> {
    const file = await this.#files.get(name)
    if (!file) return name === 'index.html' ? NOT_BUILT : text(404, `${BUILD}\n`)
    const { contentType, text: body, etag } = file
    const fields = {
      ...PAGE_HEADERS,
      'cache-control': 'no-cache',
      etag,
      ...(name === 'index.html' && { vary: 'accept' }),
    }
    const isKnown = headers['if-none-match'] === etag
    return { status: isKnown ? 304 : 200, contentType, body: isKnown ? '' : body, headers: fields }
  }

  async state(): Promise<Answer> {
    const sections = await this.#feed.sections()
    if (!sections) return BUSY
    return { status: 200, contentType: 'application/json', body: this.#feed.state(sections), headers: PAGE_HEADERS }
  }

  events(): Answer {
    return {
      status: 200,
      contentType: 'text/event-stream',
      body: client => this.#feed.follow(client),
      headers: PAGE_HEADERS,
    }
  }

  /** Answers a page of this origin only: another page could otherwise have the operator's browser change something. */
  async token(headers: IncomingHttpHeaders, caller: Caller): Promise<Answer> {
    // An Origin here is this endpoint's: others were refused.
    if (headers['sec-fetch-site'] !== 'same-origin' && headers.origin === undefined) return NOT_A_PAGE
    const hasTokenFile = this.#source.tokenFile !== undefined
    const authority = await authorityOf({ ...caller, authorization: undefined }, undefined)
    const isForNobody = 'refusal' in authority && !caller.credentials && !hasTokenFile
    const answer: PageToken = {
      token: this.#token,
      operator: 'by' in authority,
      tokenFile: hasTokenFile,
      ...(isForNobody && { remedy: authority.remedy }),
    }
    return { ...json(200, answer), headers: PAGE_HEADERS }
  }
}

const BUILD = 'The page is not built: run node packages/page/build.mjs in the working copy, or use the packed program.'
const NOT_BUILT: Answer = {
  status: 200,
  contentType: 'text/html; charset=utf-8',
  body: `<!doctype html><title>Livery</title><p>${BUILD}\n`,
  headers: { ...PAGE_HEADERS, vary: 'accept' },
}
const NOT_A_PAGE = text(403, 'This token is for the page that this endpoint serves: commands and scripts need none.\n')

/** Whether text/html is preferred to text/plain (RFC 9110, section 12.5.1): browsers do, curl does not. */
function prefersHtml(accept = ''): boolean {
  const ranges = accept.split(',').map(range => {
    const [type = '', ...parameters] = range.split(';').map(part => part.trim().toLowerCase())
    const quality = parameters.find(parameter => parameter.startsWith('q='))
    return { type, quality: quality === undefined ? 1 : Number(quality.slice(2)) }
  })
  const qualityOf = (wanted: string) => ranges.find(({ type }) => type === wanted)?.quality ?? 0
  return qualityOf('text/html') > qualityOf('text/plain')
}
