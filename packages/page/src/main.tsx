/** Draws the page and connects it to the agent. */
import { render } from 'preact'
import { App } from './app.tsx'
import { stayConnected } from './live/connection.ts'
import { listenToKeys } from './navigation/focus.ts'
import './views/theme.ts'

const place = document.querySelector('#page')
if (place) {
  place.replaceChildren()
  render(<App />, place)
}
listenToKeys()
void stayConnected()
