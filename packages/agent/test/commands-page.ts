/** docs/reference/commands.md: the man page for a browser. */
import { fileURLToPath } from 'node:url'
import { EXIT_CODES } from '../src/cli.ts'
import { allCommands, type CommandReference, type OptionReference } from '../src/usage/command-reference.ts'

export const COMMANDS_PAGE = fileURLToPath(new URL('../../../docs/reference/commands.md', import.meta.url))

/** In Markdown. */
export function commandsPage({ options, commands }: CommandReference): string {
  const parts = [
    '# Commands',
    '`npm run man` writes this page and the man page from the commands of the program.',
    'Every command takes these options. Results are on standard output, everything else on standard error.',
    list(options),
    `Exit codes: ${EXIT_CODES.map(([code, meaning]) => `${code} ${meaning.replace(/\.$/, '')}`).join('; ')}.`,
    ...commands.flatMap(allCommands).flatMap(sectionOf),
  ]
  return `${parts.filter(part => part !== '').join('\n\n')}\n`
}

function sectionOf(command: CommandReference): readonly string[] {
  const { path, description, examples, exitCodes } = command
  const terms = command.arguments.map(({ term }) => ` ${term}`).join('')
  return [
    `## ${path}`,
    `\`${path}${terms}\`: ${plain(description)}${/[.:]$/.test(description) ? '' : '.'}`,
    list([...command.arguments, ...command.options.filter(({ flags }) => !flags.includes('--help'))]),
    examples.length === 0
      ? ''
      : `\`\`\`console\n${examples.map(([line, purpose]) => `$ ${line}    # ${purpose}`).join('\n')}\n\`\`\``,
    exitCodes === undefined ? '' : `Exit codes: ${exitCodes}.`,
  ]
}

function list(terms: readonly Pick<OptionReference, 'term' | 'description'>[]): string {
  return terms.map(({ term, description }) => `- \`${term}\`: ${plain(description)}`).join('\n')
}

/** Text that Markdown shows as it is. */
function plain(words: string): string {
  return words.replaceAll(/[<*_]/g, '\\$&')
}
