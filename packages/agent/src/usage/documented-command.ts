/** A command with examples, which its help and the man page end with. */
import { Command } from 'commander'

/** A command line, and its purpose. */
export type Example = readonly [command: string, purpose: string]

export class DocumentedCommand extends Command {
  #examples: readonly Example[] = []
  #exitCodes: string | undefined

  override createCommand(name?: string): DocumentedCommand {
    return new DocumentedCommand(name)
  }

  /** Ends the help with `examples`, and with the exit codes if this command has different ones. Wrong usage shows the first example. */
  withExamples(examples: readonly Example[], exitCodes?: string): this {
    this.#examples = examples
    this.#exitCodes = exitCodes
    const width = Math.max(...examples.map(([command]) => command.length))
    const lines = examples.map(([command, purpose]) => `  ${command.padEnd(width)}  ${purpose}`)
    const end = exitCodes === undefined ? [] : ['', `Exit codes: ${exitCodes}.`]
    const [[example] = ['']] = examples
    this.showHelpAfterError(`Example: ${example}\n(see ${this.#path()} --help)`)
    return this.addHelpText('after', ['', 'Examples:', ...lines, ...end].join('\n'))
  }

  /** `livery trust`. */
  #path(): string {
    const names = [this.name()]
    for (let above = this.parent; above; above = above.parent) names.unshift(above.name())
    return names.join(' ')
  }

  get examples(): readonly Example[] {
    return this.#examples
  }

  get exitCodes(): string | undefined {
    return this.#exitCodes
  }
}
