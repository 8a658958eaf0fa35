/** Completion for zsh, by its own completion system: one function per command. */
import { allCommands, type CommandReference, type OptionReference, type Values } from './command-reference.ts'

export function zshCompletion(program: CommandReference): string {
  return `#compdef livery
# Completion of livery for zsh, made by: livery completion zsh

_livery_names() {
  local -a agent names
  local -i place
  for (( place = 2; place < $#livery_words; place++ )); do
    case $livery_words[place] in
      --admin=* | --config=*) agent+=("\${(Q)livery_words[place]}") ;;
      --admin | --config | -c) agent+=($livery_words[place] "\${(Q)livery_words[place+1]}") ;;
    esac
  done
  names=(\${(f)"$(\${(Q)livery_words[1]} completion names $agent -- \${(Q)PREFIX} 2>/dev/null)"})
  compadd -a names
}

${allCommands(program).map(functionOf).join('\n')}
if [[ $funcstack[1] == _livery ]]; then
  _livery "$@"
else
  compdef _livery livery
fi
`
}

function functionOf(command: CommandReference): string {
  const {
    path,
    commands,
    arguments: [argument],
  } = command
  const specs = [...command.options, ...command.inherited].map(optionSpec)
  if (commands.length === 0) {
    const value = argument ? [`'1:${argument.term.slice(1, -1)}:${action(argument.values)}'`] : []
    return define(path, [`  _arguments -s -S ${[...specs, ...value].join(' \\\n    ')}`])
  }
  const list = commands.map(({ name, summary }) => `        ${quote(`${name}:${summary}`)}`)
  const own = path === 'livery' ? ['  local -a livery_words=($words)'] : []
  return define(path, [
    ...own,
    '  local curcontext=$curcontext state line ret=1',
    '  local -A opt_args',
    `  _arguments -C -s -S -A '-*' ${[...specs, "'1: :->command'", "'*:: :->argument'"].join(' \\\n    ')} && ret=0`,
    '  case $state in',
    '    command)',
    '      local -a commands=(',
    ...list,
    '      )',
    "      _describe -t commands 'command' commands && ret=0",
    '      ;;',
    '    argument)',
    '      case $line[1] in',
    ...commands.map(({ name, path }) => `        ${name}) ${functionName(path)} && ret=0 ;;`),
    '      esac',
    '      ;;',
    '  esac',
    '  return ret',
  ])
}

function define(path: string, lines: readonly string[]): string {
  return `${functionName(path)}() {\n${lines.join('\n')}\n}\n`
}

function functionName(path: string): string {
  return `_${path.replaceAll(/[ -]/g, '_')}`
}

function optionSpec({ flags, description, value, isVariadic }: OptionReference): string {
  const end = `[${description.replace(/[\\[\]]/g, '\\$&')}]${value ? `:${value.name}:${action(value.values)}` : ''}`
  const others = isVariadic ? '*' : flags.length > 1 ? `(${flags.join(' ')})` : ''
  const specs = flags.map(flag => {
    const form = value ? (flag.startsWith('--') ? '=' : '+') : ''
    return quote(`${others}${flag}${form}${end}`)
  })
  return specs.join(' ')
}

/** How zsh completes such a value. */
function action(values: Values): string {
  if (values.kind === 'words') return `(${values.words.join(' ')})`
  if (values.kind === 'name') return '_livery_names'
  if (values.kind === 'directory') return '_files -/'
  return values.kind === 'file' ? '_files' : ' '
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
