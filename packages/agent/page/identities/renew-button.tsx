/** Renews one certificate now, where this browser is allowed it; otherwise the command that does. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type ActionResult, readPageToken, renew } from '../live/actions.ts'
import { asOperator } from '../live/operator.ts'
import { Command } from '../parts/command.tsx'
import { shellWord, visible } from '../parts/text.ts'

export function RenewButton({ name }: { readonly name: string }) {
  const isAllowed = useSignal<boolean | undefined>(undefined)
  const isBusy = useSignal(false)
  const result = useSignal<ActionResult | undefined>(undefined)
  useEffect(() => {
    readPageToken().then(
      ({ operator, tokenFile }) => {
        isAllowed.value = operator || tokenFile
      },
      () => {
        isAllowed.value = false
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
  if (isAllowed.value === undefined) return null
  if (!isAllowed.value) return <Command text={`livery renew ${shellWord(name)}`} />
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
