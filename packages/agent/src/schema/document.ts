/** Reads a configuration file (YAML 1.2, and so JSON) into nodes that know their lines. */

import { createHash } from 'node:crypto'
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { checkFile, systemErrorCode, UntrustedPathError } from '@livery/core/plugin'
import { type Alias, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from 'yaml'
import { ConfigError, type Origin, type Problem } from './config-error.ts'
import { type ConfigNode, childPath } from './config-tree.ts'
import { Fault, faultFrom } from './fault.ts'
import { parseOffLoop } from './parse-off-loop.ts'

/** The content of a file. */
interface ConfigDocument {
  readonly root: ConfigNode
  /** SHA-256 of the file's bytes, hex. */
  readonly digest: string
}

const MAX_BYTES = 4 * 1024 * 1024
/** Aliases multiply: nine lines of YAML can mean a billion values. */
const MAX_VALUES = 200_000
const MAX_DEPTH = 16
/** Our longest key has 20 characters, and each key is part of all paths below it. */
const MAX_KEY = 256
/** Limit of characters in all paths together. */
const MAX_PATHS = 16 * 1024 * 1024
/** Reported faults of YAML: one broken quote can make one at each character. */
const MAX_FAULTS = 20
/** The library's own sentences are shorter; some quote the text. */
const MAX_MESSAGE = 160
/** Bytes that are parsed in place: the slowest text of this length takes 30 ms. A longer one goes to a thread. */
const MAX_INLINE_BYTES = 4096

/** Reads and parses `file`; rejects with a {@link ConfigError} that names file and line. */
export async function readDocument(file: string, signal?: AbortSignal): Promise<ConfigDocument> {
  const bytes = readBytes(file)
  const text = decode(bytes, file)
  const root =
    bytes.length <= MAX_INLINE_BYTES ? parseConfigDocument(text, file) : await parseOffLoop(text, file, signal)
  return { root, digest: digestOf(bytes) }
}

/** The digest of the file's present content; if it cannot be read, a digest of the reason. */
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
export function parseConfigDocument(text: string, file: string): ConfigNode {
  const lineCounter = new LineCounter()
  // The library would compare all pairs of keys, and look for each anchor from the start.
  const document = parseDocument(text, { lineCounter, stringKeys: true, uniqueKeys: false, prettyErrors: false })
  const lineOf = (offset: number | undefined): number => lineCounter.linePos(offset ?? 0).line
  const faults = [...document.errors, ...document.warnings].slice(0, MAX_FAULTS)
  if (faults.length > 0) {
    throw new ConfigError(
      faults.map(({ code, message, pos }) => problemAt(file, lineOf(pos[0]), '', yamlFault(code, message))),
    )
  }
  const originOf = originsOf(file)
  const targets = aliasTargets(document.contents)
  let values = 0
  let pathLength = 0

  const refuse = (path: string, line: number, reason: string, remedy: string): never => {
    throw new ConfigError([problemAt(file, line, path, new Fault(reason, remedy))])
  }
  const convert = (node: unknown, path: string, depth: number, line: number): ConfigNode => {
    pathLength += path.length
    if (pathLength > MAX_PATHS) refuse('', line, 'its keys and what is under them are too long', 'Write shorter keys')
    if (++values > MAX_VALUES)
      refuse(path, line, `aliases blow it up to over ${MAX_VALUES} values`, 'Write it out, or less')
    if (depth > MAX_DEPTH) refuse(path, line, `is nested deeper than ${MAX_DEPTH} levels`, 'No key needs that')
    const origin = originOf(line)
    if (isAlias(node)) {
      const target =
        targets.get(node) ??
        refuse(path, line, `*${shortened(node.source)} names no anchor before it`, 'Write the anchor first')
      return convert(target, path, depth + 1, line)
    }
    if (isSeq(node)) {
      const items = node.items.map((item, index) =>
        convert(item, `${path}[${index}]`, depth + 1, lineOf(startOf(item))),
      )
      return { value: items, origin }
    }
    if (isMap(node)) {
      const keys = new Map<string, ConfigNode>()
      for (const { key, value } of node.items) {
        const name = isScalar(key) ? String(key.value) : String(key)
        const keyLine = lineOf(isScalar(key) ? startOf(key) : undefined)
        if (name.length > MAX_KEY)
          refuse(path, keyLine, `has a key of ${name.length} characters`, 'No key is that long')
        const keyPath = childPath(path, name)
        if (keys.has(name)) throw new ConfigError([problemAt(file, keyLine, '', yamlFault('DUPLICATE_KEY', ''))])
        if (name in Object.prototype) refuse(keyPath, keyLine, 'unknown key', 'Remove it')
        keys.set(name, convert(value, keyPath, depth + 1, keyLine))
      }
      return { value: keys, origin }
    }
    const value: unknown = isScalar(node) ? node.value : null
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return { value, origin }
    return value === null ? { value, origin } : refuse(path, line, 'is not a string, number or boolean', 'Quote it')
  }
  // A key that is missing at the top has no line.
  return { ...convert(document.contents, '', 0, 1), origin: { kind: 'file', file } }
}

/** One object per line: nodes with the same line share it, which makes a long file cheaper to pass between threads. */
function originsOf(file: string): (line: number) => Origin {
  const origins = new Map<number, Origin>()
  return line => {
    const origin = origins.get(line) ?? { kind: 'file', file, line }
    origins.set(line, origin)
    return origin
  }
}

function problemAt(file: string, line: number, path: string, { reason, remedy }: Fault): Problem {
  return { origin: { kind: 'file', file, line }, path, reason, remedy }
}

/** The node of each alias: the last one before it with its anchor. */
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

function shortened(text: string, length = 60): string {
  return text.length > length ? `${text.slice(0, length)}…` : text
}

function startOf(node: unknown): number | undefined {
  return (node as Node | null)?.range?.[0]
}

function yamlFault(code: string, message: string): Fault {
  const start = 'cannot be read as YAML:'
  if (code === 'DUPLICATE_KEY') return new Fault(`${start} a key is written twice`, 'Remove one of them')
  if (code === 'TAB_AS_INDENT') return new Fault(`${start} a line is indented with a tab`, 'Use spaces')
  const reason = shortened(message.split('\n', 1)[0] ?? '', MAX_MESSAGE)
  return new Fault(`${start} ${reason}`, 'Check indentation, quotes and brackets there')
}

function decode(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw unreadable(file, 'is not UTF-8 text', 'Save it as UTF-8', cause)
  }
}

