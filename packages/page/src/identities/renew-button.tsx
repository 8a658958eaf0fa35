/** Renews one certificate now, if this browser may; otherwise it shows the command, or how to allow it. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type ActionResult, readPageToken, renew } from '../live/actions.ts'
import { asOperator } from '../live/operator.ts'
import { Command } from '../parts/command.tsx'
import { shellWord, visible } from '../parts/text.ts'

type Way = 'button' | 'command' | { readonly remedy: string }

export function RenewButton({ name }: { readonly name: string }) {
  const way = useSignal<Way | undefined>(undefined)
  const isBusy = useSignal(false)
  const result = useSignal<ActionResult | undefined>(undefined)
  useEffect(() => {
    readPageToken().then(
      ({ operator, tokenFile, remedy }) => {
        way.value = remedy === undefined ? (operator || tokenFile ? 'button' : 'command') : { remedy }
      },
      () => {
        way.value = 'command'
      },
    )
  }, [])
  const run = async (): Promise<void> => {
    isBusy.value = true
    result.value = await asOperator(`renew ${visible(name)}`, token => renew(name, token)).catch((error: unknown) => ({
      isDone: false,
      isForbidden: false,
      text: error instanceof Error ? error.message : String(error),
    }))
    isBusy.value = false
  }
  if (way.value === undefined) return null
  if (way.value === 'command') return <Command text={`livery renew ${shellWord(name)}`} />
  if (way.value !== 'button')
    return <span class="renew muted">Nobody is allowed to renew it by hand. {visible(way.value.remedy)}.</span>
  return (
    <span class="renew">
      <button type="button" class="button" disabled={isBusy.value} onClick={() => void run()}>
        Renew now
      </button>
      <span role="status" class={result.value?.isDone === false ? 'renew-refused' : 'muted'}>
        {result.value ? visible(result.value.text) : ''}
      </span>
    </span>
  )
}
