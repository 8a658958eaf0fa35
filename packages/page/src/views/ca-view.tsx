/** The CA: does it answer, what waits for it, what it said last, what is planned. */

import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageCA } from '../../../agent/src/page/state.ts'
import { now, overview } from '../live/agent-state.ts'
import { Panel } from '../navigation/panel.tsx'
import { opened } from '../navigation/view.ts'
import { Icon } from '../parts/icon.tsx'
import { counted, formatCount, formatDistance, formatTime, visible } from '../parts/text.ts'
import { BarChart } from './bar-chart.tsx'

export function CAView() {
  const { value } = overview
  return (
    <Panel name="ca">
      {value ? (
        <>
          <section>
            <h2>{visible(value.ca.plugin)}</h2>
            <CAFacts ca={value.ca} />
          </section>
          {value.ca.lastError ? <LastError error={value.ca.lastError} /> : null}
          <section>
            <h2>Renewals planned for the next hour</h2>
            <BarChart values={value.plannedPerMinute} />
          </section>
        </>
      ) : null}
    </Panel>
  )
}

function CAFacts({ ca }: { readonly ca: PageCA }) {
  const { inFlight, window, queued, lastIssuedAt, clockAheadMs } = ca
  const waiting = Object.entries(queued).filter(([, count]) => count > 0)
  return (
    <dl class="facts">
      <dt>State</dt>
      <dd>
        <CAState ca={ca} />
      </dd>
      <dt>In flight</dt>
      <dd>
        {formatCount(inFlight)} of {formatCount(window)} that are allowed at once
      </dd>
      <dt>Waiting</dt>
      <dd>
        {waiting.length === 0
          ? 'none'
          : waiting.map(([rank, count]) => `${formatCount(count)} ${visible(rank)}`).join(', ')}
      </dd>
      <dt>Issued last</dt>
      <dd>
        {lastIssuedAt === undefined
          ? 'nothing yet'
          : `${formatTime(lastIssuedAt, now.value)} (${formatDistance(lastIssuedAt, now.value)})`}
      </dd>
      {clockAheadMs === undefined ? null : (
        <>
          <dt>Begin of its certificates</dt>
          <dd>
            {clockAheadMs > 0
              ? `${formatAge(clockAheadMs)} ahead of this node's clock`
              : `${formatAge(-clockAheadMs)} before they came (back-dated)`}
          </dd>
        </>
      )}
    </dl>
  )
}

function CAState({ ca: { pause } }: { readonly ca: PageCA }) {
  if (!pause)
    return (
      <span class="state">
        <Icon name="good" />
        asked for all that is due
      </span>
    )
  const until =
    pause.until === undefined
      ? ''
      : `; next request ${pause.until <= now.value ? 'is due' : formatDistance(pause.until, now.value)}`
  return (
    <span class="state">
      <Icon name={pause.reason === 'ca-down' ? 'critical' : 'warning'} />
      {PAUSES[pause.reason]}
      {until}
    </span>
  )
}

const PAUSES = {
  'rate-limited': 'it has too many requests',
  'ca-down': 'it does not answer: one request at a time probes it',
  'clock-jumped': 'the clock jumped: certificates are asked for, soonest expiry first',
} as const

function LastError({ error: { code, text, at, identity } }: { readonly error: NonNullable<PageCA['lastError']> }) {
  return (
    <section>
      <h2>Newest failure</h2>
      <div class="box box-warning">
        <p class="box-title">
          <b>{visible(code)}</b> {formatDistance(at, now.value)}, for{' '}
          <button
            type="button"
            class="link"
            onClick={() => {
              opened.value = identity
            }}
          >
            {visible(identity)}
          </button>
        </p>
        <p class="quoted">{visible(text)}</p>
        <p class="muted">
          {counted(
            Object.values(overview.value?.failing ?? {}).reduce((sum, count) => sum + count, 0),
            'identity fails',
            'identities fail',
          )}{' '}
          now.
        </p>
      </div>
    </section>
  )
}
