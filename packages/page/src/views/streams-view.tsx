/** The streams of clients: their names, how far they are behind, and their rejections. */

import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageStream } from '../../../agent/src/observe/stream-facts.ts'
import { clientOf } from '../../../agent/src/observe/stream-facts.ts'
import { now, streams } from '../live/agent-state.ts'
import { Panel } from '../navigation/panel.tsx'
import { opened } from '../navigation/view.ts'
import { Icon } from '../parts/icon.tsx'
import { counted, formatCount, visible } from '../parts/text.ts'
import { type Column, VirtualGrid } from '../parts/virtual-grid.tsx'

export function StreamsView() {
  const { total, shown } = streams.value ?? { total: 0, shown: [] }
  return (
    <Panel name="streams" isGrid>
      <p class="toolbar muted">
        {counted(total, 'stream')}
        {total > shown.length
          ? `; the first ${formatCount(shown.length)} are listed: those that rejected something first, then those that are behind`
          : ''}
      </p>
      <VirtualGrid
        label="Streams"
        columns={COLUMNS}
        rows={shown}
        keyOf={({ id }) => `${id}`}
        classOf={({ rejected }) => (rejected.length > 0 ? 'row-warning' : 'row-plain')}
        opened=""
        onOpen={({ rejected: [name] }) => {
          if (name !== undefined) opened.value = name
        }}
        empty="No client has a stream."
      />
    </Panel>
  )
}

const COLUMNS: readonly Column<PageStream>[] = [
  { id: 'answer', title: 'Answer', cell: stream => <Answer stream={stream} /> },
  { id: 'client', title: 'Client', cell: stream => <Client stream={stream} /> },
  { id: 'socket', title: 'Socket', cell: ({ socket }) => <span title={visible(socket)}>{visible(socket)}</span> },
  { id: 'method', title: 'Protocol', cell: ({ method }) => visible(method) },
  { id: 'names', title: 'Names', cell: ({ names }) => formatCount(names) },
  { id: 'since', title: 'Open for', cell: ({ since }) => formatAge(now.value - since) },
]

function Answer({ stream: { rejected, pending, refused } }: { readonly stream: PageStream }) {
  if (rejected.length > 0)
    return (
      <span class="state">
        <Icon name="warning" />
        Rejected
      </span>
    )
  if (pending > 0)
    return (
      <span class="state">
        <Icon name="working" />
        {pending} pending
      </span>
    )
  return (
    <span class="state">
      <Icon name={refused > 0 ? 'idle' : 'good'} />
      {refused > 0 ? `${refused} refused` : 'Accepted'}
    </span>
  )
}

function Client({ stream }: { readonly stream: PageStream }) {
  const { pid, uid, subject, rejected } = stream
  const about = [subject, pid === undefined ? undefined : `pid ${pid}`, uid === undefined ? undefined : `uid ${uid}`]
  return (
    <>
      <span class="name" title={visible(clientOf(stream))}>
        <span class="name-own">{visible(clientOf(stream))}</span>
      </span>
      {rejected.length > 0 ? (
        <span class="reason" title={rejected.map(visible).join(', ')}>
          <b>rejects</b> {rejected.map(visible).join(', ')}
        </span>
      ) : (
        <span class="detail">{visible(about.filter(part => part !== undefined).join(', '))}</span>
      )}
    </>
  )
}
