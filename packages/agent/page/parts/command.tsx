/** A command to copy. */
import { useSignal } from '@preact/signals'
import type { RunbookPage } from '../../src/diagnosis/remedies.ts'
import { Icon } from './icon.tsx'

const SHOWN_DONE_MS = 2_000

export function Command({ text }: { readonly text: string }) {
  const isCopied = useSignal(false)
  const copy = async (): Promise<void> => {
    await copyText(text)
    isCopied.value = true
    setTimeout(() => {
      isCopied.value = false
    }, SHOWN_DONE_MS)
  }
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" class="quiet" aria-label={`Copy: ${text}`} title="Copy" onClick={() => void copy()}>
        <Icon name={isCopied.value ? 'done' : 'copy'} />
      </button>
    </span>
  )
}

/** The clipboard is there on a secure origin, which a forwarded port on another name than localhost is not. */
async function copyText(text: string): Promise<void> {
  if (isSecureContext) return await navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

export function Runbook({ page }: { readonly page: RunbookPage }) {
  return (
    <span class="runbook">
      runbook: <code>docs/runbook/{page}.md</code>
    </span>
  )
}
