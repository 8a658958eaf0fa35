/** The configuration keys of a plugin as a table: names, forms, defaults. The agent reads the file by it, and its errors name field and remedy. */

interface Described {
  /** One line for the operator: the purpose of the key. */
  readonly description: string
}

/** May be left out: then `default` holds (in the form of the configuration file), or the plugin sees no value. */
type Optional<Default> = { readonly required?: false; readonly default?: Default }
type Required = { readonly required: true }

/** One configuration key. The plugin gets text as written, paths absolute, durations as milliseconds. */
export type PluginOption = Described &
  (
    | ({
        readonly type: 'string'
        /** The values that are allowed. */
        readonly choices?: readonly string[]
        /** Never shown again: not in `check-config`, `/config_dump` or a message. */
        readonly secret?: true
        /** Why a value cannot be used, as in "is not an address. Write host:port"; `undefined` if it can. */
        readonly problem?: (value: string) => string | undefined
      } & (Required | Optional<string>))
    /** Relative ones are taken from the folder of the configuration file. */
    | ({ readonly type: 'path' } & (Required | Optional<string>))
    /** Written as `500ms`, `5s`, `30m`, `24h` or `90d`; bounds and default in the same form. */
    | ({ readonly type: 'duration'; readonly min?: string; readonly max?: string } & (Required | Optional<string>))
    | ({ readonly type: 'number'; readonly min?: number; readonly max?: number } & (Required | Optional<number>))
    | ({ readonly type: 'boolean' } & (Required | Optional<boolean>))
    /** A list of text. */
    | ({ readonly type: 'list' } & (Required | Optional<readonly string[]>))
    /** Names and their text. */
    | ({ readonly type: 'map'; readonly secret?: true } & (Required | Optional<Readonly<Record<string, string>>>))
    /** Its own keys. */
    | ({ readonly type: 'object'; readonly options: PluginOptions } & (Required | { readonly required?: false }))
    /** A list of mappings. */
    | ({ readonly type: 'objects'; readonly options: PluginOptions } & (Required | { readonly required?: false }))
  )

export interface PluginOptions {
  readonly [name: string]: PluginOption
}

type Value<O> = O extends { type: 'number' | 'duration' }
  ? number
  : O extends { type: 'boolean' }
    ? boolean
    : O extends { type: 'list' }
      ? readonly string[]
      : O extends { type: 'map' }
        ? Readonly<Record<string, string>>
        : O extends { type: 'object'; options: infer T extends PluginOptions }
          ? ConfigOf<T>
          : O extends { type: 'objects'; options: infer T extends PluginOptions }
            ? readonly ConfigOf<T>[]
            : O extends { choices: readonly (infer C)[] }
              ? C
              : string

type Given<T> = {
  [K in keyof T]: T[K] extends { required: true } | { default: unknown } ? K : never
}[keyof T]

/** The options as a plugin gets them: plain data, those without a value left out. */
export type ConfigOf<T extends PluginOptions> = {
  readonly [K in Given<T>]: Value<T[K]>
} & {
  readonly [K in Exclude<keyof T, Given<T>>]?: Value<T[K]>
}

/** Values of a configuration that do not go together: the agent shows the message with the line of the option. */
export class OptionError extends TypeError {
  /** A key of the plugin, or an agent key beside it. */
  readonly option: string

  /** `message` names the option, its value unless it may be secret, the reason and the remedy. */
  constructor(option: string, message: string) {
    super(message)
    this.option = option
  }
}
