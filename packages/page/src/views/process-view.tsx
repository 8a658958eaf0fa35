/** The process: its memory, its store, its keys. */

import { formatAge } from '../../../agent/src/observe/format-age.ts'
import { agent, now, overview } from '../live/agent-state.ts'
import { Panel } from '../navigation/panel.tsx'
import { counted, formatBytes, visible } from '../parts/text.ts'

export function ProcessView() {
  const { value } = overview
  return (
    <Panel name="process">
      {value ? (
        <section>
          <h2>Process</h2>
          <dl class="facts">
            <dt>Memory</dt>
            <dd>
              <Meter used={value.process.rssBytes} limit={value.process.memoryLimitBytes} />
            </dd>
            <dt>Heap</dt>
            <dd>{formatBytes(value.process.heapUsedBytes)} in use</dd>
            {value.store ? (
              <>
                <dt>Store</dt>
                <dd>
                  {value.store.unwritten === 0
                    ? 'everything is on disk'
                    : `${counted(value.store.unwritten, 'change is', 'changes are')} not on disk`}
                  {value.store.failure === undefined ? null : `: ${visible(value.store.failure)}`}
                </dd>
              </>
            ) : null}
            <dt>Keys</dt>
            <dd>{value.keyGenerator}</dd>
            <dt>Up for</dt>
            <dd>{formatAge(now.value - (agent.value?.startedAt ?? now.value))}</dd>
            <dt>Version</dt>
            <dd>{agent.value?.version}</dd>
          </dl>
        </section>
      ) : null}
    </Panel>
  )
}

function Meter({ used, limit }: { readonly used: number; readonly limit: number }) {
  return (
    <span class="meter">
      <meter min={0} max={limit} high={0.9 * limit} value={used} aria-label="Memory in use" />
      {formatBytes(used)} of {formatBytes(limit)}
    </span>
  )
}
