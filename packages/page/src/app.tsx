/** The page: what is about to break on top, the parts of the agent below, details at the side. */
import { effect } from '@preact/signals'
import { formatAge } from '../../agent/src/observe/format-age.ts'
import { IdentitiesView } from './identities/identities-view.tsx'
import { IdentityDrawer } from './identities/identity-drawer.tsx'
import { agent, now } from './live/agent-state.ts'
import { type Link, link } from './live/connection.ts'
import { opened, view } from './navigation/view.ts'
import type { ViewName } from './navigation/view-name.ts'
import { formatTime, visible } from './parts/text.ts'
import { Announcer } from './verdict/announcer.tsx'
import { problems, Verdict } from './verdict/verdict.tsx'
import { CAView } from './views/ca-view.tsx'
import { ProcessView } from './views/process-view.tsx'
import { RootsView } from './views/roots-view.tsx'
import { SocketsView } from './views/sockets-view.tsx'
import { StreamsView } from './views/streams-view.tsx'
import { Tabs } from './views/tabs.tsx'
import { TokenDialog } from './views/token-dialog.tsx'
import { TopBar } from './views/top-bar.tsx'

/** The title of the tab is all that a page in the background shows. */
effect(() => {
  const domain = agent.value ? ` ${visible(agent.value.trustDomain)}` : ''
  const count = problems.value.length
  document.title = `${link.value.kind === 'lost' ? '(not connected) ' : count > 0 ? `(${count}) ` : ''}Livery${domain}`
})

export function App() {
  const { value } = link
  return (
    <div class={`page ${value.kind === 'lost' ? 'page-stale' : ''}`}>
      <TopBar />
      {value.kind === 'lost' ? <LostBanner link={value} /> : null}
      <main>
        <Verdict />
        <Tabs />
        <div class={`work ${opened.value === '' ? '' : 'work-split'}`}>
          <View />
          {opened.value === '' ? null : <IdentityDrawer />}
        </div>
      </main>
      <Announcer />
      <TokenDialog />
    </div>
  )
}

const PANELS: Readonly<Record<ViewName, () => preact.JSX.Element>> = {
  identities: IdentitiesView,
  streams: StreamsView,
  sockets: SocketsView,
  roots: RootsView,
  ca: CAView,
  process: ProcessView,
}

function View() {
  const Panel = PANELS[view.value]
  return <Panel />
}

/** Times here use the browser's clock: the agent's is not known. */
function LostBanner({ link: { since, retryAt, reason } }: { readonly link: Extract<Link, { readonly kind: 'lost' }> }) {
  // Reading `now` redraws the banner every second.
  const isBeating = now.value > 0
  const time = Date.now()
  const next =
    isBeating && retryAt > time ? `next try in ${formatAge(Math.ceil((retryAt - time) / 1_000) * 1_000)}` : 'trying now'
  return (
    <p class="lost">
      <b>Not connected since {formatTime(since, time)}.</b> What you see is that old. {visible(reason)}: {next}.
    </p>
  )
}
