/** Completion for bash, from 3.2 on. It needs nothing but bash itself. */
import { allCommands, type CommandReference, type Values } from './command-reference.ts'

export function bashCompletion(program: CommandReference): string {
  const commands = allCommands(program)
  const words = new Cases()
  const flags = new Cases()
  const values = new Cases()
  for (const command of commands) {
    const {
      path,
      arguments: [argument],
    } = command
    const options = [...command.options, ...command.inherited]
    const below = command.commands.map(({ name }) => name).join(' ')
    words.add(below === '' ? textOf(argument?.values) : below, path)
    flags.add(options.flatMap(option => option.flags).join(' '), path)
    for (const option of options)
      for (const flag of option.flags) values.add(textOf(option.value?.values), `${path} ${flag}`)
  }
  return [
    '# Completion of livery for bash, made by: livery completion bash',
    '_livery_complete() {',
    readLine(commands),
    '  if [[ -n $option ]]; then',
    `    case "$path $option" in\n${values.text()}\n    esac`,
    '  elif [[ $current == -* ]]; then',
    `    case $path in\n${flags.text()}\n    esac`,
    '  elif [[ -z $argument ]]; then',
    `    case $path in\n${words.text()}\n    esac`,
    '  fi',
    REPLY,
    '}',
    'complete -F _livery_complete livery\n',
  ].join('\n')
}

/** Finds the command, the option that waits for its value, and the options that say where the agent is. */
function readLine(commands: readonly CommandReference[]): string {
  const options = commands.flatMap(({ options }) => options)
  const withValue = new Set(options.flatMap(({ flags, value }) => (value ? flags : [])))
  const paths = commands.slice(1).map(({ path }) => path)
  return `  local line=\${COMP_LINE:0:COMP_POINT} current= path=livery option= argument= choices= prefix= cut= word
  local -a words agent replies
  read -ra words <<<"$line"
  if [[ $line != *[[:space:]] ]]; then
    current=\${words[\${#words[@]}-1]}
    unset "words[\${#words[@]}-1]"
  fi
  for word in "\${words[@]:1}"; do
    if [[ -n $option ]]; then
      case $option in --admin | --config | -c) agent+=("$option" "$word") ;; esac
      option=
      continue
    fi
    case $word in
      --admin=* | --config=*) agent+=("$word") ;;
      ${[...withValue].join(' | ')}) option=$word ;;
      -*) ;;
      *)
        case "$path $word" in
          ${quoted(paths)}) path+=" $word" ;;
          *) argument=$word ;;
        esac
        ;;
    esac
  done
  if [[ -z $option && $current == --*=* ]]; then
    option=\${current%%=*} prefix=\${current%%=*}= current=\${current#*=}
  fi`
}

/** Nothing of a name is expanded: `compgen -W` would run what is in it. */
const REPLY = `  case $choices in
    @file | @directory)
      type compopt >/dev/null 2>&1 && compopt -o filenames 2>/dev/null
      while IFS= read -r word; do replies+=("$word"); done < <(
        if [[ $choices == @file ]]; then compgen -f -- "$current"; else compgen -d -- "$current"; fi
      )
      ;;
    @name)
      while IFS= read -r word; do replies+=("$word"); done < <(
        "\${words[0]}" completion names "\${agent[@]}" -- "$current" 2>/dev/null
      )
      ;;
    *) for word in $choices; do [[ $word == "$current"* ]] && replies+=("$word"); done ;;
  esac
  # Readline replaces only what follows the last of these characters.
  current=$prefix$current
  if [[ $COMP_WORDBREAKS == *:* && $current == *:* ]]; then cut=\${current%"\${current##*:}"}; fi
  if [[ $COMP_WORDBREAKS == *=* && \${current#"$cut"} == *=* ]]; then cut=\${current%"\${current##*=}"}; fi
  COMPREPLY=()
  for word in "\${replies[@]}"; do
    word=$prefix$word
    COMPREPLY+=("\${word#"$cut"}")
  done`

function textOf(values: Values | undefined): string {
  if (!values || values.kind === 'text') return ''
  return values.kind === 'words' ? values.words.join(' ') : `@${values.kind}`
}

/** The lines of a `case`: one per text, for all patterns that have it. */
class Cases {
  readonly #patterns = new Map<string, string[]>()

  add(text: string, pattern: string): void {
    if (text === '') return
    const patterns = this.#patterns.get(text) ?? []
    this.#patterns.set(text, patterns)
    patterns.push(pattern)
  }

  text(): string {
    return Array.from(this.#patterns, ([text, each]) => `      ${quoted(each)}) choices='${text}' ;;`).join('\n')
  }
}

function quoted(patterns: readonly string[]): string {
  return patterns.map(pattern => `'${pattern}'`).join(' | ')
}
