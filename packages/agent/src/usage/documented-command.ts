/** A command with examples: they are at the end of its help, and in the man page. */
import { Command } from 'commander'

/** A command line, and its purpose. */
export type Example = readonly [command: string, purpose: string]

export class DocumentedCommand extends Command {
  #examples: readonly Example[] = []
  #exitCodes: string | undefined

  override createCommand(name?: string): DocumentedCommand {
    return new DocumentedCommand(name)
  }

  /** Ends the help with `examples`, and with the exit codes where this command has its own. */
  withExamples(examples: readonly Example[], exitCodes?: string): this {
    this.#examples = examples
    this.#exitCodes = exitCodes
    const width = Math.max(...examples.map(([command]) => command.length))
    const lines = examples.map(([command, purpose]) => `  ${command.padEnd(width)}  ${purpose}`)
    const end = exitCodes === undefined ? [] : ['', `Exit codes: ${exitCodes}.`]
    return this.addHelpText('after', ['', 'Examples:', ...lines, ...end].join('\n'))
  }

  get examples(): readonly Example[] {
    return this.#examples
  }

  get exitCodes(): string | undefined {
    return this.#exitCodes
  }
}
