// Makes pages of the papers, with a navigation, in one folder: `npm run site` (`-- --out DIR`). docs/README.md is the front page, and its
// lists are the navigation, with the papers that they leave out at its end. A link to a file that is not a page leads to the repository;
// pictures are copied.
import { cpSync, existsSync, globSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import GithubSlugger from 'github-slugger'
import { Marked } from 'marked'
import { root, say } from './setup-step.mjs'

const FRONT = 'docs/README.md'
const PAPERS = ['*.md', '{benchmarks,deploy,docs,examples,packages}/**/*.md']
const { homepage } = JSON.parse(readFileSync(join(root, 'packages/agent/package.json'), 'utf8'))
const REPOSITORY = homepage.slice(0, homepage.indexOf('/tree/'))

const { values } = parseArgs({ options: { out: { type: 'string', default: join(root, 'site') } } })
const out = resolve(values.out)
const papers = globSync(PAPERS, { cwd: root, exclude: path => /node_modules|THIRD-PARTY|\/test\//.test(path) }).sort()
const navigation = navigationOf(FRONT)
for (const paper of papers) {
  const file = join(out, pageOf(paper))
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, page(paper))
}
cpSync(join(root, 'scripts/site/style.css'), join(out, 'style.css'))
say(`${papers.length} pages in ${relative(process.cwd(), out) || '.'}`)

function pageOf(paper) {
  return paper === FRONT ? 'index.html' : paper.replace(/\.md$/, '.html')
}

/** The sections of the front page that have lists of links, with the papers that these lead to. */
function navigationOf(front) {
  const sections = []
  for (const token of new Marked().lexer(readPaper(front))) {
    if (token.type === 'heading' && token.depth === 2) sections.push({ title: token.text, links: [] })
    if (token.type !== 'list') continue
    for (const item of token.items)
      for (const [, text, path] of item.text.matchAll(/\[([^\]]+)\]\((?!https?:)([^)#]+)\)/g)) {
        const paper = join(dirname(front), path)
        if (papers.includes(paper)) sections.at(-1)?.links.push({ text: text.replaceAll('`', ''), paper })
      }
  }
  const listed = new Set(sections.flatMap(({ links }) => links.map(({ paper }) => paper)))
  const others = papers.filter(paper => paper !== front && !listed.has(paper))
  const linkOf = paper => ({ text: titleOf(paper), paper })
  // The pages of a folder come behind the README of that folder.
  for (const { links } of sections)
    for (const [index, { paper }] of [...links.entries()].reverse()) {
      const below = others.filter(other => paper === join(dirname(other), 'README.md'))
      links.splice(index + 1, 0, ...below.map(linkOf))
    }
  const placed = new Set(sections.flatMap(({ links }) => links.map(({ paper }) => paper)))
  sections.push({ title: 'More', links: others.filter(paper => !placed.has(paper)).map(linkOf) })
  return sections.filter(({ links }) => links.length > 0)
}

function page(paper) {
  const text = readPaper(paper)
  const top = relative(dirname(pageOf(paper)), '.')
  const at = path => join(top, path)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(titleOf(paper))} – Livery</title>
<link rel="stylesheet" href="${at('style.css')}">
</head>
<body>
<nav aria-label="Pages">
<p><a href="${at('index.html')}">Livery</a></p>
${navigation.map(section => navigationHtml(section, paper, at)).join('\n')}
</nav>
<main>
${rendererOf(paper).parse(text)}
<footer><a href="${REPOSITORY}/blob/main/${paper}">The source of this page</a></footer>
</main>
</body>
</html>
`
}

function navigationHtml({ title, links }, current, at) {
  const items = links.map(({ text, paper }) => {
    const mark = paper === current ? ' aria-current="page"' : ''
    return `<li><a href="${at(pageOf(paper))}"${mark}>${escapeHtml(text)}</a></li>`
  })
  return `<h2>${escapeHtml(title)}</h2>\n<ul>\n${items.join('\n')}\n</ul>`
}

/** Headings get the anchors that GitHub gives them, and links lead to pages of the site. */
function rendererOf(paper) {
  const slugger = new GithubSlugger()
  return new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const id = slugger.slug(this.parser.parseInline(tokens, this.parser.textRenderer))
        return `<h${depth} id="${id}"><a href="#${id}">${this.parser.parseInline(tokens)}</a></h${depth}>\n`
      },
      link({ href, tokens }) {
        return `<a href="${escapeHtml(addressOf(paper, href))}">${this.parser.parseInline(tokens)}</a>`
      },
      image({ href, text }) {
        const picture = join(dirname(paper), href)
        cpSync(join(root, picture), join(out, picture))
        const file = relative(dirname(pageOf(paper)), picture)
        return `<img src="${escapeHtml(file)}" alt="${escapeHtml(text)}">`
      },
      table(token) {
        const row = (cells, tag) =>
          `<tr>${cells.map(cell => `<${tag}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`
        const body = token.rows.map(cells => row(cells, 'td')).join('\n')
        return `<div class="table"><table><thead>${row(token.header, 'th')}</thead><tbody>\n${body}\n</tbody></table></div>\n`
      },
    },
  })
}

function addressOf(paper, href) {
  if (/^[a-z]+:/.test(href) || href.startsWith('#')) return href
  const [path = '', heading] = href.split('#')
  const target = join(dirname(paper), path)
  const anchor = heading === undefined ? '' : `#${heading}`
  if (papers.includes(target)) return relative(dirname(pageOf(paper)), pageOf(target)) + anchor
  const kind = existsSync(join(root, target)) && statSync(join(root, target)).isDirectory() ? 'tree' : 'blob'
  return `${REPOSITORY}/${kind}/main/${target.replace(/\/$/, '')}${anchor}`
}

function titleOf(paper) {
  return /^# (.*)$/m.exec(readPaper(paper))?.[1]?.replaceAll('`', '') ?? paper
}

function readPaper(paper) {
  return readFileSync(join(root, paper), 'utf8')
}

function escapeHtml(text) {
  return text.replace(/[&<>"]/g, char => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[char])
}
