/** A command to copy, and the page of the runbook to read. */
import { useSignal } from '@preact/signals'
import type { RunbookPage } from '../../../agent/src/diagnosis/remedies.ts'
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

/** The clipboard exists on a secure origin only: a forwarded port under a name other than localhost is none. */
async function copyText(text: string): Promise<void> {
  if (isSecureContext) return await navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

const REPOSITORY = 'https://github.com/livery/livery/blob/main'

/** Opens in a new tab, since the page would otherwise lose its link and the operator's token. */
export function Runbook({ page }: { readonly page: RunbookPage }) {
  const path = `docs/run/runbook/${page}.md`
  return (
    <span class="runbook">
      runbook:{' '}
      <a class="link" href={`${REPOSITORY}/${path}`} target="_blank" rel="noreferrer">
        {path}
      </a>
    </span>
  )
}
