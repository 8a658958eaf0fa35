/** The commands of the program as data, in the order of their help: for the man page. */
import type { Argument, Command, Help, Option } from 'commander'
import { DocumentedCommand, type Example } from './documented-command.ts'

export interface CommandReference {
  /** The full name, such as `livery ca root`. */
  readonly path: string
  readonly name: string
  /** One line. */
  readonly summary: string
  readonly description: string
  readonly arguments: readonly ArgumentReference[]
  /** The command's own options. */
  readonly options: readonly OptionReference[]
  /** Options that it takes from the commands above it. */
  readonly inherited: readonly OptionReference[]
  readonly commands: readonly CommandReference[]
  readonly examples: readonly Example[]
  /** Present if they differ from the program's. */
  readonly exitCodes: string | undefined
}

interface ArgumentReference {
  /** `<name>`, or `[name]` if it can be left out. */
  readonly term: string
  readonly description: string
}

export interface OptionReference {
  /** `-c, --config <file>`. */
  readonly term: string
  /** `-c` and `--config`. */
  readonly flags: readonly string[]
  readonly description: string
}

/** The command and its subcommands; `help` and hidden ones are left out. */
export function readCommand(command: Command, above = ''): CommandReference {
  const help = command.createHelp()
  const path = `${above} ${command.name()}`.trimStart()
  const documented = command instanceof DocumentedCommand ? command : undefined
  return {
    path,
    name: command.name(),
    summary: command.summary() || command.description(),
    description: command.description(),
    arguments: help.visibleArguments(command).map(each => readArgument(help, each)),
    options: help.visibleOptions(command).map(option => readOption(help, option)),
    inherited: help.visibleGlobalOptions(command).map(option => readOption(help, option)),
    commands: help
      .visibleCommands(command)
      .filter(each => each.name() !== 'help')
      .map(each => readCommand(each, path)),
    examples: documented?.examples ?? [],
    exitCodes: documented?.exitCodes,
  }
}

/** The command itself, then its subcommands, level by level. */
export function allCommands(command: CommandReference): readonly CommandReference[] {
  return [command, ...command.commands.flatMap(allCommands)]
}

function readArgument(help: Help, argument: Argument): ArgumentReference {
  const name = argument.name()
  return { term: argument.required ? `<${name}>` : `[${name}]`, description: help.argumentDescription(argument) }
}

function readOption(help: Help, option: Option): OptionReference {
  return {
    term: help.optionTerm(option),
    flags: [option.short, option.long].filter(flag => flag !== undefined),
    description: help.optionDescription(option),
  }
}
