/** Reads a configuration file (YAML 1.2, and so JSON) into plain data that knows its lines and has no prototypes. */
import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { checkFile, UntrustedPathError } from '@livery/core'
import { type Alias, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml'
import { ConfigError } from './config-error.ts'
import { parseOffLoop } from './parse-off-loop.ts'

/** Plain data. Objects have no prototype, so that no key of a file can mean more than its text. */
export type Tree = null | boolean | number | string | readonly Tree[] | TreeObject
export interface TreeObject {
  readonly [key: string]: Tree
}

export interface ConfigDocument {
  readonly value: Tree
  /** Line, from 1, by path (`sockets[0].mode`). */
  readonly lines: ReadonlyMap<string, number>
}

/** A document with what tells its content from another. */
export interface ReadConfigDocument extends ConfigDocument {
  /** SHA-256 of the file's bytes, hex. */
  readonly digest: string
}

const MAX_BYTES = 4 * 1024 * 1024
/** Aliases multiply: nine lines of YAML can mean a billion values. */
const MAX_VALUES = 200_000
const MAX_DEPTH = 16
/** No key of ours is longer than 20 characters, and each is part of the path of all that is under it. */
const MAX_KEY = 256
/** Characters in all paths together. */
const MAX_PATHS = 16 * 1024 * 1024
/** Faults of YAML that are reported: one broken quote can make one at each character. */
const MAX_FAULTS = 20
/** Bytes that are parsed at once: the slowest text of this length takes 30 ms. A longer one goes to a thread. */
const MAX_INLINE_BYTES = 4096

/** Reads and parses `file`; rejects with a {@link ConfigError} that names file and line. */
export async function readDocument(file: string, signal?: AbortSignal): Promise<ReadConfigDocument> {
  const bytes = readBytes(file)
  const text = decode(bytes, file)
  const document =
    bytes.length <= MAX_INLINE_BYTES ? parseConfigDocument(text, file) : await parseOffLoop(text, file, signal)
  return { ...document, digest: digestOf(bytes) }
}

/** The digest of what `file` holds now; of a file that cannot be read, one of the reason. */
export function contentDigest(file: string): string {
  try {
    return digestOf(readBytes(file))
  } catch (error) {
    return digestOf(String(error))
  }
}

function digestOf(content: Uint8Array | string): string {
  return createHash('sha256').update(content).digest('hex')
}

/** Parses the text of a configuration file in time linear to its length; `file` is its name in errors. */
export function parseConfigDocument(text: string, file: string): ConfigDocument {
  const lineCounter = new LineCounter()
  // The library would compare each key with each other, and look for each anchor from the start.
  const document = parseDocument(text, { lineCounter, stringKeys: true, uniqueKeys: false, prettyErrors: false })
  const lineOf = (offset: number | undefined): number => lineCounter.linePos(offset ?? 0).line
  const faults = [...document.errors, ...document.warnings].slice(0, MAX_FAULTS)
  if (faults.length > 0) {
    throw new ConfigError(
      faults.map(fault => ({
        origin: { kind: 'file', file, line: lineOf(fault.pos[0]) },
        path: '',
        text: `cannot be read as YAML: ${describeFault(fault.code, fault.message)}`,
      })),
    )
  }
  const lines = new Map<string, number>()
  const targets = aliasTargets(document.contents)
  let values = 0
  let pathLength = 0

  const refuse = (path: string, line: number, reason: string): never => {
    throw new ConfigError([{ origin: { kind: 'file', file, line }, path, text: reason }])
  }
  const convert = (node: unknown, path: string, depth: number, line: number): Tree => {
    pathLength += path.length
    if (pathLength > MAX_PATHS) refuse('', line, 'its keys and what is under them are too long. Write shorter keys.')
    lines.set(path, line)
    if (++values > MAX_VALUES)
      refuse(path, line, `aliases blow it up to over ${MAX_VALUES} values. Write it out, or less.`)
    if (depth > MAX_DEPTH) refuse(path, line, `is nested deeper than ${MAX_DEPTH} levels. No key needs that.`)
    if (isAlias(node)) {
      const target = targets.get(node) ?? refuse(path, line, `*${shortened(node.source)} names no anchor before it.`)
      return convert(target, path, depth + 1, line)
    }
    if (isSeq(node)) {
      return node.items.map((item, index) => convert(item, `${path}[${index}]`, depth + 1, lineOf(startOf(item))))
    }
    if (isMap(node)) {
      const object: Record<string, Tree> = Object.create(null)
      for (const { key, value } of node.items) {
        const name = isScalar(key) ? String(key.value) : String(key)
        const keyLine = lineOf(isScalar(key) ? startOf(key) : undefined)
        if (name.length > MAX_KEY) refuse(path, keyLine, `has a key of ${name.length} characters. No key is so long.`)
        const keyPath = childPath(path, name)
        if (name in object) refuse('', keyLine, `cannot be read as YAML: ${describeFault('DUPLICATE_KEY', '')}`)
        if (name in Object.prototype) refuse(keyPath, keyLine, 'unknown key. Remove it.')
        object[name] = convert(value, keyPath, depth + 1, keyLine)
      }
      return object
    }
    const value: unknown = isScalar(node) ? node.value : null
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
    return value === null ? null : refuse(path, line, 'is no string, number or boolean. Quote it.')
  }
  return { value: convert(document.contents, '', 0, 1), lines }
}

/** What each alias stands for: the last node before it that has its anchor. */
function aliasTargets(contents: Node | null): ReadonlyMap<Alias, Node> {
  const anchors = new Map<string, Node>()
  const targets = new Map<Alias, Node>()
  visit(contents, {
    Alias(_, alias) {
      const target = anchors.get(alias.source)
      if (target) targets.set(alias, target)
    },
    Value(_, node) {
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
    },
  })
  return targets
}

function shortened(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text
}

/** `rotation` + `ratio` → `rotation.ratio`; keys with odd characters are quoted. */
export function childPath(parent: string, key: string | number): string {
  if (typeof key === 'number') return `${parent}[${key}]`
  const name = /^[\w-]+$/.test(key) ? key : JSON.stringify(key)
  return parent === '' ? name : `${parent}.${name}`
}

export function isTreeObject(value: unknown): value is TreeObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function startOf(node: unknown): number | undefined {
  return (node as Node | null)?.range?.[0]
}

function describeFault(code: string, message: string): string {
  if (code === 'DUPLICATE_KEY') return 'a key is written twice. Remove one of them.'
  if (code === 'TAB_AS_INDENT') return 'a line is indented with a tab. Use spaces.'
  return `${shortened(message.split('\n', 1)[0] ?? '')}. Check indentation, quotes and brackets there.`
}

function decode(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw unreadable(file, 'is not UTF-8 text. Save it as UTF-8.', cause)
  }
}

