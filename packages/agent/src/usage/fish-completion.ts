/** Completion for fish, from 3.0 on. */
import { allCommands, type CommandReference, type OptionReference, type Values } from './command-reference.ts'

export function fishCompletion(program: CommandReference): string {
  const commands = allCommands(program)
  const options = commands.flatMap(({ options }) => options)
  const withValue = new Set(options.flatMap(({ flags, value }) => (value ? flags : [])))
  const paths = commands.slice(1).map(({ path }) => `'${path}'`)
  return `# Completion of livery for fish, made by: livery completion fish
function __livery_path
    set -l path livery
    set -l is_value no
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        if test $is_value = yes
            set is_value no
            continue
        end
        switch $word
            case ${[...withValue].join(' ')}
                set is_value yes
            case '-*'
            case '*'
                if contains -- "$path $word" ${paths.join(' ')}
                    set path "$path $word"
                end
        end
    end
    echo $path
end

function __livery_at
    test (__livery_path) = "$argv"
end

function __livery_names
    set -l words (commandline -opc)
    set -l agent
    set -l option
    for word in $words
        if test -n "$option"
            set -a agent $option $word
            set option
        else if contains -- $word --admin --config -c
            set option $word
        else if string match -q -- '--admin=*' $word; or string match -q -- '--config=*' $word
            set -a agent $word
        end
    end
    $words[1] completion names $agent -- (string replace -r -- '^--[a-z-]+=' '' (commandline -ct)) 2>/dev/null
end

complete -c livery -f
${commands.flatMap(linesOf).join('\n')}
`
}

function linesOf({ path, arguments: [argument], ...command }: CommandReference): readonly string[] {
  const at = `complete -c livery -n '__livery_at ${path}'`
  return [
    ...command.commands.map(({ name, summary }) => `${at} -a ${name} -d ${quote(summary)}`),
    ...(argument && argument.values.kind !== 'text' ? [`${at}${valuesText(argument.values)}`] : []),
    ...[...command.options, ...command.inherited].map(option => `${at}${optionText(option)}`),
  ]
}

function optionText({ flags, description, value }: OptionReference): string {
  const names = flags.map(flag => (flag.startsWith('--') ? ` -l ${flag.slice(2)}` : ` -s ${flag.slice(1)}`))
  return `${names.join('')}${value ? ` ${value.values.kind === 'file' ? '-r -F' : `-x${valuesText(value.values)}`}` : ''} -d ${quote(description)}`
}

function valuesText(values: Values): string {
  if (values.kind === 'words') return ` -a ${quote(values.words.join(' '))}`
  if (values.kind === 'name') return " -a '(__livery_names)'"
  return values.kind === 'directory' ? " -a '(__fish_complete_directories (commandline -ct))'" : ''
}

function quote(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`
}
