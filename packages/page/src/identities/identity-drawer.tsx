/** Everything about one name: its certificate, why it fails, what to do, what happened to it. */
import { useEffect, useRef } from 'preact/hooks'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageFailure, PageIdentity } from '../../../agent/src/page/state.ts'
import { identities, now, overview } from '../live/agent-state.ts'
import { closeDrawer } from '../navigation/focus.ts'
import { opened } from '../navigation/view.ts'
import { Command, Runbook } from '../parts/command.tsx'
import { Icon } from '../parts/icon.tsx'
import { formatDistance, formatTime, shellWord, visible } from '../parts/text.ts'
import { LedgerList } from './ledger-list.tsx'
import { lifeOf } from './life.ts'
import { LifeBar } from './life-bar.tsx'
import { RenewButton } from './renew-button.tsx'
import { StateLabel } from './state-label.tsx'

export function IdentityDrawer() {
  const name = opened.value
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [name])
  const identity = identities.value.get(name)
  return (
    <aside class="drawer" aria-labelledby="drawer-heading">
      <header class="drawer-head">
        <h2 id="drawer-heading" ref={heading} tabIndex={-1}>
          {visible(name)}
        </h2>
        <button type="button" class="quiet" aria-label="Close the details" title="Close (Esc)" onClick={closeDrawer}>
          <Icon name="close" />
        </button>
      </header>
      {identity ? <IdentityDetails identity={identity} /> : <p class="muted">No identity of this name is held.</p>}
      <section>
        <h3>What happened</h3>
        {/* Another name is another list; a row that changed has new events. */}
        <LedgerList key={name} name={name} version={identity} />
        <Command text={`livery explain ${shellWord(name)}`} />
      </section>
    </aside>
  )
}

function IdentityDetails({ identity }: { readonly identity: PageIdentity }) {
  const { failure, warning } = identity
  return (
    <>
      <Certificate identity={identity} />
      {failure ? <FailureBox identity={identity} failure={failure} /> : null}
      {warning !== undefined ? (
        <div class="box box-warning">
          <p>{visible(warning)}</p>
          <Runbook page="certificate-not-renewed" />
        </div>
      ) : null}
    </>
  )
}

function FailureBox({ identity, failure }: { readonly identity: PageIdentity; readonly failure: PageFailure }) {
  const { renewAt } = identity
  const { code, text, since } = failure
  const problem = overview.value?.problems.find(each => each.code === identity.problem)
  const left = lifeOf(identity, now.value)?.leftMs ?? 0
  const next =
    renewAt === undefined
      ? 'an attempt waits for its turn or is in flight'
      : renewAt <= now.value
        ? 'is due now'
        : formatDistance(renewAt, now.value)
  return (
    <div class={`box box-${identity.severity ?? 'warning'}`}>
      <p class="box-title">
        <b>{visible(code)}</b> for {formatAge(now.value - since)}
      </p>
      <p class="quoted">{visible(text)}</p>
      <dl class="facts">
        <dt>Failing since</dt>
        <dd>{formatTime(since, now.value)}</dd>
        <dt>Next try</dt>
        <dd>{next}</dd>
        <dt>Left of the certificate</dt>
        <dd>{left === 0 ? 'nothing: none is served' : formatAge(left)}</dd>
      </dl>
      <p>
        <b>What to do:</b> {problem?.remedy ?? 'The agent tries again.'}
      </p>
      {problem?.runbook ? <Runbook page={problem.runbook} /> : null}
    </div>
  )
}

function Certificate({ identity }: { readonly identity: PageIdentity }) {
  const { name, notBefore, notAfter, renewAt, issuedAt, serial, root, hold, failure } = identity
  const at = (time: number) => `${formatTime(time, now.value)} (${formatDistance(time, now.value)})`
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Valid from', notBefore === undefined ? undefined : at(notBefore)],
    ['Ends', notAfter === undefined ? undefined : at(notAfter)],
    [failure ? 'Next try' : 'Renewal', renewAt === undefined ? undefined : at(renewAt)],
    ['Issued', issuedAt === undefined ? undefined : at(issuedAt)],
    ['Serial', serial],
    ['Root (SHA-256)', root],
    ['Held because', HOLDS[hold]],
  ]
  return (
    <section>
      <h3>Certificate</h3>
      <StateLabel identity={identity} />
      <LifeBar identity={identity} />
      <dl class="facts">
        {facts.map(([title, value]) =>
          value === undefined ? null : (
            <>
              <dt key={`${title}-title`}>{title}</dt>
              <dd key={title} class={title === 'Serial' || title.startsWith('Root') ? 'code' : ''}>
                {value}
              </dd>
            </>
          ),
        )}
      </dl>
      <RenewButton key={name} name={name} />
    </section>
  )
}

const HOLDS: Readonly<Record<PageIdentity['hold'], string>> = {
  pinned: 'it is configured',
  'on-demand': 'a client asked for it',
  removed: 'it was removed a short while ago, and is still in use',
}