function readBytes(file: string): Uint8Array {
  const handle = openConfig(file)
  try {
    const status = fstatSync(handle)
    if (!status.isFile()) throw unreadable(file, 'is not a regular file', 'Name a YAML or JSON file')
    checkWriters(file, status)
    if (status.size > MAX_BYTES) {
      const reason = `is ${status.size} bytes, more than the ${MAX_BYTES} allowed`
      throw unreadable(file, reason, 'Use a range for many identities')
    }
    const bytes = Buffer.alloc(status.size)
    return bytes.subarray(0, readSync(handle, bytes))
  } finally {
    closeSync(handle)
  }
}

function openConfig(file: string): number {
  try {
    // Opening a FIFO would otherwise wait for its writer, and block everything else.
    return openSync(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch (cause) {
    const missing = systemErrorCode(cause) === 'ENOENT'
    if (missing) throw unreadable(file, 'does not exist', 'Check the path', cause)
    throw unreadable(file, `cannot be opened: ${(cause as Error).message}`, 'Let the agent read it', cause)
  }
}

/** The file names the code that the agent runs, and who gets which key. */
function checkWriters(file: string, status: Stats): void {
  try {
    checkFile(file, status, { shared: false })
  } catch (error) {
    if (!(error instanceof UntrustedPathError)) throw error
    const { reason, remedy } = faultFrom(error.message)
    throw unreadable(file, `is not used, since others could have written it: ${reason}`, remedy, error)
  }
}

function unreadable(file: string, reason: string, remedy: string, cause?: unknown): ConfigError {
  return new ConfigError([{ origin: { kind: 'file', file }, path: '', reason: `the file ${reason}`, remedy }], {
    cause,
  })
}
