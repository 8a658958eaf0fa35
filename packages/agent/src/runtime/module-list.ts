/** The modules of the agent: the form of one, and the list of them. */

/** One feature, in one folder. `Needs`: what earlier modules have made. `Gives`: what later ones may use. */
interface Module<Needs, Gives> {
  /** The name by which the schema marks the reader of a key; only an optional module has one. */
  readonly name?: string
  /** Rejects if the agent cannot start. Parts that have to end are added to `life.parts` as soon as they are made. */
  readonly open: (made: Needs) => Gives | Promise<Gives>
}

/** Modules in the order in which they open; the compiler refuses one whose needs no earlier module meets. */
export class ModuleList<Start, Made extends Start> {
  /** Opens all modules; returns everything that they made. */
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
