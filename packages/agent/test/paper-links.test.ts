/** Every link leads somewhere: from one paper to a file and a heading of it. A page is short enough to be read. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { PAPERS, REPOSITORY, read } from './papers.ts'

test('every link leads to a file and a heading', () => {
  const links = PAPERS.flatMap(linksOf)
  assert.ok(links.length > 100)
  assert.deepEqual(
    links.filter(({ target, heading }) => !leadsSomewhere(target, heading)),
    [],
  )
})

test('no page of docs but a reference has over 1,500 words', () => {
  const pages = PAPERS.filter(paper => /^docs\/(?!reference\/)/.test(paper))
  assert.ok(pages.length > 30)
  assert.deepEqual(
    pages.filter(page => read(page).split(/\s+/).length > 1500),
    [],
  )
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
  return heading === undefined || !target.endsWith('.md') || headingsOf(target).has(heading)
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