function readBytes(file: string): Uint8Array {
  const handle = openConfig(file)
  try {
    const status = fstatSync(handle)
    if (!status.isFile()) throw unreadable(file, 'is not a regular file. Name a YAML or JSON file.')
    checkWriters(file, status)
    if (status.size > MAX_BYTES) {
      throw unreadable(
        file,
        `is ${status.size} bytes, more than the ${MAX_BYTES} allowed. Use a range for many identities.`,
      )
    }
    const bytes = Buffer.alloc(status.size)
    return bytes.subarray(0, readSync(handle, bytes))
  } finally {
    closeSync(handle)
  }
}

function openConfig(file: string): number {
  try {
    // Opening a FIFO would otherwise wait for its writer, and everything else with it.
    return openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
  } catch (cause) {
    const missing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    const reason = missing ? 'does not exist. Check the path.' : `cannot be opened: ${(cause as Error).message}.`
    throw unreadable(file, reason, cause)
  }
}

/** It names the code that the agent runs, and who gets which key. */
function checkWriters(file: string, status: Stats): void {
  try {
    checkFile(file, status, { shared: false })
  } catch (error) {
    if (!(error instanceof UntrustedPathError)) throw error
    throw unreadable(file, `is not used, since others could have written it: ${error.message}`, error)
  }
}

function unreadable(file: string, text: string, cause?: unknown): ConfigError {
  return new ConfigError([{ origin: { kind: 'file', file }, path: '', text: `the file ${text}` }], { cause })
}
