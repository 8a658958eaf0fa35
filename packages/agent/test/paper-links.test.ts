/** Every link leads somewhere: from one paper to a file and a heading of it, and from one page of the site to another. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { makeFolder } from './envoy-bench.ts'
import { PAPERS, REPOSITORY, read } from './papers.ts'

test('every link leads to a file and a heading', () => {
  const links = PAPERS.flatMap(linksOf)
  assert.ok(links.length > 100)
  assert.deepEqual(
    links.filter(({ target, heading }) => !leadsSomewhere(target, heading)),
    [],
  )
})

test('npm run site makes a page of each paper, and every link and anchor of the pages leads somewhere', async () => {
  await using folder = await makeFolder()
  const { status, stderr } = spawnSync(process.execPath, ['scripts/site.mjs', '--out', folder.path], {
    cwd: REPOSITORY,
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
  const pages = new Map(
    globSync('**/*.html', { cwd: folder.path }).map(page => [page, readFileSync(join(folder.path, page), 'utf8')]),
  )
  assert.ok(pages.size >= PAPERS.filter(paper => !paper.includes('/test/')).length)
  const links = [...pages].flatMap(([page, html]) =>
    [...html.matchAll(/(?:href|src)="(?!https?:)([^"#]*)(?:#([^"]*))?"/g)].map(([, path = '', anchor]) => ({
      page,
      target: path === '' ? page : join(dirname(page), path),
      anchor,
    })),
  )
  assert.ok(links.length > 2_000)
  const isDead = ({ target, anchor }: (typeof links)[number]): boolean =>
    !existsSync(join(folder.path, target)) || (anchor !== undefined && !pages.get(target)?.includes(` id="${anchor}"`))
  assert.deepEqual(links.filter(isDead), [])
  for (const [page, html] of pages) assert.doesNotMatch(html, /<script|src="http/, page)
})

function linksOf(paper: string) {
  const links = [...prose(paper).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)]
  return links.map(([, path = '', heading]) => ({
    paper,
    target: path === '' ? paper : join(dirname(paper), path),
    heading,
  }))
}

function leadsSomewhere(target: string, heading: string | undefined): boolean {
  if (!existsSync(join(REPOSITORY, target))) return false
  return heading === undefined || headingsOf(target).has(heading)
}

/** As GitHub names them in a link. */
function headingsOf(paper: string): Set<string> {
  const headings = [...prose(paper).matchAll(/^#+ (.*)$/gm)]
  return new Set(
    headings.map(([, text = '']) =>
      text
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )
}

/** Without blocks of code, whose comments look like headings. */
function prose(paper: string): string {
  return read(paper).replace(/^```[\s\S]*?^```/gm, '')
}
