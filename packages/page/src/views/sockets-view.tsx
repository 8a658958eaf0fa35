/** The sockets that are served, and the callers on them. */

import type { PageSocket } from '../../../agent/src/page/state.ts'
import { overview } from '../live/agent-state.ts'
import { Panel } from '../navigation/panel.tsx'
import { Icon } from '../parts/icon.tsx'
import { Table } from '../parts/table.tsx'
import { counted, formatCount, visible } from '../parts/text.ts'

export function SocketsView() {
  const { sockets = [], callers = [], moreCallers = 0, refusedConnections = 0 } = overview.value ?? {}
  return (
    <Panel name="sockets">
      <Table
        caption="Sockets"
        head={['Path', 'State', 'Connections', 'Streams']}
        empty="No socket is configured."
        rows={sockets.map((socket, index) => ({
          key: `${socket.path} ${index}`,
          isBad: isBad(socket),
          cells: [
            <Path key="path" socket={socket} />,
            <SocketState key="state" socket={socket} />,
            formatCount(socket.connections),
            formatCount(socket.streams),
          ],
        }))}
      />
      <Table
        caption="Callers"
        head={['Caller', 'Connections', 'Streams', 'Names']}
        empty="Nobody is connected."
        rows={callers.map(({ caller, connections, streams, names }) => ({
          key: caller,
          cells: [
            <code key="caller">{visible(caller)}</code>,
            formatCount(connections),
            formatCount(streams),
            formatCount(names),
          ],
        }))}
      />
      {moreCallers > 0 ? <p class="muted">and {counted(moreCallers, 'more caller')}</p> : null}
      <p class="muted">
        {counted(refusedConnections, 'connection')} refused since the start.
        {refusedConnections > 0 ? ' The log says whose: grep connection-refused.' : ''}
      </p>
    </Panel>
  )
}

function isBad({ state }: PageSocket): boolean {
  return state === 'waiting' || state === 'superseded'
}

function Path({ socket: { path, reason } }: { readonly socket: PageSocket }) {
  return (
    <>
      <code>{visible(path)}</code>
      {reason === undefined ? null : <span class="reason reason-whole">{visible(reason)}</span>}
    </>
  )
}

function SocketState({ socket }: { readonly socket: PageSocket }) {
  return (
    <span class="state">
      <Icon name={isBad(socket) ? 'critical' : socket.state === 'listening' ? 'good' : 'idle'} />
      {socket.state}
    </span>
  )
}
