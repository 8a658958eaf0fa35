/** The environment of the process: its settings, and the switches that exist nowhere else. */
import { hideUserinfo, type PrivateKeyFormat } from '@livery/core/plugin'
import { ConfigError } from '../schema/config-error.ts'
import type { Tree } from '../schema/config-tree.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** One key that a variable sets, in the form in which the file would write it. */
export interface Setting {
  readonly path: readonly string[]
  readonly value: Tree
  readonly variable: string
  /** The variable's own value. */
  readonly text: string
}

/** Switches that only the environment has. */
export interface EnvironmentSwitches {
  /** `PKCS8_KEY`; default `pkcs8`, whereas Istio's own default is false. */
  readonly keyFormat: PrivateKeyFormat
  /** `LIVERY_KEYGEN`; default: the addon where it is built, else WebCrypto. */
  readonly keyGenerator: 'auto' | 'native' | 'webcrypto'
}

/** Reads the switches that have no key; throws a {@link ConfigError}. */
export function environmentSwitches(environment: Environment): EnvironmentSwitches {
  const pkcs8 = choose(environment, 'PKCS8_KEY', ['true', 'false'])
  return {
    keyFormat: pkcs8 === 'false' ? 'traditional' : 'pkcs8',
    keyGenerator: choose(environment, 'LIVERY_KEYGEN', ['native', 'webcrypto']) ?? 'auto',
  }
}

function choose<const T extends string>(
  environment: Environment,
  variable: string,
  choices: readonly T[],
): T | undefined {
  const text = environment[variable]
  if (!text) return undefined
  const choice = choices.find(candidate => candidate === text)
  if (choice !== undefined) return choice
  const reason = `${JSON.stringify(hideUserinfo(text))} is none of ${choices.join(', ')}`
  const origin = { kind: 'environment', variable, text } as const
  throw new ConfigError([{ origin, path: '', reason, remedy: 'Write one of these, or unset it' }])
}
