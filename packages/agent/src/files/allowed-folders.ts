/** The folders in which files can be that callers name. */
import { foldersOf, isFileName, parseFilePattern } from '@livery/core'
import type { Config } from '../config/load.ts'

/** `files.allow`, or the well-known folders and those that the rules of the sockets name. */
export function allowedFolders({ files, sockets, identities }: Config): readonly string[] {
  if (files.allow) return files.allow
  const rules = [
    ...sockets.flatMap(({ allow, callers = [] }) => [...allow, ...callers.flatMap(caller => caller.allow ?? [])]),
    ...identities.flatMap(({ socket }) => socket?.allow ?? []),
  ]
  const patterns = [...new Set(rules)].filter(isFileName).map(parseFilePattern)
  const named = patterns.flatMap(pattern => (typeof pattern === 'string' ? [] : foldersOf(pattern)))
  return [...new Set([...files.wellKnown, ...named])]
}
