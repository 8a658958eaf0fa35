/** Asks for the token of the operator. */
import { useEffect, useRef } from 'preact/hooks'
import { type TokenRequest, tokenRequest } from '../live/operator.ts'

export function TokenDialog() {
  const request = tokenRequest.value
  return request ? <OpenDialog request={request} /> : null
}

function OpenDialog({ request }: { readonly request: TokenRequest }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  const submit = (event: Event): void => {
    event.preventDefault()
    const token = input.current?.value.trim() ?? ''
    if (token !== '') request.answer(token)
  }
  return (
    <dialog ref={dialog} aria-labelledby="token-heading" onCancel={() => request.answer(undefined)}>
      <form onSubmit={submit}>
        <h2 id="token-heading">Operator's token</h2>
        <p>
          To {request.purpose} costs the CA a request, so only the operator is allowed it. The token is in the file of
          admin.tokenFile on the node.
        </p>
        {request.refusal === '' ? null : (
          <p class="box box-warning" role="alert">
            {request.refusal}
          </p>
        )}
        <label>
          Token
          <input ref={input} type="password" autocomplete="off" required />
        </label>
        <p class="muted">This page keeps it until it is closed, and stores it nowhere.</p>
        <div class="dialog-buttons">
          <button type="button" class="button" onClick={() => request.answer(undefined)}>
            Cancel
          </button>
          <button type="submit" class="button button-main">
            Continue
          </button>
        </div>
      </form>
    </dialog>
  )
}
