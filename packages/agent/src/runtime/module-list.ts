/** The modules of the agent: what one is, and the list of them. */

/** One feature, in one folder. `Needs`: what modules before it in the list have made. `Gives`: what later ones may use. */
interface Module<Needs, Gives> {
  /** By which the schema names the reader of a key; only a module that the agent can do without has one. */
  readonly name?: string
  /** Rejects if the agent cannot start. What has to end goes to `life.parts` as soon as it is made. */
  readonly open: (made: Needs) => Gives | Promise<Gives>
}

/** Modules in the order in which they are opened; the compiler refuses one that needs what none before it gives. */
export class ModuleList<Start, Made extends Start> {
  /** Opens all of them; what they made together. */
  readonly open: (start: Start) => Promise<Made>
  readonly names: ReadonlySet<string>

  private constructor(open: (start: Start) => Promise<Made>, names: ReadonlySet<string>) {
    this.open = open
    this.names = names
  }

  static empty<Start>(): ModuleList<Start, Start> {
    return new ModuleList(async start => start, new Set())
  }

  with<Gives>({ name, open }: Module<Made, Gives>): ModuleList<Start, Made & Gives> {
    const openAll = async (start: Start) => {
      const made = await this.open(start)
      return { ...made, ...(await open(made)) }
    }
    return new ModuleList(openAll, name === undefined ? this.names : new Set([...this.names, name]))
  }
}
