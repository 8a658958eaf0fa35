/** The facts about a kind of event: level, scope, whether it is a security event, sentence, fields. */
import type { LogScope } from '../schema/log-level.ts'
import type { AgentEvent, EventKind } from './agent-event.ts'
import type { Level } from './log-rate.ts'

export interface Row<Event> {
  readonly scope: LogScope
  level(event: Event): Level
  /** Written at every log level: it reports an attack, a peer or CA that is refused, or a change in who is trusted. */
  readonly security: boolean
  /** Decides for a single event, where the kind does not. */
  isSecurity(event: Event): boolean
  /** The text without its time. */
  sentence(event: Event): string
  /** Fields for filters, beside the sentence. */
  fields(event: Event): object
  /** Whether `later` only repeats `earlier`, perhaps about another stream. */
  repeats(earlier: Event, later: Event): boolean
  /** The name of the event in the log. */
  eventName(event: Event): EventKind
}

type Kinded = Pick<AgentEvent, 'kind'>

interface More<Event> extends Partial<Pick<Row<Event>, 'level' | 'isSecurity' | 'fields' | 'eventName'>> {
  /** Events of a name that agree in these fields share a counted ledger entry. Default: each event is an entry. */
  readonly same?: readonly (keyof Event)[]
}

type MakeRow = <Event extends Kinded>(sentence: (event: Event) => string, more?: More<NoInfer<Event>>) => Row<Event>
type RowsAt = Readonly<Record<Level, MakeRow>>

/** Makes the rows of a scope: `rows('ca').warn(sentence)`, `rows('trust').security.warn(sentence)`. */
export function rows(scope: LogScope): RowsAt & { readonly security: RowsAt } {
  return { ...rowsAt(scope, false), security: rowsAt(scope, true) }
}

function rowsAt(scope: LogScope, security: boolean): RowsAt {
  const at =
    (level: Level): MakeRow =>
    (sentence, { same, ...more } = {}) => ({
      scope,
      security,
      level: () => level,
      isSecurity: () => security,
      sentence,
      fields: plainFields,
      repeats: (earlier, later) => same?.every(key => earlier[key] === later[key]) ?? false,
      eventName: ({ kind }) => kind,
      ...more,
    })
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

const TIMES: ReadonlySet<string> = new Set(['at', 'until', 'notAfter', 'renewAt', 'downSince', 'since', 'nextUpdate'])
/** Parts of the event that only the sentence shows. */
const IN_SENTENCE: ReadonlySet<string> = new Set(['kind', 'message', 'detail'])

/** All other fields; times as ISO 8601, as everywhere in the log, and errors as pino writes them. */
function plainFields(event: object): object {
  const entries = Object.entries(event).filter(([key]) => !IN_SENTENCE.has(key))
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key === 'error' ? 'err' : key,
      TIMES.has(key) && typeof value === 'number' ? new Date(value).toISOString() : value,
    ]),
  )
}
