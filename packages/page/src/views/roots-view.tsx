/** The roots of each trust domain, and the progress of their rotation. */

import type { PageRoot, PageTrustDomain } from '../../../agent/src/page/state.ts'
import { now, roots } from '../live/agent-state.ts'
import { Panel } from '../navigation/panel.tsx'
import { Icon, type IconName } from '../parts/icon.tsx'
import { counted, formatDistance, formatTime, visible } from '../parts/text.ts'

export function RootsView() {
  const trustDomains = roots.value?.trustDomains ?? []
  return (
    <Panel name="roots">
      {trustDomains.map(domain => (
        <TrustDomain key={domain.trustDomain} domain={domain} />
      ))}
      {trustDomains.length === 0 ? <p class="muted">There are no roots yet: the CA has given none.</p> : null}
    </Panel>
  )
}

const STEPS = ['announcing', 'renewing', 'retiring'] as const

const MEANINGS: Readonly<Record<PageTrustDomain['phase'], string>> = {
  steady: 'No rotation is under way.',
  announcing: 'A new root is announced: clients have to accept it before certificates under it are served.',
  renewing: 'All clients have the new root: certificates are renewed under it, spread out.',
  retiring: 'The old root stays until no certificate needs it.',
}

function TrustDomain({ domain: { trustDomain, phase, roots: own } }: { readonly domain: PageTrustDomain }) {
  return (
    <section class="trust-domain">
      <h2>{visible(trustDomain)}</h2>
      {phase === 'steady' ? null : (
        <ol class="steps" aria-label="Phases of the rotation">
          {STEPS.map(step => (
            <li key={step} aria-current={step === phase ? 'step' : undefined}>
              {step}
            </li>
          ))}
        </ol>
      )}
      <p class="muted">{MEANINGS[phase]}</p>
      <ul class="cards">
        {own.toReversed().map(root => (
          <Root key={root.fingerprint} root={root} />
        ))}
      </ul>
    </section>
  )
}

const ICONS: Readonly<Record<PageRoot['phase'], IconName>> = {
  announcing: 'working',
  held: 'warning',
  trusted: 'good',
  retiring: 'idle',
}

function Root({ root }: { readonly root: PageRoot }) {
  const { fingerprint, subject, notAfter, phase, leaves, learnedAt, waiting, waitsFor } = root
  const at = (time: number) => `${formatTime(time, now.value)} (${formatDistance(time, now.value)})`
  return (
    <li class={`card ${phase === 'held' || waitsFor.some(({ reason }) => reason !== undefined) ? 'card-warning' : ''}`}>
      <h3>
        <span class="state">
          <Icon name={ICONS[phase]} />
          {phase}
        </span>
        {visible(subject)}
      </h3>
      <dl class="facts">
        <dt>SHA-256</dt>
        <dd class="code">{fingerprint}</dd>
        <dt>Ends</dt>
        <dd>{at(notAfter)}</dd>
        <dt>Known since</dt>
        <dd>{at(learnedAt)}</dd>
        <dt>Certificates under it</dt>
        <dd>{counted(leaves, 'certificate')}</dd>
        <dt>Listed</dt>
        <dd>{listedText(root, now.value)}</dd>
      </dl>
      {waiting > 0 ? <Waiting waiting={waiting} clients={waitsFor} /> : null}
    </li>
  )
}

/** A root that came with a certificate is on no list, which is not a fault. */
function listedText({ isListed, phase, leavesAt }: PageRoot, at: number): string {
  if (isListed) return 'yes'
  if (leavesAt !== undefined) return `no: it leaves ${formatDistance(leavesAt, at)}`
  if (phase === 'retiring') return 'no, but still needed'
  return 'it came with a certificate, and stays while one is under it'
}

function Waiting({ waiting, clients }: { readonly waiting: number; readonly clients: PageRoot['waitsFor'] }) {
  return (
    <>
      <p>Waits for {counted(waiting, 'client')}:</p>
      <ul class="waits">
        {clients.map(({ client, reason }) => (
          <li key={client} class={reason === undefined ? '' : 'waits-rejected'}>
            <code>{visible(client)}</code>{' '}
            {reason === undefined ? 'has not answered' : `rejects it: ${visible(reason)}`}
          </li>
        ))}
        {waiting > clients.length ? <li class="muted">and {waiting - clients.length} more</li> : null}
      </ul>
    </>
  )
}
