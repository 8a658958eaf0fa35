/** PEM (RFC 7468) read as bytes, since text would stay in memory and one file may hold the key too. */

export interface PemBlock {
  readonly label: string
  /** The block from its first dash to its last, in the memory of the file; absent if the file ends within the block. */
  readonly bytes: Buffer | undefined
}

const BEGIN = '-----BEGIN '
const DASHES = '-----'
const MAX_LABEL = 64

/** The blocks in order; text between them is skipped. */
export function pemBlocks(file: Buffer): readonly PemBlock[] {
  const blocks: PemBlock[] = []
  let at = file.indexOf(BEGIN)
  while (at >= 0) {
    const labelAt = at + BEGIN.length
    const labelEnd = file.indexOf(DASHES, labelAt)
    const label = labelEnd < 0 ? '' : file.toString('latin1', labelAt, Math.min(labelEnd, labelAt + MAX_LABEL))
    const footer = `-----END ${label}-----`
    const end = labelEnd < 0 ? -1 : file.indexOf(footer, labelEnd)
    if (end < 0) return [...blocks, { label, bytes: undefined }]
    blocks.push({ label, bytes: file.subarray(at, end + footer.length) })
    at = file.indexOf(BEGIN, end)
  }
  return blocks
}
