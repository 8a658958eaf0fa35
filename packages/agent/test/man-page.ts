/** Writes man/livery.1, in roff (man(7)), and docs/reference/commands.md: each command with its options and examples, from the description that the program has. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { createProgram, EXIT_CODES, PRECEDENCE } from '../src/cli.ts'
import { wrap } from '../src/commands/text-layout.ts'
import {
  allCommands,
  type CommandReference,
  type OptionReference,
  readCommand,
} from '../src/usage/command-reference.ts'
import { COMMANDS_PAGE, commandsPage } from './commands-page.ts'

export const PAGE = fileURLToPath(new URL('../man/livery.1', import.meta.url))

const HOMEPAGE = 'https://github.com/livery/livery'

/** The commands as the program has them. */
export function program(): CommandReference {
  const terminal = { environment: {}, workingDirectory: '/', terminal: false, out: () => {}, err: () => {} }
  return readCommand(createProgram(terminal, () => {}))
}

/** In roff. */
export function page(): string {
  const { name, description, options, ...rest } = program()
  const [purpose = ''] = description.split('. ')
  const lines = [
    '.\\" Made from the description of the commands: npm run man. Do not edit.',
    `.TH ${name.toUpperCase()} 1 "" "Livery" "User Commands"`,
    '.SH NAME',
    line(`${name} - ${lowerFirst(purpose.replace(/\.$/, ''))}`),
    '.SH SYNOPSIS',
    `.B ${name}`,
    '[\\fIoptions\\fR] \\fIcommand\\fR [\\fIargument\\fR]',
    '.SH DESCRIPTION',
    line(description),
    '.SH OPTIONS',
    'Every command takes these.',
    ...options.flatMap(optionLines),
    '.SH COMMANDS',
    ...rest.commands.flatMap(allCommands).flatMap(commandLines),
    '.SH EXIT STATUS',
    ...EXIT_CODES.flatMap(([code, meaning]) => ['.TP', `.B ${code}`, line(meaning)]),
    '.SH CONFIGURATION',
    line(PRECEDENCE),
    '.SH SEE ALSO',
    line(HOMEPAGE),
  ]
  return `${lines.join('\n')}\n`
}

function commandLines(command: CommandReference): readonly string[] {
  const { path, description, commands, examples, exitCodes } = command
  const options = command.options.filter(({ flags }) => !flags.includes('--help'))
  const terms = command.arguments.map(({ term }) => ` ${placeholders(term)}`).join('')
  const rest = commands.length > 0 ? ' \\fIcommand\\fR' : terms
  return [
    `.SS ${text(path)}${options.length > 0 ? ' [\\fIoptions\\fR]' : ''}${rest}`,
    line(sentence(description)),
    ...command.arguments.flatMap(({ term, description }) => ['.TP', placeholders(term), line(description)]),
    ...options.flatMap(optionLines),
    ...(examples.length === 0 ? [] : ['.PP', 'Examples:']),
    ...examples.flatMap(([example, purpose]) => ['.TP', `\\fB${text(example)}\\fR`, line(purpose)]),
    ...(exitCodes === undefined ? [] : ['.PP', line(`Exit codes: ${exitCodes}.`)]),
  ]
}

function optionLines({ term, description }: OptionReference): readonly string[] {
  return ['.TP', placeholders(term).replaceAll(/(^|\s)((?:\\-)+[a-zA-Z][\w\\-]*)/g, '$1\\fB$2\\fR'), line(description)]
}

/** `<file>` in italics. */
function placeholders(term: string): string {
  return text(term).replaceAll(/<([^>]+)>/g, '\\fI$1\\fR')
}

function sentence(description: string): string {
  const begun = description.charAt(0).toUpperCase() + description.slice(1)
  return begun.endsWith('.') ? begun : `${begun}.`
}

function lowerFirst(description: string): string {
  return description.charAt(0).toLowerCase() + description.slice(1)
}

/** Lines of text, which are not requests: those begin with a dot or an apostrophe. */
function line(words: string): string {
  return wrap(words, MAX_LINE, '')
    .map(each => text(each).replace(/^[.']/, '\\&$&'))
    .join('\n')
}

/** Of the source: an escaped hyphen is longer than on the page. */
const MAX_LINE = 72

function text(words: string): string {
  return words.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('~', '\\(ti').replaceAll('^', '\\(ha')
}

if (import.meta.main) {
  writeFileSync(PAGE, page())
  writeFileSync(COMMANDS_PAGE, commandsPage(program()))
}
