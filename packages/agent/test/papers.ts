/** The papers of the repository, and the blocks of code in them: their language, and the word behind it that marks the others. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))

export const PAPERS: readonly string[] = globSync(['*.md', '{deploy,docs,benchmarks,examples,packages}/**/*.md'], {
  cwd: REPOSITORY,
  exclude: path => /node_modules|THIRD-PARTY/.test(path),
})

interface Block {
  readonly language: string
  /** Behind the language, such as `root` in "sh root": why no test runs or loads it. Empty for the others. */
  readonly mark: string
  readonly text: string
}

export function read(paper: string): string {
  return readFileSync(`${REPOSITORY}${paper}`, 'utf8')
}

export function blocksOf(paper: string, language: string): readonly Block[] {
  const blocks = read(paper).matchAll(/^( *)```([a-z]+)(?: ([a-z]+))?\n([\s\S]*?)^ *```$/gm)
  return [...blocks]
    .map(([, indent = '', found = '', mark = '', text = '']) => ({
      language: found,
      mark,
      text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }))
    .filter(block => block.language === language)
}
